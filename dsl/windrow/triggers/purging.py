"""The trigger that makes another one purge when it fires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, overload

from windrow.triggers.checks import check_trigger
from windrow.triggers.trigger import MergingTrigger, OnMergeContext, PartContext, Trigger, TriggerContext, TriggerResult
from windrow.triggers.words import indented

if TYPE_CHECKING:
    from windrow.windows.window import Window

T_contra = TypeVar("T_contra", contravariant=True)
W_contra = TypeVar("W_contra", bound="Window", contravariant=True)
T = TypeVar("T")
W = TypeVar("W", bound="Window")


class PurgingTrigger(Trigger[T_contra, W_contra], Generic[T_contra, W_contra]):
    """Turns every firing of another trigger into one that drops the contents afterwards."""

    def __init__(self, inner: Trigger[T_contra, W_contra]) -> None:
        check_trigger(inner, "a trigger goes around another one")
        self.inner = inner
        self.uses_processing_time = inner.uses_processing_time

    @overload
    @staticmethod
    def of(inner: MergingTrigger[T, W]) -> MergingPurgingTrigger[T, W]: ...
    @overload
    @staticmethod
    def of(inner: Trigger[T, W]) -> PurgingTrigger[T, W]: ...
    @staticmethod
    def of(inner: Trigger[T, W]) -> PurgingTrigger[T, W]:
        """Purge whenever ``inner`` fires. The result can merge if ``inner`` can.

        Args:
            inner: The other trigger.

        Raises:
            InvalidArgumentError: If it is no trigger.
        """
        if isinstance(inner, MergingTrigger):
            return MergingPurgingTrigger(inner)
        return PurgingTrigger(inner)

    @property
    def parts(self) -> tuple[Trigger[T_contra, W_contra], ...]:
        return (self.inner,)

    def on_element(self, element: T_contra, timestamp: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        return _purge(self.inner.on_element(element, timestamp, window, context))

    def on_event_time(self, time: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        return _purge(self.inner.on_event_time(time, window, context))

    def on_processing_time(self, time: int, window: W_contra, context: TriggerContext) -> TriggerResult:
        return _purge(self.inner.on_processing_time(time, window, context))

    def clear(self, window: W_contra, context: TriggerContext) -> None:
        self.inner.clear(window, context)

    def describe(self) -> str:
        return f"PurgingTrigger({self.inner.describe()})"

    def __repr__(self) -> str:
        return f"PurgingTrigger.of({self.inner!r})"

    def explain(self, window: W_contra, context: PartContext) -> str:
        return f"{self.describe()}: purges when its inner trigger fires" + indented(
            "", self.inner.explain(window, context)
        )


class MergingPurgingTrigger(PurgingTrigger[T_contra, W_contra], MergingTrigger[T_contra, W_contra]):
    """A :class:`PurgingTrigger` around a trigger that can merge. Made by :meth:`PurgingTrigger.of`."""

    def __init__(self, inner: MergingTrigger[T_contra, W_contra]) -> None:
        super().__init__(inner)
        self._merging = inner

    def on_merge(self, window: W_contra, context: OnMergeContext) -> None:
        self._merging.on_merge(window, context)


def _purge(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire else result
