"""The elements and the malformed records that both engines read from a source at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from windrow.sources import MalformedRecord

__all__ = ["SourceBatch", "in_batches"]

_RECORDS_AT_ONCE: Final = 4096


@dataclass(slots=True)
class SourceBatch:
    """Elements, records that do not fit their type, and headers to warn of, with the first file of each."""

    values: list[Any] = field(default_factory=list)  # elements of every type
    malformed: list[MalformedRecord] = field(default_factory=list)
    unmatched: dict[str, str] = field(default_factory=dict)


def in_batches(found: Iterable[object]) -> Iterator[SourceBatch]:
    """Gives elements in batches of some thousands, with malformed records set apart."""
    rest = iter(found)
    while some := list(islice(rest, _RECORDS_AT_ONCE)):
        malformed = [each for each in some if isinstance(each, MalformedRecord)]
        values = [each for each in some if not isinstance(each, MalformedRecord)] if malformed else some
        yield SourceBatch(values, malformed)
