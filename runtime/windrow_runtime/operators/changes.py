"""Attaches the kind of a change to its value, in streams whose steps see only the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from windrow.panes import ChangeKind

# Any in this module: values of every type.


@dataclass(frozen=True, slots=True)
class Changed:
    """Wraps the value of a withdrawal or a replacement with its kind; a first result is not wrapped."""

    kind: ChangeKind
    value: Any


def as_change(kind: ChangeKind, value: Any) -> Any:
    """Wraps a value with the kind of its change, unless it is a first result."""
    return value if kind is ChangeKind.INSERT else Changed(kind, value)


def kind_of(element: Any) -> ChangeKind:
    """Returns the kind of an element in a stream of changes."""
    return element.kind if type(element) is Changed else ChangeKind.INSERT


def value_of(element: Any) -> Any:
    """Returns the value of an element in a stream of changes."""
    return element.value if type(element) is Changed else element


def runs_of(elements: Sequence[Any]) -> Iterator[tuple[ChangeKind, slice, list[Any]]]:
    """Yields the runs of changes of one kind: the kind, the slice of elements, and their values."""
    start = 0
    for kind, run in groupby(elements, kind_of):
        values = list(map(value_of, run))
        yield kind, slice(start, start + len(values)), values
        start += len(values)
