"""The driver makes a report on each batch of the counts that the workers send for their steps.

Workers know what a batch has changed in the groups of keys that it touched, and nobody asks the other groups. So the
keeper adds up the changes, and notes the sums in the checkpoint, from where the next run goes on.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec

from windrow.errors import CheckpointError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, now_millis
from windrow_runtime.spark.checkpoint.stored_json import StoredTime, read_json, write_json
from windrow_runtime.spark.clock.files import ClockFiles
from windrow_runtime.spark.run.facts import (
    LATE,
    OPEN_WINDOWS,
    RECORDS_IN,
    RECORDS_OUT,
    STATE_BYTES,
    TIMERS,
    WATERMARK,
    Count,
)
from windrow_runtime.spark.run.progress import PipelineProgress, StepProgress

__all__ = ["ProgressKeeper", "WatchedStep", "log_line"]

_LOG: Final = logging.getLogger("windrow")
_SUMS: Final = (OPEN_WINDOWS, TIMERS, STATE_BYTES)
_Numbers: TypeAlias = Annotated[list[int], msgspec.Meta(min_length=len(_SUMS), max_length=len(_SUMS))]


@dataclass(frozen=True, slots=True)
class WatchedStep:
    """A step that is reported on.

    Attributes:
        step: Its id.
        stored: Its name in the checkpoint; None: it has no keys, and so no state.
        has_watermark: Whether a timestamp-assigning step is in front of it.
        has_windows: Whether it keeps each window by itself.
        has_timers: Whether it keeps timers.
    """

    step: str
    stored: str | None = None
    has_watermark: bool = False
    has_windows: bool = False
    has_timers: bool = False


@dataclass(slots=True)
class _Sums:
    """What all batches up to one have come to.

    Attributes:
        batch: The number of the newest batch; -1: there was none.
        before: The sums of the batches before the newest: for each stored step its windows, timers and bytes.
        newest: What the newest batch changed, which replaces itself when it is run again.
        watermark_before: The watermark of all sources that the batches before the newest made.
        watermark: The same with the newest.
    """

    batch: int = -1
    before: dict[str, _Numbers] = field(default_factory=dict)
    newest: dict[str, _Numbers] = field(default_factory=dict)
    watermark_before: StoredTime = MIN_TIMESTAMP
    watermark: StoredTime = MIN_TIMESTAMP

    def put(self, batch: int, changes: Mapping[str, list[int]], watermark: int) -> None:
        """Add what a batch changed and the watermark that it saw, or put it in the place of what it came to before."""
        if batch > self.batch:
            self.before = {step: self.of(step) for step in {**self.before, **self.newest}}
            self.watermark_before = self.watermark
        self.batch, self.newest = batch, dict(changes)
        self.watermark = max(self.watermark_before, watermark)

    def of(self, step: str) -> list[int]:
        """The windows, timers and bytes of a step."""
        none = [0] * len(_SUMS)
        pairs = zip(self.before.get(step, none), self.newest.get(step, none), strict=True)
        return [before + newest for before, newest in pairs]


class ProgressKeeper:
    """Makes the report of each batch of a query.

    Args:
        steps: The steps to report on.
        file: Where the sums are kept for the next run; None: for a batch job, which begins with nothing.
        times: Where the time of each batch is kept, if windrow keeps it; else the watermark is that of the sources, and
            processing time is the clock of the machine.
    """

    def __init__(
        self,
        steps: Sequence[WatchedStep],
        file: Path | None,
        times: ClockFiles | None = None,
    ) -> None:
        self._steps = tuple(steps)
        self._file = file
        self._times = times
        self._sums: _Sums | None = None
        self._is_known = True

    def end_batch(
        self, batch: int, facts: Iterable[Count], *, ended: bool, seconds: float
    ) -> PipelineProgress:
        """Report on a batch that has ended.

        Args:
            batch: Its number.
            facts: What workers say of it.
            ended: Whether the stream is at its end.
            seconds: How long it took.
        """
        found: Counter[tuple[str, str | int]] = Counter()
        seen = MIN_TIMESTAMP
        for step, name, number in facts:
            if name == WATERMARK:
                seen = max(seen, number)
            else:
                found[step, name] += number
        sums = self._sums_before(batch)
        changes = {
            step.stored: [found[step.step, name] for name in _SUMS]
            for step in self._steps
            if step.stored is not None
        }
        sums.put(batch, changes, MAX_TIMESTAMP if ended else seen)
        self._keep(sums)
        following = None if self._times is None else self._times.find(batch + 1)
        if following is not None:
            watermarks, ended = following.watermarks, following.ended
        else:
            watermarks = {
                step.step: sums.watermark for step in self._steps if step.has_watermark and self._is_known
            }
            ended = sums.watermark == MAX_TIMESTAMP
        now = now_millis() if following is None or following.now is None else following.now
        steps = {
            step.step: self._progress(step, found, sums, watermarks.get(step.step), now, ended=ended)
            for step in self._steps
        }
        return PipelineProgress(batch, round(seconds * 1000), now, ended, steps)

    def _progress(
        self,
        step: WatchedStep,
        found: Mapping[tuple[str, str | int], int],
        sums: _Sums,
        watermark: int | None,
        now: int,
        *,
        ended: bool,
    ) -> StepProgress:
        windows, timers, size = (None, None, None) if step.stored is None else sums.of(step.stored)
        if ended or watermark in {MIN_TIMESTAMP, MAX_TIMESTAMP}:
            watermark = None
        return StepProgress(
            records_in=found[step.step, RECORDS_IN],
            records_out=found[step.step, RECORDS_OUT],
            late=found[step.step, LATE],
            malformed=found[step.step, "records_malformed"],
            open_windows=windows if step.has_windows and self._is_known else None,
            timers=timers if step.has_timers and self._is_known else None,
            state_bytes=size if self._is_known else None,
            watermark=watermark,
            lag_ms=None if watermark is None else now - watermark,
        )

    # What the run before has left

    def _sums_before(self, batch: int) -> _Sums:
        if self._sums is None:
            self._sums = _Sums() if self._file is None else self._read(self._file)
            # Each batch is reported on before Spark notes it as done; all else was written by somebody else, or lost.
            self._is_known = self._file is None or self._sums.batch in {batch - 1, batch}
            if not self._is_known:
                self._sums = _Sums(batch - 1)
        return self._sums

    @staticmethod
    def _read(file: Path) -> _Sums:
        try:
            return read_json(file, _Sums) or _Sums()
        except CheckpointError as error:
            # Nothing that is computed depends on it.
            _LOG.warning(
                "reports on batches begin without what the state holds already: %s: %s", file, error.given
            )
            return _Sums(-2)

    def _keep(self, sums: _Sums) -> None:
        if self._file is None or not self._is_known:
            return
        try:
            write_json(self._file, asdict(sums))
        except CheckpointError as error:
            _LOG.warning("what the state holds could not be noted for reports of later runs: %s", error.given)


def log_line(name: str, progress: PipelineProgress, sources: Iterable[str], sinks: Iterable[str]) -> str:
    """A line about a batch, for the log."""
    steps = progress.steps
    lags = [step.lag_ms for step in steps.values() if step.lag_ms is not None]
    parts = [
        f"{sum(steps[source].records_in for source in sources)} records read",
        f"{sum(steps[sink].records_in for sink in sinks)} written",
        f"{sum(step.late for step in steps.values())} late",
        f"{sum(step.malformed for step in steps.values())} malformed",
    ]
    if lags:
        parts.append(f"watermark {max(lags)} ms behind")
    return f"pipeline {name}, batch {progress.batch}: {', '.join(parts)}, in {progress.duration_ms} ms"
