"""Runs the keyed steps of a level on one key group after another, without Spark's API.

The order within a group and a batch is Flink's, for each step::

    previous watermark   elements that timers upstream emitted
                         -> the watermark advances, timers fire
    new watermark        elements that upstream emitted for the batch's elements

Under each watermark, broadcast elements come first.

Elements emitted before the last line reach the next level before its watermark advances; the rest after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from windrow.errors import UnsupportedOperationError
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.operators.broadcast.broadcast_operator import BroadcastTaker
from windrow_runtime.operators.copies import own, own_all
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.operators.operator import OperatorRuntimeContext
from windrow_runtime.operators.state.counting import timers_in, windows_in
from windrow_runtime.operators.state.model import OperatorState, TimerQueue
from windrow_runtime.operators.state.time_to_live import TtlTimer
from windrow_runtime.operators.windows.partials import Partials, PartialsOperator
from windrow_spark.clock import BatchTimes, encode_timer
from windrow_spark.exchange.classes import state_codec
from windrow_spark.exchange.facts import GROUP_ROWS, NEXT_TIMER, OPEN_WINDOWS, STATE_BYTES, TIMERS, Count
from windrow_spark.exchange.packer import Packer, TaskSinkWriter
from windrow_spark.exchange.rows import (
    Arrived,
    BroadcastElements,
    ColumnElements,
    KeyedElements,
    PackedRow,
    PartialElements,
    Phase,
    RowKind,
    dump_values,
    notes_number,
    unpack_broadcast,
    unpack_keyed,
    unpack_partials,
)
from windrow_spark.keyed.level import GroupBatch, KeyedStep, Level, StepRunner
from windrow_spark.storage.group_record import GroupState, PageStore
from windrow_spark.storage.object_pages import ObjectPages, Share
from windrow_spark.storage.page_codec import PageCodec

if TYPE_CHECKING:
    from windrow_spark.columnar.forms.row_form import RowPortion
    from windrow_spark.keyed.column_step import ColumnRunner

# Any: elements, keys and states are of the user's types.

_BYTES_TOGETHER: Final = 1 << 28
"""The bytes of columns that become elements together, far fewer than a column of text can have."""

_Elements: TypeAlias = "KeyedElements | RowPortion | Partials"


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    """The state of a group after a batch, None if it has none any more, and the Spark timers to change, 0 for none."""

    data: bytes | None
    old_timer: int
    new_timer: int


class _Broadcast(NamedTuple):
    """The broadcast elements of one step, before and after the watermark."""

    before: Sequence[BroadcastElements]
    after: Sequence[BroadcastElements]

    def __bool__(self) -> bool:
        return bool(self.before or self.after)


class ObjectRunner(StepRunner):
    """Runs one step on Python objects, in one task, on one key group at a time."""

    def __init__(self, step: KeyedStep, level: Level, codec: PageCodec) -> None:
        super().__init__(step)
        self._level = level
        self._codec = codec
        self._operator = step.create()
        self._operator.metrics = self._metrics
        self._runtime = OperatorRuntimeContext(step.name or step.step_id, self._metrics)
        self._operator.open(self._runtime)
        self._emits = False  # whether outputs that belong to no key are emitted
        self._applied = False  # whether broadcast elements ask for the state of all keys

    def close(self) -> None:
        self._operator.close()
        super().close()

    def run(self, group: GroupBatch) -> Iterator[PackedRow]:
        """Runs one batch of one group, page by page; yields rows as soon as they are full."""
        self._runtime.key_group = group.key_group
        level, record, current = self._level, group.record, group.times[1]
        pages = ObjectPages(record, self._codec, group.store, level.groups.count, level.tuning.object_pages)
        before, after = (self._objects_of(parts, pages) for parts in group.arrived)
        self.facts[GROUP_ROWS] += sum(len(elements.keys) for elements in (*before, *after))
        for_all = _Broadcast(*map(_together, group.arrived))
        shared = pages.shared
        self._applied = False
        if for_all:
            shared = yield from self._run_broadcast(for_all, pages, group)
        elif isinstance(self._operator, BroadcastTaker):
            pages.shared_is_fixed = True
        for share in pages.shares(before, after, *current, all_keys=self._applied):
            yield from self._run_share(share, for_all, pages, group)
        pages.shared = shared
        record.watermark, record.now = current
        with errors_at(self.step.where):
            pages.end_batch()

    def _objects_of(self, arrived: Sequence[Arrived], pages: ObjectPages) -> list[_Elements]:
        """Returns elements as Python objects for the operator, in their order."""
        elements: list[_Elements] = []
        for _, parts in groupby(arrived, type):
            columns: list[ColumnElements] = []
            for part in parts:
                if isinstance(part, KeyedElements):
                    elements.append(part)
                elif isinstance(part, PartialElements):
                    elements.append(part.partials)
                elif isinstance(part, ColumnElements):
                    columns.append(part)
            if columns:
                form = self.step.arrival
                assert form is not None, "columns are sent to steps that take them"
                # A plan without columns does not import the columnar modules.
                from windrow_spark.columnar.forms.row_form import DistinctKeys
                from windrow_spark.columnar.state import joined, load_rows

                for rows in joined((load_rows(part.stream, form.raw_schema) for part in columns), _BYTES_TOGETHER):
                    keys = DistinctKeys.of(rows)
                    elements += form.portions(rows, keys, self._operator)
                    if pages.record.pages > 1:
                        pages.know(keys.hashes())
        return elements

    def _run_broadcast(
        self, for_all: _Broadcast, pages: ObjectPages, group: GroupBatch
    ) -> Generator[PackedRow, None, dict[str, Any]]:
        """Runs broadcast elements by themselves, without a key, and returns the shared state that they leave.

        Outputs that belong to no key are emitted here, by one group for all. If the function asks for the state of all
        keys, it gets that afterwards: each share runs these elements again, from the same shared state on.
        """
        state = OperatorState(shared=own(pages.shared))
        self._emits = group.key_group == 0
        yield from self._run_state(state, Share([], [], []), for_all, group)
        self._emits = False
        return state.shared

    def _run_share(
        self, share: Share[_Elements], for_all: _Broadcast, pages: ObjectPages, group: GroupBatch
    ) -> Iterator[PackedRow]:
        state = pages.load(share.pages)
        if for_all:
            state.shared = own(pages.shared)
        windows, timers = windows_in(state), timers_in(state)
        yield from self._run_state(state, share, for_all, group)
        self.facts[OPEN_WINDOWS] += windows_in(state) - windows
        self.facts[TIMERS] += timers_in(state) - timers
        with errors_at(self.step.where):
            pages.save(share.pages, state)

    def _run_state(
        self, state: OperatorState, share: Share[_Elements], for_all: _Broadcast, group: GroupBatch
    ) -> Iterator[PackedRow]:
        previous, current = group.times
        before, after = group.packers
        self._operator.bind(state, self._collector)
        # Times are assigned, not advanced: timers set at or before it must wait for the next advance.
        self._operator.current_watermark = group.record.watermark
        self._operator.current_processing_time = group.record.now
        self._operator.set_clock(current.now)
        for elements in (*for_all.before, *share.before):
            yield from self._advance(previous.watermark, before)
            self._process(elements, before)
            yield from before.full()
        yield from self._advance(current.watermark, before)
        yield from self._fire(self._operator.advancing_processing_time(current.now), before)
        for elements in (*for_all.after, *share.after):
            self._process(elements, after)
            yield from after.full()
        if not self._level.by_clock:
            self._check_timers(state.processing_timers)
        yield from self._fire(self._operator.ending_round(), after)

    def _check_timers(self, timers: TimerQueue) -> None:
        """Refuses timers that no batch comes for, and deletes those of state that expires no more by the clock.

        An earlier program set the latter: the next call for the key converts such state, and a new one is refused.
        """
        for key, namespace, time in list(timers):
            if not isinstance(namespace, TtlTimer):
                raise UnsupportedOperationError(
                    "a timer in processing time was set, and nothing in the plan says so",
                    given=self.step.step_id,
                    expected="a class that says uses_processing_time = True",
                    where=self.step.where,
                    hint="Spark has to run batches for the clock; set the attribute on the trigger or the process "
                    "function",
                )
            timers.delete(key, namespace, time)

    def _advance(self, watermark: int, packer: Packer) -> Iterator[PackedRow]:
        """Fires the timers that the watermark makes due."""
        if watermark > self._operator.current_watermark:
            yield from self._fire(self._operator.advancing_watermark(watermark), packer)

    def _fire(self, firing: Iterator[None], packer: Packer) -> Iterator[PackedRow]:
        """Passes on results while timers fire: one advance over years may fire a trigger millions of times."""
        for _ in chain(firing, (None,)):
            yield from self._drain(packer)

    def _process(self, elements: _Elements | BroadcastElements, packer: Packer) -> None:
        """Processes elements; all results since the last drain go to ``packer``."""
        if isinstance(elements, Partials):
            assert isinstance(self._operator, PartialsOperator), "only such operators take accumulators"
            self._operator.merge_batch(elements)
        elif isinstance(elements, BroadcastElements):
            assert isinstance(self._operator, BroadcastTaker), "no other step has broadcast elements"
            # The function may change them, and is called again.
            values = own_all(list(elements.values))
            applied = self._operator.process_broadcast(values, elements.timestamps, emits=self._emits)
            self._applied = self._applied or applied
        else:
            elements.feed(self._operator)
        self._collector.drain(packer)


class GroupTask:
    """Runs a level's steps in one task, and writes the sinks that the task writes itself."""

    def __init__(self, level: Level, writer: TaskSinkWriter | None = None) -> None:
        self._level = level
        self._origin_of = {label: number for number, label in enumerate(level.groups.labels)}
        codec = PageCodec(state_codec(level.classes, allow_pickled=level.allow_pickled), level.tuning.lists)
        self._runners = {step.number: _runner_of(step, level, codec) for step in level.steps}
        self._packers = (
            Packer(level.groups, Phase.BEFORE_WATERMARK, writer),
            Packer(level.groups, Phase.AFTER_WATERMARK, writer),
        )

    def close(self) -> None:
        """Closes the operators."""
        for runner in self._runners.values():
            runner.close()

    def run_group(
        self,
        label: int,
        data: bytes | None,
        store: PageStore,
        times: BatchTimes,
        spark_now: int,
        before: Sequence[PackedRow],
        after: Sequence[PackedRow],
        *,
        stream_ends: bool = False,
    ) -> Iterator[PackedRow | GroupUpdate]:
        """Runs one batch of one group. Yields rows for the next stage and, last, the update to store.

        ``data`` is its stored record. Spark's timers go by Spark's clock, ``spark_now``, in milliseconds. The elements
        in the rows ``before`` precede the watermark, and those in the rows ``after`` follow it. With ``stream_ends``
        the next batch has the last watermark.
        """
        group = GroupState() if data is None else GroupState.load(data, self._level.fingerprint)
        origin = self._origin_of[label]
        for phase, packer in enumerate(self._packers):
            packer.start(origin, self._level.groups.service_label_of(label))
            packer.bound_of = partial(_watermark_in, times, phase)
        by_step: list[dict[int, list[Arrived]]] = []
        for rows, packer in zip((before, after), self._packers, strict=True):
            # Deeper levels get their rows as they are, in the phase in which they came.
            yield from (packer.row_for_level(row) for row in rows if self._is_deeper(row))
            by_step.append(_by_step(row for row in rows if not self._is_deeper(row)))
        steps_before, steps_after = by_step
        for number, runner in self._runners.items():
            arrived = steps_before.get(number, []), steps_after.get(number, [])
            step = runner.step.state_id
            stored = group.steps.get(step)
            step_times = runner.times(times)
            if not any(arrived) and (stored is None or not stored.is_due(*step_times[1])):
                continue
            record = group.record_of(step)
            runner.facts[STATE_BYTES] -= record.stored_bytes
            yield from runner.run(GroupBatch(record, origin, store, step_times, arrived, self._packers))
            runner.facts[STATE_BYTES] += record.stored_bytes
            if not record.stored_bytes:
                del group.steps[step]
        for packer in self._packers:
            yield from packer.flush()
        yield from self._notes(origin, label, self._timers_of(group, times) if self._level.tells_timers else [])
        yield self._update(group, times, spark_now, stream_ends=stream_ends)

    def _is_deeper(self, row: PackedRow) -> bool:
        """Returns whether a row is for steps of a deeper level; columns and partials name their step."""
        if row.kind in {RowKind.ELEMENTS, RowKind.BROADCAST}:
            return row.target != self._level.number
        return row.target not in self._runners

    def _notes(self, origin: int, label: int, timers: list[Count]) -> Iterator[PackedRow]:
        """Yields rows with the timestamps, the counts and the next timers for the driver."""
        runners = self._runners.values()
        seen: list[Any] = [timestamps for runner in runners for timestamps in runner.step.take_timestamps()]
        counts: list[Any] = [count for part in (*runners, *self._packers) for count in part.take_counts()] + timers
        number = notes_number(origin, 1)
        for kind, notes in ((RowKind.TIMESTAMPS, seen), (RowKind.COUNTERS, counts)):
            if notes:
                yield PackedRow(self._level.groups.service_label_of(label), kind, 0, number, dump_values(notes))

    def _update(self, group: GroupState, times: BatchTimes, spark_now: int, *, stream_ends: bool) -> GroupUpdate:
        old = group.timer
        if not group.steps:
            return GroupUpdate(None, old, 0)
        new = self._next_call(group, times, spark_now, stream_ends=stream_ends)
        changed = new != old
        group.watermark, group.now = times.current
        group.timer = new
        return GroupUpdate(group.dump(self._level.fingerprint), old if changed else 0, new if changed else 0)

    def _timers_of(self, group: GroupState, times: BatchTimes) -> list[Count]:
        """Returns when the next event timer of each step in a group is due, in the form of a fact."""
        timers: list[Count] = []
        for runner in self._runners.values():
            step = group.steps.get(runner.step.state_id)
            earliest = None if step is None else step.earliest_event_timer
            watermark = runner.times(times)[1].watermark
            if earliest is not None and watermark != MAX_TIMESTAMP:
                timers.append((runner.step.step_id, NEXT_TIMER, max(earliest, watermark + 1)))
        return timers

    def _next_call(self, group: GroupState, times: BatchTimes, spark_now: int, *, stream_ends: bool) -> int:
        """Returns the Spark timer that calls the group when its next timer is due; 0 for none."""
        events: list[int] = []
        clocks: list[int] = []
        for runner in self._runners.values():
            step = group.steps.get(runner.step.state_id)
            if step is None:
                continue
            watermark = runner.times(times)[1].watermark
            earliest, clock = step.earliest_event_timer, step.earliest_processing_timer
            if earliest is not None and watermark != MAX_TIMESTAMP:
                # A timer that was set at or before the watermark is due when the watermark advances next.
                due = max(earliest, watermark + 1)
                events.append(due if runner.step.has_watermark else MAX_TIMESTAMP)
            if clock is not None:
                clocks.append(clock)
        if not self._level.by_clock:
            return encode_timer(min(events)) if events else 0
        # Rows announce the end of the stream to the first level, so groups that wait for that alone skip batches.
        follows = bool(events) and (stream_ends or self._level.number > 1 or min(events) < MAX_TIMESTAMP)
        if follows or (clocks and self._level.clock is not None):
            # Spark's timers follow Spark's clock alone, so each batch looks whether our time has advanced.
            clocks.append(spark_now)
        return min(max(min(clocks), spark_now + 1), _FARTHEST) if clocks else 0


def _together(arrived: Sequence[Arrived]) -> Sequence[BroadcastElements]:
    """Returns the broadcast elements that arrived, which an operator takes in one call; none where none did."""
    parts = [part for part in arrived if isinstance(part, BroadcastElements)]
    if len(parts) < 2:
        return parts
    values, timestamps = zip(*[(part.values, part.timestamps) for part in parts], strict=True)
    return [BroadcastElements(parts[0].step, [*chain.from_iterable(values)], [*chain.from_iterable(timestamps)])]


def _watermark_in(times: BatchTimes, phase: int, step: str) -> int:
    """The watermark under which a step of a deeper level takes what is emitted in a phase, or a higher one."""
    return times.of(step)[phase].watermark


_FARTHEST = (1 << 62) // 1000  # a timer that far is never due; it has to fit what Spark computes with


def _by_step(rows: Iterable[PackedRow]) -> dict[int, list[Arrived]]:
    """Groups the elements of rows by step."""
    of_steps: defaultdict[int, list[Arrived]] = defaultdict(list)
    for row in rows:
        for elements in _elements_of(row):
            of_steps[elements.step].append(elements)
    return of_steps


def _elements_of(row: PackedRow) -> Sequence[Arrived]:
    if row.kind in {RowKind.COLUMNS, RowKind.AGGREGATED}:
        return [ColumnElements(row.target, row.payload, row.kind == RowKind.AGGREGATED)]
    if row.kind == RowKind.PARTIALS:
        return [PartialElements(row.target, unpack_partials(row.payload))]
    if row.kind == RowKind.BROADCAST:
        return unpack_broadcast(row.payload)
    assert row.kind == RowKind.ELEMENTS, "rows of other kinds go to service groups"
    return unpack_keyed(row.payload)


def _runner_of(step: KeyedStep, level: Level, codec: PageCodec) -> ObjectRunner | ColumnRunner:
    if step.form is None:
        return ObjectRunner(step, level, codec)
    # A plan without columns does not import the columnar modules.
    from windrow_spark.keyed.column_step import ColumnRunner

    return ColumnRunner(step, step.form, level.tuning)
