"""Gives elements the values of side inputs, and keeps the elements whose views are not there yet.

The contents of views are broadcast state: by the name of a view, and by the last millisecond of a window. An element
waits in the state of its key for the windows of all views; a timer of the key is due when the first of those that
nothing has come to are over. Elements that wait are numbered over all keys, and come out in this order.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, TypeAlias

from windrow.errors import UnsupportedOperationError
from windrow.functions.marked import WithViews
from windrow.plan import SideInputNode, Step
from windrow.side_inputs.views import SideView
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.operators.broadcast.broadcast_operator import BroadcastTaker
from windrow_runtime.operators.errors import USER_ERRORS, no_timestamp, raise_call_error, shortened
from windrow_runtime.operators.operator import OperatorOutput
from windrow_runtime.operators.state.model import GrowingList, KeyState, OperatorState

# Any in this module: elements, keys and views of every type.

_WAITING: Final = "waiting"
_TIMER: Final = "timer"
"""The names under which the state of a key has the elements that wait, by their windows, and the time of its timer."""

_Windows: TypeAlias = tuple[int | None, ...]
"""The window of each view, as its last millisecond; None: no window has the timestamp of the element."""

_Waiting: TypeAlias = tuple[int, int | None, Any]
"""The number, the timestamp and the value of an element that waits."""


class SideInputOperator(BroadcastTaker):
    """Emits each element with the values of views, as soon as all of them are there."""

    def __init__(self, step: Step, node: SideInputNode) -> None:
        super().__init__(step)
        self.step = step
        self._views = node.views
        self._names = [f"view {number}" for number in range(len(node.views))]
        self._lateness = [max(view.windows.lateness, node.allowed_lateness) for view in node.views]
        self._late_tag = node.late_tag
        self._is_timed = any(view.windows.assigner is not None for view in node.views)
        self._values: dict[tuple[int, int | None], object] = {}  # what functions see, by view and window
        self._last_number: int | None = None  # of the elements that wait; None: it is to be looked up in the state

    def bind(self, state: OperatorState, output: OperatorOutput) -> None:
        super().bind(state, output)
        self._values.clear()
        self._last_number = None

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            if timestamp is None and self._is_timed:
                raise no_timestamp(value, "side inputs in windows", self.step.where)
            windows = tuple([view.windows.window_for(timestamp) for view in self._views])
            if any(map(self._is_over, windows, self._lateness)):
                self.metrics.late += 1
                if self._late_tag is None:
                    self.metrics.count("late_records_dropped")
                else:
                    self.output.side_output(self._late_tag.name, value, timestamp)
                continue
            due = self._due(windows)
            if due is None:
                self._emit(windows, value, timestamp)
            else:
                self._wait(key, windows, due, value, timestamp)

    def process_broadcast(self, values: Sequence[Any], timestamps: Sequence[int | None], *, emits: bool = True) -> bool:
        self._drop_views()
        are_there = False
        for element, timestamp in zip(values, timestamps, strict=True):
            if self.observer is not None:
                self.observer.arrived(None, element.value, timestamp, for_all_keys=True)
            number = element.view
            view = self._views[number]
            if timestamp is None and view.windows.assigner is not None:
                raise no_timestamp(element.value, f"the side input {view.describe()}", self.step.where)
            for window in view.windows.windows_of(timestamp):
                if self._is_over(window, self._lateness[number]):
                    if emits:
                        self.metrics.late += 1
                        self.metrics.count("late_records_dropped")
                    continue
                by_window = self.state.shared.setdefault(self._names[number], {})
                was_there = window in by_window and view.is_there(by_window[window])
                contents = by_window.setdefault(window, view.begin())
                try:
                    view.change(contents, element)
                except USER_ERRORS as error:  # comparisons of the user's values
                    raise_call_error(self.step, error, f"{view.describe()}, element {shortened(element.value)}")
                are_there = are_there or not (was_there or view.windows.at_end or not view.is_there(contents))
                self._values.pop((number, window), None)
        if are_there:
            self._release()
        return are_there

    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        key_state = self.state.keys.get(key)
        # With the first timer that a watermark makes due come the elements of all keys.
        if key_state is not None and key_state.state.get(_TIMER) == time:
            del key_state.state[_TIMER]
            self._release()

    def _wait(self, key: Hashable, windows: _Windows, due: int, value: Any, timestamp: int | None) -> None:
        key_state = self.state.keys.get(key)
        if key_state is None:
            key_state = self.state.keys[key] = KeyState()
        if self._last_number is None:
            self._last_number = max((each.arrivals for each in self.state.keys.values()), default=0)
        key_state.arrivals = self._last_number = self._last_number + 1
        element: _Waiting = (self._last_number, timestamp, value)
        waiting: dict[_Windows, Any] = key_state.state.setdefault(_WAITING, {})
        if windows in waiting:
            waiting[windows].append(element)
            return
        waiting[windows] = GrowingList((element,))
        timer = key_state.state.get(_TIMER)
        if timer is None or due < timer:
            self._set_timer(key, key_state, due)

    def _release(self) -> None:
        """Emits the elements whose views are there, in order of arrival, and sets the timers of keys with others."""
        released: list[tuple[_Windows, _Waiting]] = []
        for key, key_state in list(self.state.keys.items()):
            waiting: dict[_Windows, Any] = key_state.state.get(_WAITING, {})
            dues: list[int] = []
            for windows in list(waiting):
                due = self._due(windows)
                if due is None:
                    released += [(windows, element) for element in waiting.pop(windows)]
                else:
                    dues.append(due)
            self._set_timer(key, key_state, min(dues, default=None))
            if not waiting:
                del self.state.keys[key]
        released.sort(key=lambda each: each[1][0])
        for windows, (_, timestamp, value) in released:
            self._emit(windows, value, timestamp)

    def _set_timer(self, key: Hashable, key_state: KeyState, due: int | None) -> None:
        before = key_state.state.pop(_TIMER, None)
        if before is not None and before != due:
            self.state.event_timers.delete(key, None, before)
        if due is not None:
            key_state.state[_TIMER] = due
            self.state.event_timers.register(key, None, due)

    def _due(self, windows: _Windows) -> int | None:
        """Returns when the last window is over for which elements wait; None: all views are there."""
        dues = [
            window
            for view, name, window in zip(self._views, self._names, windows, strict=True)
            if window is not None
            and window > self.current_watermark
            and (view.windows.at_end or not self._is_there(view, name, window))
        ]
        return max(dues, default=None)

    def _emit(self, windows: _Windows, value: Any, timestamp: int | None) -> None:
        self.output.collect(WithViews((value, *map(self._value, range(len(windows)), windows))), timestamp)

    def _value(self, number: int, window: int | None) -> object:
        if (number, window) in self._values:
            return self._values[number, window]
        view, contents = self._views[number], self.state.shared.get(self._names[number], {}).get(window)
        try:
            if contents is None:
                return view.value(view.begin())
            self._values[number, window] = value = view.value(contents)
        except UnsupportedOperationError as error:
            raise error.at(self.step.where) from None
        return value

    def _is_over(self, window: int | None, lateness: int) -> bool:
        """Returns whether the view of a window is gone; that of the global window never is."""
        return window is not None and window != MAX_TIMESTAMP and window + lateness <= self.current_watermark

    def _is_there(self, view: SideView, name: str, window: int) -> bool:
        """Returns whether elements need not wait for a view of a window that changes while it is open."""
        by_window = self.state.shared.get(name, {})
        return window in by_window and view.is_there(by_window[window])

    def _is_awaited(self, window: int) -> bool:
        """Returns whether an element whose timestamp is in a window may still wait for the view of another one."""
        for view, name in zip(self._views, self._names, strict=True):
            other = view.windows.window_for(window)
            if other == MAX_TIMESTAMP and self._is_there(view, name, other):
                continue
            if other is not None and other > self.current_watermark:
                return True
        return False

    def _drop_views(self) -> None:
        """Drops the views that no element can see any more."""
        shared = self.state.shared
        for number, (name, lateness) in enumerate(zip(self._names, self._lateness, strict=True)):
            by_window = shared.get(name, {})
            for window in [each for each in by_window if self._is_over(each, lateness) and not self._is_awaited(each)]:
                del by_window[window]
                self._values.pop((number, window), None)
            if not by_window:
                shared.pop(name, None)
