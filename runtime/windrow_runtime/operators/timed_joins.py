"""Runs interval joins and as-of joins, which pair elements of two streams by key and timestamp.

The state of a key has, for each stream, sorted timestamps and the stored elements. Each key has one timer, for the
earliest time at which one of its elements is due.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from windrow.functions.marked import LEFT, RIGHT
from windrow.plan import AsOfJoinNode, IntervalJoinNode, Step, TimedJoinNode
from windrow.plan.emitting import records_of
from windrow.tags import OutputTag
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.operators.errors import USER_ERRORS, call_description, no_timestamp, raise_call_error
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.state.model import KeyState

# Any in this module: elements, keys and results of every type.

_Held: TypeAlias = list[list[Any]]
"""The stored elements of a stream: sorted timestamps, and the elements in the same order."""

_LEFT: Final = "left"
_RIGHT: Final = "right"
_TIMER: Final = "timer"
"""The name under which the state has the time of the key's timer."""
_UNTIL: Final = "decided"
"""The name under which that of an outer join has the watermark until which its elements are decided."""


class TimedJoinOperator(KeyedOperator):
    """Stores the elements of both streams, and fires when the earliest of them is due."""

    def __init__(self, step: Step, node: TimedJoinNode, function: object) -> None:
        super().__init__(step, (function,))
        self.step = step
        self._late_tags = node.late_tags
        self._lateness = node.allowed_lateness
        self._takes_late_left = False

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        states, horizon = self.state.keys, self._horizon
        for key, (marked_side, left, right), timestamp in zip(keys, values, timestamps, strict=True):
            side, value = (_LEFT, left) if marked_side == LEFT else (_RIGHT, right)
            if timestamp is None:
                raise no_timestamp(value, "a join by time", self.step.where)
            if timestamp < horizon and not (side == _LEFT and self._takes_late_left):
                self._late(side == _LEFT, value, timestamp)
                continue
            key_state = states.get(key)
            if key_state is None:
                key_state = states[key] = KeyState()
            cells = key_state.state
            due = self._take(side, key, cells, value, timestamp)
            if due is not None:
                self._wait_for(key, cells, min(due, MAX_TIMESTAMP))
            if not cells:
                del states[key]

    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        key_state = self.state.keys.get(key)
        if key_state is None:
            return
        cells = key_state.state
        cells.pop(_TIMER, None)
        due = self._fire(key, cells, self.current_watermark)
        if due is not None:
            self._wait_for(key, cells, min(due, MAX_TIMESTAMP))
        if not cells:
            del self.state.keys[key]

    @property
    def _horizon(self) -> int:
        """The timestamp below which elements are late: the watermark, less the allowed lateness."""
        return max(MIN_TIMESTAMP, self.current_watermark - self._lateness)

    @abstractmethod
    def _take(self, side: str, key: Hashable, cells: dict[str, Any], value: Any, timestamp: int) -> int | None:
        """Processes an element of a stream; returns when it is due, or None for never."""

    @abstractmethod
    def _fire(self, key: Hashable, cells: dict[str, Any], watermark: int) -> int | None:
        """Emits or drops due elements; returns when the next ones are due, or None for never."""

    def _wait_for(self, key: Hashable, cells: dict[str, Any], due: int) -> None:
        """Sets the key's timer, unless it is set for an earlier time."""
        waiting = cells.get(_TIMER)
        if waiting is not None:
            if waiting <= due:
                return
            self.state.event_timers.delete(key, None, waiting)
        cells[_TIMER] = due
        self.state.event_timers.register(key, None, due)

    def _late(self, is_left: bool, value: Any, timestamp: int) -> None:
        self.metrics.late += 1
        tag: OutputTag[Any] | None = self._late_tags[0 if is_left else 1]
        if tag is None:
            self.metrics.count("late_records_dropped")
        else:
            self.output.side_output(tag.name, value, timestamp)


def _hold(cells: dict[str, Any], name: str, value: Any, timestamp: int) -> None:
    """Stores an element, after those with the same timestamp."""
    stored: _Held | None = cells.get(name)
    if stored is None:
        cells[name] = [[timestamp], [value]]
        return
    times, values = stored
    if timestamp >= times[-1]:
        times.append(timestamp)
        values.append(value)
    else:
        index = bisect_right(times, timestamp)
        times.insert(index, timestamp)
        values.insert(index, value)


def _drop(cells: dict[str, Any], name: str, count: int) -> None:
    """Drops the earliest elements."""
    times, values = cells[name]
    if count == len(times):
        del cells[name]
    else:
        del times[:count], values[:count]


class Retention(NamedTuple):
    """How long after its timestamp an element of each side stays, in milliseconds; by side, LEFT or RIGHT.

    Attributes:
        decided: From when on no partner of it can come that is not late.
        kept: When it is dropped: later than that if it may be the partner of an element that is decided later.
    """

    decided: Mapping[int, int]
    kept: Mapping[int, int]

    @classmethod
    def of(cls, lower: int, upper: int, lateness: int, missing: Sequence[int] = ()) -> Retention:
        """Computes that of an interval join; elements of the sides in ``missing`` may be absent from its results.

        A partner that is late by all of the allowed lateness has the timestamp of the horizon, so elements stay until
        the horizon passes it. An inner join without lateness drops them when the watermark reaches it, as Flink does.
        """
        late = lateness + 1 if lateness or missing else 0
        decided = {LEFT: max(0, upper) + late, RIGHT: max(0, -lower) + late}
        kept = dict(decided)
        if RIGHT in missing:  # a left element may be alone
            kept[RIGHT] = max(kept[RIGHT], decided[LEFT] - lower)
        if LEFT in missing:
            kept[LEFT] = max(kept[LEFT], decided[RIGHT] + upper)
        return cls(decided, kept)


class IntervalJoinOperator(TimedJoinOperator):
    """Emits a pair of elements whose timestamps lie within bounds as soon as the second one arrives.

    An element is dropped when the watermark reaches the latest timestamp that a partner can have, as in Flink's
    ``IntervalJoinOperator``. With an allowed lateness, an element that is late by all of it still finds its partners.

    An outer join looks for the partners of an element a second time when it is decided: all of them are still there.
    """

    def __init__(self, step: Step, node: IntervalJoinNode) -> None:
        super().__init__(step, node, node.function)
        self._process = node.function.process_element
        self._lower, self._upper = node.lower, node.upper
        missing = node.join_kind.missing
        retention = Retention.of(node.lower, node.upper, node.allowed_lateness, missing)
        names = {LEFT: _LEFT, RIGHT: _RIGHT}
        self._kept = {names[side]: kept for side, kept in retention.kept.items()}
        # By stream: when an element is decided that comes out without a partner, too.
        self._decided = {names[side]: at for side, at in retention.decided.items() if LEFT + RIGHT - side in missing}
        self._context = PairContext(self)

    def _take(self, side: str, key: Hashable, cells: dict[str, Any], value: Any, timestamp: int) -> int:
        is_left = side == _LEFT
        partners: _Held | None = cells.get(_RIGHT if is_left else _LEFT)
        if partners is not None:
            times, values = partners
            own = value, timestamp
            for index in range(*self._range_of(is_left, times, timestamp)):
                partner = values[index], times[index]
                left, right = (own, partner) if is_left else (partner, own)
                self._pair(key, left, right, max(timestamp, times[index]))
        _hold(cells, side, value, timestamp)
        return timestamp + self._decided.get(side, self._kept[side])

    def _range_of(self, is_left: bool, times: list[int], timestamp: int) -> tuple[int, int]:
        """Returns where the partners of an element lie among the sorted timestamps of the other stream."""
        earliest, latest = (self._lower, self._upper) if is_left else (-self._upper, -self._lower)
        first = bisect_left(times, timestamp + earliest)
        return first, bisect_right(times, timestamp + latest, lo=first)

    def _pair(self, key: Hashable, left: tuple[Any, int], right: tuple[Any, int], timestamp: int) -> None:
        context = self._context
        context.left_timestamp, context.right_timestamp = left[1], right[1]
        context.timestamp = timestamp
        try:
            results = self._process(left[0], right[0], context)
            if results is not None:
                for result in records_of(results, self.step.node.element_type):
                    self.output.collect(result, timestamp)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, left=left[0], right=right[0]))

    def _fire(self, key: Hashable, cells: dict[str, Any], watermark: int) -> int | None:
        due = self._decide(key, cells, watermark) if self._decided else []
        for name, kept in self._kept.items():
            if name not in cells:
                continue
            if watermark == MAX_TIMESTAMP:
                del cells[name]
                continue
            times = cells[name][0]
            dropped = bisect_right(times, watermark - kept)
            if dropped < len(times):
                due.append(times[dropped] + kept)
            if dropped:
                _drop(cells, name, dropped)
        if self._decided:
            if _LEFT in cells or _RIGHT in cells:
                cells[_UNTIL] = watermark
            else:
                cells.pop(_UNTIL, None)
        return min(due, default=None)

    def _decide(self, key: Hashable, cells: dict[str, Any], watermark: int) -> list[int]:
        """Emits the elements that have no partner, of those that are decided now; returns when the next ones are."""
        decided_before, due = cells.get(_UNTIL, MIN_TIMESTAMP), []
        alone: list[tuple[int, bool, Any, int]] = []
        for name, delay in self._decided.items():
            times, values = cells.get(name, ((), ()))
            is_left = name == _LEFT
            others = cells.get(_RIGHT if is_left else _LEFT, ([], []))[0]
            first = bisect_right(times, decided_before - delay)
            end = len(times) if watermark == MAX_TIMESTAMP else bisect_right(times, watermark - delay, lo=first)
            if end < len(times):
                due.append(times[end] + delay)
            for place in range(first, end):
                begin, stop = self._range_of(is_left, others, times[place])
                if begin == stop:
                    alone.append((min(times[place] + delay, MAX_TIMESTAMP), not is_left, values[place], times[place]))
        for timestamp, is_right, value, of_value in sorted(alone, key=itemgetter(0, 1)):
            element, none = (value, of_value), (None, of_value)
            self._pair(key, none if is_right else element, element if is_right else none, timestamp)
        return due


class PairContext:
    """The context of join functions; one instance serves all calls."""

    __slots__ = ("_operator", "left_timestamp", "right_timestamp", "timestamp")

    def __init__(self, operator: KeyedOperator) -> None:
        self._operator = operator
        self.left_timestamp = self.right_timestamp = self.timestamp = 0

    def output(self, tag: OutputTag[Any], value: Any) -> None:
        self._operator.output.side_output(tag.name, value, self.timestamp)


class AsOfJoinOperator(TimedJoinOperator):
    """Pairs each left element with the latest right element (version) at or before its timestamp.

    Left elements wait for the watermark, or if they come late, for its next advance. Of the versions at or before the
    watermark, less the allowed lateness, only the last one is kept, and that until its retention is over for all that
    are not late. An outer join drops no left element, as in Flink's ``TemporalRowTimeJoinOperator``: late ones take
    what is kept.
    """

    def __init__(self, step: Step, node: AsOfJoinNode) -> None:
        super().__init__(step, node, node.function)
        self._join = node.function
        self._is_outer = node.is_outer
        self._retention = node.retention
        self._takes_late_left = node.is_outer and node.late_tags.left is None

    def _take(self, side: str, key: Hashable, cells: dict[str, Any], value: Any, timestamp: int) -> int | None:
        _hold(cells, side, value, timestamp)
        if side == _LEFT:
            return timestamp
        self._drop_versions(cells)
        return self._expiry(cells)

    def _fire(self, key: Hashable, cells: dict[str, Any], watermark: int) -> int | None:
        times, values = cells.get(_LEFT, ((), ()))
        versions: _Held = cells.get(_RIGHT, [[], []])
        due = bisect_right(times, watermark)
        for value, timestamp in zip(values[:due], times[:due], strict=True):
            index = bisect_right(versions[0], timestamp)
            if index and self._retention is not None and versions[0][index - 1] < timestamp - self._retention:
                index = 0
            if index or self._is_outer:
                self._emit(key, value, versions[1][index - 1] if index else None, timestamp)
        following = [] if due == len(times) else [times[due]]
        if due:
            _drop(cells, _LEFT, due)
        self._drop_versions(cells)
        expiry = self._expiry(cells)
        return min(following if expiry is None else [*following, expiry], default=None)

    def _expiry(self, cells: dict[str, Any]) -> int | None:
        """Returns the watermark at which the first version is too old for all that may come; None for never."""
        if self._retention is None or _RIGHT not in cells:
            return None
        expiry: int = cells[_RIGHT][0][0] + self._retention + self._lateness + 1
        return expiry if expiry <= MAX_TIMESTAMP else None

    def _emit(self, key: Hashable, left: Any, right: Any, timestamp: int) -> None:
        try:
            self.output.collect(self._join(left, right), timestamp)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, left=left, right=right))

    def _drop_versions(self, cells: dict[str, Any]) -> None:
        """Drops versions that no further element pairs with: a newer one holds at its time, or they are too old."""
        if _RIGHT not in cells:
            return
        times, earliest = cells[_RIGHT][0], self._horizon
        left = cells.get(_LEFT)
        if left is not None:
            # Elements at the watermark, and late ones, wait for its next advance.
            earliest = min(earliest, left[0][0])
        dropped = bisect_right(times, earliest) - 1
        if self._retention is not None:
            dropped = max(dropped, bisect_left(times, earliest - self._retention))
        if dropped > 0:
            _drop(cells, _RIGHT, dropped)
