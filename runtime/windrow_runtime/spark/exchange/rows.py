"""The rows that travel between the stages of a query. All stages but the first take and give the same columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructType


class RowKind:
    """The kinds of rows, which say how to read a row's payload and its target."""

    ELEMENTS: Final = 0
    """Elements for keyed steps, see :func:`~windrow_runtime.spark.exchange.payload.pack_keyed`; the target is the level
    of the steps."""

    COLUMNS: Final = 1
    """Elements for one keyed step of the first level as an Arrow stream; the target is the number of the step."""

    PARTIALS: Final = 2
    """Elements for one keyed step of the first level, folded before the exchange; the target is its number."""

    OUTPUT: Final = 3
    """Values for a sink; the target is the number of the sink."""

    OUTPUT_COLUMNS: Final = 4
    """Elements for a sink as an Arrow stream; the target is the number of the sink."""

    PART: Final = 5
    """The name of a file that a worker wrote for a sink, for the driver; the target is the number of the sink."""

    CLOCK: Final = 6
    """The time of the batch before, for the service group of a partition."""

    END: Final = 7
    """As :data:`CLOCK`; besides, the stream is at its end."""

    REPORTS: Final = 8
    """Reports of timestamp-assigning steps, for the driver."""

    WARNINGS: Final = 9
    """Headers of CSV files, for the driver: values (names, where, line of the user's program)."""

    COUNTERS: Final = 10
    """Counts of steps, for the driver: values (step id, counter or fact, increment)."""


_OUTPUTS: Final = frozenset({RowKind.OUTPUT, RowKind.OUTPUT_COLUMNS})


class PackedRow(NamedTuple):
    """One row.

    Attributes:
        group: The label of the key group that takes it at the next stage; of no meaning behind the last stage.
        kind: What the payload is, one of :class:`RowKind`.
        target: The level, step or sink that takes the payload, as its kind says; else 0.
        number: Its place among the rows of its batch, see
            :func:`~windrow_runtime.spark.exchange.payload.sequence_number`.
        payload: The content.
    """

    group: int
    kind: int
    target: int
    number: int
    payload: bytes

    @property
    def is_output(self) -> bool:
        """Returns whether a sink takes the row."""
        return self.kind in _OUTPUTS

    def as_spark_row(self) -> Row:
        """Returns the row in the form that a stateful processor yields."""
        from pyspark.sql import Row

        return Row(**self._asdict())


def exchange_schema() -> StructType:
    """Returns the columns of :class:`PackedRow`."""
    from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

    return StructType(
        [
            StructField("group", IntegerType(), nullable=False),
            StructField("kind", IntegerType(), nullable=False),
            StructField("target", IntegerType(), nullable=False),
            StructField("number", LongType(), nullable=False),
            StructField("payload", BinaryType(), nullable=False),
        ]
    )


def source_schema() -> StructType:
    """Returns the columns of :class:`PackedRow` and those that are for Spark itself.

    These are the watermark in Spark's milliseconds, null where it does not move, and how many records were read.
    """
    from pyspark.sql.types import LongType, StructField, StructType

    return StructType(
        [
            *exchange_schema().fields,
            StructField("watermark", LongType(), nullable=True),
            StructField("records", LongType(), nullable=False),
        ]
    )


def exchange_batch(rows: Iterable[PackedRow]) -> Any:  # pyarrow has no types
    """Returns the rows as an Arrow batch with the columns of :func:`exchange_schema`."""
    return packed_batch(rows, None).select(list(PackedRow._fields))


# Any: pyarrow has no types.
def packed_batch(rows: Iterable[PackedRow], watermark: int | None, records: int = 0) -> Any:
    """Returns the rows as an Arrow batch with the columns of :func:`source_schema`.

    All bear the same watermark, and the first one the number of records.
    """
    import pyarrow as pa

    columns = list(zip(*rows, strict=True))
    length = len(columns[0])
    schema = pa.schema(
        [
            pa.field("group", pa.int32(), nullable=False),
            pa.field("kind", pa.int32(), nullable=False),
            pa.field("target", pa.int32(), nullable=False),
            pa.field("number", pa.int64(), nullable=False),
            pa.field("payload", pa.binary(), nullable=False),
            pa.field("watermark", pa.int64()),
            pa.field("records", pa.int64(), nullable=False),
        ]
    )
    columns += [(watermark,) * length, (records,) + (0,) * (length - 1)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
