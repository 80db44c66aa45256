"""Makes a progress report on each batch from the counts of its workers, and passes it to the log and the user.

Workers report the changes of a batch in the key groups that it touched, and no code reads the other groups. So the
keeper adds up the changes, and stores the sums in the checkpoint for the next run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import count
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from windrow.drawing.html import table
from windrow.drawing.svg import text
from windrow.errors import CheckpointError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, lag_text, now_millis
from windrow.triggers.call_text import call_text
from windrow_runtime.operators.outcome import losses_in
from windrow_runtime.operators.topology import Topology
from windrow_runtime.operators.watermarks import TimestampScale
from windrow_spark.checkpoint.storage import StoragePath
from windrow_spark.checkpoint.stored_file import StoredFile, StoredTime
from windrow_spark.clock import BatchClock, ClockFiles
from windrow_spark.exchange.facts import (
    LATE,
    OPEN_WINDOWS,
    RECORDS_IN,
    RECORDS_OUT,
    STATE_BYTES,
    TIMERS,
    WATERMARK,
    Count,
)
from windrow_spark.worker import current_batch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOG: Final = logging.getLogger("windrow")
_POLL_SECONDS: Final = 0.2
_TURNS_TO_ASK: Final = 10
_SUMS: Final = (OPEN_WINDOWS, TIMERS, STATE_BYTES)
_Numbers: TypeAlias = Annotated[list[int], msgspec.Meta(min_length=len(_SUMS), max_length=len(_SUMS))]


_After: TypeAlias = "Callable[[int], list[PipelineProgress]]"
OnProgress: TypeAlias = "Callable[[PipelineProgress], object]"
"""The user's function that is called with each report."""


@dataclass(frozen=True, slots=True)
class StepProgress:
    """The work of one batch in one step, and the step's state after it. Times are in milliseconds since 1970, UTC.

    Attributes:
        records_in: How many records the step took in the batch: those that a source read, malformed ones included;
            the elements that reached a keyed step or a sink.
        records_out: How many elements the step gave to its main output in the batch; 0 for a sink.
        late: How many elements of the batch came too late for the step, dropped or sent to a side output.
        malformed: How many records of the batch did not fit the type of the source.
        dropped: How many elements the step dropped in the batch, by the name of the counter, such as
            ``late_records_dropped``.
        open_windows: How many windows of all keys have elements or state stored after the batch. None for a step
            without windows, for tumbling and sliding windows that run on Arrow columns, which do not store each window
            by itself, and after a restart that does not find the sums of the previous run.
        timers: How many timers of all keys are set after the batch, in event time and in processing time. None for a
            step without keys or on Arrow columns, and after such a restart.
        state_bytes: How many bytes the state takes as it is stored, compressed. Long lists keep their older elements
            apart; these are not in it. None for a step without keys, and after such a restart.
        watermark: The watermark that the keyed step has reached, under which the next batch runs. None while there is
            none, at the end of the stream, for other steps, and after such a restart.
        lag_ms: How far the watermark is behind processing time, in milliseconds. None where there is no watermark.
    """

    records_in: int = 0
    records_out: int = 0
    late: int = 0
    malformed: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    open_windows: int | None = None
    timers: int | None = None
    state_bytes: int | None = None
    watermark: int | None = None
    lag_ms: int | None = None

    def __repr__(self) -> str:
        # Most fields of most steps have nothing to tell.
        values = {each.name: (getattr(self, each.name), getattr(_NO_WORK, each.name)) for each in fields(self)}
        texts = {name: str(value) for name, (value, none) in values.items() if value != none}
        return call_text("StepProgress", **texts)


_NO_WORK: Final = StepProgress()


@dataclass(frozen=True, slots=True, repr=False)
class PipelineProgress:
    """A report on one batch of a pipeline on Spark.

    Attributes:
        batch: The number of the batch. A batch that is run again after a failure is reported again.
        duration_ms: How long Spark computed the batch and the sinks wrote it, in milliseconds. What Spark does before
            and after that, such as asking the sources and committing the batch, is not in it.
        ended_at: Processing time at the end of the batch, in milliseconds since 1970, UTC: the runner's clock.
        ended: Whether the stream is at its end. Every window and timer in event time fires then, and no watermark is
            reported any more.
        steps: What the batch did in each source, keyed step and sink, by step id, in the order of the plan. Steps
            without state run within these, and have no report of their own.
    """

    batch: int
    duration_ms: int
    ended_at: int
    ended: bool
    steps: Mapping[str, StepProgress]

    def __repr__(self) -> str:
        count = len(self.steps)
        words = [f"batch {self.batch}", f"{count} {'step' if count == 1 else 'steps'}", *self._watermark()]
        words += [f"in {lag_text(self.duration_ms)}", *(["ended"] if self.ended else [])]
        return f"PipelineProgress({', '.join(words)})"

    def _repr_html_(self) -> str:
        """A table of the steps, for notebooks."""
        return f"<p>{text(repr(self))}</p>\n{table(_HEADS, [_cells(*step) for step in self.steps.items()])}"

    def _watermark(self) -> list[str]:
        """How far the watermarks are behind, at most; nothing where there are none."""
        lags = [step.lag_ms for step in self.steps.values() if step.lag_ms is not None]
        return [f"watermark {lag_text(max(lags))} behind"] if lags else []


_HEADS: Final = (
    *("step", "records in", "records out", "late", "malformed", "dropped"),
    *("windows", "timers", "state", "watermark"),
)


def _cells(name: str, step: StepProgress) -> list[str]:
    """A row of the table of a report; a cell is empty where there is nothing to tell."""
    losses = step.late, step.malformed, sum(step.dropped.values())
    numbers = [step.records_in, step.records_out, *losses, step.open_windows, step.timers]
    size = "" if step.state_bytes is None else f"{step.state_bytes:,} bytes"
    behind = "" if step.lag_ms is None else f"{lag_text(step.lag_ms)} behind"
    return [name, *["" if each is None else f"{each:,}" for each in numbers], size, behind]


def _has_work(progress: PipelineProgress) -> bool:
    """Returns whether the batch took, gave, or lost an element, or ended the stream."""
    return progress.ended or any(
        step.records_in or step.records_out or step.late or step.malformed or any(step.dropped.values())
        for step in progress.steps.values()
    )


@dataclass(frozen=True, slots=True)
class WatchedStep:
    """A source, keyed step or sink, by its id, whose work is part of the progress reports."""

    step: str
    stored: str | None = None  # the name of its state in the checkpoint; None: it has no keys, and so no state
    has_watermark: bool = False  # whether a timestamp-assigning step is upstream of it
    has_windows: bool = False  # whether its windows are counted
    has_timers: bool = False


@dataclass(slots=True)
class SourceTimes:
    """The number of the newest batch and the watermark of all sources, which the progress file of each version has."""

    batch: int = -1  # the number of the newest batch; -1: there was none
    watermark_before: StoredTime = MIN_TIMESTAMP  # the watermark before the newest batch
    watermark: StoredTime = MIN_TIMESTAMP  # the same after the newest batch

    def bound(self, batch: int) -> int | None:
        """Returns the watermark of all sources before a batch began; None: it is not known."""
        return {self.batch + 1: self.watermark, self.batch: self.watermark_before}.get(batch)


@dataclass(slots=True)
class Sums(SourceTimes):
    """The windows, timers and bytes of each stored step after the newest batch.

    The changes of the newest batch are kept separately, since the batch may run again and replace them.
    """

    before: dict[str, _Numbers] = field(default_factory=dict)
    newest: dict[str, _Numbers] = field(default_factory=dict)

    def put(self, batch: int, changes: Mapping[str, list[int]], watermark: int) -> None:
        """Add the changes of a batch and the watermark that it saw; a batch that runs again replaces its changes."""
        if batch > self.batch:
            self.before = {step: self.of(step) for step in {**self.before, **self.newest}}
            self.watermark_before = self.watermark
        self.batch, self.newest = batch, dict(changes)
        self.watermark = max(self.watermark_before, watermark)

    def of(self, step: str) -> list[int]:
        """Returns the windows, timers and bytes of a step."""
        none = [0] * len(_SUMS)
        pairs = zip(self.before.get(step, none), self.newest.get(step, none), strict=True)
        return [before + newest for before, newest in pairs]


def reported_times(file: StoragePath) -> SourceTimes | None:
    """Returns the times in the progress file of a checkpoint; None if it is missing or damaged, which fails no run."""
    try:
        return StoredFile(file, SourceTimes).read()
    except CheckpointError:
        return None


@dataclass(frozen=True, slots=True)
class WatermarkBounds:
    """Tells source tasks an upper bound for the watermark of each keyed step in their batch.

    If windrow keeps the clock, it is the watermark itself. Otherwise Spark's watermark depends on what the sources had
    before the batch, and the progress file has that. No result depends on this file: without it elements are sent one
    by one, without partial aggregation.
    """

    file: StoragePath | None  # the progress file; None: a batch job, whose elements come under no watermark
    clock: ClockFiles | None  # the watermarks themselves, if windrow keeps them

    def read(self) -> Callable[[str], int | None]:
        """Returns a function for the bound of a step, by its id; it returns None if none is known."""
        batch = current_batch()
        if self.file is None or batch == 0:
            return lambda step: MIN_TIMESTAMP
        if batch is None:
            return lambda step: None
        if self.clock is not None:
            watermarks = self.clock.read(batch).watermarks
            return lambda step: watermarks.get(step, MIN_TIMESTAMP)
        times = reported_times(self.file)
        bound = None if times is None else times.bound(batch)
        return lambda step: bound


class ProgressKeeper:
    """Makes the report on each batch of a query.

    The file stores the sums for the next run; a batch job has none. If windrow does not keep the time of each batch,
    the watermark is that of the sources, and processing time is the clock of the machine.
    """

    def __init__(self, steps: Sequence[WatchedStep], file: StoragePath | None, times: ClockFiles | None = None) -> None:
        self._steps = steps
        self._file = None if file is None else StoredFile(file, Sums)
        self._times = times
        self._sums: Sums | None = None
        self._is_known = True

    def end_batch(self, batch: int, facts: Iterable[Count], *, ended: bool, seconds: float) -> PipelineProgress:
        """Makes the report on a batch from its workers' counts; ``ended`` says whether the stream ended with it."""
        counts: Counter[tuple[str, str | int]] = Counter()
        seen = MIN_TIMESTAMP
        for step, name, number in facts:
            if name == WATERMARK:
                seen = max(seen, number)
            else:
                counts[step, name] += number
        sums = self._sums_before(batch)
        changes = {
            step.stored: [counts[step.step, name] for name in _SUMS] for step in self._steps if step.stored is not None
        }
        sums.put(batch, changes, MAX_TIMESTAMP if ended else seen)
        if self._file is not None and self._is_known:
            try:
                self._file.write(sums)
            except CheckpointError as error:
                _LOG.warning("what the state holds could not be noted for reports of later runs: %s", error.given)
        following = None if self._times is None else self._times.find(batch + 1)
        if following is None:
            reached = {step.step: sums.watermark for step in self._steps if step.has_watermark}
            following = BatchClock(reached if self._is_known else {}, ended=sums.watermark == MAX_TIMESTAMP)
        now = now_millis() if following.now is None else following.now
        steps = {step.step: self._progress(step, counts, sums, following, now) for step in self._steps}
        return PipelineProgress(batch, round(seconds * 1000), now, following.ended, steps)

    def _progress(
        self, step: WatchedStep, counts: Mapping[tuple[str, str | int], int], sums: Sums, clock: BatchClock, now: int
    ) -> StepProgress:
        windows = timers = size = None
        if self._is_known and step.stored is not None:
            windows, timers, size = sums.of(step.stored)
        watermark = clock.watermarks.get(step.step)
        if clock.ended or watermark in {MIN_TIMESTAMP, MAX_TIMESTAMP}:
            watermark = None
        of_step = [(name, count) for (each, name), count in counts.items() if each == step.step]
        counters = {name: count for name, count in of_step if isinstance(name, str)}
        return StepProgress(
            records_in=counts[step.step, RECORDS_IN],
            records_out=counts[step.step, RECORDS_OUT],
            late=counts[step.step, LATE],
            malformed=counts[step.step, "records_malformed"],
            dropped=losses_in(counters),
            open_windows=windows if step.has_windows else None,
            timers=timers if step.has_timers else None,
            state_bytes=size,
            watermark=watermark,
            lag_ms=None if watermark is None else now - watermark,
        )

    def _sums_before(self, batch: int) -> Sums:
        """Returns the sums before a batch: this run's or, at its first batch, those that the previous run stored."""
        if self._sums is not None:
            return self._sums
        sums: Sums | None = None
        try:
            sums = (self._file and self._file.read()) or Sums()
        except CheckpointError as error:
            # No result depends on the sums, so the run goes on.
            _LOG.warning(
                "reports on batches begin without what the state holds already: %s: %s", error.where, error.given
            )
        # Sums of another batch are not usable: each batch stores its sums before Spark commits it.
        self._is_known = self._file is None or (sums is not None and sums.batch in {batch - 1, batch})
        self._sums = sums if sums is not None and self._is_known else Sums(batch - 1)
        return self._sums


class Reporter:
    """Passes reports on batches to the log and to the user's function, if there is one.

    ``stored_after`` reads the reports on batches after a number from files, if another process writes the batches.
    """

    def __init__(
        self, name: str, topology: Topology, on_progress: OnProgress | None, stored_after: _After | None = None
    ) -> None:
        self._name = name
        self._topology = topology
        self._on_progress = on_progress
        self._stored_after = stored_after
        self._newest = -1
        self._lock = threading.Lock()
        self._scale = TimestampScale(topology)

    def report(self, progress: PipelineProgress) -> None:
        """Report on a batch. Errors of the user's function are logged: a report does not stop the pipeline."""
        self._scale.check({identifier: step.watermark for identifier, step in progress.steps.items()})
        level = logging.INFO if _has_work(progress) else logging.DEBUG  # a pipeline that waits writes no log
        if _LOG.isEnabledFor(level):
            _LOG.log(level, self._line(progress))
        if self._on_progress is None:
            return
        try:
            self._on_progress(progress)
        except Exception:
            _LOG.exception("on_progress raised for batch %d of pipeline %s, which goes on", progress.batch, self._name)

    def _line(self, progress: PipelineProgress) -> str:
        steps = progress.steps
        words = [
            f"{sum(steps[source.id].records_in for source in self._topology.sources)} records read",
            f"{sum(steps[sink.id].records_in for sink in self._topology.sinks)} written",
            f"{sum(step.late for step in steps.values())} late",
            f"{sum(step.malformed for step in steps.values())} malformed",
        ]
        words += [*progress._watermark(), f"in {lag_text(progress.duration_ms)}"]
        return f"pipeline {self._name}, batch {progress.batch}: {', '.join(words)}"

    @property
    def _is_wanted(self) -> bool:
        return self._on_progress is not None or _LOG.isEnabledFor(logging.INFO)

    def watch(self, query: StreamingQuery) -> None:
        """Poll files for reports in a thread while a query runs, if the log or the user's function takes them."""
        if self._stored_after is not None and self._is_wanted:
            threading.Thread(target=self._run, args=(query,), name="windrow reports", daemon=True).start()

    def flush(self) -> None:
        """Pass on the reports in files that were not passed on yet."""
        if self._stored_after is None or not self._is_wanted:
            return
        with self._lock:
            for progress in self._stored_after(self._newest):
                self._newest = progress.batch
                self.report(progress)

    def _run(self, query: StreamingQuery) -> None:
        try:
            for turn in count():
                self.flush()
                # `isActive` calls the server, so it is asked in some turns only.
                if turn % _TURNS_TO_ASK == 0 and not query.isActive:
                    return
                time.sleep(_POLL_SECONDS)
        except Exception:
            _LOG.exception("the reports on batches cannot be read any more; the pipeline goes on without them")
