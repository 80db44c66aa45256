"""Combines triggers: the first that is ready, all of them, one after the other, one until another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from windrow.errors import InvalidArgumentError
from windrow.triggers.call_text import call_text
from windrow.triggers.checks import check_trigger
from windrow.triggers.composable.contract import ComposableTrigger, Finish, MergingComposableTrigger, Part
from windrow.triggers.composable.foreign import composable
from windrow.triggers.trigger import MergePartContext, MergingTrigger, PartContext, Trigger, TriggerContext
from windrow.triggers.words import indented

if TYPE_CHECKING:
    from windrow.windows.window import Window

T_contra = TypeVar("T_contra", contravariant=True)
W_contra = TypeVar("W_contra", bound="Window", contravariant=True)
T = TypeVar("T")
W = TypeVar("W", bound="Window")


class PartsTrigger(ComposableTrigger[T_contra, W_contra], Generic[T_contra, W_contra]):
    """The base of triggers that are made of others. Each part observes all elements and timers.

    So a part that has finished is in step where a merge lets it begin anew.
    """

    call: ClassVar[str]
    """The name of the function that makes it."""

    def __init__(self, *triggers: Trigger[T_contra, W_contra]) -> None:
        self.triggers = tuple(map(composable, triggers))
        self.uses_processing_time = any(trigger.uses_processing_time for trigger in self.triggers)
        self._parts = [Part(trigger, str(place)) for place, trigger in enumerate(self.triggers)]

    @property
    def parts(self) -> tuple[Trigger[T_contra, W_contra], ...]:
        return self.triggers

    def observe(self, element: T_contra, timestamp: int, window: W_contra, context: PartContext) -> None:
        for part in self._parts:
            part.observe(element, timestamp, window, context)

    def observe_timer(self, time: int, window: W_contra, context: PartContext, *, event_time: bool) -> None:
        for part in self._parts:
            part.observe_timer(time, window, context, event_time=event_time)

    def forget(self, window: W_contra, context: PartContext) -> None:
        for part in self._parts:
            part.begin_anew(window, context)

    def _explained(self, text: str, window: W_contra, context: PartContext) -> str:
        """The trigger with ``text`` about it, and its parts below."""
        lines = [indented("", part.explain(window, context)) for part in self._parts]
        return "".join([f"{self.describe()}: {text}", *lines])

    def describe(self) -> str:
        return call_text(self.call, *(trigger.describe() for trigger in self.triggers))

    def __repr__(self) -> str:
        return call_text(self.call, *map(repr, self.triggers))


class _FinishesWithParts(PartsTrigger[T_contra, W_contra]):
    """The base of triggers that are finished when one of their parts is, or all of them."""

    def merge(self, window: W_contra, finished: Sequence[bool], context: MergePartContext) -> bool:
        """Merges all parts."""
        for part in self._parts:
            part.merge(window, context)
        return self._is_over(context)

    @abstractmethod
    def _is_over(self, context: TriggerContext) -> bool:
        """Returns whether the trigger is finished, given which parts are."""


class AfterAny(_FinishesWithParts[T_contra, W_contra]):
    """Ready when one of its parts is. See :func:`after_any`."""

    call = "after_any"

    @property
    def finish(self) -> Finish:
        return min(trigger.finish for trigger in self.triggers)

    @property
    def earliest_firing(self) -> Finish:
        return min(trigger.earliest_firing for trigger in self.triggers)

    def is_ready(self, window: W_contra, context: PartContext) -> bool:
        return any(part.is_ready(window, context) for part in self._parts)

    def on_fire(self, window: W_contra, context: PartContext) -> bool:
        """Fires the parts that are ready, and lets the others forget what has fired now."""
        ready = [part.is_ready(window, context) for part in self._parts]
        for part, is_ready in zip(self._parts, ready, strict=True):
            if is_ready:
                part.fire(window, context)
            else:
                part.forget(window, context)
        return self._is_over(context)

    def _is_over(self, context: TriggerContext) -> bool:
        return any(part.is_finished(context) for part in self._parts)

    def explain(self, window: W_contra, context: PartContext) -> str:
        return self._explained("waits for one of its parts", window, context)


class MergingAfterAny(AfterAny[T_contra, W_contra], MergingComposableTrigger[T_contra, W_contra]):
    """An :class:`AfterAny` of triggers that can merge."""


@overload
def after_any(*triggers: MergingTrigger[T, W]) -> MergingAfterAny[T, W]: ...
@overload
def after_any(*triggers: Trigger[T, W]) -> AfterAny[T, W]: ...
def after_any(*triggers: Trigger[T, W]) -> AfterAny[T, W]:
    """Fires when one of several triggers is ready; finished when one of them is.

    What the others have counted or waited for begins anew. In Beam it is ``AfterFirst`` (Java), ``AfterAny`` (Python).

    Args:
        triggers: The triggers, at least one.

    Returns:
        A trigger that can merge if all of these can.

    Raises:
        InvalidArgumentError: If there is no trigger, or an argument is not a trigger.
    """
    _check_some(triggers, "after_any")
    if _all_merge(triggers):
        return MergingAfterAny(*triggers)
    return AfterAny(*triggers)


class AfterAll(_FinishesWithParts[T_contra, W_contra]):
    """Ready when all of its parts are. See :func:`after_all`."""

    call = "after_all"

    @property
    def finish(self) -> Finish:
        return max(trigger.finish for trigger in self.triggers)

    @property
    def earliest_firing(self) -> Finish:
        """The latest of its parts: a part that has finished has been ready before."""
        return max(trigger.earliest_firing for trigger in self.triggers)

    def is_ready(self, window: W_contra, context: PartContext) -> bool:
        return all(part.is_finished(context) or part.is_ready(window, context) for part in self._parts)

    def on_fire(self, window: W_contra, context: PartContext) -> bool:
        for part in self._parts:
            if not part.is_finished(context):
                part.fire(window, context)
        return self._is_over(context)

    def _is_over(self, context: TriggerContext) -> bool:
        return all(part.is_finished(context) for part in self._parts)

    def explain(self, window: W_contra, context: PartContext) -> str:
        ready = sum(part.is_finished(context) or part.is_ready(window, context) for part in self._parts)
        return self._explained(f"{ready} of {len(self._parts)} parts are ready", window, context)


class MergingAfterAll(AfterAll[T_contra, W_contra], MergingComposableTrigger[T_contra, W_contra]):
    """An :class:`AfterAll` of triggers that can merge."""


@overload
def after_all(*triggers: MergingTrigger[T, W]) -> MergingAfterAll[T, W]: ...
@overload
def after_all(*triggers: Trigger[T, W]) -> AfterAll[T, W]: ...
def after_all(*triggers: Trigger[T, W]) -> AfterAll[T, W]:
    """Fires when all of several triggers are ready at once; finished when all of them are.

    Args:
        triggers: The triggers, at least one.

    Returns:
        A trigger that can merge if all of these can.

    Raises:
        InvalidArgumentError: If there is no trigger, or an argument is not a trigger.
    """
    _check_some(triggers, "after_all")
    if _all_merge(triggers):
        return MergingAfterAll(*triggers)
    return AfterAll(*triggers)


class AfterEach(_FinishesWithParts[T_contra, W_contra]):
    """Does what its parts do, one after the other. See :func:`after_each`."""

    call = "after_each"

    @property
    def finish(self) -> Finish:
        return max(trigger.finish for trigger in self.triggers)

    @property
    def earliest_firing(self) -> Finish:
        return self.triggers[0].earliest_firing

    def is_ready(self, window: W_contra, context: PartContext) -> bool:
        active = self._active_part(context)
        return active is not None and active.is_ready(window, context)

    def on_fire(self, window: W_contra, context: PartContext) -> bool:
        """Fires the first part that has not finished; the others forget what has fired now."""
        active = self._active_part(context)
        for part in self._parts:
            if part is active:
                part.fire(window, context)
            else:
                part.forget(window, context)
        return self._is_over(context)

    def merge(self, window: W_contra, finished: Sequence[bool], context: MergePartContext) -> bool:
        """Merges the parts up to the first that is not finished in the new window; the later ones begin anew."""
        so_far = True
        for part in self._parts:
            was_finished = part.merge(window, context)
            if so_far:
                so_far = was_finished
            else:
                part.begin_anew(window, context)
        return so_far

    def _active_part(self, context: TriggerContext) -> Part[T_contra, W_contra] | None:
        return next((part for part in self._parts if not part.is_finished(context)), None)

    def _is_over(self, context: TriggerContext) -> bool:
        return self._active_part(context) is None

    def explain(self, window: W_contra, context: PartContext) -> str:
        finished = [part.is_finished(context) for part in self._parts]
        place = finished.index(False) if False in finished else len(finished) - 1
        lines = [indented("", part.explain(window, context)) for part in self._parts[: place + 1]]
        return "".join([f"{self.describe()}: part {place + 1} of {len(finished)} is at work", *lines])


class MergingAfterEach(AfterEach[T_contra, W_contra], MergingComposableTrigger[T_contra, W_contra]):
    """An :class:`AfterEach` of triggers that can merge."""


@overload
def after_each(*triggers: MergingTrigger[T, W]) -> MergingAfterEach[T, W]: ...
@overload
def after_each(*triggers: Trigger[T, W]) -> AfterEach[T, W]: ...
def after_each(*triggers: Trigger[T, W]) -> AfterEach[T, W]:
    """Does what the first trigger does until that is finished, then what the second does, and so on.

    Finished when the last one is. ``after_each(repeatedly(a), b)`` is ``repeatedly(a)``, which is never finished.

    Args:
        triggers: The triggers in their order, at least one.

    Returns:
        A trigger that can merge if all of these can.

    Raises:
        InvalidArgumentError: If there is no trigger, or an argument is not a trigger.
    """
    _check_some(triggers, "after_each")
    if _all_merge(triggers):
        return MergingAfterEach(*triggers)
    return AfterEach(*triggers)


class OrFinally(_FinishesWithParts[T_contra, W_contra]):
    """Does what one trigger does until another one fires. See :func:`or_finally`."""

    call = "or_finally"

    def __init__(self, main: Trigger[T_contra, W_contra], until: Trigger[T_contra, W_contra]) -> None:
        super().__init__(main, until)
        self.main, self.until = self.triggers

    @property
    def finish(self) -> Finish:
        """The finish of the main trigger, or the earliest firing of the last one, which ends the main trigger."""
        return min(self.main.finish, self.until.earliest_firing)

    @property
    def earliest_firing(self) -> Finish:
        return min(trigger.earliest_firing for trigger in self.triggers)

    def is_ready(self, window: W_contra, context: PartContext) -> bool:
        return any(part.is_ready(window, context) for part in self._parts)

    def on_fire(self, window: W_contra, context: PartContext) -> bool:
        """Fires the last trigger if it is ready, and is finished then; else it fires the main one."""
        main, until = self._parts
        if until.is_ready(window, context):
            until.fire(window, context)
            # Firing lets a repeating part begin anew, and a trigger that has ended must stay so.
            until.set_finished(context, finished=True)
            main.forget(window, context)
        else:
            # The last trigger goes on counting or waiting: it is about all that the main one outputs.
            main.fire(window, context)
        return self._is_over(context)

    def _is_over(self, context: TriggerContext) -> bool:
        return any(part.is_finished(context) for part in self._parts)

    def explain(self, window: W_contra, context: PartContext) -> str:
        return self._explained("the first part fires until the second one does", window, context)


class MergingOrFinally(OrFinally[T_contra, W_contra], MergingComposableTrigger[T_contra, W_contra]):
    """An :class:`OrFinally` of triggers that can merge."""


@overload
def or_finally(main: MergingTrigger[T, W], until: MergingTrigger[T, W]) -> MergingOrFinally[T, W]: ...
@overload
def or_finally(main: Trigger[T, W], until: Trigger[T, W]) -> OrFinally[T, W]: ...
def or_finally(main: Trigger[T, W], until: Trigger[T, W]) -> OrFinally[T, W]:
    """Does what ``main`` does, until ``until`` fires for once and for all.

    Finished when ``until`` has fired, or ``main`` is finished.

    Args:
        main: The trigger that fires until then.
        until: The trigger whose firing is the last one.

    Returns:
        A trigger that can merge if both can.

    Raises:
        InvalidArgumentError: If an argument is no trigger.
    """
    if isinstance(main, MergingTrigger) and isinstance(until, MergingTrigger):
        return MergingOrFinally(main, until)
    return OrFinally(main, until)


def _check_some(triggers: Sequence[object], name: str) -> None:
    for trigger in triggers:
        check_trigger(trigger, "a composite trigger is made of triggers", takes_several=name)
    if not triggers:
        raise InvalidArgumentError(f"{name} has no trigger", given=f"{name}()", expected="at least one trigger")


# Any: only whether they can merge is asked.
def _all_merge(triggers: Sequence[Trigger[Any, Any]]) -> bool:
    return all(isinstance(trigger, MergingTrigger) for trigger in triggers)
