"""Defines triggers that wait for another trigger, and fire at a timeout if that does not."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from windrow.state import ReducingStateDescriptor
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, duration_text, positive_millis
from windrow.triggers.call_text import call_text, millis_text
from windrow.triggers.checks import check_trigger
from windrow.triggers.trigger import MergingTrigger, OnMergeContext, PartContext, Trigger, TriggerContext, TriggerResult
from windrow.triggers.words import indented, wait_for_clock, wait_for_watermark

if TYPE_CHECKING:
    from windrow.windows.window import Window

T_contra = TypeVar("T_contra", contravariant=True)
W_contra = TypeVar("W_contra", bound="Window", contravariant=True)
T = TypeVar("T")
W = TypeVar("W", bound="Window")


class _TimeoutTrigger(Trigger[T_contra, W_contra], Generic[T_contra, W_contra]):
    """Goes around another trigger, and fires when it does or at a timeout."""

    def __init__(
        self,
        inner: Trigger[T_contra, W_contra],
        timeout: timedelta,
        reset_timer_on_new_record: bool,
        should_clear_on_timeout: bool,
    ) -> None:
        check_trigger(inner, "a trigger goes around another one")
        self.inner = inner
        self.timeout = positive_millis(timeout, "the timeout of a trigger")
        self.reset_timer_on_new_record = reset_timer_on_new_record
        self.should_clear_on_timeout = should_clear_on_timeout
        self.uses_processing_time = type(self).uses_processing_time or inner.uses_processing_time

    @property
    def parts(self) -> tuple[Trigger[T_contra, W_contra], ...]:
        return (self.inner,)

    def describe(self) -> str:
        return f"{self._name()}({self.inner.describe()}, {duration_text(self.timeout)})"

    def __repr__(self) -> str:
        return call_text(
            f"{self._name()}.of",
            repr(self.inner),
            millis_text(self.timeout),
            reset_timer_on_new_record="True" if self.reset_timer_on_new_record else None,
            should_clear_on_timeout=None if self.should_clear_on_timeout else "False",
        )

    def _name(self) -> str:
        return type(self).__name__.removeprefix("Merging")

    def _timed_out(self, result: TriggerResult, window: W_contra, context: TriggerContext) -> TriggerResult:
        if self.should_clear_on_timeout:
            self.clear(window, context)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge else TriggerResult.FIRE


class _MergingTimeout(_TimeoutTrigger[T_contra, W_contra], MergingTrigger[T_contra, W_contra]):
    """Goes around a trigger that can merge."""

    def __init__(
        self,
        inner: MergingTrigger[T_contra, W_contra],
        timeout: timedelta,
        reset_timer_on_new_record: bool,
        should_clear_on_timeout: bool,
    ) -> None:
        super().__init__(inner, timeout, reset_timer_on_new_record, should_clear_on_timeout)
        self._merging = inner


class ProcessingTimeoutTrigger(_TimeoutTrigger[T_contra, W_contra], Generic[T_contra, W_contra]):
    """Fires when another trigger does, or when a timeout has passed in processing time.

    A firing of the inner trigger clears both. Any timer, also one of the inner trigger's, makes it fire.
    """

    uses_processing_time = True

    # The earliest timeout wins where windows merge; one that is over and kept is MIN_TIMESTAMP.
    _TIMEOUT = ReducingStateDescriptor[int]("timeout", min)

    @overload
    @staticmethod
    def of(
        inner: MergingTrigger[T, W],
        timeout: timedelta,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> MergingProcessingTimeoutTrigger[T, W]: ...
    @overload
    @staticmethod
    def of(
        inner: Trigger[T, W],
        timeout: timedelta,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger[T, W]: ...
    @staticmethod
    def of(
        inner: Trigger[T, W],
        timeout: timedelta,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger[T, W]:
        """Fire when ``inner`` does, or after ``timeout`` of processing time. It can merge if ``inner`` can.

        Args:
            inner: The other trigger.
            timeout: How long after the first element of the window; at least one millisecond.
            reset_timer_on_new_record: Count from the latest element instead.
            should_clear_on_timeout: Whether a timer that fires clears the inner trigger and the timeout.

        Raises:
            InvalidArgumentError: If ``inner`` is no trigger, or ``timeout`` is not positive.
        """
        if isinstance(inner, MergingTrigger):
            return MergingProcessingTimeoutTrigger(inner, timeout, reset_timer_on_new_record, should_clear_on_timeout)
        return ProcessingTimeoutTrigger(inner, timeout, reset_timer_on_new_record, should_clear_on_timeout)

    def on_element(self, element: T_contra, timestamp: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        """Asks the inner trigger; clears both when it fires, else sets the timeout."""
        result = self.inner.on_element(element, timestamp, window, context.nested("inner"))
        if result.is_fire:
            self.clear(window, context)
            return result
        timeout = context.get_state(self._TIMEOUT)
        due = timeout.get()
        if due is not None and self.reset_timer_on_new_record:
            context.delete_processing_time_timer(due)
            timeout.clear()
            due = None
        if due is None:
            due = min(context.current_processing_time + self.timeout, MAX_TIMESTAMP)
            timeout.add(due)
            context.register_processing_time_timer(due)
        return result

    def on_event_time(self, time: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        result = self.inner.on_event_time(time, window, context.nested("inner"))
        return self._timed_out(result, window, context)

    def on_processing_time(self, time: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        result = self.inner.on_processing_time(time, window, context.nested("inner"))
        timeout = context.get_state(self._TIMEOUT)
        if timeout.get() == time:
            timeout.add(MIN_TIMESTAMP)  # the clock does not tell that it is over: a batch may see it ahead of timers
        return self._timed_out(result, window, context)

    def clear(self, window: W_contra, context: TriggerContext) -> None:
        timeout = context.get_state(self._TIMEOUT)
        due = timeout.get()
        if due is not None:
            context.delete_processing_time_timer(due)
            timeout.clear()
        self.inner.clear(window, context.nested("inner"))

    def explain(self, window: W_contra, context: PartContext) -> str:
        due = context.get_state(self._TIMEOUT).get()
        waits = "waits for an element" if due is None else wait_for_clock(due, context.current_processing_time)
        if due == MIN_TIMESTAMP:
            waits = "has timed out"
        return f"{self.describe()}: {waits}" + indented("", self.inner.explain(window, context.part("inner")))


class MergingProcessingTimeoutTrigger(
    _MergingTimeout[T_contra, W_contra], ProcessingTimeoutTrigger[T_contra, W_contra]
):
    """A :class:`ProcessingTimeoutTrigger` around a trigger that can merge. Made by its ``of``."""

    def on_merge(self, window: W_contra, context: OnMergeContext) -> None:
        """Merges the inner trigger, and keeps the earliest timeout, which does not come again if it is over."""
        self._merging.on_merge(window, context.nested("inner"))
        context.merge_partitioned_state(self._TIMEOUT)
        due = context.get_state(self._TIMEOUT).get()
        if due is not None and due != MIN_TIMESTAMP:
            context.register_processing_time_timer(due)


class EventTimeoutTrigger(_TimeoutTrigger[T_contra, W_contra], Generic[T_contra, W_contra]):
    """Fires when another trigger does, or when the watermark reaches the first element plus a timeout, or the last one.

    First and last go by timestamps: an element that comes out of order makes no other timeout than one that comes in
    order. A window that ends before its timeout fires at its end, and an element whose timeout has passed already fires
    at once, as one does that comes after the end. A firing of the inner trigger at an element clears both. A timeout
    that is kept comes once, and the window fires once more at its end.
    """

    # Merged windows have the timeout of the earliest of their elements, or that of the latest.
    _EARLIEST = ReducingStateDescriptor[int]("timeout", min)
    _LATEST = ReducingStateDescriptor[int]("timeout", max)

    @overload
    @staticmethod
    def of(
        inner: MergingTrigger[T, W],
        timeout: timedelta,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> MergingEventTimeoutTrigger[T, W]: ...
    @overload
    @staticmethod
    def of(
        inner: Trigger[T, W],
        timeout: timedelta,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> EventTimeoutTrigger[T, W]: ...
    @staticmethod
    def of(
        inner: Trigger[T, W],
        timeout: timedelta,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> EventTimeoutTrigger[T, W]:
        """Fire when ``inner`` does, or after ``timeout`` of event time. It can merge if ``inner`` can.

        Args:
            inner: The other trigger.
            timeout: How long after the earliest element of the window; at least one millisecond.
            reset_timer_on_new_record: Count from the latest element instead.
            should_clear_on_timeout: Whether a timer that fires clears the inner trigger and the timeout.

        Raises:
            InvalidArgumentError: If ``inner`` is no trigger, or ``timeout`` is not positive.
        """
        if isinstance(inner, MergingTrigger):
            return MergingEventTimeoutTrigger(inner, timeout, reset_timer_on_new_record, should_clear_on_timeout)
        return EventTimeoutTrigger(inner, timeout, reset_timer_on_new_record, should_clear_on_timeout)

    def on_element(self, element: T_contra, timestamp: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        """Asks the inner trigger; clears both when it fires, else sets the timeout where the element moves it."""
        result = self.inner.on_element(element, timestamp, window, context.nested("inner"))
        if result.is_fire:
            self.clear(window, context)
            return result
        timeout, end, watermark = context.get_state(self._timeout), window.max_timestamp(), context.current_watermark
        if end <= watermark:
            return self._timed_out(result, window, context)
        due, following = timeout.get(), min(timestamp + self.timeout, MAX_TIMESTAMP)
        waits = due is not None and due > watermark
        if due is not None:
            moves = following > due if self.reset_timer_on_new_record else waits and following < due
            if not moves:
                return result
        timeout.add(following)
        # Timers that wait are left: the inner trigger may have set one for the same time. They move a later timeout on.
        if not (waits and self.reset_timer_on_new_record):
            self._set_timers(following, watermark, window, context)
        return self._timed_out(result, window, context) if following <= watermark else result

    def on_event_time(self, time: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        result = self.inner.on_event_time(time, window, context.nested("inner"))
        due, end = context.get_state(self._timeout).get(), window.max_timestamp()
        if due is not None:
            self._set_timers(due, time, window, context)
        if result.is_fire or (due is not None and time in (min(due, end), end)):
            return self._timed_out(result, window, context)
        return result

    def on_processing_time(self, time: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        result = self.inner.on_processing_time(time, window, context.nested("inner"))
        if not result.is_fire:
            return result
        due = context.get_state(self._timeout).get()
        if due is not None:
            # The inner trigger may have deleted timers of its own for the same times.
            self._set_timers(due, context.current_watermark, window, context)
        return self._timed_out(result, window, context)

    def clear(self, window: W_contra, context: TriggerContext) -> None:
        timeout = context.get_state(self._timeout)
        due = timeout.get()
        if due is not None:
            end = window.max_timestamp()
            context.delete_event_time_timer(min(due, end))
            if not self.should_clear_on_timeout:
                context.delete_event_time_timer(end)
            timeout.clear()
        self.inner.clear(window, context.nested("inner"))

    def explain(self, window: W_contra, context: PartContext) -> str:
        due, watermark = context.get_state(self._timeout).get(), context.current_watermark
        waits = "waits for an element"
        if due is not None:
            end = window.max_timestamp()
            waits = wait_for_watermark(end if due <= watermark and end < MAX_TIMESTAMP else min(due, end), watermark)
        return f"{self.describe()}: {waits}" + indented("", self.inner.explain(window, context.part("inner")))

    @property
    def _timeout(self) -> ReducingStateDescriptor[int]:
        return self._LATEST if self.reset_timer_on_new_record else self._EARLIEST

    def _set_timers(self, due: int, after: int, window: W_contra, context: TriggerContext) -> None:
        """Sets the timer of the timeout, and one for the end of the window if the timeout is kept: those to come."""
        end = window.max_timestamp()
        if min(due, end) > after:
            context.register_event_time_timer(min(due, end))
        if not self.should_clear_on_timeout and after < end < MAX_TIMESTAMP:
            context.register_event_time_timer(end)


class MergingEventTimeoutTrigger(_MergingTimeout[T_contra, W_contra], EventTimeoutTrigger[T_contra, W_contra]):
    """An :class:`EventTimeoutTrigger` around a trigger that can merge. Made by its ``of``."""

    def on_merge(self, window: W_contra, context: OnMergeContext) -> None:
        """Merges the inner trigger, and keeps the timeout of the first or last element, which does not come again."""
        self._merging.on_merge(window, context.nested("inner"))
        context.merge_partitioned_state(self._timeout)
        due = context.get_state(self._timeout).get()
        if due is not None:
            self._set_timers(due, context.current_watermark, window, context)
