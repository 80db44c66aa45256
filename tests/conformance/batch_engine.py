"""Runs scripts in batches: each step is a batch of a real run, as a user would start it.

Several scripts are one query where that changes nothing for any of them, see :mod:`tests.conformance.batch_queries`. A
query that fails is split until the script that failed it is alone. A snapshot is restored by ending the run, and going
on from its checkpoint with a new runner and a new plan.

What such a run cannot tell is not compared: the state that is kept, and the calls of triggers, which are in other
processes. The elements that were dropped are counted for a whole case, not for each step. Everything else is compared
as on the harness.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from tests.conformance.batch_plan import (
    EMITS,
    LATE_ELEMENTS,
    PATIENCE,
    SIDE_OUTPUT,
    Chunk,
    Part,
    Seen,
    case_of,
    pipeline_of,
)
from tests.conformance.batch_queries import Placed, queries_of
from tests.conformance.elements import Element, Record
from tests.conformance.engines import (
    ClockStep,
    ElementStep,
    Observed,
    RestoreStep,
    Script,
    StatusStep,
    Told,
    WatermarkStep,
)
from windrow import Pipeline
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.outputs.result import PipelineResult


class Runner(Protocol):
    """Runs pipelines over bounded input."""

    def run(self, pipeline: Pipeline, *, drain: bool) -> PipelineResult:
        """Run to the end of the sources."""
        ...


StartRunner: TypeAlias = Callable[[Path, Callable[[], int]], Runner]
"""Makes a runner with a checkpoint in the given folder, and with the given clock."""


class BatchEngine:
    """Runs scripts in batches, on runners that ``start`` makes."""

    tells_calls = False

    def __init__(self, start: StartRunner) -> None:
        self._start = start

    def run(self, scripts: Sequence[Script]) -> list[Told]:
        told: dict[int, Told] = {}
        placed = [Placed(_Batches.of(script), place) for place, script in enumerate(scripts)]
        for query in queries_of(placed):
            told |= self._run(query)
        return [told[place] for place in range(len(scripts))]

    def _run(self, query: list[Placed[_Batches]]) -> dict[int, Told]:
        try:
            run = _Run(self._start, query)
            error = run.run()
        except Exception as unbuilt:  # whatever is raised is the outcome of a case
            if len(query) == 1:
                return {query[0].place: Told(unbuilt=unbuilt)}
        else:
            if error is None or len(query) == 1:
                return {placed.place: run.told(number, error) for number, placed in enumerate(query)}
        # Somebody's step failed, and took the others down.
        middle = len(query) // 2
        return self._run(query[:middle]) | self._run(query[middle:])


@dataclass(frozen=True)
class _Watermarks:
    """The watermarks that inputs have from this chunk on: pairs of an input and its watermark."""

    advances: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Batches:
    """A script as batches."""

    script: Script
    steps: tuple[object, ...]  # what each batch does
    origins: tuple[int, ...]  # which step of the script each batch belongs to

    @property
    def may_fail(self) -> bool:
        return self.script.may_fail

    @property
    def has_status(self) -> bool:
        """Whether an input becomes idle."""
        return any(isinstance(step, StatusStep) for step in self.steps)

    @classmethod
    def of(cls, script: Script) -> _Batches:
        batches = [(number, step) for number, each in enumerate(_anew_behind_restores(script)) for step in each]
        return cls(script, tuple(step for _, step in batches), tuple(number for number, _ in batches))

    def idle_at(self, batch: int) -> set[int]:
        """The inputs that are idle in a batch."""
        idle: set[int] = set()
        for step in self.steps[: batch + 1]:
            if isinstance(step, StatusStep):
                (idle.add if step.is_idle else idle.discard)(step.side)
        return idle


def _anew_behind_restores(script: Script) -> Iterator[tuple[object, ...]]:
    """The batches of each step.

    An input becomes idle behind a batch in which the clock goes on.

    Whether watermarks survive a restore is not tested, but a case may take it that they do not: the step under test
    has no watermark then until both inputs have said theirs. Here they survive, so what the first input says waits for
    the other one.
    """
    waiting: dict[int, int] = {}
    silent: set[int] = set()
    clock = 0
    for step in script.steps:
        if isinstance(step, StatusStep):
            clock += 2 * PATIENCE
            silent.discard(step.side)
            yield (ClockStep(clock), step) if step.is_idle else (step,)
        elif isinstance(step, WatermarkStep):
            silent.discard(step.side)
            waiting[step.side] = max(step.timestamp, waiting.get(step.side, MIN_TIMESTAMP))
            yield (_Watermarks(() if silent else tuple(waiting.items())),)
            waiting = waiting if silent else {}
        else:
            if isinstance(step, RestoreStep):
                waiting, silent = {}, set(range(1, script.pipeline.inputs + 1))
            yield (step,)


class _Run:
    """A query, and what it gave."""

    def __init__(self, start: StartRunner, query: Sequence[Placed[_Batches]]) -> None:
        self._start = start
        self._query = query
        self._end = max(placed.end for placed in query)
        self._clocks = max((placed.clocks() for placed in query), key=len)
        self._chunk_of: dict[int, int] = {}
        self._seen: dict[int, list[Seen]] = {}
        self._dropped: defaultdict[int, int] = defaultdict(int)

    def run(self) -> Exception | None:
        """Run the query; returns why it failed, if it did. A pipeline that cannot be built raises."""
        restores = {chunk for placed in self._query for chunk in placed.restores()}
        with tempfile.TemporaryDirectory(prefix="windrow-", ignore_cleanup_errors=True) as folder:
            for end in (*sorted(restores), self._end):
                pipeline = pipeline_of(
                    [placed.script.script for placed in self._query],
                    [self._chunk(number) for number in range(end)],
                    self._take_chunk,
                    self._take_seen,
                )
                try:
                    runner = self._start(Path(folder), self._next_clock)
                    self._count_dropped(runner.run(pipeline, drain=False))
                except Exception as error:  # whatever a step raises is what a case may be about
                    return error
        return None

    def _chunk(self, number: int) -> Chunk:
        parts = [Part(case) for case in range(len(self._query))] if number == 0 else []
        for case, placed in enumerate(self._query):
            step, following = placed.step_at(number), placed.step_at(number + 1)
            if isinstance(step, ElementStep):
                parts.append(Part(case, step.side, step.element, step.timestamp))
            if isinstance(following, _Watermarks):
                parts += (Part(case, side, watermark=watermark) for side, watermark in following.advances)
            if placed.script.has_status:
                idle = placed.script.idle_at(number + 1 - placed.begin)
                parts += (Part(case, side) for side in (1, 2) if side not in idle)
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
        steps: list[Observed] = [Observed() for _ in placed.script.script.steps]
        watermark = MIN_TIMESTAMP
        for chunk, origin in zip(range(placed.begin, placed.end), placed.script.origins, strict=True):
            observed = steps[origin]
            if error is not None and chunk == max(reached, placed.begin):
                observed.error = error
                return Told(steps[: origin + 1])
            before = watermark
            for one in seen[chunk]:
                watermark = max(watermark, one.watermark)
                _note(one, observed, before)
            observed.watermark = watermark
            observed.advanced |= watermark > before
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


def _note(seen: Seen, observed: Observed, watermark: int) -> None:
    """Note what was seen in a batch before which the step downstream had ``watermark``."""
    if seen.kind == EMITS:
        observed.emits.append((Record(seen.key, seen.value, seen.window), seen.timestamp))
        observed.overtaken += seen.watermark > watermark
    elif seen.kind == LATE_ELEMENTS:
        observed.late.append((int(seen.window), Element(seen.key, seen.value), seen.timestamp))
    elif seen.kind == SIDE_OUTPUT:
        observed.side.append((seen.key, seen.value, seen.timestamp))
