"""The trigger that fires when elements have moved far enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from windrow.calls.results import truth
from windrow.errors import require_callable
from windrow.functions.names import function_name
from windrow.state import ListStateDescriptor
from windrow.triggers.trigger import PartContext, Trigger, TriggerContext, TriggerResult

if TYPE_CHECKING:
    from windrow.windows.window import Window

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class DeltaTrigger(Trigger[T_contra, "Window"]):
    """Fires when an element is further than a threshold from the one that was remembered last.

    The first element of a window is remembered; an element that fires is remembered instead. It cannot merge: of two
    remembered elements neither is the right one.
    """

    # A list of at most one element, so that None can be an element.
    _REMEMBERED: ListStateDescriptor[object] = ListStateDescriptor("last-element")

    def __init__(self, threshold: float, delta: Callable[[T_contra, T_contra], float]) -> None:
        require_callable(
            delta,
            "the delta of a delta trigger",
            "a callable of (remembered element, element)",
            takes="remembered, element",
        )
        self.threshold = threshold
        self._delta = delta

    @staticmethod
    def of(threshold: float, delta: Callable[[T, T], float]) -> DeltaTrigger[T]:
        """Fire when ``delta(remembered, element) > threshold``.

        Args:
            threshold: The distance above which it fires.
            delta: Gives the distance of a new element from the remembered one: ``delta(remembered, element)``.

        Raises:
            InvalidArgumentError: If ``delta`` cannot be called.
        """
        return DeltaTrigger(threshold, delta)

    def on_element(self, element: T_contra, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        remembered: list[T_contra] = context.get_state(self._REMEMBERED).get()  # type: ignore[assignment]  # one descriptor for all element types; only elements of this stream are ever stored
        if not remembered:
            context.get_state(self._REMEMBERED).update([element])
            return TriggerResult.CONTINUE
        if truth(self._delta(remembered[0], element) > self.threshold):
            context.get_state(self._REMEMBERED).update([element])
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.get_state(self._REMEMBERED).clear()

    def describe(self) -> str:
        return f"DeltaTrigger({self.threshold})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}.of({self.threshold!r}, {function_name(self._delta)})"

    def explain(self, window: Window, context: PartContext) -> str:
        remembered = context.get_state(self._REMEMBERED).get()
        waits = f"an element further than {self.threshold} from {remembered[0]!r:.200}" if remembered else "an element"
        return f"{self.describe()}: waits for {waits}"
