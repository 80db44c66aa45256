"""Operators hand contexts to triggers, window functions, process functions, assigners and evictors."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from windrow.errors import UnsupportedOperationError
from windrow.functions import ProcessWindowContext
from windrow.state import KeyedStateStore, MergingStateDescriptor, StateDescriptor
from windrow.tags import OutputTag
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.state.handles import StateStore, merge_values, open_state, refuse_expiry
from windrow_runtime.operators.state.model import WindowEntry

# Any in this module: windows and values of every type pass through.


class TimeContext:
    """Gives the time, which is all that assigners and evictors can ask for."""

    __slots__ = ("_operator",)

    def __init__(self, operator: KeyedOperator) -> None:
        self._operator = operator

    @property
    def current_watermark(self) -> int:
        return self._operator.current_watermark

    @property
    def current_processing_time(self) -> int:
        return self._operator.current_processing_time


class TimerContext(TimeContext):
    """Sets and deletes timers of a key and a namespace, which the operator changes from call to call."""

    __slots__ = ("_key", "_namespace")

    def __init__(self, operator: KeyedOperator) -> None:
        super().__init__(operator)
        self._key: Hashable = None
        self._namespace: Any = None

    def register_event_time_timer(self, time: int) -> None:
        self._operator.state.event_timers.register(self._key, self._namespace, time)

    def register_processing_time_timer(self, time: int) -> None:
        self._operator.state.processing_timers.register(self._key, self._namespace, time)

    def delete_event_time_timer(self, time: int) -> None:
        self._operator.state.event_timers.delete(self._key, self._namespace, time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._operator.state.processing_timers.delete(self._key, self._namespace, time)


class TriggerContextImpl(TimerContext):
    """The context of triggers. One instance serves all calls; the operator points it at a window before each."""

    __slots__ = ("_scope", "entry", "merged")

    def __init__(self, operator: KeyedOperator) -> None:
        super().__init__(operator)
        self._scope = ""
        self.entry = WindowEntry()
        self.merged: list[WindowEntry] = []

    def at(self, key: Hashable, window: Any, entry: WindowEntry) -> TriggerContextImpl:
        """The context, pointed at a window."""
        self._key = key
        self._namespace = window
        self.entry = entry
        return self

    def get_state(self, descriptor: StateDescriptor) -> Any:
        refuse_expiry(descriptor)
        return open_state(self.entry.trigger_cells(), descriptor, self._scope + descriptor.name)

    def merge_partitioned_state(self, descriptor: MergingStateDescriptor) -> None:
        name = self._scope + descriptor.name
        # The entry of the result may be one of those that merged; its own state is where it belongs already.
        for source in self.merged:
            if source is self.entry or not source.trigger_state or name not in source.trigger_state:
                continue
            value = source.trigger_state.pop(name)
            cells = self.entry.trigger_cells()
            cells[name] = merge_values(descriptor, cells[name], value) if name in cells else value

    def nested(self, name: str) -> TriggerContextImpl:
        inner = TriggerContextImpl(self._operator)
        inner._scope = f"{self._scope}{name}/"
        inner.merged = self.merged
        return inner.at(self._key, self._namespace, self.entry)


class WindowContextImpl(TimeContext, ProcessWindowContext[Any]):
    """The context of window functions."""

    __slots__ = ("_entry", "_key_cells", "_merging", "_window")

    def __init__(self, operator: KeyedOperator, merging: bool) -> None:
        super().__init__(operator)
        self._merging = merging

    def at(self, window: Any, entry: WindowEntry, key_cells: dict[str, Any]) -> WindowContextImpl:
        """The context, pointed at a window."""
        self._window = window
        self._entry = entry
        self._key_cells = key_cells
        return self

    @property
    def window(self) -> Any:
        return self._window

    @property
    def window_state(self) -> KeyedStateStore:
        if self._merging:
            raise UnsupportedOperationError(
                "merging windows have no per-window state",
                expected="global_state, which is kept by key",
                hint="a merge would leave per-window state behind",
            )
        if self._entry.window_state is None:
            self._entry.window_state = {}
        return StateStore(self._entry.window_state)

    @property
    def global_state(self) -> KeyedStateStore:
        return StateStore(self._key_cells)

    def output(self, tag: OutputTag[Any], value: Any) -> None:
        self._operator.output.side_output(tag.name, value, self._window.max_timestamp())
