"""Defines the batches that readers of sources return: elements, and malformed records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from windrow import sources
from windrow_runtime.codecs.malformed import MalformedValue, UnmatchedHeader, as_malformed, malformed_error
from windrow_runtime.origins import Origin, Parts, counted_from, nowhere, origin_in, positions_of

# Any in this module: elements of every type, and pyarrow has no types.

P = TypeVar("P")

_RECORDS_AT_ONCE: Final = 4096
_NO_ELEMENTS: Final = frozenset({MalformedValue, UnmatchedHeader, sources.MalformedRecord})


class OpenPartitions(NamedTuple):
    """The partitions of a source that may have elements after a batch, as its planner knows them."""

    open: Collection[str]  # those that may have more elements; of files, those that are read
    waiting: Collection[str] = ()  # those that have elements which the batch does not read
    read: Collection[str] = ()  # those from which the batch reads, where somebody asks


class PartitionMark(NamedTuple):
    """A worker that reads a source yields this before the elements of each partition."""

    name: str
    open_partitions: OpenPartitions | None = None  # None: another mark of the batch has them
    is_read: bool = True  # whether the batch reads something from the partition


@dataclass(slots=True)
class SourceBatch:
    """Elements, malformed records, and file headers to warn of, with the first file that has each."""

    values: list[Any] = field(default_factory=list)
    malformed: list[sources.MalformedRecord] = field(default_factory=list)
    unmatched: dict[str, str] = field(default_factory=dict)
    origins: Parts = field(
        default_factory=list, compare=False, repr=False
    )  # of the elements, as far as the source can tell
    # How many elements came from each partition, one after the other, and which of these are open; None: not known.
    partitions: list[tuple[str, int]] = field(default_factory=list)
    open_partitions: OpenPartitions | None = None

    def refuse_malformed(self, where: str) -> None:
        """Raises a ``MalformedRecordError`` for the first malformed record, with the source and its origin."""
        for record in self.malformed:
            raise malformed_error(record).at(f"{where}, {record.origin}")

    def origin(self, index: int) -> str | None:
        """Describes where an element comes from, by its index; None if the source cannot tell."""
        return origin_in(self.origins, index)

    def add(self, other: SourceBatch) -> None:
        """Appends the contents of another batch."""
        count = len(self.values)
        if other.values and not other.origins and self.origins:
            self.origins.append((count, nowhere))
        self.origins += [(count + first, origin) for first, origin in other.origins]
        self.values += other.values
        self.malformed += other.malformed
        self.unmatched = other.unmatched | self.unmatched


def source_batch(
    positions_and_values: Iterable[tuple[P, object]], origin: Callable[[P], str], header: str = ""
) -> SourceBatch:
    """Divides what a codec returns into elements, malformed records and headers; ``origin`` describes a position."""
    records = list(positions_and_values)
    batch = SourceBatch([value for _, value in records if type(value) not in _NO_ELEMENTS])
    if batch.values:
        batch.origins.append((0, _origin_of(records, origin, len(batch.values))))
    if len(batch.values) < len(records):
        for position, value in records:
            if isinstance(value, UnmatchedHeader):
                batch.unmatched[value.reason] = header
            elif isinstance(value, MalformedValue):
                batch.malformed.append(as_malformed(value, origin(position)))
            elif isinstance(value, sources.MalformedRecord):
                batch.malformed.append(value)
    return batch


# Any: numbers among positions of every kind.
def _origin_of(records: Sequence[tuple[Any, object]], origin: Callable[[Any], str], count: int) -> Origin:
    first, last = records[0][0], records[-1][0]
    if count == len(records) and type(first) is int and type(last) is int and last - first == count - 1:
        return counted_from(first, (), origin)  # without a gap, so that the positions need not be kept
    return positions_of([position for position, value in records if type(value) not in _NO_ELEMENTS], origin)


def in_batches(
    positions_and_values: Iterable[tuple[P, object]], origin: Callable[[P], str], header: str = ""
) -> Iterator[SourceBatch]:
    """Does what :func:`source_batch` does, in batches of some thousands of records."""
    rest = iter(positions_and_values)
    while records := list(islice(rest, _RECORDS_AT_ONCE)):
        yield source_batch(records, origin, header)


def elements_of(batch: Any) -> SourceBatch:
    """Returns a batch with elements, which are decoded now if the reader returned columns."""
    return batch if isinstance(batch, SourceBatch) else SourceBatch(*batch.decode())
