"""Describes the scan of a source: a DataFrame, and how a worker makes elements from its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from windrow.plan import Step
from windrow_runtime.codecs.arrow.decoding import NO_FIELD, decode_batch
from windrow_runtime.codecs.malformed import MalformedRecord, as_malformed
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.spark.checkpoint.folder import Checkpoint
from windrow_runtime.spark.run_limits import USUAL_LIMITS, RunLimits
from windrow_runtime.storage.values import StateCodec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Any in this module: elements of every type, and pyarrow has no types.


@runtime_checkable
class NarrowableOpen(Protocol):
    """Opens what the rows of a scan name, and can leave columns out that nobody asks for."""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]: ...

    def narrowed(self, columns: frozenset[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
        """Returns the same for some columns."""
        ...


@dataclass(frozen=True)
class Scan:
    """The scan of one source by Spark."""

    frame: DataFrame  # a streaming one but in a batch job
    decode: Callable[[Any], SourceBatch]  # makes the elements of a batch, in a worker
    # Makes the batches to decode, where rows only name files or offsets; None: Arrow batches of the rows.
    open: Callable[[Iterator[Any]], Iterator[Any]] | None = None
    kind: RecordType | None = None  # the type of the elements, where the columns of a batch are theirs
    names: tuple[str, ...] | None = None  # those of the columns, where the frame numbers them

    def narrowed(self, columns: frozenset[str] | None) -> Scan:
        """Returns a scan that need not read other columns; None: all are needed."""
        opened = self.open
        if columns is None or not isinstance(opened, NarrowableOpen):
            return self
        return replace(self, open=opened.narrowed(columns))


@dataclass(frozen=True)
class ScanContext:
    """The session and the checkpoint with which the source of a step is scanned."""

    spark: SparkSession
    step: Step
    checkpoint: Checkpoint | None  # keeps collections and static DataFrames; None: a batch job reads the source once
    codec: StateCodec  # writes and reads collections
    limits: RunLimits = USUAL_LIMITS

    @property
    def reader(self) -> Any:  # Spark's two readers have the same methods and no common type
        """Spark's reader of streams, or that of static data in a batch job."""
        return self.spark.read if self.checkpoint is None else self.spark.readStream


def scan_rows(frame: DataFrame, kind: RecordType, origin: str) -> Scan:
    """Scans a DataFrame whose columns are those of the elements; malformed records have the origin.

    Spark finds columns by names in which a point, a backtick and the case of a letter mean something, so they are found
    by their places here. Where no column is that of a field there is one all the same: Arrow counts rows by it.
    """
    from pyspark.sql import functions as f

    wanted = {column.column for column in kind.columns}
    places = [place for place, name in enumerate(frame.columns) if name in wanted]
    numbered = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    names = tuple([frame.columns[place] for place in places])
    if places:
        chosen = numbered.select(*(f"c{place}" for place in places))
    else:
        chosen, names = numbered.select(f.lit(0).alias("c")), (NO_FIELD,)
    return Scan(chosen, partial(_decode_rows, kind, origin), kind=kind, names=names)


def named(names: tuple[str, ...], batches: Iterator[Any]) -> Iterator[Any]:
    """Gives the columns of Arrow batches the names that those of a scan have."""
    for batch in batches:
        yield batch.rename_columns(list(names))


def _decode_rows(kind: RecordType, origin: str, batch: Any) -> SourceBatch:
    """Makes elements from the columns that the type names; files, and places in them, are not known."""
    found: list[MalformedRecord] = []
    values = decode_batch(batch, kind, found.append)
    return SourceBatch(values, [as_malformed(bad, f"{origin}, row {bad.row} of an Arrow batch") for bad in found])
