"""Counters of a step, and the context that rich functions get."""

from __future__ import annotations

from collections import Counter as Totals
from dataclasses import dataclass

from windrow.functions import Counter


class Metrics:
    """The counters of a step, by name.

    Attributes:
        totals: The counters.
        late: How many elements came too late, whether they were dropped or went to a side output.
    """

    def __init__(self) -> None:
        self.late = 0
        self.totals: Totals[str] = Totals()

    def count(self, name: str, n: int = 1) -> None:
        """Add ``n`` to a counter."""
        self.totals[name] += n

    def counter(self, name: str) -> Counter:
        """The counter of that name."""
        return _Counter(self.totals, name)

    def drain(self) -> dict[str, int]:
        """The counters so far, which begin at zero again."""
        taken = dict(self.totals)
        self.totals.clear()
        return taken


@dataclass(frozen=True, slots=True)
class _Counter:
    totals: Totals[str]
    name: str

    def inc(self, n: int = 1) -> None:
        self.totals[self.name] += n


@dataclass(slots=True)
class OperatorRuntimeContext:
    """Gives functions their step and its counters, and the key group, which the engine changes."""

    step_name: str
    metrics: Metrics
    key_group: int | None = None
