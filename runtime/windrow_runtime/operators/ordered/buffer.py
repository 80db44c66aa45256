"""Keeps the elements of each key until the watermark reaches them, and passes them on by timestamp.

The state of a key has the elements that wait, by timestamp; a list of the engine's has several of one timestamp. Each
key has one timer, for the earliest time at which something is due.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from windrow.errors import UnsupportedOperationError
from windrow.plan import EventTimeOrderNode, InEventTimeNode, Step
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.operators.errors import call_description
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.state.model import GrowingList, KeyState

# Any in this module: elements and keys of every type.

_WAITING: Final = "waiting"
_COUNT: Final = "count"
"""The name under which the state has the number of elements that wait, if that is limited."""

_TIMER: Final = "timer"
"""The name under which the state has the time of the key's timer."""


_Waiting: TypeAlias = dict[int, Any]
"""The elements that wait, by timestamp; a ``GrowingList`` has several in order of arrival."""


class InEventTimeOperator(KeyedOperator):
    """Keeps elements until the watermark reaches them."""

    def __init__(self, step: Step, node: InEventTimeNode, functions: Sequence[object] = ()) -> None:
        super().__init__(step, functions)
        self.step = step
        self._late_tag = node.late_tag
        self._most: int | None = None
        self._matters: Callable[[Any], bool] | None = None  # whether an element does; None: each does

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        states, watermark, most, matters = self.state.keys, self.current_watermark, self._most, self._matters
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            if timestamp is None or timestamp <= watermark:
                self._late(value, timestamp)
                continue
            if matters is not None and not matters(value):
                continue
            key_state = states.get(key)
            if key_state is None:
                key_state = states[key] = KeyState()
            cells = key_state.state
            waiting: _Waiting | None = cells.get(_WAITING)
            if waiting is None:
                cells[_WAITING] = {timestamp: value}
                self._wait_for(key, cells, timestamp)
            elif timestamp in waiting:
                alike = waiting[timestamp]
                if type(alike) is GrowingList:
                    alike.append(value)
                else:
                    waiting[timestamp] = GrowingList((alike, value))
            else:
                waiting[timestamp] = value
                if timestamp < cells[_TIMER]:
                    self._wait_for(key, cells, timestamp)
            if most is not None:
                known = cells.get(_COUNT)
                # A checkpoint of a run without a limit has elements that were not counted.
                cells[_COUNT] = count = _number_of(cells[_WAITING].values()) if known is None else known + 1
                if count > most:
                    raise self._full(key, value, most)

    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        key_state = self.state.keys.get(key)
        if key_state is None:
            return
        cells = key_state.state
        cells.pop(_TIMER, None)
        watermark = self.current_watermark
        waiting: _Waiting = cells.pop(_WAITING, {})
        times = sorted(waiting)
        due: int | None = None
        if times and times[-1] > watermark:
            # What is not yet due stays in a dictionary of its own.
            count = bisect_right(times, watermark)
            cells[_WAITING] = {each: waiting[each] for each in times[count:]}
            times, due = times[:count], times[count]
        if self._most is None:
            cells.pop(_COUNT, None)  # of a run that had a limit
        elif _COUNT in cells:
            self._count_down(cells, _number_of(waiting[each] for each in times))
        further = self._release(key, cells, [(each, waiting[each]) for each in times])
        dues = [each for each in (due, further) if each is not None]
        if dues:
            self._wait_for(key, cells, min(dues))
        if not cells:
            del self.state.keys[key]

    @abstractmethod
    def _release(self, key: Hashable, cells: dict[str, Any], reached: list[tuple[int, Any]]) -> int | None:
        """Takes the elements that the watermark has reached, by timestamp; returns when more is due; None: never."""

    @staticmethod
    def _count_down(cells: dict[str, Any], count: int) -> None:
        cells[_COUNT] -= count
        if not cells[_COUNT]:
            del cells[_COUNT]

    def _wait_for(self, key: Hashable, cells: dict[str, Any], due: int) -> None:
        """Sets the key's timer, unless it is set for an earlier time."""
        waiting = cells.get(_TIMER)
        if waiting is not None:
            if waiting <= due:
                return
            self.state.event_timers.delete(key, None, waiting)
        cells[_TIMER] = due = min(due, MAX_TIMESTAMP)
        self.state.event_timers.register(key, None, due)

    def _late(self, value: Any, timestamp: int | None) -> None:
        self.metrics.late += 1
        if self._late_tag is None:
            self.metrics.count("late_records_dropped")
        else:
            self.output.side_output(self._late_tag.name, value, timestamp)

    def _full(self, key: Hashable, value: Any, most: int) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            "more elements of a key wait for the watermark than max_buffered allows",
            given=call_description(key, element=value),
            expected=f"at most {most} elements of a key between the watermark and the newest one",
            where=self.step.where,
            hint="look whether a source is idle, since its watermark holds all back (with_idleness); or raise "
            "max_buffered, and go on from the checkpoint",
        )


def several(waiting: Any) -> Sequence[Any]:
    """Returns the elements that wait for one timestamp, in order of arrival."""
    return waiting if type(waiting) is GrowingList else (waiting,)


def _number_of(entries: Iterable[Any]) -> int:
    return sum(len(several(waiting)) for waiting in entries)


class EventTimeOrderOperator(InEventTimeOperator):
    """Emits the elements that the watermark has reached, with their timestamps."""

    def __init__(self, step: Step, node: EventTimeOrderNode) -> None:
        super().__init__(step, node)
        self._most = node.max_buffered

    def _release(self, key: Hashable, cells: dict[str, Any], reached: list[tuple[int, Any]]) -> int | None:
        collect = self.output.collect
        for timestamp, waiting in reached:
            for value in several(waiting):
                collect(value, timestamp)
        return None
