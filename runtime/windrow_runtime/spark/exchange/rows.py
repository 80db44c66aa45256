"""The rows that travel between the stages of a query. All stages but the first take and give the same columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple


class RowKind:
    """The kinds of rows, which say how to read a row's payload and its target, the number of a level, step or sink."""

    ELEMENTS: Final = 0  # for the keyed steps of a level, see payload.pack_keyed
    COLUMNS: Final = 1  # elements for one keyed step of the first level, as an Arrow stream
    PARTIALS: Final = 2  # elements for one keyed step of the first level, folded before the exchange
    OUTPUT: Final = 3  # values for a sink
    OUTPUT_COLUMNS: Final = 4  # elements for a sink, as an Arrow stream
    PART: Final = 5  # the name of a file that a worker wrote for a sink, for the driver
    CLOCK: Final = 6  # the time of the batch before, for the service group of a partition
    END: Final = 7  # as CLOCK; besides, the stream is at its end
    REPORTS: Final = 8  # reports of timestamp-assigning steps, for the driver
    WARNINGS: Final = 9  # headers of CSV files, for the driver: (names, where, line of the user's program)
    COUNTERS: Final = 10  # counts of steps, for the driver: (step id, counter or fact, increment)


EXCHANGE_SCHEMA: Final = (
    "`group` int not null, kind int not null, target int not null, number bigint not null, payload binary not null"
)
"""The columns of :class:`PackedRow`, for Spark."""

SOURCE_SCHEMA: Final = f"{EXCHANGE_SCHEMA}, watermark bigint, records bigint not null"
"""The same and, for Spark itself, the watermark in its milliseconds, null where it does not move, and the number of
records that were read."""

_OUTPUTS: Final = frozenset({RowKind.OUTPUT, RowKind.OUTPUT_COLUMNS})


class PackedRow(NamedTuple):
    """One row of the exchange."""

    group: int  # the label of the key group that takes it at the next stage; of no meaning behind the last stage
    kind: int  # what the payload is, one of RowKind
    target: int  # the level, step or sink that takes the payload, as its kind says; else 0
    number: int  # its place among the rows of its batch, see payload.sequence_number
    payload: bytes

    @property
    def is_output(self) -> bool:
        """Returns whether a sink takes the row."""
        return self.kind in _OUTPUTS


def exchange_batch(rows: Iterable[PackedRow]) -> Any:  # pyarrow has no types
    """Returns the rows as an Arrow batch with the columns of :data:`EXCHANGE_SCHEMA`."""
    return packed_batch(rows, None).select(list(PackedRow._fields))


def packed_batch(rows: Iterable[PackedRow], watermark: int | None, records: int = 0) -> Any:  # as above
    """Returns the rows as an Arrow batch with the columns of :data:`SOURCE_SCHEMA`.

    All bear the same watermark, and the first one the number of records.
    """
    import pyarrow as pa

    columns = list(zip(*rows, strict=True))
    length = len(columns[0])
    columns += [(watermark,) * length, (records,) + (0,) * (length - 1)]
    names = (*PackedRow._fields, "watermark", "records")
    types = (pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.binary(), pa.int64(), pa.int64())
    schema = pa.schema(
        [pa.field(name, kind, nullable=name == "watermark") for name, kind in zip(names, types, strict=True)]
    )
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns, types)), schema=schema)
