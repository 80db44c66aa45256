"""Makes a trigger of Flink's kind a part of a composite one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from windrow.errors import InvalidArgumentError
from windrow.state import ReducingStateDescriptor
from windrow.triggers.checks import check_trigger
from windrow.triggers.composable.contract import ComposableTrigger, Finish, MergingComposableTrigger
from windrow.triggers.global_window import EndOfStreamTrigger, NeverTrigger
from windrow.triggers.purging import MergingPurgingTrigger, PurgingTrigger
from windrow.triggers.time import EventTimeTrigger
from windrow.triggers.trigger import MergePartContext, MergingTrigger, PartContext, Trigger, TriggerResult

if TYPE_CHECKING:
    from windrow.windows.window import Window

T_contra = TypeVar("T_contra", contravariant=True)
W_contra = TypeVar("W_contra", bound="Window", contravariant=True)
T = TypeVar("T")
W = TypeVar("W", bound="Window")

_OWN: Final = "own"

# Whether the trigger has answered FIRE since the window fired last, and whether an answer of those was to purge. Where
# windows merge, one that is ready makes the result ready.
_FIRED: Final = ReducingStateDescriptor[bool]("fired", lambda one, other: one or other)


class FiringTrigger(ComposableTrigger[T_contra, W_contra], Generic[T_contra, W_contra]):
    """Is ready when a trigger of Flink's kind has answered ``FIRE``, until the window fires; never finished.

    The trigger is called for elements and for its own timers. An answer that purges drops the contents of the window:
    at once if it does not fire, else when the window fires.
    """

    def __init__(self, inner: Trigger[T_contra, W_contra]) -> None:
        self.inner = inner
        self.uses_processing_time = inner.uses_processing_time

    @property
    def parts(self) -> tuple[Trigger[T_contra, W_contra], ...]:
        return (self.inner,)

    @property
    def finish(self) -> Finish:
        return Finish.NEVER

    @property
    def earliest_firing(self) -> Finish:
        """The end of the window for Flink's event-time trigger, purging or not; any time for others."""
        inner = self.inner
        while type(inner) in (PurgingTrigger, MergingPurgingTrigger) and isinstance(inner, PurgingTrigger):
            inner = inner.inner
        # Exact types: a class that is derived from one of these may fire at any time.
        if type(inner) is NeverTrigger:
            return Finish.NEVER
        return Finish.WINDOW_END if type(inner) in (EventTimeTrigger, EndOfStreamTrigger) else Finish.ANY_TIME

    def observe(self, element: T_contra, timestamp: int, window: W_contra, context: PartContext) -> None:
        self._take(self.inner.on_element(element, timestamp, window, context.part(_OWN)), context)

    def observe_timer(self, time: int, window: W_contra, context: PartContext, *, event_time: bool) -> None:
        own = context.part(_OWN)
        if event_time:
            if own.take_event_time_timer(time):
                self._take(self.inner.on_event_time(time, window, own), context)
        elif own.take_processing_time_timer(time):
            self._take(self.inner.on_processing_time(time, window, own), context)

    def is_ready(self, window: W_contra, context: PartContext) -> bool:
        return context.get_state(_FIRED).get() is not None

    def on_fire(self, window: W_contra, context: PartContext) -> bool:
        """Goes on, and purges if the trigger said so."""
        fired = context.get_state(_FIRED)
        if fired.get():
            context.purge()
        fired.clear()
        return False

    def forget(self, window: W_contra, context: PartContext) -> None:
        context.get_state(_FIRED).clear()
        self.inner.clear(window, context.part(_OWN))

    def describe(self) -> str:
        return self.inner.describe()

    def __repr__(self) -> str:
        return repr(self.inner)

    def explain(self, window: W_contra, context: PartContext) -> str:
        first, *others = self.inner.explain(window, context.part(_OWN)).splitlines() or [self.describe()]
        if self.is_ready(window, context):
            words = first.removeprefix(self.describe())
            first += "; it has answered FIRE" if ": " in words else ": it has answered FIRE"
        return "\n".join([first, *others])

    def _take(self, answer: TriggerResult, context: PartContext) -> None:
        if not isinstance(answer, TriggerResult):
            raise InvalidArgumentError(
                "a trigger answers with a TriggerResult",
                given=repr(answer),
                expected="CONTINUE, FIRE, PURGE or FIRE_AND_PURGE",
                hint="return TriggerResult.CONTINUE where nothing is to happen",
            )
        if answer.is_fire:
            context.get_state(_FIRED).add(answer.is_purge)
        elif answer.is_purge:
            context.purge()


class MergingFiringTrigger(FiringTrigger[T_contra, W_contra], MergingComposableTrigger[T_contra, W_contra]):
    """A :class:`FiringTrigger` of a trigger that can merge."""

    def __init__(self, inner: MergingTrigger[T_contra, W_contra]) -> None:
        super().__init__(inner)
        self._merging = inner

    def merge(self, window: W_contra, finished: Sequence[bool], context: MergePartContext) -> bool:
        context.merge_partitioned_state(_FIRED)
        self._merging.on_merge(window, context.part(_OWN))
        return False


def composable(trigger: Trigger[T, W]) -> ComposableTrigger[T, W]:
    """The trigger itself if it composes, else one around it that does.

    Raises:
        InvalidArgumentError: If it is no trigger.
    """
    if isinstance(trigger, ComposableTrigger):
        return trigger
    if isinstance(trigger, MergingTrigger):
        return MergingFiringTrigger(trigger)
    check_trigger(trigger, "a composite trigger is made of triggers")
    return FiringTrigger(trigger)
