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
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from windrow.errors import CheckpointError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, lag_text, now_millis
from windrow_runtime.metrics.reports import PipelineProgress, StepProgress
from windrow_runtime.metrics.step_metrics import StepMetrics
from windrow_runtime.metrics.telemetry import Telemetry
from windrow_runtime.operators.outcome import losses_in
from windrow_runtime.operators.topology import Topology
from windrow_runtime.operators.watermarks import TimestampScale
from windrow_spark.checkpoint.storage import StoragePath
from windrow_spark.checkpoint.stored_file import StoredFile, StoredTime
from windrow_spark.clock import BatchClock, ClockFiles
from windrow_spark.exchange.facts import (
    GROUP_ROWS,
    LATE,
    NEXT_TIMER,
    OPEN_WINDOWS,
    RECORDS_IN,
    RECORDS_OUT,
    STATE_BYTES,
    TIMERS,
    WATERMARK,
    Fact,
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

    def end_batch(
        self, batch: int, facts: Iterable[Fact], *, ended: bool, parts: Mapping[str, float]
    ) -> PipelineProgress:
        """Makes the report on a batch from its workers' counts.

        ``ended`` says whether the stream ended with it, ``parts`` how many seconds each part of it took.
        """
        counts: Counter[tuple[str, str | int]] = Counter()
        seen = MIN_TIMESTAMP
        largest: Counter[str] = Counter()
        for step, name, number in facts:
            if name == WATERMARK:
                seen = max(seen, number)
            elif name != NEXT_TIMER:
                if name == GROUP_ROWS:
                    largest[step] = max(number, largest[step])
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
        # A batch job runs a group in several portions, so nobody knows the rows of one.
        for step, rows in largest.items() if self._file is not None else ():
            steps[step] = replace(steps[step], busiest_group=rows / counts[step, GROUP_ROWS])
        parts_ms = {part: round(seconds * 1000) for part, seconds in parts.items()}
        return PipelineProgress(batch, round(sum(parts.values()) * 1000), now, following.ended, steps, parts_ms)

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
    """Passes reports on batches to the log, to OpenTelemetry, and to the user's function, if there is one.

    ``metrics`` returns those of users' functions since the start. ``stored_after`` reads the reports on batches after a
    number from files, if another process writes the batches.
    """

    def __init__(
        self,
        name: str,
        topology: Topology,
        on_progress: OnProgress | None,
        telemetry: Telemetry,
        metrics: Callable[[], StepMetrics],
        stored_after: _After | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._metrics = metrics
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
            fields = self._fields(progress)
            _LOG.log(level, self._line(progress, fields), extra=fields)
        self._telemetry.report(progress, self._metrics)
        if self._on_progress is None:
            return
        try:
            self._on_progress(progress)
        except Exception:
            _LOG.exception("on_progress raised for batch %d of pipeline %s, which goes on", progress.batch, self._name)

    def _fields(self, progress: PipelineProgress) -> dict[str, str | int | None]:
        """Returns the figures of a report as fields of a log record."""
        steps = progress.steps
        lags = [step.lag_ms for step in steps.values() if step.lag_ms is not None]
        return {
            "pipeline": self._name,
            "batch": progress.batch,
            "records_read": sum(steps[source.id].records_in for source in self._topology.sources),
            "records_written": sum(steps[sink.id].records_in for sink in self._topology.sinks),
            "records_late": sum(step.late for step in steps.values()),
            "records_malformed": sum(step.malformed for step in steps.values()),
            "lag_ms": max(lags, default=None),
            "duration_ms": progress.duration_ms,
        }

    def _line(self, progress: PipelineProgress, fields: Mapping[str, object]) -> str:
        words = [
            f"{fields['records_read']} records read",
            f"{fields['records_written']} written",
            f"{fields['records_late']} late",
            f"{fields['records_malformed']} malformed",
        ]
        words += [*progress.watermark_words(), f"in {lag_text(progress.duration_ms)}"]
        return f"pipeline {self._name}, batch {progress.batch}: {', '.join(words)}"

    @property
    def _is_wanted(self) -> bool:
        return self._on_progress is not None or _LOG.isEnabledFor(logging.INFO) or self._telemetry.is_wanted

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
