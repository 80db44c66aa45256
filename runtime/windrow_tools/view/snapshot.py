"""Defines what a view shows of a run at one moment. Times are in milliseconds since 1970, UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

RunState: TypeAlias = Literal["waiting", "running", "ended", "failed"]
"""Whether no batch is done yet, the run goes on, has ended, or has failed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A batch, as a chart shows it.

    Attributes:
        batch: Its number.
        at: Processing time at its end.
        rows: How many rows its sources read.
        rows_per_second: The rows by the time since the end of the batch before; of the first one by its duration.
        duration_ms: How long it took.
        lag_ms: How far the watermark of a step is behind, at most; None: there is no watermark.
    """

    batch: int
    at: int
    rows: int
    rows_per_second: float
    duration_ms: int
    lag_ms: int | None


@dataclass(frozen=True, slots=True)
class StepSnapshot:
    """A source, a keyed step or a sink.

    Attributes:
        step: Its id.
        title: Its number, its kind and its name.
        records_in: How many records it took in the newest batch.
        records_out: How many elements it gave to its main output in the newest batch.
        total_in: How many records it took in all batches of the history.
        late: How many elements came too late for it, in all these batches.
        malformed: How many records did not fit, in all these batches.
        dropped: How many elements it dropped, by the name of the counter, since the start of the run; in all batches of
            the history if nobody has told the counters of the run.
        open_windows: As a report has it, and so the next three.
        timers: See there.
        state_bytes: See there.
        watermark: See there.
        lag_ms: See there.
        form: In which form it runs, without the reasons why it is no faster one; None: it has no form.
    """

    step: str
    title: str
    records_in: int
    records_out: int
    total_in: int
    late: int
    malformed: int
    dropped: Mapping[str, int]
    open_windows: int | None
    timers: int | None
    state_bytes: int | None
    watermark: int | None
    lag_ms: int | None
    form: str | None


@dataclass(frozen=True, slots=True)
class OpenWindows:
    """The windows of a step that its watermark leaves open, as the plan tells them: nobody looks into the state.

    Attributes:
        step: The id of the step.
        watermark: Its watermark.
        newest: The highest timestamp so far, at least, as the watermark tells it.
        first: The start of the earliest window.
        last: The end of the latest window.
        spans: The start and the end of each window, where there are few and their places are fixed; else nothing.
        number: How many windows there are at these places; None for sessions, whose places are not fixed.
    """

    step: str
    watermark: int
    newest: int
    first: int
    last: int
    spans: tuple[tuple[int, int], ...]
    number: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a view shows of a run at one moment.

    Attributes:
        pipeline: The name of the pipeline.
        state: Whether it runs.
        error: Why it has failed; None: it has not.
        batch: The number of the newest batch; None: there is none.
        first_batch: The number of the first batch of the history, from which totals count.
        rows: How many rows the sources have read in all batches of the history.
        late: How many elements came too late, in all these batches.
        malformed: How many records did not fit, in all these batches.
        dropped: How many elements steps dropped; see there.
        watermark: The lowest watermark of the steps; None: there is none.
        is_drained: Whether the stream is at its end, so that there is no watermark any more.
        samples: The newest batches, oldest first.
        steps: The steps that reports tell of.
        windows: The open windows of the steps whose plan tells them.
    """

    pipeline: str
    state: RunState
    error: str | None
    batch: int | None
    first_batch: int | None
    rows: int
    late: int
    malformed: int
    dropped: int
    watermark: int | None
    is_drained: bool
    samples: tuple[Sample, ...]
    steps: tuple[StepSnapshot, ...]
    windows: tuple[OpenWindows, ...]

    @property
    def newest(self) -> Sample | None:
        """The newest batch."""
        return self.samples[-1] if self.samples else None
