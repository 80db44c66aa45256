"""What readers of sources give: elements, and the records that do not fit their type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar

from windrow import sources
from windrow_runtime.codecs.malformed import MalformedRecord, UnmatchedHeader, as_malformed, malformed_error

P = TypeVar("P")

_RECORDS_AT_ONCE: Final = 4096
_NO_ELEMENTS: Final = frozenset({MalformedRecord, UnmatchedHeader, sources.MalformedRecord})


@dataclass(slots=True)
class SourceBatch:
    """Elements, records that do not fit their type, and headers to warn of, with the first file of each."""

    values: list[Any] = field(default_factory=list)  # elements of every type
    malformed: list[sources.MalformedRecord] = field(default_factory=list)
    unmatched: dict[str, str] = field(default_factory=dict)

    def refuse_malformed(self, where: str) -> None:
        """Raises a ``MalformedRecordError`` for the first malformed record, with the source and its origin."""
        for record in self.malformed:
            raise malformed_error(record).at(f"{where}, {record.origin}")

    def add(self, other: SourceBatch) -> None:
        """Takes what another batch holds."""
        self.values += other.values
        self.malformed += other.malformed
        self.unmatched = other.unmatched | self.unmatched


def source_batch(found: Iterable[tuple[P, object]], origin: Callable[[P], str], header: str = "") -> SourceBatch:
    """Sets apart what a codec gives in the place of elements; ``origin`` describes the place of a record."""
    given = list(found)
    batch = SourceBatch([value for _, value in given if type(value) not in _NO_ELEMENTS])
    if len(batch.values) < len(given):
        for place, value in given:
            if isinstance(value, UnmatchedHeader):
                batch.unmatched[value.reason] = header
            elif isinstance(value, MalformedRecord):
                batch.malformed.append(as_malformed(value, origin(place)))
            elif isinstance(value, sources.MalformedRecord):
                batch.malformed.append(value)
    return batch


def in_batches(
    found: Iterable[tuple[P, object]], origin: Callable[[P], str], header: str = ""
) -> Iterator[SourceBatch]:
    """As :func:`source_batch`, in batches of some thousands."""
    rest = iter(found)
    while some := list(islice(rest, _RECORDS_AT_ONCE)):
        yield source_batch(some, origin, header)
