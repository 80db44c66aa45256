"""Defines how windrow plans and reads the batches of a source by offsets, which the engine keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.inputs.batches import OpenPartitions
from windrow_runtime.metrics.reports import Backlog

# Any in this module: elements and offsets are of the user's types.

ALL: Final = "all"
"""The one partition of files, elements and rows."""

Offsets = Mapping[str, Sequence[Any]]
"""The offsets of partitions: two for each, the initial one, which is asked for only once, and how far it was read.

A source whose partitions may be deleted and made anew gives a third, a text that tells one incarnation from another.
"""


class Range(NamedTuple):
    """The offsets between which one batch reads a partition."""

    partition: str
    start: Any
    end: Any
    incarnation: str | None = None  # that of the partition for which the offsets were planned, if the source has any

    @property
    def offsets(self) -> tuple[str, Any, Any]:
        """The partition and its two offsets, as a user's source gets them."""
        return self.partition, self.start, self.end


@dataclass(frozen=True)
class Reads(ABC):
    """Plans and reads the batches of a source by offsets, which the engine keeps."""

    where: str
    record_type: RecordType | None  # the type of the elements, if they are read as columns

    @abstractmethod
    def partitions(self) -> list[str]:
        """Returns the names of the partitions that there are now."""

    @abstractmethod
    def latest(self) -> dict[str, Any]:
        """Returns the latest offset of each partition."""

    @abstractmethod
    def advance(self, start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Returns how far the next batch reads each partition, which the source may limit."""

    @abstractmethod
    def read(self, range_: Range) -> Iterator[Any]:
        """Reads the elements of a range, one by one or as columns."""

    @abstractmethod
    def commit(self, offsets: Offsets) -> None:
        """Tells the source up to which offsets it need not keep elements."""

    @property
    def is_bounded(self) -> bool:
        """Whether a partition ends at its latest offset."""
        return False

    def shared_by(self, tasks: int, *, divided: bool) -> Reads:
        """Returns the same reads for an engine that has so many tasks for the ranges of a batch.

        If partitions may be ``divided``, several tasks read one, each a range of it, in the order of the ranges.
        """
        return self

    def open_partitions(self, reached: Offsets, latest: Mapping[str, Any]) -> OpenPartitions:
        """Returns the partitions that have elements, or may get some, after the offsets that a batch reaches."""
        existing = [name for name in reached if name in latest]
        waiting = [name for name in existing if reached[name][1] != latest[name]]
        return OpenPartitions(waiting if self.is_bounded else existing, waiting)

    def backlog(self, reached: Offsets, latest: Mapping[str, Any]) -> Backlog | None:
        """Returns how much there is to read after the offsets that a batch reaches; None: offsets are no numbers."""
        behind = [(last, reached[name][1]) for name, last in latest.items() if name in reached]
        if not all(type(offset) is int for pair in behind for offset in pair):
            return None
        return Backlog(sum(max(0, last - done) for last, done in behind), "offsets")

    def advance_but(self, held: Collection[str], start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Does what :meth:`advance` does, but reads no elements of partitions that are ``held`` back."""
        return self.advance(start, {**latest, **{name: start[name][1] for name in held if name in start}})

    def check_end(self, done: Offsets, latest: Mapping[str, Any]) -> None:  # noqa: B027  nothing to check by default
        """Refuses a source that returned an empty batch before it reached its latest offsets."""

    def to_the_end(
        self, held: Callable[[], Collection[str]] = tuple, start: Offsets | None = None
    ) -> Iterator[tuple[list[Range], dict[str, list[Any]], OpenPartitions]]:
        """Yields the ranges of batches from ``start``, or the initial offsets, up to the current latest offsets.

        Each comes with the offsets that it reaches, and the partitions that are open after it. ``held`` is asked before
        each for the partitions of which it reads nothing; if there are no others, it has no ranges.
        """
        latest = self.latest()
        reached: Offsets = start or {}
        while True:
            waits = held()
            ranges = self.ranges(reached, following := self.advance_but(waits, reached, latest))
            if not ranges and not waits:
                break
            yield ranges, following, self.open_partitions(following, latest)
            reached = following
        self.check_end(following, latest)

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """Returns the ranges that a batch reads; partitions without new elements are left out."""
        ranges = (
            Range(name, start[name][1] if name in start else begin, reached, *incarnation)
            for name, (begin, reached, *incarnation) in end.items()
        )
        return [each for each in ranges if each.start != each.end]


@dataclass(frozen=True)
class CountedReads(Reads):
    """Reads a fixed number of files, elements or rows, which offsets count."""

    per_batch: int | None

    @abstractmethod
    def count(self) -> int:
        """Returns how many there are."""

    @property
    def is_bounded(self) -> bool:
        return True

    def partitions(self) -> list[str]:
        return [ALL]

    def latest(self) -> dict[str, Any]:
        return {ALL: self.count()}

    def advance(self, start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        reached, last = start[ALL][1] if start else 0, latest[ALL]
        # A collection that has become shorter since the last run has nothing left.
        return {ALL: [0, max(reached, last if self.per_batch is None else min(last, reached + self.per_batch))]}

    def commit(self, offsets: Offsets) -> None:
        """Does nothing: what is read stays where it is."""


@dataclass(frozen=True)
class RowReads(CountedReads):
    """Reads elements or rows of the program."""

    size: int
    rows: Callable[[int, int], Iterator[Any]]

    def count(self) -> int:
        return self.size

    def read(self, range_: Range) -> Iterator[Any]:
        yield from self.rows(range_.start, range_.end)
