"""Defines what Spark asks of a source beyond its reader, and finds the scanner that answers for a source."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from windrow.entry_points import has
from windrow.errors import UnsupportedOperationError
from windrow.plan import Step
from windrow.sources import Source
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.offsets import Reads
from windrow_runtime.inputs.reader import SourceReader, reader_for
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.registered import registered
from windrow_runtime.operators.topology import source_of
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.sources.ranges import scan_reads
from windrow_spark.sources.scan import Scan, ScanContext

R_co = TypeVar("R_co", bound=SourceReader[Any], covariant=True)

SCANNERS: Final = "windrow.spark_scanners"
"""The entry points by which packages register scanners, under the :attr:`~windrow.sources.Source.connector_name`.

A source whose reader has ``reads`` needs none.
"""

# Any in this module: sources and elements of every type.


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """The files of a source that batches have read.

    Attributes:
        unread: Returns the files that no batch has read, of some.
        names: The names without folders of those that were read, where a checkpoint has stored the elements.
    """

    unread: Callable[[Iterable[str]], set[str]]
    names: frozenset[str] = frozenset()


class SparkScanner(Generic[R_co]):
    """Scans the source of a step by Spark, and answers the questions that Spark alone asks about it."""

    is_divided: ClassVar[bool] = True
    """Whether Spark or windrow divides the source into tasks, and not its own partitions."""

    def __init__(self, reader: R_co) -> None:
        self.reader = reader
        self.source: Source[Any] = reader.source
        self.step = reader.step

    def scan(self, context: ScanContext) -> Scan:
        """Returns the scan of the source."""
        reads = self.reader.reads(context.columns)
        if reads is None:
            raise UnsupportedOperationError(
                "Spark cannot read this source",
                given=self.source.describe(),
                expected="a source whose reader has offsets, such as a collection, files or a CustomSource",
                where=self.step.where,
            )
        return scan_reads(reads, context)

    def as_part(self, context: ScanContext, place: int) -> Reads:
        """Returns what reads the source as part number ``place`` of a hybrid source."""
        return self.reader.as_part(place)

    def check_sent(self) -> None:
        """Refuse a source that cannot be sent to workers."""

    def check_columns(self) -> None:
        """Declines a source that does not give its elements as columns."""
        raise DeclinedError(f"{self.source.describe()} gives records one by one")

    def check_plan(self) -> None:
        """Refuse a source that Spark cannot read, before there is a session."""

    def check_resumable(self, checkpoint: Checkpoint) -> None:
        """Refuse a source that cannot go on from a checkpoint."""

    @property
    def known_batches(self) -> float:
        """In how many batches Spark reads all that the source has at the start; infinity: that is not known."""
        return math.inf

    @property
    def has_several_partitions(self) -> bool:
        """Whether a source with partitions has several at the begin of a query, or may find some later."""
        return True

    def has_large_files(self, size: int) -> bool:
        """Returns whether Spark plans the batches of the source, and it has files of so many bytes or more now."""
        return False

    @property
    def is_stream_of_user(self) -> bool:
        """Whether the source is a stream of Spark's that the user made, which may have several sources."""
        return False

    @property
    def is_replayable(self) -> bool:
        """Whether what a batch has read is still known, by the names of the files that Spark has noted."""
        return False

    def replayed(self, files: Sequence[str]) -> SourceBatch:
        """Returns what a batch has read that Spark has noted with some files."""
        raise NotImplementedError(f"{self.source.describe()} is not replayable")

    def left(self, read: ReadFiles) -> Iterator[SourceBatch]:
        """Yields the batches that the source has left, once some files were read."""
        raise NotImplementedError(f"{self.source.describe()} is not replayable")

    @property
    def has_offsets_of_reader(self) -> bool:
        """Whether the offsets that Spark has noted are those of the reader: the interpreter goes on from them."""
        return self.reader.reads() is not None


def count_logged(sources: Sequence[Step]) -> int | None:
    """Returns the number of sources that Spark has a log of; None: it is not known.

    Spark reads a stream that two DataFrames of the user share only once, and has one log for both.
    """
    of_user = sum(scanner_of(step).is_stream_of_user for step in sources)
    return len(sources) if of_user < 2 else None


def check_source_columns(step: Step) -> None:
    """Declines a source that does not give its elements as columns."""
    scanner_of(step).check_columns()


def scanner_of(step: Step) -> SparkScanner[SourceReader[Any]]:
    """Returns the scanner of a step's source."""
    return scanner_for(source_of(step), step)


def scanner_for(source: Source[Any], step: Step) -> SparkScanner[SourceReader[Any]]:
    """Returns the scanner of a source for a step."""
    reader = reader_for(source, step)
    if not has(SCANNERS, type(source).connector_name):
        return SparkScanner(reader)
    scanner: SparkScanner[SourceReader[Any]] = registered(SCANNERS, source, step.where)(reader)
    return scanner
