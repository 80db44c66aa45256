"""What a sink of a program has to hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from windrow.panes import Change
from windrow.sinks import CollectSink


@dataclass(frozen=True)
class Answer:
    """The results of a sink, in any order. Any: results of all programs."""

    sink: CollectSink[Any]
    expected: Iterable[Any]
    read: Callable[[Iterable[Any]], Iterable[Any]] = field(default=list)  # what to make of the results before

    def check(self, results: Iterable[Any]) -> None:
        """Compares results of a run with the expected ones."""
        assert sorted(self.read(results), key=repr) == sorted(self.expected, key=repr)


def table(changes: Iterable[Change[Any]]) -> list[Any]:
    """The rows that are there after all changes."""
    rows: list[Any] = []
    for change in changes:
        if change.kind.is_withdrawal:
            rows.remove(change.value)
        else:
            rows.append(change.value)
    return rows
