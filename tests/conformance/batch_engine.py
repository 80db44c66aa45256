"""Runs scripts in batches: each step is a batch of a real run, as a user would start it.

Several scripts are one query where that changes nothing for any of them, see :mod:`tests.conformance.batch_queries`. A
query that fails is split until the script that failed it is alone.

A snapshot is restored by ending the run, and going on from its checkpoint with a new runner and a new plan.

What such a run cannot tell is not compared: the state that is kept, and the calls of triggers, which are in other
processes. The elements that were dropped are counted for a whole case, not for each step. Everything else is compared
as on the harness.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from tests.conformance.batch_plan import EMITS, LATE_ELEMENTS, SIDE_OUTPUT, Chunk, Part, Seen, case_of, pipeline_of
from tests.conformance.batch_queries import Placed, queries_of
from tests.conformance.elements import Element, Record
from tests.conformance.engines import ElementStep, Observed, Script, Told, WatermarkStep
from windrow import Pipeline
from windrow_runtime.outputs.result import PipelineResult

__all__ = ["BatchEngine", "Runner", "StartRunner"]


class Runner(Protocol):
    """Runs pipelines over bounded input."""

    def run(self, pipeline: Pipeline, *, drain: bool) -> PipelineResult:
        """Run to the end of the sources."""
        ...


StartRunner: TypeAlias = Callable[[Path, Callable[[], int]], Runner]
"""Makes a runner with a checkpoint in the given folder, and with the given clock."""


class BatchEngine:
    """Runs scripts in batches.

    Args:
        start: Makes runners.
    """

    tells_calls = False

    def __init__(self, start: StartRunner) -> None:
        self._start = start

    def run(self, scripts: Sequence[Script]) -> list[Told]:
        told: dict[int, Told] = {}
        for query in queries_of([Placed(script, place) for place, script in enumerate(scripts)]):
            told |= self._run(query)
        return [told[place] for place in range(len(scripts))]

    def _run(self, query: list[Placed[Script]]) -> dict[int, Told]:
        run = _Run(self._start, query)
        error = run.run()
        if error is None or len(query) == 1:
            return {placed.place: run.told(number, error) for number, placed in enumerate(query)}
        # Somebody's step failed, and took the others down.
        middle = len(query) // 2
        return self._run(query[:middle]) | self._run(query[middle:])


class _Run:
    """A query, and what it gave."""

    def __init__(self, start: StartRunner, query: Sequence[Placed[Script]]) -> None:
        self._start = start
        self._query = query
        self._end = max(placed.end for placed in query)
        self._clocks = max((placed.clocks() for placed in query), key=len)
        self._chunk_of: dict[int, int] = {}
        self._seen: dict[int, list[Seen]] = {}
        self._dropped: defaultdict[int, int] = defaultdict(int)

    def run(self) -> Exception | None:
        """Run the query.

        Returns:
            Why it failed; None: it did not.
        """
        restores = {chunk for placed in self._query for chunk in placed.restores()}
        with tempfile.TemporaryDirectory(prefix="windrow-", ignore_cleanup_errors=True) as folder:
            for end in (*sorted(restores), self._end):
                try:
                    self._run_until(end, Path(folder))
                except Exception as error:  # whatever a step raises is what a case may be about
                    return error
        return None

    def _run_until(self, end: int, checkpoint: Path) -> None:
        runner = self._start(checkpoint, self._next_clock)
        pipeline = pipeline_of(
            [placed.script for placed in self._query],
            [self._chunk(number) for number in range(end)],
            self._take_chunk,
            self._take_seen,
        )
        self._count_dropped(runner.run(pipeline, drain=False))

    def _chunk(self, number: int) -> Chunk:
        parts = [Part(case) for case in range(len(self._query))] if number == 0 else []
        for case, placed in enumerate(self._query):
            step, following = placed.step_at(number), placed.step_at(number + 1)
            if isinstance(step, ElementStep):
                parts.append(Part(case, step.element, step.timestamp))
            if isinstance(following, WatermarkStep):
                parts.append(Part(case, watermark=following.timestamp))
        return Chunk(number, tuple(parts))

    # Called on the driver, while the query runs

    def _next_clock(self) -> int:
        following = max(self._chunk_of.values(), default=-1) + 1
        return self._clocks[min(following, len(self._clocks) - 1)]

    def _take_chunk(self, batch: int, numbers: Sequence[int]) -> None:
        (self._chunk_of[batch],) = numbers

    def _take_seen(self, batch: int, seen: Sequence[Seen]) -> None:
        self._seen[batch] = list(seen)

    def _count_dropped(self, result: PipelineResult) -> None:
        for step, counters in result.counters.items():
            case = case_of(step)
            if case is not None:
                self._dropped[case] += counters.get("late_records_dropped", 0)

    # What there was

    def told(self, case: int, error: Exception | None) -> Told:
        """What there is to tell of a case."""
        placed = self._query[case]
        seen = self._by_chunk(case)
        reached = max(self._chunk_of.values(), default=-1) + 1
        steps: list[Observed] = []
        watermark: int | None = None
        for chunk in range(placed.begin, placed.end):
            if error is not None and chunk == max(reached, placed.begin):
                return Told([*steps, Observed(error=error)])
            step = placed.step_at(chunk)
            observed = Observed()
            for one in seen[chunk]:
                watermark = one.watermark
                behind = isinstance(step, WatermarkStep) and one.watermark >= step.timestamp
                _note(one, observed, behind=behind)
            observed.watermark = watermark
            steps.append(observed)
        if error is not None:
            steps[-1] = Observed(error=error)
        return Told(steps, self._dropped[case])

    def _by_chunk(self, case: int) -> defaultdict[int, list[Seen]]:
        found: defaultdict[int, list[Seen]] = defaultdict(list)
        chunk = 0
        for batch in sorted(self._chunk_of.keys() | self._seen.keys()):
            # A batch without a chunk has nothing to give. What it gives anyhow is held against the step before.
            chunk = self._chunk_of.get(batch, chunk)
            found[chunk] += [one for one in self._seen.get(batch, ()) if one.case == case]
        return found


def _note(seen: Seen, observed: Observed, *, behind: bool) -> None:
    if seen.kind == EMITS:
        observed.emits.append((Record(seen.key, seen.value, seen.window), seen.timestamp))
        observed.overtaken += behind
    elif seen.kind == LATE_ELEMENTS:
        observed.late.append((Element(seen.key, seen.value, seen.window), seen.timestamp))
    elif seen.kind == SIDE_OUTPUT:
        observed.side.append((seen.value, seen.timestamp))
