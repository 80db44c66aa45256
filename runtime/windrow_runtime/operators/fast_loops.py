"""Loops for common shapes of windows, over the same state as the general operator.

A step in one of these shapes keeps its state as the general operator does, so an element that needs more than the loop
(a new session that merges, a window that has fired, a late element) is handed to the general operator, and a snapshot
of one form continues in the other. What the loop leaves out is work that would change nothing: asking a trigger that
says continue, setting timers that are set.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from windrow.errors import WindrowError
from windrow.plan import AggregateSpec, ReduceSpec, Step, WindowNode
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import EventTimeTrigger
from windrow.windows import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowStagger,
)
from windrow_runtime.operators.contents import contents_for
from windrow_runtime.operators.state import NOTHING, KeyState, WindowEntry
from windrow_runtime.operators.window_operator import WindowOperator

__all__ = ["SessionLoopOperator", "SlidingLoopOperator", "TumblingLoopOperator", "fast_form"]

# Any in this module: elements and accumulators of every type.


def fast_form(node: WindowNode) -> type[WindowOperator] | None:
    """The loop that runs a step, or None where only the general operator does."""
    if node.evictor is not None or type(node.effective_trigger) is not EventTimeTrigger:
        return None
    assigner = node.assigner
    if type(assigner) in (EventTimeSessionWindows, DynamicEventTimeSessionWindows):
        return SessionLoopOperator
    if not isinstance(node.function, (ReduceSpec, AggregateSpec)):
        return None
    if type(assigner) is TumblingEventTimeWindows and assigner.stagger is WindowStagger.ALIGNED:
        return TumblingLoopOperator
    if type(assigner) is SlidingEventTimeWindows:
        return SlidingLoopOperator
    return None


def _adder(node: WindowNode) -> Callable[[Any, Any], Any]:
    """Adds an element (second) to contents that are there (first)."""
    spec = node.function
    if isinstance(spec, ReduceSpec):
        return spec.reduce
    assert isinstance(spec, AggregateSpec)
    add = spec.aggregate.add
    return lambda contents, value: add(value, contents)


class _IncrementalLoop(WindowOperator):
    """What the loops of windows with fixed bounds share: making the entry of a window that is not there yet."""

    def __init__(self, step: Step, node: WindowNode) -> None:
        super().__init__(step, node)
        self._fold = _adder(node)

    def _open_entry(self, key: Hashable, window: TimeWindow, value: Any) -> WindowEntry:
        """The entry of a window that has not fired yet, with its first element in it and its timers set."""
        keys = self.state.keys
        key_state = keys.get(key)
        if key_state is None:
            key_state = keys[key] = KeyState()
        entry = key_state.windows.get(window)
        if entry is not None and entry.contents is not NOTHING:
            entry.contents = self._fold(entry.contents, value)
            return entry
        # The user's function comes first: if it raises, nothing has changed.
        contents = self.contents.add(NOTHING, value, None, 0)
        if entry is None:
            entry = key_state.windows[window] = WindowEntry()
        entry.contents = contents
        register = self.state.event_timers.register
        end = window.end - 1
        register(key, window, end)
        cleanup = end + self.lateness
        if cleanup != end and cleanup < MAX_TIMESTAMP:
            register(key, window, cleanup)
        return entry


class TumblingLoopOperator(_IncrementalLoop):
    """Tumbling windows in event time with a reduce or an aggregate and the default trigger."""

    def process_batch(
        self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]
    ) -> None:
        assigner = self.assigner
        assert isinstance(assigner, TumblingEventTimeWindows)
        size = assigner.size
        offset = assigner.offset
        # Windows that start here or later have not fired; what comes for others is the general operator's.
        open_from = self.current_watermark - size + 2
        spec = self.function
        entries: dict[int, dict[Hashable, WindowEntry]] = {}
        add = spec.aggregate.add if isinstance(spec, AggregateSpec) else None
        reduce = spec.reduce if isinstance(spec, ReduceSpec) else None
        key: Hashable = None
        value: Any = None
        try:
            for key, value, timestamp in zip(keys, values, timestamps, strict=True):
                if timestamp is None:
                    self.process_element(key, value, timestamp)
                    continue
                start = timestamp - (timestamp - offset) % size
                if start < open_from:
                    self.process_element(key, value, timestamp)
                    continue
                of_window = entries.get(start)
                if of_window is None:
                    of_window = entries[start] = {}
                entry = of_window.get(key)
                if entry is None:
                    of_window[key] = self._open_entry(key, TimeWindow(start, start + size), value)
                elif add is not None:
                    entry.contents = add(value, entry.contents)
                elif reduce is not None:
                    entry.contents = reduce(entry.contents, value)
        except WindrowError as error:
            raise error.at(self.step.where) from error.__cause__
        except Exception as error:
            raise self._failed(error, f"key {key!r}, element {value!r:.200}") from error


class SlidingLoopOperator(_IncrementalLoop):
    """Sliding windows in event time with a reduce or an aggregate and the default trigger."""

    def process_batch(
        self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]
    ) -> None:
        assigner = self.assigner
        assert isinstance(assigner, SlidingEventTimeWindows)
        size, slide, offset = assigner.size, assigner.slide, assigner.offset
        open_from = self.current_watermark - size + 2
        reach = (size - 1) // slide * slide
        fold = self._fold
        # For each start of a slide, the windows that hold the timestamps in it, the latest first.
        windows: dict[int, list[TimeWindow]] = {}
        entries: dict[TimeWindow, dict[Hashable, WindowEntry]] = {}
        key: Hashable = None
        value: Any = None
        try:
            for key, value, timestamp in zip(keys, values, timestamps, strict=True):
                if timestamp is None:
                    self.process_element(key, value, timestamp)
                    continue
                last = timestamp - (timestamp - offset) % slide
                if last - reach < open_from:
                    # The earliest window that may hold it has fired.
                    self.process_element(key, value, timestamp)
                    continue
                held_by = windows.get(last)
                if held_by is None:
                    held_by = windows[last] = [
                        TimeWindow(start, start + size) for start in range(last, last - size, -slide)
                    ]
                for window in held_by:
                    if timestamp >= window.end:
                        continue
                    of_window = entries.get(window)
                    if of_window is None:
                        of_window = entries[window] = {}
                    entry = of_window.get(key)
                    if entry is None:
                        of_window[key] = self._open_entry(key, window, value)
                    else:
                        entry.contents = fold(entry.contents, value)
        except WindrowError as error:
            raise error.at(self.step.where) from error.__cause__
        except Exception as error:
            raise self._failed(error, f"key {key!r}, element {value!r:.200}") from error


class SessionLoopOperator(WindowOperator):
    """Sessions in event time with the default trigger.

    An element inside the current session of its key adds to it; one that reaches beyond its end moves the end. No
    window is made and merged; timers move when the end does.
    """

    def __init__(self, step: Step, node: WindowNode) -> None:
        super().__init__(step, node)
        self._add_contents = contents_for(node.function, evicting=False, merging=True).add

    def process_batch(
        self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]
    ) -> None:
        assigner = self.assigner
        assert isinstance(assigner, (EventTimeSessionWindows, DynamicEventTimeSessionWindows))
        fixed_gap = assigner.gap if isinstance(assigner, EventTimeSessionWindows) else None
        watermark = self.current_watermark
        held = self.state.keys
        add = self._add_contents
        key: Hashable = None
        value: Any = None
        try:
            for key, value, timestamp in zip(keys, values, timestamps, strict=True):
                key_state = held.get(key)
                if key_state is None or timestamp is None or len(key_state.live) != 1:
                    self.process_element(key, value, timestamp)
                    continue
                (session,) = key_state.live
                if not session.start <= timestamp <= session.end or session.end - 1 <= watermark:
                    self.process_element(key, value, timestamp)
                    continue
                end = timestamp + (fixed_gap if fixed_gap is not None else assigner.gap_of(value))
                entry = key_state.windows.get(session)
                if entry is None or entry.contents is NOTHING:
                    self.process_element(key, value, timestamp)
                    continue
                entry.contents = add(entry.contents, value, timestamp, key_state.arrivals)
                key_state.arrivals += 1
                if end > session.end:
                    self._extend(key, key_state, session, end, entry)
        except WindrowError as error:
            raise error.at(self.step.where) from error.__cause__
        except Exception as error:
            raise self._failed(error, f"key {key!r}, element {value!r:.200}") from error

    def _extend(
        self, key: Hashable, key_state: KeyState, session: TimeWindow, end: int, entry: WindowEntry
    ) -> None:
        longer = TimeWindow(session.start, end)
        del key_state.windows[session]
        key_state.windows[longer] = entry
        key_state.live[0] = longer
        timers = self.state.event_timers
        timers.delete(key, session, session.end - 1)
        timers.register(key, longer, end - 1)
        lateness = self.lateness
        if lateness:
            timers.delete(key, session, session.end - 1 + lateness)
            if end - 1 + lateness < MAX_TIMESTAMP:
                timers.register(key, longer, end - 1 + lateness)
