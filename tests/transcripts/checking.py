"""Compares the panes that came out with those that a transcript expects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Any in this module: what JSON holds.


class UnmatchedPaneError(AssertionError):
    """A pane that was expected did not come out."""


class UnexpectedPaneError(AssertionError):
    """A pane came out that nobody expected."""


@dataclass(frozen=True)
class Pane:
    """A pane that came out, with the fields of a transcript."""

    window: object
    values: list[Any]
    timestamp: int | None
    window_max: int
    timing: str
    index: int
    nonspeculative_index: int
    first: bool
    final: bool
    kind: str = "+I"  # of the change, as Flink writes it

    @property
    def is_withdrawal(self) -> bool:
        """Returns whether it is an earlier pane, taken back."""
        return self.kind.startswith("-")

    def fits(self, expected: Mapping[str, Any]) -> bool:
        """Returns whether all fields that are expected are as expected."""
        return all(self._fits(name, value) for name, value in expected.items())

    def _fits(self, name: str, value: Any) -> bool:
        if name == "sum":
            return bool(sum(self.values) == value)
        if name == "timing":
            return self.timing in ([value] if isinstance(value, str) else value)
        if name == "timestamp" and value == "window_max":
            return self.timestamp == self.window_max
        if name == "values":
            return self.values == sorted(value)
        return bool(getattr(self, name) == value)


def compare(panes: Sequence[Pane], expected: Sequence[Mapping[str, Any]]) -> None:
    """Matches panes with expected ones, in any order."""
    if not _match(list(panes), list(expected)):
        raise UnmatchedPaneError(f"expected {list(expected)}, came {_shown(panes)}")
    if len(panes) > len(expected):
        raise UnexpectedPaneError(f"expected {list(expected)}, came {_shown(panes)}")


def _match(panes: list[Pane], expected: list[Mapping[str, Any]]) -> bool:
    """Returns whether each expected pane can have a pane of its own."""
    if not expected:
        return True
    first, *rest = expected
    return any(
        pane.fits(first) and _match([*panes[:place], *panes[place + 1 :]], rest) for place, pane in enumerate(panes)
    )


def _shown(panes: Collection[Pane]) -> str:
    return "nothing" if not panes else "; ".join(map(str, panes))
