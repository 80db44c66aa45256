"""Defines the contexts of triggers: time, timers and state of a key and window, separate for each part of a trigger."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from datetime import datetime
from typing import Any, ClassVar, Final, TypeAlias

from windrow.state import MergingStateDescriptor, StateDescriptor, ValueStateDescriptor
from windrow_runtime.operators.operator import KeyedOperator, TimerContext
from windrow_runtime.operators.state.handles import StateStore, merge_values, open_state, refuse_expiry
from windrow_runtime.operators.state.model import WindowEntry

# Any in this module: windows and state of every type.

_TIMERS: Final = "\0timers"
"""The name, which no state of a trigger has, under which a window stores which part of its trigger set which timer."""

_Timer: TypeAlias = tuple[bool, int]
"""A timer of a window: whether it is in event time, and its time."""


class TriggerContextImpl(TimerContext):
    """The context of triggers. One instance serves all calls; the operator points it at a window before each."""

    __slots__ = ("_scope", "_whole", "entry", "merged", "purges")
    undo: ClassVar[None] = None  # what triggers change is not taken back

    def __init__(self, operator: KeyedOperator, whole: TriggerContextImpl | None = None) -> None:
        super().__init__(operator)
        self._whole = whole or self  # the instance that the operator points at windows, which kept handles follow
        self._scope = ""
        self.entry = WindowEntry()
        self.merged: list[WindowEntry] = []
        self.purges = False  # whether a part of the trigger has asked for a purge

    def at(self, key: Hashable, window: Any, entry: WindowEntry) -> TriggerContextImpl:
        """Points the context at a window, and returns it."""
        self._key = key
        self._namespace = window
        self.entry = entry
        return self

    def get_state(self, descriptor: StateDescriptor) -> Any:
        refuse_expiry(descriptor)
        handle = open_state(self._whole, descriptor, self._scope)
        handle.current_cells()
        return handle

    @property
    def cells(self) -> dict[str, Any]:
        """The state of the window that the operator points the context at."""
        return self.entry.trigger_cells()

    def merge_partitioned_state(self, descriptor: MergingStateDescriptor) -> None:
        name = self._scope + descriptor.name
        # The entry of the merged window may be one of those that merged; its state need not be moved.
        for source in self.merged:
            if source is self.entry or not source.trigger_state or name not in source.trigger_state:
                continue
            value = source.trigger_state.pop(name)
            cells = self.entry.trigger_cells()
            cells[name] = merge_values(descriptor, cells[name], value) if name in cells else value

    def merged_values(self, descriptor: ValueStateDescriptor[Any]) -> list[Any]:
        return [
            open_state(StateStore().at(source.trigger_cells()), descriptor, self._scope).value()
            for source in self.merged
        ]

    def nested(self, name: str) -> TriggerContextImpl:
        inner = TriggerContextImpl(self._operator, self._whole)
        inner._scope = f"{self._scope}{name}/"
        inner.merged = self.merged
        return inner.at(self._key, self._namespace, self.entry)

    def part(self, name: str) -> PartContextImpl:
        return PartContextImpl(self, self, f"{self._scope}{name}/")


class PartContextImpl(TriggerContextImpl):
    """The context of a part of a trigger. Parts share a window's timers; each timer has the parts that have set it."""

    __slots__ = ("_owner",)

    def __init__(self, whole: TriggerContextImpl, outer: TriggerContextImpl, owner: str) -> None:
        super().__init__(outer._operator, whole)
        self._scope = self._owner = owner
        self.merged = outer.merged
        self.at(outer._key, outer._namespace, outer.entry)

    def nested(self, name: str) -> PartContextImpl:
        inner = PartContextImpl(self._whole, self, self._owner)
        inner._scope = f"{self._scope}{name}/"
        return inner

    def part(self, name: str) -> PartContextImpl:
        return PartContextImpl(self._whole, self, f"{self._scope}{name}/")

    def purge(self) -> None:
        self._whole.purges = True

    def take_purge(self) -> bool:
        purges, self._whole.purges = self._whole.purges, False
        return purges

    # Timers

    def register_event_time_timer(self, time: int | datetime) -> None:
        time = self._due(time)
        self._own(True, time)
        super().register_event_time_timer(time)

    def register_processing_time_timer(self, time: int | datetime) -> None:
        time = self._due(time)
        self._own(False, time)
        super().register_processing_time_timer(time)

    def delete_event_time_timer(self, time: int | datetime) -> None:
        time = self._due(time)
        if self._disown((True, time), self._owner):
            super().delete_event_time_timer(time)

    def delete_processing_time_timer(self, time: int | datetime) -> None:
        time = self._due(time)
        if self._disown((False, time), self._owner):
            super().delete_processing_time_timer(time)

    def take_event_time_timer(self, time: int | datetime) -> bool:
        return self._take((True, self._due(time)))

    def take_processing_time_timer(self, time: int | datetime) -> bool:
        return self._take((False, self._due(time)))

    def delete_timers(self) -> None:
        for timer, owner in list(self._owned()):
            if owner.startswith(self._owner) and self._disown(timer, owner):
                in_event_time, time = timer
                if in_event_time:
                    super().delete_event_time_timer(time)
                else:
                    super().delete_processing_time_timer(time)

    def _owned(self) -> Iterator[tuple[_Timer, str]]:
        """Yields the timers of the window, each with every part that has set it."""
        cells = self.entry.trigger_state or {}
        for timer, owners in cells.get(_TIMERS, {}).items():
            for owner in owners:
                yield timer, owner

    def _own(self, in_event_time: bool, time: int) -> None:
        timers = self.entry.trigger_cells().setdefault(_TIMERS, {})
        owners = timers.setdefault((in_event_time, time), [])
        if self._owner not in owners:
            owners.append(self._owner)

    def _take(self, timer: _Timer) -> bool:
        is_own = any(owned == timer and owner == self._owner for owned, owner in self._owned())
        if is_own:
            self._disown(timer, self._owner)
        return is_own

    def _disown(self, timer: _Timer, owner: str) -> bool:
        """Removes a part from a timer's owners; returns whether it was the last one."""
        cells = self.entry.trigger_state or {}
        timers = cells.get(_TIMERS, {})
        owners = timers.get(timer)
        if owners is None or owner not in owners:
            return False
        owners.remove(owner)
        if owners:
            return False
        del timers[timer]
        if not timers:
            del cells[_TIMERS]
        return True
