"""Kafka in the language: options, formats, and secrets that nobody sees."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from windrow import Pipeline, from_source
from windrow.addresses.redaction import redact, redact_options, secrets_in
from windrow.errors import InvalidArgumentError
from windrow.kafka import KafkaRecordSource, KafkaSink, KafkaSource
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import JsonFileSource

HALF: Any = 2.5
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


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: KafkaSource("a:1", "t", Reading, options={"Auto.Offset.Reset": "u"}), "argument sets this option"),
        (lambda: KafkaSink("a:1", "t", options={"topic": "u"}), "an argument sets this option"),
        (lambda: KafkaSink("a:1", "t", options={"bootstrap.servers": "u"}), "sets this option\n +given: +boot"),
        (lambda: KafkaSink("a:1", "t", options={"kafka.acks": "all"}), r"Spark's(.|\n)*expected: +acks\n"),
        (
            lambda: KafkaSink("a:1", "t", options={"acks": "1"}),
            r"would break\n +given: +acks=1\n +expected: +acks=all\n",
        ),
        (lambda: KafkaSink("a:1", "t", options={"enable.idempotence": "false"}), "which this option would break"),
        (lambda: KafkaSink("a:1", "t", options={"transactional.id": "mine"}), "=mine\n.*what the sink gives itself"),
        (lambda: KafkaSink("a:1", "t", options={"group.id": "mine"}), "group.id=mine\n.*what the sink gives itself"),
        (lambda: KafkaSink("a:1", "t", options={"on_delivery": "f"}), "on_delivery=.*\n.*what the sink gives itself"),
        (lambda: KafkaSink("a:1", "t", options={"error_cb": "f"}), "error_cb=.*\n.*what the sink gives itself"),
        (lambda: KafkaSink("a:1", "t", options={"transaction.timeout.ms": "15m"}), r"=15m\n(.|\n)*=900000\n"),
        (lambda: KafkaSource("a:1", [], Reading), "reads topics"),
        (
            lambda: KafkaSource("a:1", "t", Reading, ending_offsets="latest"),
            r"after(.|\n)*starting_offsets='latest', end",
        ),
        (
            lambda: KafkaSource("a:1", "t", Reading, starting_offsets=NOON, ending_offsets=NOON),
            "ends after the offsets",
        ),
        (
            lambda: KafkaSource("a:1", "t", Reading, ending_offsets=datetime(2026, 1, 1)),
            "ends at a time with a time zone",
        ),
        (lambda: KafkaSource("", "t", Reading), "needs a server"),
        (lambda: KafkaSource("a:1", "t", Reading, value_format="text"), "values of one type"),
        (lambda: KafkaSource("a:1", "t", Reading, max_offsets_per_batch=0), "max_offsets_per_batch"),
        (lambda: KafkaSource("a:1", "t", Reading, max_offsets_per_batch=HALF), r"max_offsets_per_batch(.|\n)*2\.5"),
        (lambda: KafkaSink("a:1", ""), r"writes to a topic\n +given: +''\n.*1 to 249"),
        (lambda: KafkaSink("a:1", "\ud800"), "writes to a topic"),
        (lambda: KafkaSink("a:1", "a b"), "writes to a topic\n +given: +a b\n"),
        (lambda: KafkaSink("a:1", "t", options={"client.id": "\ud800"}), "option client.id (.|\n)*half of a surrogate"),
        (lambda: KafkaSource("a:1", "t", Reading, options={"sasl.password": "s3cret\0"}), r"sasl\.password (.|\n)*\\0"),
        (lambda: KafkaSource("\ud800:1", "t", Reading), "the servers of Kafka"),
        (lambda: KafkaSource("a:1", ["t", "\ud800"], Reading), "reads topics\n +given: +'.ud800'\n"),
        (lambda: KafkaSource("a:1", ["t", "a,b"], Reading), "reads topics\n +given: +a,b\n"),
        (lambda: KafkaSource("a:1", "..", Reading), r"reads topics\n +given: +\.\.\n"),
        (lambda: KafkaSource("a:1", ["t", ""], Reading), "reads topics\n +given: +''\n"),
    ],
)
def test_wrong_arguments(made: Any, message: str) -> None:  # Any: what makes a source or a sink
    with pytest.raises(InvalidArgumentError, match=message):
        made()


def test_topics_with_an_end() -> None:
    for source in (KafkaSource, KafkaRecordSource):
        assert not source("a:1", "t", Reading).is_bounded
        assert source("a:1", "t", Reading, starting_offsets="earliest", ending_offsets="latest").is_bounded
        assert source("a:1", "t", Reading, starting_offsets="earliest", ending_offsets=NOON).is_bounded
    unknown: Any = "earliest"  # a type checker would refuse it
    with pytest.raises(InvalidArgumentError, match="ending_offsets is unknown"):
        KafkaSource("a:1", "t", Reading, starting_offsets="earliest", ending_offsets=unknown)


def test_no_secret_is_shown() -> None:
    source = KafkaSource("a:9092", "readings", Reading, options=SECRETS)
    sink = KafkaSink[Reading]("a:9092", "out", options=SECRETS)
    stream = from_source(source)
    plan = Pipeline("secret", stream.sink_to(sink), stream.sink_to(CollectSink[Reading]()))
    with pytest.raises(InvalidArgumentError) as caught:
        KafkaSource("a:9092", "t", Reading, options={**SECRETS, "auto.offset.reset": "u"})
    shown = [plan.explain(), repr(plan), repr(source), repr(sink), source.describe(), sink.describe(), repr(stream)]
    for text in [*shown, str(caught.value)]:
        assert "hunter22" not in text
        assert "swordfish" not in text
    assert "kafka readings at a:9092" in plan.explain()
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
    plan = Pipeline("paths", from_source(source).sink_to(sink))
    assert "s3cret" not in plan.explain() + repr(plan) + repr(source)
    assert "swordfish" not in plan.explain() + repr(sink)
    assert (source.path, sink.path) == (path, "s3a://bucket/out?token=swordfish")
    assert (source.secrets, sink.secrets) == (("s3cret",), ("swordfish",))
    # Of a mounted file system nothing is secret.
    local = JsonFileSource("/data/token=abc", str)
    assert (local.describe(), local.secrets) == ("json /data/token=abc", ())
    with pytest.raises(InvalidArgumentError) as caught:
        JsonFileSource("s3a://ann:s3cret@bucket/*/../x", str)
    assert "s3cret" not in str(caught.value)
    assert "s3a://ann:*****@bucket" in str(caught.value)
