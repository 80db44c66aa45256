"""The contract of triggers that compose, for those of windrow and for users' own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from functools import total_ordering
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

from windrow.calls.results import truth
from windrow.state import ValueStateDescriptor
from windrow.triggers.trigger import (
    MergePartContext,
    MergingTrigger,
    OnMergeContext,
    PartContext,
    Trigger,
    TriggerContext,
    TriggerResult,
)

if TYPE_CHECKING:
    from windrow.windows.window import Window

T_contra = TypeVar("T_contra", contravariant=True)
W_contra = TypeVar("W_contra", bound="Window", contravariant=True)


@total_ordering
class Finish(Enum):
    """The earliest time at which a trigger may be finished, or may fire; a later time is the greater one."""

    ANY_TIME = 0
    """While the window is open. What arrives afterwards would be lost."""

    WINDOW_END = 1
    """When the watermark has passed the window. What arrives later, within the allowed lateness, would be lost."""

    NEVER = 2
    """Not before the window is cleaned up."""

    def __lt__(self, other: Finish) -> bool:
        return self.value < other.value


class ComposableTrigger(Trigger[T_contra, W_contra], ABC):
    """A trigger that says when it is ready to fire, and hears of it when its window fires.

    So it composes with others: :func:`~windrow.triggers.after_any` is ready when one of its parts is,
    :func:`~windrow.triggers.repeatedly` lets a part begin anew. It is a :class:`Trigger` as well, and goes wherever one
    does. The rules are those of Apache Beam's triggers.

    For each key and window the calls come in this order: :meth:`observe` for an element, or :meth:`observe_timer` for a
    timer that is due; then :meth:`is_ready`, and :meth:`on_fire` if the answer is true. A trigger that has finished is
    asked no more. Inside another trigger it is asked when that one needs its answer, observes elements and timers also
    when it has finished, as a merge may let it begin anew, and :meth:`forget` is called when another part has fired the
    window.

    One instance serves all keys and windows. What it remembers belongs into ``context.get_state``. State and timers of
    a part are its own: two parts may use the same name, or the same time, and neither sees the other's.
    """

    @property
    def finish(self) -> Finish:
        """The earliest time at which the trigger may be finished.

        A plan is refused where a finished trigger would lose elements. Override it if yours never finishes.
        """
        return Finish.ANY_TIME

    @property
    def earliest_firing(self) -> Finish:
        """The earliest time at which the trigger may be ready; ``NEVER`` means not before the window is cleaned up.

        :func:`~windrow.triggers.or_finally` is finished when its last trigger fires, so a plan is checked with this.
        Override it if yours is never ready before the end of the window.
        """
        return Finish.ANY_TIME

    def observe(self, element: T_contra, timestamp: int, window: W_contra, context: PartContext) -> None:
        """Called for each element, once for each of its windows, after the window took it.

        Args:
            element: The element.
            timestamp: Its timestamp in milliseconds; :data:`windrow.time.MIN_TIMESTAMP` for none.
            window: The window, merged already.
            context: Time, timers and state; not to be kept beyond the call.
        """

    def observe_timer(self, time: int, window: W_contra, context: PartContext, *, event_time: bool) -> None:
        """Called when a timer of the window is due, one of this trigger's or another's.

        A trigger whose :meth:`is_ready` compares a time with the watermark or the clock needs no code here: a timer
        makes windrow ask. ``context.take_event_time_timer(time)`` says whether the timer was its own.

        Args:
            time: The time of the timer, in milliseconds.
            window: The window.
            context: As in :meth:`observe`.
            event_time: Whether the timer waited for the watermark; else for the clock.
        """

    @abstractmethod
    def is_ready(self, window: W_contra, context: PartContext) -> bool:
        """Returns whether the window should fire now. It may be asked at any time, and must change nothing.

        Args:
            window: The window.
            context: Time and state to read.
        """

    @abstractmethod
    def on_fire(self, window: W_contra, context: PartContext) -> bool:
        """Called when the trigger was ready and its window fires.

        Args:
            window: The window.
            context: As in :meth:`observe`.

        Returns:
            Whether the trigger is finished. One that is not must have begun anew, since it is asked again.
        """

    def forget(self, window: W_contra, context: PartContext) -> None:
        """Called when another part fired the window with what this one has observed, and when the window goes.

        A trigger that sets timers or keeps state overrides this: it deletes the timers that are still set and clears
        the state. Timers that are left when the window goes are deleted by windrow.

        Args:
            window: The window.
            context: As in :meth:`observe`.
        """

    def explain(self, window: W_contra, context: PartContext) -> str:
        """Says in words what the trigger waits for in a window, for the test harness; by default, whether it is ready.

        It begins with :meth:`describe`, and must change nothing. A trigger that has finished is not asked.
        """
        return f"{self.describe()}: {'ready' if self.is_ready(window, context) else 'not ready'}"

    # As a trigger of Flink's kind

    @final
    def on_element(self, element: T_contra, timestamp: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        """Answers ``FIRE`` where the trigger is ready and not finished."""
        whole = Part(self, WHOLE)
        if whole.is_finished(context):
            return TriggerResult.CONTINUE
        whole.observe(element, timestamp, window, context)
        return _answer(whole, window, context)

    @final
    def on_event_time(self, time: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        """Answers ``FIRE`` where the trigger is ready and not finished."""
        return self._timer(time, window, context, event_time=True)

    @final
    def on_processing_time(self, time: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        """Answers ``FIRE`` where the trigger is ready and not finished."""
        return self._timer(time, window, context, event_time=False)

    @final
    def clear(self, window: W_contra, context: TriggerContext) -> None:
        Part(self, WHOLE).begin_anew(window, context)
        context.part(WHOLE).delete_timers()

    def _timer(self, time: int, window: W_contra, context: TriggerContext, *, event_time: bool) -> TriggerResult:
        whole = Part(self, WHOLE)
        if whole.is_finished(context):
            return TriggerResult.CONTINUE
        whole.observe_timer(time, window, context, event_time=event_time)
        return _answer(whole, window, context)


class MergingComposableTrigger(ComposableTrigger[T_contra, W_contra], MergingTrigger[T_contra, W_contra]):
    """A :class:`ComposableTrigger` that can follow windows that merge. Only such a trigger is taken on sessions."""

    @abstractmethod
    def merge(self, window: W_contra, finished: Sequence[bool], context: MergePartContext) -> bool:
        """Called when windows became ``window``: merge the state, and set again the timers that it needs.

        Args:
            window: The window that the others became.
            finished: For each of those windows that had elements, whether the trigger was finished there. A trigger
                that is finished in ``window`` though it was not in all of them begins anew if elements wait for it.
            context: As in :meth:`ComposableTrigger.observe`; merges state.

        Returns:
            Whether the trigger is finished in ``window``. One that was finished may begin anew.
        """

    @final
    def on_merge(self, window: W_contra, context: OnMergeContext) -> None:
        Part(self, WHOLE).merge(window, context)


WHOLE: Final = "whole"
"""The name of the part that is the whole trigger of a window."""


class Part(Generic[T_contra, W_contra]):
    """One trigger inside another: keeps its state apart, and remembers whether it has finished.

    Each call takes the context of the outer trigger.
    """

    def __init__(self, trigger: ComposableTrigger[T_contra, W_contra], name: str) -> None:
        self.trigger = trigger
        self._name = name
        # The mark lies among the state of the outer trigger, so that the part cannot take it for its own.
        self._finished = ValueStateDescriptor(f"{name} is finished", bool)

    def observe(self, element: T_contra, timestamp: int, window: W_contra, outer: TriggerContext) -> None:
        """Shows the part an element, also where it has finished: a merge may let it begin anew."""
        self.trigger.observe(element, timestamp, window, outer.part(self._name))

    def observe_timer(self, time: int, window: W_contra, outer: TriggerContext, *, event_time: bool) -> None:
        """Shows the part a timer that is due."""
        self.trigger.observe_timer(time, window, outer.part(self._name), event_time=event_time)

    def is_finished(self, outer: TriggerContext) -> bool:
        """Returns whether the part has finished."""
        return outer.get_state(self._finished).value() is True

    def is_ready(self, window: W_contra, outer: TriggerContext) -> bool:
        """Returns whether the part has not finished and is ready."""
        return not self.is_finished(outer) and truth(self.trigger.is_ready(window, outer.part(self._name)))

    def fire(self, window: W_contra, outer: TriggerContext) -> bool:
        """Tells the part that the window fires; returns whether the part has finished."""
        finished = truth(self.trigger.on_fire(window, outer.part(self._name)))
        self.set_finished(outer, finished=finished)
        return finished

    def set_finished(self, outer: TriggerContext, *, finished: bool) -> None:
        """Notes whether the part has finished."""
        state = outer.get_state(self._finished)
        if finished:
            state.update(True)
        else:
            state.clear()

    def explain(self, window: W_contra, outer: TriggerContext) -> str:
        """Says in words what the part waits for, or that it has finished."""
        if self.is_finished(outer):
            return f"{self.trigger.describe()}: finished"
        return self.trigger.explain(window, outer.part(self._name))

    def forget(self, window: W_contra, outer: TriggerContext) -> None:
        """Lets the part forget what it observed, but not whether it has finished."""
        self.trigger.forget(window, outer.part(self._name))

    def begin_anew(self, window: W_contra, outer: TriggerContext) -> None:
        """Lets the part forget everything."""
        self.forget(window, outer)
        self.set_finished(outer, finished=False)

    def merge(self, window: W_contra, outer: OnMergeContext) -> bool:
        """Merges the part where windows became ``window``; returns whether it is finished there."""
        trigger = self.trigger
        if not isinstance(trigger, MergingComposableTrigger):
            raise TypeError(f"{trigger.describe()} cannot merge")
        finished = [value is True for value in outer.merged_values(self._finished)]
        result = truth(trigger.merge(window, finished, outer.part(self._name)))
        self.set_finished(outer, finished=result)
        return result


def _answer(whole: Part[T_contra, W_contra], window: W_contra, context: TriggerContext) -> TriggerResult:
    """The answer of a whole trigger, as one of Flink's kind, after it has observed something."""
    result = TriggerResult.CONTINUE
    if whole.is_ready(window, context):
        whole.fire(window, context)
        result = TriggerResult.FIRE
    return result | TriggerResult.PURGE if context.part(WHOLE).take_purge() else result
