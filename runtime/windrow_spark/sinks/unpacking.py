"""Turns the packed rows of a sink into the columns that Spark writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from windrow.plan import Step
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.errors import field_errors
from windrow_runtime.outputs.output import written_type
from windrow_spark.columnar.state import load_rows
from windrow_spark.exchange.classes import register_classes
from windrow_spark.exchange.rows import RowKind, load_values
from windrow_spark.faults import failures_marked
from windrow_spark.spark_schema import spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Any in this module: elements of every type, and pyarrow has no types.


@dataclass(frozen=True)
class Unpack:
    """Turns the packed rows of a sink into Arrow batches, in a worker."""

    encoder: Callable[[], Callable[[Sequence[Any]], Any]]  # makes the function that encodes elements, in a worker
    where: str
    classes: tuple[UserClass, ...]
    record_type: RecordType | None = None  # the type of the elements, if rows may have them as columns
    makes_lines: bool = False  # whether elements in columns are encoded as well

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        register_classes(self.classes)
        schema = None if self.record_type is None else arrow_schema(self.record_type)
        encode = self.encoder()
        with failures_marked():
            for batch in batches:
                kinds, payloads = (column.to_pylist() for column in batch.columns)
                for kind, payload in zip(kinds, payloads, strict=True):
                    rows: Any = None
                    values: Sequence[Any] | None = None
                    if kind == RowKind.OUTPUT_COLUMNS:
                        assert self.record_type is not None, "no sink of another system takes columns"
                        rows = load_rows(payload, schema)
                        values = decode_batch(rows, self.record_type) if self.makes_lines else None
                    else:
                        values = load_values(payload)
                    if values is not None:
                        with field_errors(self.where):
                            rows = encode(values)
                    if rows.num_rows:
                        yield rows


def unpacked(frame: DataFrame, number: int, step: Step, classes: tuple[UserClass, ...]) -> DataFrame:
    """Returns the elements of one sink as typed columns."""
    element_type = written_type(step)
    to_columns = Unpack(lambda: partial(encode_batch, record_type=element_type), step.where, classes, element_type)
    return rows_of(frame, number).mapInArrow(to_columns, spark_ddl(element_type))


def rows_of(frame: DataFrame, number: int) -> DataFrame:
    """Returns the kind and the payload of the rows of one sink."""
    return frame.where(are_of([number])).select("kind", "payload")


def are_of(numbers: Iterable[int]) -> str:
    """Returns the SQL condition that selects the rows of some sinks."""
    kinds = f"{RowKind.OUTPUT}, {RowKind.OUTPUT_COLUMNS}"
    return f"target IN ({', '.join(map(str, numbers))}) AND kind IN ({kinds})"
