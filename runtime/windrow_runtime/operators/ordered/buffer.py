"""Keeps the elements of each key until the watermark reaches them, and passes them on by timestamp.

The state of a key has the elements that wait, and their timestamps, which are sorted. Each key has one timer, for the
earliest time at which something is due.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from typing import Any, Final

from windrow.errors import UnsupportedOperationError
from windrow.plan import EventTimeOrderNode, InEventTimeNode, Step
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.operators.errors import call_description
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.state.model import KeyState

# Any in this module: elements and keys of every type.

_TIMES: Final = "times"
_WAITING: Final = "waiting"
_TIMER: Final = "timer"
"""The name under which the state has the time of the key's timer."""


class InEventTimeOperator(KeyedOperator):
    """Keeps elements until the watermark reaches them."""

    def __init__(self, step: Step, node: InEventTimeNode, functions: Sequence[object] = ()) -> None:
        super().__init__(step, functions)
        self.step = step
        self._late_tag = node.late_tag
        self._most: int | None = None

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        states, watermark, most = self.state.keys, self.current_watermark, self._most
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            if timestamp is None or timestamp <= watermark:
                self._late(value, timestamp)
                continue
            key_state = states.get(key)
            if key_state is None:
                key_state = states[key] = KeyState()
            cells = key_state.state
            times: list[int] | None = cells.get(_TIMES)
            if times is None:
                cells[_TIMES], cells[_WAITING] = [timestamp], [value]
                self._wait_for(key, cells, timestamp)
                continue
            if timestamp >= times[-1]:
                times.append(timestamp)
                cells[_WAITING].append(value)
            else:
                place = bisect_right(times, timestamp)
                times.insert(place, timestamp)
                cells[_WAITING].insert(place, value)
                if place == 0:
                    self._wait_for(key, cells, timestamp)
            if most is not None and len(times) > most:
                raise self._full(key, value, most)

    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        key_state = self.state.keys.get(key)
        if key_state is None:
            return
        cells = key_state.state
        cells.pop(_TIMER, None)
        watermark = self.current_watermark
        times: list[int] = cells.get(_TIMES, [])
        values: list[Any] = cells.get(_WAITING, [])
        count = len(times) if times and times[-1] <= watermark else bisect_right(times, watermark)
        if count == len(times):
            cells.pop(_TIMES, None)
            cells.pop(_WAITING, None)
            due = None
        else:
            cells[_TIMES], cells[_WAITING] = times[count:], values[count:]
            times, values, due = times[:count], values[:count], times[count]
        further = self._release(key, cells, values, times)
        dues = [each for each in (due, further) if each is not None]
        if dues:
            self._wait_for(key, cells, min(dues))
        if not cells:
            del self.state.keys[key]

    @abstractmethod
    def _release(self, key: Hashable, cells: dict[str, Any], values: list[Any], times: list[int]) -> int | None:
        """Takes the elements that the watermark has reached; returns when more is due, or None for never."""

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


class EventTimeOrderOperator(InEventTimeOperator):
    """Emits the elements that the watermark has reached, with their timestamps."""

    def __init__(self, step: Step, node: EventTimeOrderNode) -> None:
        super().__init__(step, node)
        self._most = node.max_buffered

    def _release(self, key: Hashable, cells: dict[str, Any], values: list[Any], times: list[int]) -> int | None:
        collect = self.output.collect
        for value, timestamp in zip(values, times, strict=True):
            collect(value, timestamp)
        return None
