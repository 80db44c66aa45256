"""The contract of triggers, for those of windrow and for users' own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from windrow.state import KeyedStateStore, MergingStateDescriptor, ValueStateDescriptor
from windrow.time import Timers
from windrow.triggers.call_text import constructor_text

if TYPE_CHECKING:
    # windrow.windows needs triggers for its defaults; at run time this module needs no window.
    from windrow.windows.window import Window

T_contra = TypeVar("T_contra", contravariant=True)
W_contra = TypeVar("W_contra", bound="Window", contravariant=True)
S = TypeVar("S")


class TriggerResult(Enum):
    """A trigger's answer: whether the window fires, and whether its contents are purged."""

    CONTINUE = (False, False)
    """Nothing."""

    FIRE = (True, False)
    """The window is evaluated and keeps its contents."""

    PURGE = (False, True)
    """The contents are dropped. Timers and the trigger's state stay."""

    FIRE_AND_PURGE = (True, True)
    """The window is evaluated, then its contents are dropped."""

    def __init__(self, is_fire: bool, is_purge: bool) -> None:
        self.is_fire = is_fire
        self.is_purge = is_purge

    def combine(self, other: TriggerResult) -> TriggerResult:
        """Fire if one of both fires, purge if one of both purges.

        Args:
            other: The other answer.
        """
        purge = self.is_purge or other.is_purge
        if self.is_fire or other.is_fire:
            return TriggerResult.FIRE_AND_PURGE if purge else TriggerResult.FIRE
        return TriggerResult.PURGE if purge else TriggerResult.CONTINUE

    def __or__(self, other: TriggerResult) -> TriggerResult:
        """As :meth:`combine`."""
        return self.combine(other)


class TriggerContext(KeyedStateStore, Timers, Protocol):
    """Gives a trigger time, timers and state of one key and window; it is not to be kept beyond the call.

    ``get_state`` gives state of this key and window. A timer is unique by its time: to set one twice sets it once,
    to delete one that is not set does nothing. A timer at or before the watermark fires at its next advance;
    a processing-time timer for a time that has passed fires at the end of the batch.
    """

    def nested(self, name: str) -> TriggerContext:
        """The same context for a trigger inside this one, with state names of its own.

        Args:
            name: Tells the inner trigger from others inside this one.
        """
        ...

    def part(self, name: str) -> PartContext:
        """The context of a trigger inside this one, with state names and timers of its own.

        Args:
            name: Tells the inner trigger from others inside this one.
        """
        ...


class PartContext(TriggerContext, Protocol):
    """Gives a part of a trigger what :class:`TriggerContext` does, with timers of its own.

    Two parts may set the same time: to delete the timer of one leaves that of the other.
    """

    def take_event_time_timer(self, time: int | datetime) -> bool:
        """Returns whether the part has set this event timer, and forgets it: once it was due it is no longer set.

        Args:
            time: The time for which it was set.
        """
        ...

    def take_processing_time_timer(self, time: int | datetime) -> bool:
        """Returns whether the part has set this processing timer, and forgets it.

        Args:
            time: The time for which it was set.
        """
        ...

    def delete_timers(self) -> None:
        """Delete all timers that the part has set, and those of the parts inside it."""
        ...

    def purge(self) -> None:
        """Have the contents of the window dropped after the call, and after the window has fired if it does."""
        ...

    def take_purge(self) -> bool:
        """Returns whether a part has called :meth:`purge`, and forgets it."""
        ...


class OnMergeContext(TriggerContext, Protocol):
    """Gives a trigger what :class:`TriggerContext` does while windows merge, and merges their state."""

    def merge_partitioned_state(self, descriptor: MergingStateDescriptor) -> None:
        """Move that state of all merged windows into that of the window they became.

        Args:
            descriptor: That of state which can merge: of a list, or one that reduces or aggregates.
        """
        ...

    def merged_values(self, descriptor: ValueStateDescriptor[S]) -> Sequence[S | None]:
        """The value of that state in each of the windows that had elements; None where there is none.

        Args:
            descriptor: That of the state.
        """
        ...

    def nested(self, name: str) -> OnMergeContext:
        """The same context for a trigger inside this one, with state names of its own.

        Args:
            name: Tells the inner trigger from others inside this one.
        """
        ...

    def part(self, name: str) -> MergePartContext:
        """The context of a trigger inside this one, with state names and timers of its own.

        Args:
            name: Tells the inner trigger from others inside this one.
        """
        ...


class MergePartContext(OnMergeContext, PartContext, Protocol):
    """Gives a part of a trigger what :class:`OnMergeContext` and :class:`PartContext` do."""

    def nested(self, name: str) -> OnMergeContext: ...

    def part(self, name: str) -> MergePartContext: ...


class Trigger(Generic[T_contra, W_contra]):
    """Decides when a window is evaluated, and when its contents go.

    One instance serves all keys and windows: what it remembers belongs into ``context.get_state``, never onto
    ``self``. A trigger of yours overrides what it needs: by default each call answers ``CONTINUE``, and :meth:`clear`
    does nothing.

    Attributes:
        uses_processing_time: Whether it sets timers in processing time. Spark has to run batches for the clock then,
            so a trigger of yours that sets such timers says ``uses_processing_time = True``.
    """

    uses_processing_time: bool = False

    @property
    def parts(self) -> tuple[Trigger[Any, Any], ...]:
        """The triggers inside this one."""
        return ()

    def on_element(self, element: T_contra, timestamp: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        """Called for each element, once for each of its windows, after the window took it.

        Args:
            element: The element.
            timestamp: Its timestamp in milliseconds; :data:`windrow.time.MIN_TIMESTAMP` for none.
            window: The window, merged already.
            context: Time, timers and state.

        Returns:
            Whether the window fires now, and whether its contents go.
        """
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        """Called when the watermark reaches an event timer, also at the cleanup time of the window.

        Args:
            time: The time of the timer, or the cleanup time, in milliseconds.
            window: The window.
            context: Time, timers and state.

        Returns:
            Whether the window fires now, and whether its contents go.
        """
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        """Called when the clock reaches a processing timer, also at the cleanup time of the window.

        Args:
            time: The time of the timer, or the cleanup time, in milliseconds.
            window: The window.
            context: Time, timers and state.

        Returns:
            Whether the window fires now, and whether its contents go.
        """
        return TriggerResult.CONTINUE

    def clear(self, window: W_contra, context: TriggerContext) -> None:
        """Called when a window goes: at its cleanup time, or because it merged into another.

        A trigger that sets timers or keeps state overrides this: it deletes the timers that are still set and clears
        the state.

        Args:
            window: The window.
            context: Time, timers and state.
        """

    def describe(self) -> str:
        """One line for ``explain()``: by default the class, with the arguments that it keeps under their names."""
        return constructor_text(self, Trigger).removesuffix("()")

    def __repr__(self) -> str:
        return constructor_text(self, Trigger)

    def explain(self, window: W_contra, context: PartContext) -> str:
        """Says in words what the trigger waits for in a window, for the test harness.

        It begins with :meth:`describe`, and must change nothing. Lines after the first one are about parts.

        Args:
            window: The window.
            context: Time and state to read.
        """
        return self.describe()


class MergingTrigger(Trigger[T_contra, W_contra], ABC):
    """A trigger that can follow windows that merge. Only such a trigger is taken on sessions."""

    @abstractmethod
    def on_merge(self, window: W_contra, context: OnMergeContext) -> None:
        """Called when windows became ``window``, before ``clear`` is called for each of them.

        Merge the state, and set again the timers that the new window needs.

        Args:
            window: The window that they became.
            context: Time, timers and state of that window, and the state of those that merged.
        """


# Any: the parts of a trigger may be of other types of elements and windows than each other.
def with_parts(trigger: Trigger[Any, Any]) -> Iterator[Trigger[Any, Any]]:
    """Yields a trigger and all triggers inside it."""
    yield trigger
    for part in trigger.parts:
        yield from with_parts(part)
