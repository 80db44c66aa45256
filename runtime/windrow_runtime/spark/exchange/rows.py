"""The rows that travel between the stages of a query. All stages but the first take and give the same columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

__all__ = [
    "CLOCK",
    "COUNTERS",
    "END",
    "FIRST_SINK",
    "REPORTS",
    "TO_STEPS",
    "WARNINGS",
    "PackedRow",
    "exchange_batch",
    "exchange_schema",
    "packed_batch",
    "source_schema",
]

TO_STEPS: Final = -1
"""The ``sink`` of a row with elements for keyed steps."""

CLOCK: Final = -2
"""The ``sink`` of a row that tells a partition's service group the previous watermark."""

REPORTS: Final = -3
"""The ``sink`` of rows for the driver that tell what timestamp-assigning steps saw."""

END: Final = -4
"""The ``sink`` of a row that says that the stream is at its end; otherwise as :data:`CLOCK`."""

WARNINGS: Final = -5
"""The ``sink`` of rows for the driver that tell of headers of CSV files: (names, where, line of the user's program)."""

COUNTERS: Final = 0
"""The ``sink`` of rows that count: elements (step id, counter, increment)."""

FIRST_SINK: Final = 1
"""The sinks of the plan are numbered from here."""


class PackedRow(NamedTuple):
    """One row.

    Attributes:
        group: The label of the key group that takes it at the next stage; of no meaning behind the last stage.
        sink: The number of the sink that takes it, or one of the constants of this module.
        number: Its place among the rows of its batch, see
            :func:`~windrow_runtime.spark.exchange.payload.sequence_number`.
        payload: The elements.
    """

    group: int
    sink: int
    number: int
    payload: bytes

    def as_spark_row(self) -> Row:
        """As what a stateful processor yields."""
        from pyspark.sql import Row

        return Row(group=self.group, sink=self.sink, number=self.number, payload=self.payload)


def exchange_schema() -> StructType:
    """The columns of :class:`PackedRow`."""
    from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

    return StructType(
        [
            StructField("group", IntegerType(), nullable=False),
            StructField("sink", IntegerType(), nullable=False),
            StructField("number", LongType(), nullable=False),
            StructField("payload", BinaryType(), nullable=False),
        ]
    )


def source_schema() -> StructType:
    """The columns of :class:`PackedRow` and those that are for Spark itself.

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
    """The rows as an Arrow batch with the columns of :func:`exchange_schema`."""
    return packed_batch(rows, None).select(["group", "sink", "number", "payload"])


# Any: pyarrow has no types.
def packed_batch(rows: Iterable[PackedRow], watermark: int | None, records: int = 0) -> Any:
    """The rows as an Arrow batch with the columns of :func:`source_schema`.

    All bear the same watermark, and the first one the number of records.
    """
    import pyarrow as pa

    columns = list(zip(*rows, strict=True))
    length = len(columns[0])
    schema = pa.schema(
        [
            pa.field("group", pa.int32(), nullable=False),
            pa.field("sink", pa.int32(), nullable=False),
            pa.field("number", pa.int64(), nullable=False),
            pa.field("payload", pa.binary(), nullable=False),
            pa.field("watermark", pa.int64()),
            pa.field("records", pa.int64(), nullable=False),
        ]
    )
    columns += [(watermark,) * length, (records,) + (0,) * (length - 1)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
