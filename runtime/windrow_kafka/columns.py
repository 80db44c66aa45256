"""Makes Arrow columns of the records of a Kafka topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from operator import methodcaller
from typing import Any, Final

import numpy as np
import pyarrow as pa

from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.arrow.parquet import UNREAD, filled
from windrow_runtime.codecs.value_type import RecordType

# Any in this module: pyarrow and confluent-kafka have no types.

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TopicRows:
    """Records of a partition, as confluent-kafka gives them, with the methods of Arrow batches that readers call.

    A column is made when it is asked for: most plans need values alone.
    """

    messages: Sequence[Any]
    topic: str
    partition: int

    @property
    def num_rows(self) -> int:
        return len(self.messages)

    def slice(self, first: int, count: int) -> TopicRows:
        return TopicRows(self.messages[first : first + count], self.topic, self.partition)

    def values(self) -> list[bytes | None]:
        return list(map(methodcaller("value"), self.messages))

    def column(self, name: str) -> pa.Array:
        """Returns the column of this name."""
        return _COLUMNS[name](self)

    def to_pylist(self) -> list[dict[str, Any]]:
        return [
            {
                "value": each.value(),
                "topic": self.topic,
                "partition": self.partition,
                "offset": each.offset(),
                "key": each.key(),
                "timestamp": _EPOCH + timedelta(milliseconds=each.timestamp()[1]),
                "headers": [{"key": name, "value": value} for name, value in each.headers() or ()],
            }
            for each in self.messages
        ]


def _headers(rows: TopicRows) -> pa.Array:
    headers = [each.headers() or () for each in rows.messages]
    return pa.array([[{"key": name, "value": value} for name, value in each] for each in headers], _HEADERS)


_COLUMNS: Final[dict[str, Callable[[TopicRows], pa.Array]]] = {
    "value": lambda rows: pa.array(rows.values(), pa.binary()),
    "topic": lambda rows: pa.repeat(rows.topic, rows.num_rows),
    "partition": lambda rows: pa.repeat(pa.scalar(rows.partition, pa.int32()), rows.num_rows),
    "offset": lambda rows: pa.array([each.offset() for each in rows.messages], pa.int64()),
    "key": lambda rows: pa.array([each.key() for each in rows.messages], pa.binary()),
    "timestamp": lambda rows: pa.array([each.timestamp()[1] for each in rows.messages], pa.timestamp("ms", "UTC")),
    "headers": _headers,
}


def values_of(rows: Any) -> list[bytes]:
    """Returns the value of each record as bytes, empty where a record has none."""
    values: list[Any] = rows.values() if isinstance(rows, TopicRows) else rows.column("value").to_pylist()
    return [value or b"" for value in values] if None in values else values


def whole_records(
    rows: Any, values: pa.RecordBatch, others: Sequence[int], record_type: RecordType, needed: frozenset[str] | None
) -> pa.RecordBatch:
    """Returns the columns of whole records: the values, and the needed ones of key, headers, timestamp and place.

    The values are those of all rows without the ``others``, by number.
    """
    schema, arrays = arrow_schema(record_type), []
    row_numbers = pa.array(np.delete(np.arange(rows.num_rows), others)) if others else None
    unread = [] if needed is None else sorted({*schema.names} - needed - {"value"})
    for field in schema:
        if field.name == "value":
            array = values.column(0)
            if pa.types.is_struct(field.type):
                array = pa.StructArray.from_arrays(values.columns, fields=list(field.type))
        elif field.name in unread:
            array = filled(field.type, values.num_rows)
        else:
            column = rows.column(field.name)
            array = _cast(column if row_numbers is None else column.take(row_numbers), field.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema.with_metadata({UNREAD: ",".join(unread).encode()}))


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if not pa.types.is_list(wanted):
        return column.cast(wanted)
    # Spark gives no list where there are no headers; the parts of a tuple have other names than those of a header.
    sizes = column.value_lengths().fill_null(0).to_pylist()
    entries = column.flatten().flatten()
    headers = pa.StructArray.from_arrays(entries, fields=list(wanted.value_type))
    return pa.ListArray.from_arrays(pa.array(accumulate(sizes, initial=0), pa.int32()), headers, type=wanted)
