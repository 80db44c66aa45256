"""Decodes the records of Kafka topics, which come as Arrow batches of what Kafka knows, into columns or elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from typing import Any

from windrow.kafka import KafkaFormat, KafkaRecord, TopicSource
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.malformed import MalformedRecord
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.text_files import UTF_8, LineRecords
from windrow_runtime.inputs.batches import SourceBatch, TextRows, source_batch

# Any in this module: elements of every type, and pyarrow has no types.


def topic_columns(source: TopicSource[Any]) -> list[str]:
    """Returns the names of the columns from which a source's records are decoded."""
    columns = ["value", "topic", "partition", "offset"]
    return [*columns, "key", "timestamp", "headers"] if source.whole_records else columns


@dataclass(frozen=True)
class TopicValues:
    """Reads the values of records as columns, in a worker; batches with values that have none, row by row."""

    kind: RecordType
    value_format: KafkaFormat
    decode: Callable[[Any], SourceBatch]  # row by row

    def __call__(self, batches: Iterator[Any]) -> Iterator[TextRows]:
        """Reads Arrow batches of records, whose first column has the values."""
        from windrow_runtime.codecs.arrow.text_blocks import no_rows

        read = self._json_reader() if self.value_format == "json" else self._read_raw
        for batch in batches:
            # A record without a value, a tombstone, has no place in a column of values.
            rows = None if batch.column(0).null_count else read(batch)
            yield rows or TextRows(no_rows(self.kind), self.kind, [(0, self.decode(batch))])

    def _read_raw(self, batch: Any) -> TextRows | None:
        from windrow_runtime.codecs.arrow.decoding import batch_of
        from windrow_runtime.codecs.arrow.encoding import arrow_schema

        schema = arrow_schema(self.kind)
        try:
            column = batch.column(0).cast(schema.field(0).type)
        except ValueError:
            return None  # a text is not UTF-8
        return TextRows(batch_of([column], schema, len(column)), self.kind, [])

    def _json_reader(self) -> Callable[[Any], TextRows | None]:
        from windrow_runtime.codecs.arrow.json_columns import JsonBlocks

        blocks = JsonBlocks(LineRecords(self.kind, UTF_8, json=True))
        decode = JsonDecoder(self.kind).decode

        def read(batch: Any) -> TextRows | None:
            values = batch.column(0).to_pylist()
            text = b"\n".join(values)
            if text.count(b"\n") != len(values) - 1 or b"\r" in text:
                return None  # a value has several lines
            (block,) = blocks.read(text)
            origin = partial(_origin_in, batch)
            plain = [
                (rows.row, source_batch(enumerate(map(decode, _lines_of(rows.text)), start=rows.line), origin))
                for rows in block.plain
            ]
            count = sum(len(rows.values) + len(rows.malformed) for _, rows in plain)
            # Lines without a text are passed over, but values are not.
            is_whole = block.columns.num_rows + count == len(values)
            return TextRows(block.columns, self.kind, plain) if is_whole else None

        return read


def _lines_of(text: bytes) -> list[bytes]:
    return text.removesuffix(b"\n").split(b"\n")


def _origin_in(batch: Any, row: int) -> str:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return _origin(topic, partition, offset)


def _origin(topic: str, partition: int, offset: int) -> str:
    return f"{topic}, partition {partition}, offset {offset}"


def topic_values(source: TopicSource[Any]) -> TopicValues | str:
    """Returns what reads the values of a topic as columns, or the reason why they are read one by one."""
    if source.whole_records:
        return "its elements have the keys and headers of the records"
    kind = record_type(source.value_type).in_timezone(source.timezone)
    if source.value_format == "json":
        # Arrow only where columns are read.
        from windrow_runtime.codecs.arrow.json_columns import line_by_line

        reason = line_by_line(kind)
        if reason is not None:
            return reason
    return TopicValues(kind, source.value_format, kafka_decoder(source))


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
    return source_batch(rows, lambda row: _origin(row["topic"], row["partition"], row["offset"]))


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
