"""Defines what engines ask of a source, and finds the reader that answers for a source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, ClassVar, Final, Generic, TypeVar

from windrow.errors import Location, UnsupportedOperationError, warn
from windrow.plan import Step
from windrow.sources import Source
from windrow_runtime.inputs.batches import SourceBatch, elements_of
from windrow_runtime.inputs.offsets import Offsets, Reads
from windrow_runtime.operators.class_facts import is_constant_type
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.operators.registered import registered
from windrow_runtime.operators.topology import source_of

S_co = TypeVar("S_co", bound=Source[Any], covariant=True)

Held = Callable[[], Collection[str]]
"""Returns the partitions of which the next batch reads nothing, since they wait for others."""

READERS: Final = "windrow.readers"
"""The entry points by which packages register readers, under the :attr:`~windrow.sources.Source.connector_name`."""

# Any in this module: sources and elements of every type.


class SourceReader(Generic[S_co]):
    """Answers the questions that each engine asks about the source of a step, and reads it for the interpreter.

    A package registers its reader under the name that its source has as ``connector_name``. A reader whose
    :meth:`reads` are there needs nothing more: both engines read it.
    """

    may_grow: ClassVar[bool] = True
    """Whether a source that was read to its end, such as a folder, may have more in a later run."""
    identity_is_exact: ClassVar[bool] = False
    """Whether two sources with the same identity read the same elements."""

    def __init__(self, source: S_co, step: Step) -> None:
        self.source = source
        self.step = step

    def reads(self, columns: frozenset[str] | None = None) -> Reads | None:
        """Returns the batches between the offsets of the source; None: it has no offsets that windrow keeps.

        Args:
            columns: The columns that the plan uses, so that others need not be read; None: all.
        """
        return None

    def as_part(self, place: int) -> Reads:
        """Returns what reads the source as part number ``place`` of a hybrid source."""
        reads = self.reads()
        assert reads is not None, "a hybrid source refuses others"
        return reads

    def batches(self, held: Held = tuple) -> Iterator[SourceBatch]:
        """Reads the batches of the interpreter; malformed records raise, unless the source drops or routes them.

        ``held`` is asked before each batch.
        """
        return self.batches_after(None, held)

    def batches_after(self, offsets: Offsets | None, held: Held = tuple) -> Iterator[SourceBatch]:
        """Reads the batches after the offsets that another run has reached; None: from the beginning."""
        reads = self.reads()
        if reads is None:
            raise UnsupportedOperationError(
                "the interpreter cannot read this source",
                given=self.source.describe(),
                expected="a source that needs no Spark, such as a collection, files or a CustomSource",
                where=self.step.where,
                hint=self.source.reading_hint,
            )
        return self.warned(self._to_the_end(reads, held, offsets))

    def _to_the_end(self, reads: Reads, held: Held, offsets: Offsets | None) -> Iterator[SourceBatch]:
        for ranges, reached, partitions in reads.to_the_end(held, offsets):
            # On Spark workers tell it, and none reads an empty batch.
            batch = SourceBatch(open_partitions=partitions if ranges else None)
            for range_ in ranges:
                before = len(batch.values)
                for portion in reads.read(range_):
                    self.take(batch, portion)
                batch.partitions.append((range_.partition, len(batch.values) - before))
            batch.values = self.owned(batch.values)
            yield batch
            if offsets is None:  # the other run may still need what a source forgets
                reads.commit(reached)

    def warned(self, batches: Iterable[SourceBatch]) -> Iterator[SourceBatch]:
        """Yields batches, and warns once of each file header that does not fit the record type."""
        headers: set[str] = set()
        for batch in batches:
            for header, file in batch.unmatched.items():
                if header not in headers:
                    warn_of_header(header, f"{self.step.where}, {file}", self.step.node.location)
            headers.update(batch.unmatched)
            yield batch

    def take(self, batch: SourceBatch, portion: Any) -> None:
        """Adds a portion, of elements or of columns, to a batch."""
        elements = elements_of(portion)
        if self.source.on_malformed == "fail":
            elements.refuse_malformed(self.step.where)
        batch.add(elements)

    def owned(self, values: list[Any]) -> list[Any]:
        """Returns copies of elements, since a pipeline may change them, and may run again."""
        with errors_at(self.step.where):
            return values if is_constant_type(self.step.node.element_type) else own_all(values)

    def check(self, *, waits: bool = False) -> None:
        """Refuse what no run could read, such as a folder that does not exist; the run may wait for new elements."""

    @property
    def ending_hint(self) -> str:
        """The end of a hint: how a user gives a source an end that has none."""
        return ""

    @property
    def drains(self) -> bool:
        """Whether the source has an end that a run of the interpreter reaches."""
        return self.source.is_bounded or not self.has_partitions

    @property
    def has_partitions(self) -> bool:
        """Whether the source may have several partitions, each with a watermark of its own."""
        return False

    @property
    def files_per_batch(self) -> int | None:
        """The number of files in a batch if each file is a partition; None: the partitions are no files."""
        return None

    @property
    def identity(self) -> str | None:
        """A text by which a run that goes on from a checkpoint finds the source; None: nothing tells it from others."""
        return self.source.describe()

    @property
    def stored_kind(self) -> str:
        """The kind of source that a checkpoint keeps: one of another kind cannot go on from its offsets."""
        return type(self.source).__name__

    @property
    def row_count(self) -> int | None:
        """The number of rows that the source has; None: it would have to be read to tell."""
        return None

    @property
    def timezone(self) -> object:
        """Where the clock of times without an offset is, if windrow decodes the elements."""
        return None


def reader_of(step: Step) -> SourceReader[Source[Any]]:
    """Returns the reader of a step's source, see :func:`reader_for`."""
    return reader_for(source_of(step), step)


def reader_for(source: Source[Any], step: Step) -> SourceReader[Source[Any]]:
    """Returns the reader of a source for a step, which the package of the source has registered.

    Raises:
        UnsupportedOperationError: If no installed package has registered one, several have, or it cannot be loaded.
    """
    if not type(source).connector_name:
        return SourceReader(source, step)
    reader: SourceReader[Source[Any]] = registered(READERS, source, step.where)(source, step)
    return reader


def warn_of_header(unmatched: str, where: str, location: Location | None) -> None:
    """Warn of a header, or of columns, that lack fields with defaults, and have columns that no field takes."""
    warn(
        "fields have their defaults in each row, and a column may be misspelt",
        given=unmatched,
        where=where,
        hint="correct the names of the columns, or those of the fields",
        location=location,
    )
