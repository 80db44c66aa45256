"""Answers, in a worker, the calls that Spark makes to the stateful processor of a level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from windrow.errors import WindrowError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_spark.clock import NO_TIME, BatchTime, BatchTimes, decode_watermark, encode_timer
from windrow_spark.exchange.classes import register_classes
from windrow_spark.exchange.rows import PackedRow, Phase, RowKind, dump_values, load_values, phase_of
from windrow_spark.faults import failures_marked
from windrow_spark.keyed.group_task import GroupTask, GroupUpdate
from windrow_spark.keyed.level import Level
from windrow_spark.keyed.state_calls import StateCalls, StoredPages
from windrow_spark.storage.group_record import GroupState
from windrow_spark.worker import current_batch, infrequent_gc

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, TimerValues, ValueState

    from windrow_spark.sinks.parts import PartWriter


@dataclass(frozen=True, slots=True)
class LevelToRun:
    """Gives a level to Spark's stateful processor."""

    level: Level

    def calls(self, handle: StatefulProcessorHandle, state: ValueState, pages: MapState) -> LevelCalls:
        """Returns what answers Spark's calls in one task."""
        return LevelCalls(self.level, handle, state, pages)


class LevelCalls:
    """Runs a level in one task. Spark's states are those of the group for which Spark calls it."""

    def __init__(self, level: Level, handle: StatefulProcessorHandle, state: ValueState, pages: MapState) -> None:
        self._level = level
        self._handle = handle
        self._state = state
        self._is_stored = False
        self._pages = StoredPages(pages, StateCalls(pages))
        self._task: GroupTask | None = None
        self._writer: PartWriter | None = None
        if level.sinks is not None:
            register_classes(level.classes)
            self._writer = level.sinks.writer()
        self._previous = NO_TIME
        self._time: BatchTime | None = None
        self._watermarks: dict[str, tuple[int, int]] | None = None
        self._spark_now = 0
        self._stream_ends = False  # whether a row for the group of this call announces the end of the stream

    def take(self, label: int, timer_values: TimerValues, rows: Iterator[Any]) -> Iterator[Row]:
        """Runs a group that has rows in the batch. Spark calls this by label, so that service groups come first."""
        with self._calling():
            yield from self._spark_rows(self._take_rows(label, self._time_of(timer_values), rows))

    def expire(self, label: int, timer_values: TimerValues) -> Iterator[Row]:
        """Runs a group whose timer is due and that got no rows in the batch."""
        with self._calling():
            time = self._time_of(timer_values)
            yield from self._spark_rows(self._tick(label, time) if label < 0 else self._run(label, time, [], []))

    def close(self) -> None:
        """Closes the operators and the writer at the end of the task; Spark calls this only where it has succeeded."""
        writer, task, self._writer, self._task = self._writer, self._task, None, None
        with failures_marked(), ExitStack() as stack:
            if writer is not None:
                stack.callback(writer.close)
            if task is not None:
                task.close()
            if writer is not None:
                writer.finish()

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Closes the writer where a call fails, or is given up: Spark ends the process then, without another call."""
        with failures_marked(), infrequent_gc():
            try:
                yield
            except BaseException:
                if self._writer is not None:
                    with suppress(WindrowError):
                        self._writer.close()
                    self._writer = None
                raise

    def _spark_rows(self, rows: Iterator[PackedRow]) -> Iterator[Row]:
        """Writes the rows from upper levels for sinks that the task writes itself; yields all others for Spark."""
        from pyspark.sql import Row

        for packed in rows if self._writer is None else self._writer.pass_on(rows):
            yield Row(**packed._asdict())

    def _take_rows(self, label: int, time: BatchTime, rows: Iterator[Any]) -> Iterator[PackedRow]:
        packed = map(PackedRow._make, rows)
        if label < 0:
            yield from self._serve(label, time, packed)
            return
        before: list[PackedRow] = []
        after: list[PackedRow] = []
        self._stream_ends = False
        for row in sorted(packed, key=attrgetter("number")):
            if row.kind == RowKind.CLOCK:
                self._stream_ends = True
                continue
            (before if phase_of(row.number) == Phase.BEFORE_WATERMARK else after).append(row)
        yield from self._run(label, time, before, after)

    def _run(self, label: int, time: BatchTime, before: list[PackedRow], after: list[PackedRow]) -> Iterator[PackedRow]:
        if self._task is None:
            register_classes(self._level.classes)
            self._task = GroupTask(self._level, self._writer)
        times = BatchTimes(self._previous, time, self._watermarks)
        stream_ends, self._stream_ends = self._stream_ends, False
        outputs = self._task.run_group(
            label, self._load(), self._pages, times, self._spark_now, before, after, stream_ends=stream_ends
        )
        for output in outputs:
            if isinstance(output, GroupUpdate):
                self._store(output)
            else:
                yield output

    def _serve(self, label: int, time: BatchTime, rows: Iterator[PackedRow]) -> Iterator[PackedRow]:
        has_passed_time = False
        for row in rows:
            if row.kind != RowKind.CLOCK:
                yield row
            if row.kind not in {RowKind.CLOCK, RowKind.END}:
                continue
            is_first = self._level.number == 1
            # At further levels the row that ends the stream has no time.
            if has_passed_time or (is_first and self._level.last) or not (is_first or row.kind == RowKind.CLOCK):
                continue
            has_passed_time = True
            if is_first:
                yield from self._tick(label, time)
            else:
                self._previous = BatchTime(*load_values(row.payload))
                yield from self._send_clock(label)

    def _tick(self, label: int, time: BatchTime) -> Iterator[PackedRow]:
        """Stores this batch's time in the first level's service group; sends the previous time to deeper levels."""
        data = self._load()
        group = GroupState() if data is None else GroupState.load(data, self._level.fingerprint)
        self._previous = BatchTime(group.watermark, group.now)
        yield from self._send_clock(label)
        if time.watermark != group.watermark or data is None or self._level.by_clock:
            old = group.timer
            group.watermark, group.now = time
            if self._level.by_clock:
                group.timer = self._spark_now + 1
            else:
                group.timer = 0 if time.watermark == MAX_TIMESTAMP else encode_timer(time.watermark + 1)
            self._store(GroupUpdate(group.dump(self._level.fingerprint), old, group.timer))

    def _send_clock(self, label: int) -> Iterator[PackedRow]:
        if not self._level.last:
            yield PackedRow(label, RowKind.CLOCK, 0, 0, dump_values(list(self._previous)))

    def _time_of(self, timer_values: TimerValues) -> BatchTime:
        self._spark_now = now = timer_values.getCurrentProcessingTimeInMs()
        if self._level.clock is None:
            return BatchTime(decode_watermark(timer_values.getCurrentWatermarkInMs()), now)
        if self._time is None:
            batch = current_batch()
            assert batch is not None, "Spark gives the batch's number to every task of a query"
            stored = self._level.clock.read(batch)
            self._watermarks = {
                step: (stored.previous.get(step, MIN_TIMESTAMP), watermark)
                for step, watermark in stored.watermarks.items()
            }
            # The furthest watermark stands for the whole query: service groups store the time when it moves.
            furthest = max(stored.watermarks.values(), default=MIN_TIMESTAMP)
            self._time = BatchTime(furthest, now if stored.now is None else stored.now)
        return self._time

    def _load(self) -> bytes | None:
        stored = self._state.get()
        self._is_stored = stored is not None
        return None if stored is None else bytes(stored[0])

    def _store(self, update: GroupUpdate) -> None:
        data, old, new = update.data, update.old_timer, update.new_timer
        calls: list[Callable[[], object]] = []
        if data is not None:
            calls.append(partial(self._state.update, (data,)))
        elif self._is_stored:
            calls.append(self._state.clear)
        if old:
            calls.append(partial(self._handle.deleteTimer, old))
        if new:
            calls.append(partial(self._handle.registerTimer, new))
        self._pages.settle(calls)
