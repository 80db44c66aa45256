"""Defines triggers that restart others: again and again, or before and after the end of the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from windrow.state import ValueStateDescriptor
from windrow.triggers.call_text import call_text
from windrow.triggers.checks import check_trigger
from windrow.triggers.composable.combinations import PartsTrigger
from windrow.triggers.composable.conditions import AfterEndOfWindow, end_is_reached, never, wait_for_end
from windrow.triggers.composable.contract import Finish, MergingComposableTrigger
from windrow.triggers.trigger import MergePartContext, MergingTrigger, PartContext, Trigger
from windrow.triggers.words import indented, moment, wait_for_watermark

if TYPE_CHECKING:
    from windrow.windows.window import Window

T_contra = TypeVar("T_contra", contravariant=True)
W_contra = TypeVar("W_contra", bound="Window", contravariant=True)
T = TypeVar("T")
W = TypeVar("W", bound="Window")


class Repeatedly(PartsTrigger[T_contra, W_contra]):
    """Lets its part begin anew whenever it is finished. See :func:`repeatedly`."""

    call = "repeatedly"

    def __init__(self, inner: Trigger[T_contra, W_contra]) -> None:
        super().__init__(inner)
        (self.inner,) = self.triggers

    @property
    def finish(self) -> Finish:
        return Finish.NEVER

    @property
    def earliest_firing(self) -> Finish:
        return self.inner.earliest_firing

    def is_ready(self, window: W_contra, context: PartContext) -> bool:
        return self._parts[0].is_ready(window, context)

    def on_fire(self, window: W_contra, context: PartContext) -> bool:
        (part,) = self._parts
        if part.fire(window, context):
            part.begin_anew(window, context)
        return False

    def merge(self, window: W_contra, finished: Sequence[bool], context: MergePartContext) -> bool:
        """Merges the part, and lets it begin anew if it is finished."""
        (part,) = self._parts
        if part.merge(window, context):
            part.begin_anew(window, context)
        return False

    def explain(self, window: W_contra, context: PartContext) -> str:
        return self._explained("its part begins anew whenever it has fired", window, context)


class MergingRepeatedly(Repeatedly[T_contra, W_contra], MergingComposableTrigger[T_contra, W_contra]):
    """A :class:`Repeatedly` of a trigger that can merge."""


@overload
def repeatedly(trigger: MergingTrigger[T, W]) -> MergingRepeatedly[T, W]: ...
@overload
def repeatedly(trigger: Trigger[T, W]) -> Repeatedly[T, W]: ...
def repeatedly(trigger: Trigger[T, W]) -> Repeatedly[T, W]:
    """Fires whenever ``trigger`` is ready; when that is finished, it begins anew.

    Args:
        trigger: The trigger that is repeated.

    Returns:
        A trigger that can merge if that one can.

    Raises:
        InvalidArgumentError: If the argument is no trigger.
    """
    if isinstance(trigger, MergingTrigger):
        return MergingRepeatedly(trigger)
    return Repeatedly(trigger)


class AfterWatermark(PartsTrigger[T_contra, W_contra]):
    """Ready early and late by two other triggers, and at the end of the window. See :func:`after_watermark`."""

    # Whether the end of the window has fired it.
    _ENDED = ValueStateDescriptor("ended", bool)

    def __init__(
        self, early: Trigger[T_contra, W_contra] | None = None, late: Trigger[T_contra, W_contra] | None = None
    ) -> None:
        super().__init__(early or never(), late or never())
        self.early, self.late = early and self.triggers[0], late and self.triggers[1]

    @property
    def finish(self) -> Finish:
        """The end of the window, where no late trigger goes on."""
        return Finish.WINDOW_END if self.late is None else Finish.NEVER

    @property
    def earliest_firing(self) -> Finish:
        return min(self.triggers[0].earliest_firing, Finish.WINDOW_END)

    def observe(self, element: T_contra, timestamp: int, window: W_contra, context: PartContext) -> None:
        super().observe(element, timestamp, window, context)
        wait_for_end(window, context)

    def is_ready(self, window: W_contra, context: PartContext) -> bool:
        early, late = self._parts
        if context.get_state(self._ENDED).value():
            return late.is_ready(window, context)
        return end_is_reached(window, context) or early.is_ready(window, context)

    def on_fire(self, window: W_contra, context: PartContext) -> bool:
        """Lets the trigger that fired begin anew; the late one begins when the end of the window has fired."""
        early, late = self._parts
        ended = context.get_state(self._ENDED)
        if ended.value():
            late.fire(window, context)
            late.begin_anew(window, context)
            return False
        if not end_is_reached(window, context):
            early.fire(window, context)
            early.begin_anew(window, context)
            late.begin_anew(window, context)
            return False
        early.begin_anew(window, context)
        late.begin_anew(window, context)
        if self.late is None:
            return True
        ended.update(True)
        return False

    def merge(self, window: W_contra, finished: Sequence[bool], context: MergePartContext) -> bool:
        """Goes on after the end if all windows did and the watermark has passed the new one; else before it."""
        early, late = self._parts
        over = self._finished_or_ended(finished, context) and end_is_reached(window, context)
        early.merge(window, context)
        late.merge(window, context)
        ended = context.get_state(self._ENDED)
        (early if over else late).begin_anew(window, context)
        if not over:
            ended.clear()
            wait_for_end(window, context)
        elif self.late is not None:
            ended.update(True)
        return over and self.late is None

    def _finished_or_ended(self, finished: Sequence[bool], context: MergePartContext) -> bool:
        ended = context.merged_values(self._ENDED)
        return all(done or value is True for done, value in zip(finished, ended, strict=True))

    def forget(self, window: W_contra, context: PartContext) -> None:
        super().forget(window, context)
        context.get_state(self._ENDED).clear()

    def describe(self) -> str:
        triggers = (("early", self.early), ("late", self.late))
        return (
            f"after_watermark({', '.join(f'{name}={each.describe()}' for name, each in triggers if each is not None)})"
        )

    def __repr__(self) -> str:
        early, late = (None if each is None else repr(each) for each in (self.early, self.late))
        return call_text("after_watermark", early=early, late=late)

    def explain(self, window: W_contra, context: PartContext) -> str:
        early, late = self._parts
        if context.get_state(self._ENDED).value():
            text = f"it has fired at the end of the window, {moment(window.max_timestamp())}; its late part is at work"
            return f"{self.describe()}: {text}" + indented("late: ", late.explain(window, context))
        text = f"{self.describe()}: {wait_for_watermark(window.max_timestamp(), context.current_watermark)}"
        if self.early is None or end_is_reached(window, context):
            return text
        return text + indented("early: ", early.explain(window, context))


class MergingAfterWatermark(AfterWatermark[T_contra, W_contra], MergingComposableTrigger[T_contra, W_contra]):
    """An :class:`AfterWatermark` of triggers that can merge."""


@overload
def after_watermark() -> AfterEndOfWindow: ...
@overload
def after_watermark(
    *, early: MergingTrigger[T, W] | None, late: MergingTrigger[T, W] | None = None
) -> MergingAfterWatermark[T, W]: ...
@overload
def after_watermark(*, late: MergingTrigger[T, W]) -> MergingAfterWatermark[T, W]: ...
@overload
def after_watermark(*, early: Trigger[T, W] | None, late: Trigger[T, W] | None = None) -> AfterWatermark[T, W]: ...
@overload
def after_watermark(*, late: Trigger[T, W]) -> AfterWatermark[T, W]: ...
def after_watermark(
    *, early: Trigger[T, W] | None = None, late: Trigger[T, W] | None = None
) -> AfterEndOfWindow | AfterWatermark[T, W]:
    """Fires when the watermark has passed the window: its result on time.

    Args:
        early: Fires the window before that. It repeats: each time it begins anew.
        late: Fires the window after that, as long as lateness is allowed. It repeats. Without it the trigger is
            finished, and elements that arrive later are dropped.

    Raises:
        InvalidArgumentError: If an argument is no trigger.
    """
    for name, trigger in (("early", early), ("late", late)):
        if trigger is not None:
            check_trigger(trigger, f"{name} must be a trigger", expected="a Trigger, or None")
    if early is None and late is None:
        return AfterEndOfWindow()
    if all(trigger is None or isinstance(trigger, MergingTrigger) for trigger in (early, late)):
        return MergingAfterWatermark(early, late)
    return AfterWatermark(early, late)
