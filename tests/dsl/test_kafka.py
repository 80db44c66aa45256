"""Kafka in the language: options, formats, and secrets that nobody sees."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from tests.dsl.plans import plan, refusal
from windrow import from_source
from windrow.addresses.redaction import redact, redact_options, secrets_in
from windrow.kafka import KafkaRecordSource, KafkaSink, KafkaSource
from windrow.sinks import ParquetFileSink
from windrow.sources import JsonFileSource

SECRETS = {
    "sasl.jaas.config": 'PlainLoginModule required username="me" password="hunter22";',
    "ssl.keystore.password": "swordfish",
}


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Reading(NamedTuple):
    sensor: str
    celsius: float


def test_the_options_for_the_client() -> None:
    sink = KafkaSink[Reading](["a:9092", "b:9092"], "out", options={"acks": "ALL", "compression.type": "zstd"})
    assert dict(sink.options) == {"bootstrap.servers": "a:9092,b:9092", "acks": "ALL", "compression.type": "zstd"}
    assert dict(KafkaSource("a:9092", "in", Reading).options) == {"bootstrap.servers": "a:9092"}


def to(**options: str) -> Callable[[], object]:
    """Makes a sink with options, in whose names two underscores stand for a point."""
    return lambda: KafkaSink("a:1", "t", options={name.replace("__", "."): value for name, value in options.items()})


def read(*topics: str, servers: str = "a:1", **arguments: Any) -> Callable[[], object]:
    return lambda: KafkaSource(servers, topics[0] if len(topics) == 1 else topics, Reading, **arguments)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (read("t", options={"Auto.Offset.Reset": "u"}), "argument sets this option"),
        (to(topic="u"), "an argument sets this option"),
        (to(bootstrap__servers="u"), "sets this option\n +given: +boot"),
        (to(kafka__acks="all"), r"Spark's(.|\n)*expected: +acks\n"),
        (to(acks="1"), r"would break\n +given: +acks=1\n +expected: +acks=all\n"),
        (to(enable__idempotence="false"), "which this option would break"),
        (to(transactional__id="mine"), "=mine\n.*what the sink gives itself"),
        (to(group__id="mine"), "group.id=mine\n.*what the sink gives itself"),
        (to(on_delivery="f"), "on_delivery=.*\n.*what the sink gives itself"),
        (to(error_cb="f"), "error_cb=.*\n.*what the sink gives itself"),
        (to(transaction__timeout__ms="15m"), r"=15m\n(.|\n)*=900000\n"),
        (read(), "reads topics"),
        (read("t", ending_offsets="latest"), r"after(.|\n)*starting_offsets='latest', end"),
        (read("t", starting_offsets=NOON, ending_offsets=NOON), "ends after the offsets"),
        (read("t", ending_offsets=datetime(2026, 1, 1)), "ends at a time with a time zone"),
        (read("t", servers=""), "needs a server"),
        (read("t", value_format="text"), "values of one type"),
        (read("t", max_offsets_per_batch=0), "max_offsets_per_batch"),
        (read("t", max_offsets_per_batch=2.5), r"max_offsets_per_batch(.|\n)*2\.5"),
        (read("t", max_offsets_per_batch="none"), r"max_offsets_per_batch is unknown(.|\n)*none\n.*\"all\""),
        (lambda: KafkaSink("a:1", ""), r"writes to a topic\n +given: +''\n.*1 to 249"),
        (lambda: KafkaSink("a:1", "\ud800"), "writes to a topic"),
        (lambda: KafkaSink("a:1", "a b"), "writes to a topic\n +given: +a b\n"),
        (to(client__id="\ud800"), "option client.id (.|\n)*half of a surrogate"),
        (read("t", options={"sasl.password": "s3cret\0"}), r"sasl\.password (.|\n)*\\0"),
        (read("t", servers="\ud800:1"), "the servers of Kafka"),
        (read("t", "\ud800"), "reads topics\n +given: +'.ud800'\n"),
        (read("t", "a,b"), "reads topics\n +given: +a,b\n"),
        (read(".."), r"reads topics\n +given: +\.\.\n"),
        (read("t", ""), "reads topics\n +given: +''\n"),
    ],
)
def test_wrong_arguments(made: Callable[[], object], message: str) -> None:
    assert re.search(message, str(refusal(made)))


def test_topics_with_an_end() -> None:
    for source in (KafkaSource, KafkaRecordSource):
        assert not source("a:1", "t", Reading).is_bounded
        assert source("a:1", "t", Reading, starting_offsets="earliest", ending_offsets="latest").is_bounded
        assert source("a:1", "t", Reading, starting_offsets="earliest", ending_offsets=NOON).is_bounded
    unknown: Any = "earliest"  # a type checker would refuse it
    error = refusal(lambda: KafkaSource("a:1", "t", Reading, starting_offsets="earliest", ending_offsets=unknown))
    assert "ending_offsets is unknown" in error.message


def test_no_secret_is_shown() -> None:
    source = KafkaSource("a:9092", "readings", Reading, options=SECRETS)
    sink = KafkaSink[Reading]("a:9092", "out", options=SECRETS)
    stream = from_source(source)
    pipeline = plan(stream.sink_to(sink), stream)
    error = refusal(read("t", options={**SECRETS, "auto.offset.reset": "u"}))
    shown = [pipeline.explain(), source.describe(), sink.describe(), str(error)]
    for text in [*shown, *map(repr, (pipeline, source, sink, stream))]:
        assert "hunter22" not in text
        assert "swordfish" not in text
    assert "kafka readings at a:9092" in pipeline.explain()
    assert source.options["ssl.keystore.password"] == "swordfish"


def test_redaction() -> None:
    hidden = redact_options({**SECRETS, "url": "https://me:hunter22@host/x", "kafka.client.id": "windrow"})
    assert hidden == {
        "sasl.jaas.config": "*****",
        "ssl.keystore.password": "*****",
        "url": "https://me:*****@host/x",
        "kafka.client.id": "windrow",
    }
    assert redact("refused: swordfish, token=abc123, 3 rows", secrets_in(SECRETS)) == (
        "refused: *****, token=*****, 3 rows"
    )
    assert "hunter22" in secrets_in(SECRETS)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("s3a://ann:s3cret@bucket/in", "s3a://ann:*****@bucket/in"),
        ("no file s3a://ann:s3c/re+t@bucket/in/x@y.json", "no file s3a://ann:*****@bucket/in/x@y.json"),
        ("http://host:4040/jobs/mail@home", "http://host:4040/jobs/mail@home"),
        ("https://host/x?sv=1&sig=s3cret&se=2", "https://host/x?sv=1&sig=*****&se=2"),
        ("https://host/x?X-Amz-Signature=s3cret", "https://host/x?X-Amz-Signature=*****"),
        ("fs.s3a.secret.key=s3cret, 1", "fs.s3a.secret.key=*****, 1"),
        ("fs.azure.account.key.x.windows.net: s3cret", "fs.azure.account.key.x.windows.net: *****"),
        ("""{'kafka.ssl.key.password': 's3cret', 'a': 1}""", """{'kafka.ssl.key.password': *****, 'a': 1}"""),
        ("""{"password": "s3cret", "a": 1}""", """{"password": *****, "a": 1}"""),
        ("""{"jaas": "x password=\\"s3cret\\";"}""", """{"jaas": "x password=*****;"}"""),
        ("no valid token:\nCaused by: x", "no valid token:\nCaused by: x"),
        ("sigma=3", "sigma=3"),
    ],
)
def test_what_reads_as_a_secret_is_hidden(text: str, hidden: str) -> None:
    assert redact(text) == hidden


def test_the_passwords_of_addresses_among_options_are_secrets() -> None:
    options = {"kafka.url": "https://me:s3c%2Fret@host/x", "n": "1"}
    assert secrets_in(options) == ("s3c%2Fret", "s3c/ret")


def test_paths_are_shown_without_the_secrets_of_their_address() -> None:
    path = "s3a://ann:s3cret@bucket/in"
    source = JsonFileSource(path, str)
    sink = ParquetFileSink[str]("s3a://bucket/out?token=swordfish")
    assert source.describe() == "json s3a://ann:*****@bucket/in"
    assert sink.describe() == "parquet s3a://bucket/out?token=*****"
    pipeline = plan(from_source(source).sink_to(sink))
    assert "s3cret" not in pipeline.explain() + repr(pipeline) + repr(source)
    assert "swordfish" not in pipeline.explain() + repr(sink)
    assert (source.path, sink.path) == (path, "s3a://bucket/out?token=swordfish")
    assert (source.secrets, sink.secrets) == (("s3cret",), ("swordfish",))
    # Of a mounted file system nothing is secret.
    local = JsonFileSource("/data/token=abc", str)
    assert (local.describe(), local.secrets) == ("json /data/token=abc", ())
    text = str(refusal(lambda: JsonFileSource("s3a://ann:s3cret@bucket/*/../x", str)))
    assert "s3cret" not in text
    assert "s3a://ann:*****@bucket" in text
