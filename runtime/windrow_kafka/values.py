"""Decodes the records of Kafka topics, which come in batches of what Kafka knows, into columns or elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from typing import Any, Final

from windrow.connectors.producer_record import without_none
from windrow.connectors.registry_formats import RegistryFormat
from windrow.kafka import KafkaFormat, KafkaRecord, TopicSource, ValueFormat
from windrow.plan.records import hook_of
from windrow_kafka.registry.values import RegisteredReader, registered_type
from windrow_runtime.codecs.json.decoder import JsonDecoder
from windrow_runtime.codecs.malformed import MalformedValue
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.text_files import UTF_8, LineRecords
from windrow_runtime.codecs.value_type import ANY_JSON, Kind, RecordShape, ValueType
from windrow_runtime.inputs.batches import SourceBatch, source_batch
from windrow_runtime.inputs.text_rows import TextRows
from windrow_runtime.origins import counted_from

# Any in this module: elements of every type, and pyarrow has no types.


@dataclass(frozen=True)
class TopicValues:
    """Reads records as columns, in a worker; those with values that have none, one by one."""

    record_type: RecordType  # of the elements
    value: RecordType  # of the values that are columns
    value_format: ValueFormat
    decode: Callable[[Any], SourceBatch]  # one by one
    whole_records: bool
    needed: frozenset[str] | None  # the columns that the plan uses; None: all

    def __call__(self, batches: Iterator[Any]) -> Iterator[TextRows]:
        """Reads batches of records of confluent-kafka."""
        from windrow_runtime.codecs.arrow.text_blocks import no_rows

        read: Callable[[Any], tuple[Any, Sequence[int]]] = self._read_raw
        if isinstance(self.value_format, RegistryFormat):
            read = self._registered_reader(self.value_format)
        elif self.value_format == "json":
            read = self._json_reader()
        for batch in batches:
            values, others = read(batch)
            runs = _runs(others)
            if values is None or len(runs) * _ALONE > batch.num_rows + _ALONE:
                yield TextRows(no_rows(self.record_type), self.record_type, [(0, self.decode(batch))])
                continue
            plain = [(row, self.decode(batch.slice(first, count))) for row, first, count in runs]
            place = partial(_origin_of_row, batch)
            yield TextRows(
                self._elements(batch, values, others), self.record_type, plain, counted_from(0, others, place)
            )

    def _elements(self, batch: Any, values: Any, others: Sequence[int]) -> Any:
        if not self.whole_records:
            return values
        from windrow_kafka.columns import whole_records

        return whole_records(batch, values, others, self.record_type, self.needed)

    def _read_raw(self, batch: Any) -> tuple[Any, Sequence[int]]:
        from windrow_runtime.codecs.arrow.decoding import batch_of
        from windrow_runtime.codecs.arrow.encoding import arrow_schema

        schema, column = arrow_schema(self.value), batch.column("value")
        others = [row for row, is_there in enumerate(column.is_valid().to_pylist()) if not is_there]
        try:
            texts = column.drop_null().cast(schema.field(0).type)
        except ValueError:
            return None, ()  # a text is not UTF-8
        return batch_of([texts], schema, len(texts)), others

    def _registered_reader(self, value_format: RegistryFormat) -> Callable[[Any], tuple[Any, Sequence[int]]]:
        from windrow_kafka.columns import values_of
        from windrow_runtime.codecs.arrow.clean import fitting_rows

        reader = RegisteredReader(value_format, self.value, self.value.root.nullable)

        def read(batch: Any) -> tuple[Any, Sequence[int]]:
            columns, malformed = reader.rows(values_of(batch))
            columns, misfits = fitting_rows(columns, self.value)
            decoded = [row for row in range(batch.num_rows) if row not in malformed] if misfits else ()
            return columns, sorted([*malformed, *(decoded[row] for row in misfits)])

        return read

    def _json_reader(self) -> Callable[[Any], tuple[Any, Sequence[int]]]:
        from windrow_kafka.columns import values_of
        from windrow_runtime.codecs.arrow.json_columns import JsonBlocks

        blocks = JsonBlocks(LineRecords(self.value, UTF_8, json=True))

        def read(batch: Any) -> tuple[Any, Sequence[int]]:
            texts = values_of(batch)
            return blocks.read_texts(texts)

        return read


_ALONE: Final = 4
"""How many records are read as columns in the time in which one is read by itself, among others that are."""


def _runs(rows: Sequence[int]) -> list[tuple[int, int, int]]:
    """Returns the runs of ascending numbers: how many other numbers come before each, its first number, its length."""
    runs: list[tuple[int, int, int]] = []
    for before, row in enumerate(rows):
        if runs and sum(runs[-1][1:]) == row:
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((row - before, row, 1))
    return runs


def _origin(topic: str, partition: int, offset: int) -> str:
    return f"{topic}, partition {partition}, offset {offset}"


def _origin_of_row(batch: Any, row: int) -> str:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return _origin(topic, partition, offset)


def topic_values(source: TopicSource[Any], needed: frozenset[str] | None = None) -> TopicValues | str:
    """Returns what reads the records of a topic as columns, or the reason why they are read one by one.

    ``needed`` has the columns that the plan uses of the elements; None: all.
    """
    if isinstance(source.value_format, RegistryFormat):
        reason = _unlike_columns(source.value_format, source.value_type)
        if reason is not None:
            return reason
    value = record_type(source.value_type).in_timezone(source.timezone)
    element_type = record_type(source.element_type).in_timezone(source.timezone)
    if source.value_format == "json":
        # Arrow only where columns are read.
        from windrow_runtime.codecs.arrow.json_columns import line_by_line

        reason = line_by_line(value)
        if reason is not None:
            return reason
    return TopicValues(element_type, value, source.value_format, kafka_decoder(source), source.whole_records, needed)


def _unlike_columns(value_format: RegistryFormat, value_type: object) -> str | None:
    """Returns the reason why values by a schema are no columns: only the elements know whether they are well-formed."""
    record_type = registered_type(value_format, value_type)
    if record_type is None:
        return "its elements are messages of Protobuf"
    if record_type.single:
        return f"{record_type.name} is no record"
    unread: list[ValueType] = [record_type.root]
    while unread:
        value = unread.pop()
        made_by = hook_of(value.python_type) if value.kind is Kind.RECORD else None
        if made_by is not None:
            return f"{value} has a {made_by}"
        if value.kind in ANY_JSON or value.shape is RecordShape.TYPED_DICT:
            return f"{record_type.name} has a {value} within"
        unread += value.inner
    return None


def kafka_decoder(source: TopicSource[Any]) -> Callable[[Any], SourceBatch]:
    """Returns the function that decodes rows of a Kafka source into elements, in a worker."""
    return partial(_decode_rows, _value_reader(source), source.whole_records)


def _value_reader(source: TopicSource[Any]) -> Callable[[Sequence[bytes | None]], list[Any]]:
    """Returns the function that makes an element, or a ``MalformedRecord``, of each value."""
    value_format = source.value_format
    if isinstance(value_format, RegistryFormat):
        registered = registered_type(value_format, source.value_type)
        takes_none = without_none(source.value_type)[1] if registered is None else registered.root.nullable
        registered = registered and registered.in_timezone(source.timezone)
        return RegisteredReader(value_format, registered, takes_none).values
    element_type = record_type(source.value_type).in_timezone(source.timezone) if value_format == "json" else None
    return partial(_read_values, element_type, value_format, without_none(source.value_type)[1])


def _read_values(
    record_type: RecordType | None, value_format: KafkaFormat, takes_none: bool, values: Sequence[bytes | None]
) -> list[Any]:
    decode: Callable[[bytes], object] = _decode_text if value_format == "text" else bytes
    empty: object = None if takes_none else MalformedValue("null", "the record has no value", None)
    if record_type is not None:
        decode_json = JsonDecoder(record_type).decode
        decode = partial(_decode_json, decode_json)
        # A record without a value reads as null, which fits a type that is Optional.
        empty = decode_json(b"null")
    return [empty if value is None else decode(value) for value in values]


def _decode_rows(read: Callable[[Sequence[bytes | None]], list[Any]], whole_records: bool, batch: Any) -> SourceBatch:
    rows = batch.to_pylist()
    values = read([row["value"] for row in rows])
    if whole_records:
        values = list(map(_whole_record, rows, values))
    return source_batch(
        zip(rows, values, strict=True), lambda row: _origin(row["topic"], row["partition"], row["offset"])
    )


def _decode_json(decode: Callable[[bytes], object], raw: bytes) -> object:
    element = decode(raw)
    if isinstance(element, MalformedValue) and raw[:1] == b"\0" and len(raw) >= 5:
        number = int.from_bytes(raw[1:5])
        reason = (
            f"not JSON: it begins with a zero byte and the id of a schema, {number}, as serializers of a schema "
            "registry write: AvroFormat and ProtobufFormat read Avro and Protobuf; JSON after an id is read as bytes"
        )
        return replace(element, reason=reason)
    return element


def _decode_text(raw: bytes) -> str | MalformedValue:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        return MalformedValue(repr(raw), f"is not UTF-8: {error.reason}", None)


def _whole_record(row: Mapping[str, Any], value: Any) -> Any:
    if isinstance(value, MalformedValue):
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
