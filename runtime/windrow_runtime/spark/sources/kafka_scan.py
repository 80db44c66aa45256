"""Reads Kafka topics by Spark's connector, and decodes its rows into elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from functools import partial
from typing import Any

from windrow.kafka import KafkaFormat, KafkaRecord, TopicSource
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.malformed import MalformedRecord
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.inputs.batches import SourceBatch, source_batch
from windrow_runtime.spark.kafka import connector_errors
from windrow_runtime.spark.sources.scan import Scan, ScanContext

# Any in this module: elements of every type, and pyarrow has no types.


def scan_topic(source: TopicSource[Any], context: ScanContext) -> Scan:
    """Scans the topics of a Kafka source; refuses a session without Spark's connector, and options that it refuses."""
    columns = ["value", "topic", "partition", "offset"]
    if source.whole_records:
        columns += ["key", "timestamp", "headers"]
    with connector_errors(context.spark, context.step.where, source):
        frame = context.reader.format("kafka").options(**source.options).load().select(*columns)
        _ = frame.columns  # over Spark Connect this looks up the connector
    return Scan(frame, kafka_decoder(source))


def kafka_decoder(source: TopicSource[Any]) -> Callable[[Any], SourceBatch]:
    """Returns the function that decodes rows of a Kafka source into elements, in a worker."""
    kind = record_type(source.value_type).in_timezone(source.timezone) if source.value_format == "json" else None
    return partial(_decode_rows, kind, source.value_format, source.whole_records)


def _decode_rows(kind: RecordType | None, value_format: KafkaFormat, whole_records: bool, batch: Any) -> SourceBatch:
    decode: Callable[[bytes], object] = _decode_text if value_format == "text" else bytes
    empty: object = MalformedRecord("null", "the record has no value", None)
    if kind is not None:
        decode = JsonDecoder(kind).decode
        # A record without a value reads as null, which fits a type that is Optional.
        empty = decode(b"null")
    rows = ((row, empty if row["value"] is None else decode(row["value"])) for row in batch.to_pylist())
    if whole_records:
        rows = ((row, _whole_record(row, value)) for row, value in rows)
    return source_batch(rows, lambda row: f"{row['topic']}, partition {row['partition']}, offset {row['offset']}")


def _decode_text(raw: bytes) -> str | MalformedRecord:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        return MalformedRecord(repr(raw), f"is not UTF-8: {error.reason}", None)


def _whole_record(row: Mapping[str, Any], value: Any) -> Any:
    if isinstance(value, MalformedRecord):
        return value
    return KafkaRecord(
        key=row["key"],
        value=value,
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        timestamp=row["timestamp"].astimezone(UTC),
        headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
    )
