"""Kafka in the language: options, formats, and secrets that nobody sees."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from windrow import Pipeline, from_source
from windrow.errors import InvalidArgumentError
from windrow.kafka import KafkaRecord, KafkaRecordSource, KafkaSink, KafkaSource
from windrow.redaction import redact, redact_options, secrets_in
from windrow.sinks import CollectSink

SECRETS = {
    "kafka.sasl.jaas.config": 'PlainLoginModule required username="me" password="hunter22";',
    "kafka.ssl.keystore.password": "swordfish",
}


class Reading(NamedTuple):
    sensor: str
    celsius: float


def test_the_options_for_spark() -> None:
    source = KafkaSource(
        ["a:9092", "b:9092"], ["one", "two"], Reading, max_offsets_per_batch=5, options={"minPartitions": "4"}
    )
    assert dict(source.options) == {
        "kafka.bootstrap.servers": "a:9092,b:9092",
        "subscribe": "one,two",
        "startingOffsets": "latest",
        "maxOffsetsPerTrigger": "5",
        "minPartitions": "4",
    }
    assert source.element_type is Reading
    records = KafkaRecordSource("a:9092", re.compile("in-.*"), Reading, starting_offsets="earliest")
    assert dict(records.options) == {
        "kafka.bootstrap.servers": "a:9092",
        "subscribePattern": "in-.*",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    assert records.element_type == KafkaRecord[Reading]
    sink = KafkaSink[Reading]("a:9092", "out", options={"kafka.acks": "all"})
    assert dict(sink.options) == {"kafka.bootstrap.servers": "a:9092", "kafka.acks": "all"}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: KafkaSource("a:1", "t", Reading, options={"SUBSCRIBE": "u"}),
            "argument sets this option",
        ),
        (lambda: KafkaSink("a:1", "t", options={"topic": "u"}), "an argument sets this option"),
        (lambda: KafkaSource("a:1", [], Reading), "reads topics"),
        (lambda: KafkaSource("", "t", Reading), "needs a server"),
        (lambda: KafkaSource("a:1", "t", Reading, value_format="text"), "values of one type"),
        (lambda: KafkaSource("a:1", "t", Reading, max_offsets_per_batch=0), "must be positive"),
        (lambda: KafkaSink("a:1", ""), "writes to a topic"),
    ],
)
def test_wrong_arguments(made: Any, message: str) -> None:  # Any: what makes a source or a sink
    with pytest.raises(InvalidArgumentError, match=message):
        made()


def test_no_secret_is_shown() -> None:
    source = KafkaSource("a:9092", "readings", Reading, options=SECRETS)
    sink = KafkaSink[Reading]("a:9092", "out", options=SECRETS)
    stream = from_source(source)
    plan = Pipeline("secret", stream.sink_to(sink), stream.sink_to(CollectSink[Reading]()))
    with pytest.raises(InvalidArgumentError) as caught:
        KafkaSource("a:9092", "t", Reading, options={**SECRETS, "subscribe": "u"})
    shown = [
        plan.explain(),
        repr(plan),
        repr(source),
        repr(sink),
        source.describe(),
        sink.describe(),
        repr(stream),
    ]
    for text in [*shown, str(caught.value)]:
        assert "hunter22" not in text
        assert "swordfish" not in text
    assert "kafka readings at a:9092" in plan.explain()
    assert source.options["kafka.ssl.keystore.password"] == "swordfish"


def test_redaction() -> None:
    hidden = redact_options({**SECRETS, "url": "https://me:hunter22@host/x", "kafka.client.id": "windrow"})
    assert hidden == {
        "kafka.sasl.jaas.config": "*****",
        "kafka.ssl.keystore.password": "*****",
        "url": "https://me:*****@host/x",
        "kafka.client.id": "windrow",
    }
    assert redact("refused: swordfish, token=abc123, 3 rows", secrets_in(SECRETS)) == (
        "refused: *****, token=*****, 3 rows"
    )
    assert "hunter22" in secrets_in(SECRETS)
