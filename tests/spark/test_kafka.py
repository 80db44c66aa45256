"""Records of Kafka one by one, from the columns that a batch of them has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from windrow.kafka import KafkaRecord, KafkaRecordSource, KafkaSource
from windrow_kafka.values import kafka_decoder

# Any in this module: rows as Spark's columns hold them.

AT = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    }
)


class Reading(NamedTuple):
    sensor: str
    celsius: float


def test_rows_become_elements() -> None:
    headers = [{"key": "trace", "value": b"x"}, {"key": "none", "value": None}]
    rows: list[Any] = [
        (b"k", b'{"sensor": "roof", "celsius": 1.5}', "in", 0, 7, AT, 0, headers),
        (None, b'{"sensor": "roof"}', "in", 1, 8, AT, 0, None),
        (None, None, "in", 1, 9, AT, 0, None),
        (None, b"\xff{", "in", 1, 10, AT, 0, None),
    ]
    records = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    batch = pa.RecordBatch.from_pylist(records, schema=SCHEMA)
    decoded = kafka_decoder(KafkaRecordSource("a:1", "in", Reading))(batch)
    assert decoded.values == [
        KafkaRecord(b"k", Reading("roof", 1.5), "in", 0, 7, AT, (("trace", b"x"), ("none", None)))
    ]
    assert [record.origin for record in decoded.malformed] == [
        f"in, partition 1, offset {offset}" for offset in (8, 9, 10)
    ]
    assert "Reading.celsius" in decoded.malformed[0].reason

    values = kafka_decoder(KafkaSource("a:1", "in", Reading))(batch)
    assert list(values.values) == [Reading("roof", 1.5)]
    raw = kafka_decoder(KafkaSource("a:1", "in", bytes, value_format="bytes"))(batch)
    assert list(raw.values) == [rows[0][1], rows[1][1], b"\xff{"]
    assert [record.reason for record in raw.malformed] == ["the record has no value"]
    text = kafka_decoder(KafkaSource("a:1", "in", str, value_format="text"))(batch)
    assert list(text.values) == [rows[0][1].decode(), rows[1][1].decode()]
    assert [record.origin for record in text.malformed] == [f"in, partition 1, offset {offset}" for offset in (9, 10)]
