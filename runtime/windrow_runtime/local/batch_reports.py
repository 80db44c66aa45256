"""Makes the report on each batch of the interpreter, for OpenTelemetry."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from windrow.errors import WindrowError
from windrow.plan import Step
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.inputs.reader import reader_of
from windrow_runtime.local.execution import Execution
from windrow_runtime.metrics.reports import Backlog, PipelineProgress, StepProgress
from windrow_runtime.metrics.telemetry import Telemetry
from windrow_runtime.operators.outcome import losses_in, secrets_of
from windrow_runtime.operators.state.counting import timers_in, windows_in
from windrow_runtime.operators.topology import Topology


class BatchReports:
    """Measures the batches of a run, and hands a report on each to OpenTelemetry, where an SDK takes it."""

    def __init__(self, name: str, topology: Topology, execution: Execution) -> None:
        self.telemetry = Telemetry(name, "local", self, secrets_of(topology.steps))
        self._topology = topology
        self._execution = execution
        self._batch = 0
        self._parts: dict[str, float] = {}
        self._before: dict[str, Counter[str]] = {}  # the counters of each step before the batch
        self._late: Counter[str] = Counter()
        self._read: Counter[str] = Counter()  # how many records of each source were read
        self._is_active = True

    def is_active(self) -> bool:
        """Returns whether the run goes on."""
        return self._is_active

    @contextmanager
    def during_run(self) -> Iterator[None]:
        """Tells the beginning and the end of the run, which is the block, and its failure."""
        self.telemetry.begin()
        failure: WindrowError | None = None
        try:
            yield
        except WindrowError as error:
            failure = error
            raise
        finally:
            self._is_active = False
            self.telemetry.end(failure)

    def backlog(self) -> Mapping[str, Backlog]:
        """Returns how many elements each collection or table has left, by step id."""
        counts = {step.id: reader_of(step).row_count for step in self._topology.sources}
        return {
            step: Backlog(max(0, count - self._read[step]), "offsets")
            for step, count in counts.items()
            if count is not None
        }

    def parts_before(self, batch: int) -> Mapping[str, float]:
        """Returns nothing: a report has all parts of its batch."""
        return {}

    @contextmanager
    def measured(self, part: str) -> Iterator[None]:
        """Measures the time of a part of the batch, which is the block."""
        begun = time.monotonic()
        yield
        self._parts[part] = self._parts.get(part, 0.0) + time.monotonic() - begun

    def end_batch(self, watermarks: Mapping[str, int], now: int) -> None:
        """Reports on a batch, after which steps have these watermarks, by their ids."""
        ended = any(watermark == MAX_TIMESTAMP for watermark in watermarks.values())
        if self.telemetry.is_wanted:
            steps = {step.id: self._progress(step, watermarks.get(step.id), now) for step in self._steps()}
            seconds = sum(self._parts.values())
            parts_ms = {part: round(each * 1000) for part, each in self._parts.items()}
            progress = PipelineProgress(self._batch, round(seconds * 1000), now, ended, steps, parts_ms)
            self.telemetry.report(progress, self._execution.step_metrics)
        self._batch += 1
        self._parts = {}

    def _steps(self) -> Iterator[Step]:
        topology = self._topology
        steps = (*topology.sources, *topology.keyed, *topology.dropping, *topology.sinks)
        reported = {step.id for step in steps}
        return (step for step in topology.steps if step.id in reported)

    def _progress(self, step: Step, watermark: int | None, now: int) -> StepProgress:
        execution = self._execution
        metrics = execution.metrics[step.id]
        before = self._before.get(step.id, Counter())
        counted = Counter({name: total - before[name] for name, total in metrics.totals.items()})
        self._before[step.id] = Counter(metrics.totals)
        late = metrics.late - self._late[step.id]
        self._late[step.id] = metrics.late
        given = execution.given[step.id]
        malformed = counted["records_malformed"]
        taken = given + malformed if step.node.reads is not None else execution.taken[step.id]
        self._read[step.id] += taken
        operator = execution.operators.get(step.id)
        reached = None if watermark in {MIN_TIMESTAMP, MAX_TIMESTAMP} else watermark
        return StepProgress(
            records_in=taken,
            records_out=given,
            late=late,
            malformed=malformed,
            dropped={name: count for name, count in losses_in(counted).items() if count},
            open_windows=None if operator is None or step.node.windows is None else windows_in(operator.state),
            timers=None if operator is None else timers_in(operator.state),
            watermark=reached,
            lag_ms=None if reached is None else now - reached,
        )
