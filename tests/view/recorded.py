"""Reports as a run on Spark makes them, and a run that gives them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import WindrowError
from windrow.plan import Form
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.metrics.reports import StepProgress
from windrow_runtime.spark import PipelineProgress
from windrow_runtime.view import RunHistory

NOON = 1_772_366_400_000
"""2026-03-01, 12:00 UTC."""


class Click(NamedTuple):
    page: str
    at: int


def clicks_pipeline(name: str = "clicks") -> Pipeline:
    """Counts clicks in windows, of three kinds, and has names that would be markup in a page."""
    clicks = from_source(CollectionSource([], Click)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=30)), timestamp=lambda click: click.at
    )
    by_page = clicks.key_by(lambda click: click.page)
    minutes = by_page.window(TumblingEventTimeWindows.of(timedelta(minutes=1)))
    sliding = by_page.window(SlidingEventTimeWindows.of(timedelta(minutes=2), timedelta(seconds=30)))
    sessions = by_page.window(EventTimeSessionWindows.with_gap(timedelta(minutes=5)))
    return Pipeline(
        name,
        minutes.aggregate(agg.count(), name="<b>a minute</b> & [red]more[/red]").sink_to(CollectSink("minutes")),
        sliding.aggregate(agg.count(), name="sliding").sink_to(CollectSink("sliding")),
        sessions.aggregate(agg.count(), name="sessions").sink_to(CollectSink("sessions")),
    )


WINDOW = next(step.id for step in clicks_pipeline().steps if step.node.kind == "window")
"""The first step of windows."""


def report_of(
    pipeline: Pipeline,
    batch: int,
    *,
    late: int = 0,
    rows: int = 1_000,
    ended: bool = False,
    dropped: Mapping[str, int] | None = None,
) -> PipelineProgress:
    """The report on a batch: two seconds after the one before, of 800 milliseconds, half a minute of event time."""
    now = NOON + 2_000 * batch
    watermark = None if ended else NOON - 5 * 86_400_000 - 3 * 3_600_000 + 30_000 * batch
    steps: dict[str, StepProgress] = {}
    for step in pipeline.steps:
        kind = step.node.kind
        if kind == "source":
            steps[step.id] = StepProgress(records_in=rows, records_out=rows, malformed=batch % 2)
        elif kind == "window":
            steps[step.id] = StepProgress(
                records_in=rows,
                records_out=rows // 10,
                late=late,
                dropped=dropped or {},
                open_windows=40 + batch,
                timers=80,
                state_bytes=120_000 + 5_000 * (batch % 7),
                watermark=watermark,
                lag_ms=None if watermark is None else now - watermark,
            )
        elif kind == "sink":
            steps[step.id] = StepProgress(records_in=rows // 10)
    return PipelineProgress(batch, 800 + 100 * (batch % 5), now, ended, steps)


# Any: what the arguments of `report_of` are.
def history_of(*reports: Mapping[str, Any], first: int = 0, forms: Mapping[str, Form] | None = None) -> RunHistory:
    """The history of a run whose batches, from the first one on, have reports of which this is said."""
    pipeline = clicks_pipeline()
    history = RunHistory(pipeline, forms or {})
    for batch, said in enumerate(reports, first):
        history.add(report_of(pipeline, batch, **said))
    return history


class RecordedRun:
    """Gives recorded reports as a pipeline that runs does, until it is told to end or to fail."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.recent_progress: list[PipelineProgress] = []
        self.dropped: dict[str, dict[str, int]] = {}
        self.failure: WindrowError | None = None
        self._over = threading.Event()

    def report(self, batch: int, *, late: int = 0, rows: int = 1_000, ended: bool = False) -> None:
        report = report_of(self.pipeline, batch, late=late, rows=rows, ended=ended)
        self.recent_progress = [*self.recent_progress, report][-100:]

    @property
    def progress(self) -> PipelineProgress | None:
        return self.recent_progress[-1] if self.recent_progress else None

    def end(self, failure: WindrowError | None = None) -> None:
        self.failure = failure
        self._over.set()

    @property
    def is_active(self) -> bool:
        return not self._over.is_set()

    def forms(self, pipeline: Pipeline) -> Mapping[str, Form]:
        form = Form("on columns", ("not partially aggregated: so",))
        return {step.id: form for step in pipeline.steps if step.node.kind == "window"}

    def counters(self) -> Mapping[str, Mapping[str, int]]:
        return self.dropped

    def await_termination(self, timeout_seconds: float | None = None) -> bool:
        over = self._over.wait(timeout_seconds)
        if over and self.failure is not None:
            raise self.failure
        return over
