"""Keeps what a run has reported so far, for the views that show it."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from windrow.plan import Form, Pipeline
from windrow_runtime.operators.outcome import losses_in
from windrow_tools.view.open_windows import open_windows
from windrow_tools.view.snapshot import RunState, Sample, Snapshot, StepSnapshot

if TYPE_CHECKING:
    # The interpreter's users need no Spark, and nor do views.
    from windrow_spark import PipelineProgress

_SAMPLES: Final = 120


class RunHistory:
    """Keeps the reports on the batches of one run, and how it ended. Any thread may call its methods.

    ``SparkRunner(on_progress=history.add)`` fills one, for a run that has no
    :class:`~windrow_runtime.spark.RunningPipeline`.

    Args:
        pipeline: The pipeline.
        forms: The form in which each keyed step runs, by step id, as ``runner.forms(pipeline)`` gives them.
    """

    def __init__(self, pipeline: Pipeline, forms: Mapping[str, Form] | None = None) -> None:
        self.pipeline = pipeline
        self._forms = dict(forms or {})
        self._steps = {step.id: step for step in pipeline.steps}
        self._sources = [step.id for step in pipeline.steps if step.node.is_source]
        self._changed = threading.Condition(threading.RLock())
        self._version = 0
        self._state: RunState = "waiting"
        self._error: str | None = None
        self._report: PipelineProgress | None = None
        self._first_batch: int | None = None
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES)
        self._totals: Counter[tuple[str, str]] = Counter()
        self._losses: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by the reports
        self._counters: Mapping[str, Mapping[str, int]] | None = None

    def forms(self, pipeline: Pipeline) -> Mapping[str, Form]:
        """Returns the form in which each keyed step runs, for ``pipeline.explain(history)``."""
        return self._forms

    def add(self, report: PipelineProgress) -> None:
        """Takes the report on a batch; one on a batch that is no newer than the newest one is passed over."""
        with self._changed:
            before = self._report
            if before is not None and report.batch <= before.batch:
                return
            self._report = report
            if self._first_batch is None:
                self._first_batch = report.batch
            if self._state == "waiting":
                self._state = "running"
            for step, work in report.steps.items():
                self._totals.update(
                    {(step, "in"): work.records_in, (step, "late"): work.late, (step, "malformed"): work.malformed}
                )
                self._losses[step].update(work.dropped)
            rows = sum(report.steps[source].records_in for source in self._sources)
            between = report.duration_ms if before is None else report.ended_at - before.ended_at
            # A clock of a test's may stand still.
            rate = rows / (between if between > 0 else max(report.duration_ms, 1)) * 1_000
            lags = [work.lag_ms for work in report.steps.values() if work.lag_ms is not None]
            lag = max(lags, default=None)
            self._samples.append(Sample(report.batch, report.ended_at, rows, rate, report.duration_ms, lag))
            self.change()

    def count(self, counters: Mapping[str, Mapping[str, int]]) -> None:
        """Takes the counters since the start of the run, by step id and name; reports may have begun later."""
        with self._changed:
            if counters != self._counters:
                self._counters = counters
                self.change()

    def end(self, error: BaseException | None = None) -> None:
        """Takes note that the run has ended, or has failed with an error; the first call counts."""
        with self._changed:
            if self._state not in {"ended", "failed"}:
                self._state = "ended" if error is None else "failed"
                self._error = None if error is None else str(error) or type(error).__name__
                self.change()

    @property
    def is_over(self) -> bool:
        """Returns whether the run has ended or failed."""
        return self._state in {"ended", "failed"}

    @property
    def version(self) -> int:
        """A number that grows with each change."""
        return self._version

    def wait(self, version: int, timeout_seconds: float) -> int:
        """Waits some seconds until there is a newer version than the given one; returns the version that there is."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version, timeout_seconds)
            return self._version

    def change(self) -> None:
        """Counts a change, which views show."""
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def snapshot(self) -> Snapshot:
        """Returns what there is to show now."""
        with self._changed:
            report = self._report
            steps = () if report is None else tuple(self._step(step) for step in self._steps if step in report.steps)
            watermarks = [step.watermark for step in steps if step.watermark is not None]
            dropped = {step: losses_in(counters) for step, counters in self._counted().items()}
            windows = (open_windows(self._steps[step.step], step.watermark) for step in steps)
            return Snapshot(
                pipeline=self.pipeline.name,
                state=self._state,
                error=self._error,
                batch=None if report is None else report.batch,
                first_batch=self._first_batch,
                rows=sum(self._totals[source, "in"] for source in self._sources),
                late=sum(step.late for step in steps),
                malformed=sum(step.malformed for step in steps),
                dropped=sum(sum(losses.values()) for losses in dropped.values()),
                watermark=min(watermarks, default=None),
                is_drained=report is not None and report.ended,
                samples=tuple(self._samples),
                steps=steps,
                windows=tuple(each for each in windows if each is not None),
            )

    def _counted(self) -> Mapping[str, Mapping[str, int]]:
        return self._losses if self._counters is None else self._counters

    def _step(self, step: str) -> StepSnapshot:
        assert self._report is not None
        work = self._report.steps[step]
        return StepSnapshot(
            step=step,
            title=self._steps[step].title,
            records_in=work.records_in,
            records_out=work.records_out,
            total_in=self._totals[step, "in"],
            late=self._totals[step, "late"],
            malformed=self._totals[step, "malformed"],
            dropped=losses_in(self._counted().get(step, {})),
            open_windows=work.open_windows,
            timers=work.timers,
            state_bytes=work.state_bytes,
            watermark=work.watermark,
            lag_ms=work.lag_ms,
            form=None if step not in self._forms else self._forms[step].name,
        )
