"""Describes the scan of a source: a DataFrame, and the reader that makes elements from its rows in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from windrow.plan import Step
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.malformed import MalformedRecord, as_malformed
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.columnar.rows.cleaning import clean_columns
from windrow_runtime.inputs.batch import SourceBatch
from windrow_runtime.spark.checkpoint.folder import Checkpoint
from windrow_runtime.storage.values import StateCodec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Any in this module: elements of every type, and pyarrow has no types.


class Reader(Protocol):
    """Makes elements from the rows of an Arrow batch, in a worker."""

    def decode(self, batch: Any) -> SourceBatch:
        """Returns the elements of a batch."""
        ...


@runtime_checkable
class ColumnReader(Reader, Protocol):
    """A reader of rows whose columns are those of the elements."""

    @property
    def kind(self) -> RecordType:
        """The type of the elements."""
        ...

    def columns(self, batch: Any) -> Any | None:
        """Returns the columns of the elements; None where a record may be malformed."""
        ...


@dataclass(frozen=True)
class Scan:
    """The scan of one source by Spark.

    Attributes:
        frame: The DataFrame, a streaming one but in a batch job.
        reader: Makes elements from its rows.
        open: Makes the batches that the reader takes, where rows only name files or offsets; None: rows are the input.
    """

    frame: DataFrame
    reader: Reader
    open: Callable[[Iterator[Any]], Iterator[Any]] | None = None


@dataclass(frozen=True)
class ScanContext:
    """The session and the checkpoint with which a source is scanned.

    Attributes:
        spark: The session.
        step: The step of the source.
        checkpoint: Where collections and static DataFrames are kept; None: a batch job reads the source once.
        codec: Writes and reads collections.
    """

    spark: SparkSession
    step: Step
    checkpoint: Checkpoint | None
    codec: StateCodec

    @property
    def reader(self) -> Any:  # Spark's two readers have the same methods and no common type
        """Spark's reader of streams, or that of static data in a batch job."""
        return self.spark.read if self.checkpoint is None else self.spark.readStream


class AsRead:
    """The reader of batches that a worker has read itself, and that hold elements already."""

    def decode(self, batch: Any) -> SourceBatch:
        """Returns the batch unchanged."""
        assert isinstance(batch, SourceBatch)
        return batch


@dataclass(frozen=True)
class RowReader:
    """Makes elements from the rows of a DataFrame, whose files and places in them are not known.

    Attributes:
        kind: The type of the elements.
        origin: The source, for malformed records.
    """

    kind: RecordType
    origin: str

    def columns(self, batch: Any) -> Any | None:
        """Returns the columns of the elements; None where a record may be malformed."""
        return clean_columns(batch, self.kind)

    def decode(self, batch: Any) -> SourceBatch:
        """Returns the elements, made from the columns that the type names."""
        found: list[MalformedRecord] = []
        names = [column.column for column in self.kind.columns if column.column in batch.schema.names]
        values = decode_batch(batch.select(names), self.kind, found.append)
        return SourceBatch(
            values, [as_malformed(bad, f"{self.origin}, row {bad.row} of an Arrow batch") for bad in found]
        )
