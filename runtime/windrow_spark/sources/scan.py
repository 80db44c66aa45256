"""Describes the scan of a source: a DataFrame, and how a worker decodes its rows into elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from windrow.plan import Step
from windrow_runtime.codecs.arrow.decoding import NO_FIELD, decode_batch
from windrow_runtime.codecs.malformed import MalformedValue, as_malformed
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.inputs.batches import SourceBatch
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.storage import unset_elsewhere
from windrow_spark.clock import Alignment
from windrow_spark.division import Division
from windrow_spark.storage.values import StateCodec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Any in this module: elements of every type, and pyarrow has no types.

ANY_AGE: Final = ("maxFileAge", "1000000d")
"""Spark's option to read files of any age: by default it ignores a file that is a week older than the newest read.

A file that is copied with its time may have any age, and clocks are set back.
"""


@dataclass(frozen=True)
class Scan:
    """The scan of one source by Spark."""

    frame: DataFrame  # streaming, unless it is a batch job
    decode: Callable[[Any], SourceBatch]  # decodes a batch into elements, in a worker
    # Reads the batches to decode, if rows only name files or offsets; None: the rows themselves are decoded.
    open: Callable[[Iterator[Any]], Iterator[Any]] | None = None
    record_type: RecordType | None = None  # the type of the elements, if batches have their fields as columns
    names: tuple[str, ...] | None = None  # the names of the columns, if the frame numbers them
    has_few_rows: bool = False  # whether a row holds all elements of a batch, if the rows themselves are decoded


@dataclass(frozen=True)
class ScanContext:
    """The session and the checkpoint with which a step's source is scanned."""

    spark: SparkSession
    step: Step
    checkpoint: Checkpoint | None  # keeps collections and static DataFrames; None: a batch job reads the source once
    codec: StateCodec  # writes and reads collections
    division: Division  # what divides files among tasks
    ordered: bool = True  # whether the results of keyed steps depend on the order of files in a batch
    place: int | None = None  # the number of the source for Spark; None: it is not known
    marks_partitions: bool = False  # whether workers tell of which partition elements are, for watermarks
    alignment: Alignment | None = None  # says which partitions wait for others
    tells_arrivals: bool = False  # whether workers tell which partitions had something new
    columns: frozenset[str] | None = None  # those that the plan uses, so that others need not be read; None: all
    in_parts: bool = False  # whether large files are read in parts
    tasks: int = 1  # how many share a batch: the shuffle partitions, which the first run of a checkpoint fixes
    divides_partitions: bool = False  # whether several tasks may read one partition of the source, part after part

    @property
    def reader(self) -> Any:  # Spark's two readers have the same methods and no common type
        """Spark's reader of streams, or that of static data in a batch job."""
        reader: Any = self.spark.read if self.checkpoint is None else self.spark.readStream
        # The settings of a query do not reach its scans, and the JVM of an executor keeps a file system as a task has
        # opened it first.
        return reader.options(**unset_elsewhere(self.spark))


def scan_rows(frame: DataFrame, record_type: RecordType, origin: str) -> Scan:
    """Scans a DataFrame whose columns are the elements' fields; ``origin`` describes malformed records.

    In names of columns Spark gives dots, backticks and the case of letters a meaning, so columns are numbered here. If
    no column belongs to a field, a constant one is selected, by which Arrow counts rows.
    """
    from pyspark.sql import functions as f

    wanted = {column.column for column in record_type.columns}
    indices = [index for index, name in enumerate(frame.columns) if name in wanted]
    numbered = frame.toDF(*(f"c{index}" for index in range(len(frame.columns))))
    names = tuple([frame.columns[index] for index in indices])
    if indices:
        chosen = numbered.select(*(f"c{index}" for index in indices))
    else:
        chosen, names = numbered.select(f.lit(0).alias("c")), (NO_FIELD,)
    return Scan(chosen, partial(_decode_rows, record_type, origin), record_type=record_type, names=names)


def named(names: tuple[str, ...], batches: Iterator[Any]) -> Iterator[Any]:
    """Renames the columns of Arrow batches."""
    for batch in batches:
        yield batch.rename_columns(list(names))


def _decode_rows(record_type: RecordType, origin: str, batch: Any) -> SourceBatch:
    """Decodes a batch's columns into elements; for malformed records the file and line are not known."""
    malformed: list[MalformedValue] = []
    values = decode_batch(batch, record_type, malformed.append)
    return SourceBatch(values, [as_malformed(bad, f"{origin}, row {bad.row} of an Arrow batch") for bad in malformed])
