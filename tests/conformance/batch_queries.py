"""Which scripts run as one query.

Scripts run together where that changes nothing for any of them: each has its own steps, keys and watermark, and what
they share is the clock and the moments at which the query is stopped. So scripts run together that

- set the clock alike, as far as the shorter one goes, or never;
- restore a snapshot at the same step, or never. A script that restores earlier begins so many batches later.

A script that may fail runs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from tests.conformance.engines import ClockStep, RestoreStep
from windrow.time import MIN_TIMESTAMP


class AnyScript(Protocol):
    """The steps of a case, of one input or of two."""

    @property
    def steps(self) -> Sequence[object]:
        """What happens, in order."""
        ...

    @property
    def may_fail(self) -> bool:
        """Whether a step is expected to fail."""
        ...


S = TypeVar("S", bound=AnyScript)


@dataclass(frozen=True)
class Placed(Generic[S]):
    """A script in a query."""

    script: S
    place: int  # among all scripts
    begin: int = 1  # the chunk of its first step; the chunk before has the marker for it

    @property
    def end(self) -> int:
        """The chunk behind its last step."""
        return self.begin + len(self.script.steps)

    def step_at(self, chunk: int) -> object:
        place = chunk - self.begin
        return self.script.steps[place] if 0 <= place < len(self.script.steps) else None

    def clocks(self) -> list[int]:
        """The clock in each chunk."""
        clocks: list[int] = []
        now = MIN_TIMESTAMP
        for chunk in range(self.end):
            step = self.step_at(chunk)
            if isinstance(step, ClockStep):
                now = step.timestamp
            clocks.append(now)
        return clocks

    def restores(self) -> list[int]:
        """The chunks in which a snapshot is restored."""
        return [chunk for chunk in range(self.end) if isinstance(self.step_at(chunk), RestoreStep)]


def queries_of(scripts: Sequence[Placed[S]]) -> list[list[Placed[S]]]:
    """Sort scripts into queries. The order of queries, and of scripts within one, is free."""
    alone: list[list[Placed[S]]] = []
    plain: list[Placed[S]] = []
    restoring: list[Placed[S]] = []
    by_clock: list[list[Placed[S]]] = []
    # The longest first, so that the clocks of a query are those of its first script.
    for placed in sorted(scripts, key=lambda placed: -placed.end):
        clocks, restores = placed.clocks(), placed.restores()
        sets_clock = set(clocks) != {MIN_TIMESTAMP}
        if placed.script.may_fail or len(restores) > 1 or (sets_clock and restores):
            alone.append([placed])
        elif sets_clock:
            for query in by_clock:
                if query[0].clocks()[: len(clocks)] == clocks:
                    query.append(placed)
                    break
            else:
                by_clock.append([placed])
        else:
            (restoring if restores else plain).append(placed)
    if restoring:
        latest = max(placed.restores()[0] for placed in restoring)
        restoring = [replace(placed, begin=placed.begin + latest - placed.restores()[0]) for placed in restoring]
    return [query for query in (plain, restoring, *by_clock, *alone) if query]
