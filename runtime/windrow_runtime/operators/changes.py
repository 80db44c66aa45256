"""Carries the kind of a change with its value, through streams whose steps see the values alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from windrow.panes import ChangeKind

# Any in this module: values of every type.


@dataclass(frozen=True, slots=True)
class Changed:
    """Wraps a withdrawal or a replacement with its kind; a first result travels as it is."""

    kind: ChangeKind
    value: Any


def as_change(kind: ChangeKind, value: Any) -> Any:
    """A value as an element of a stream of changes, where a first result stands as it is."""
    return value if kind is ChangeKind.INSERT else Changed(kind, value)


def kind_of(element: Any) -> ChangeKind:
    """The kind of an element of a stream of changes."""
    return element.kind if type(element) is Changed else ChangeKind.INSERT


def value_of(element: Any) -> Any:
    """The value of an element of a stream of changes."""
    return element.value if type(element) is Changed else element


def runs_of(elements: Sequence[Any]) -> Iterator[tuple[ChangeKind, slice, list[Any]]]:
    """Yields the runs of one kind in a stream of changes: the kind, the places, and the values."""
    start = 0
    for kind, run in groupby(elements, kind_of):
        values = list(map(value_of, run))
        yield kind, slice(start, start + len(values)), values
        start += len(values)
