"""The contract of window assigners, for those of windrow and for users' own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Generic, Protocol, TypeVar

from windrow.triggers.call_text import constructor_text
from windrow.triggers.time import EventTimeTrigger, ProcessingTimeTrigger
from windrow.triggers.trigger import Trigger
from windrow.windows.window import TimeWindow, Window

T_contra = TypeVar("T_contra", contravariant=True)
W = TypeVar("W", bound=Window)


class AssignerContext(Protocol):
    """Gives an assigner the clock while it assigns."""

    @property
    def current_processing_time(self) -> int:
        """The clock, in milliseconds."""
        ...


class WindowAssigner(ABC, Generic[T_contra, W]):
    """Assigns zero or more windows to each element.

    Subclass it for windows of your own. One instance serves all keys of a step; it must not keep state from element to
    element, since a step runs on many machines.
    """

    @abstractmethod
    def assign_windows(self, element: T_contra, timestamp: int, context: AssignerContext) -> Collection[W]:
        """The windows of ``element``. Called once for every element, before anything else happens to it.

        Args:
            element: The element.
            timestamp: Its timestamp in milliseconds. For an event-time assigner there always is one; otherwise
                :data:`windrow.time.MIN_TIMESTAMP` stands for none.
            context: Gives the clock.

        Returns:
            The windows. With none, the element is dropped without a word unless it is late by its timestamp.
        """

    @abstractmethod
    def default_trigger(self) -> Trigger[object, W]:
        """The trigger of a step that sets none."""

    @property
    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows live in event time, are cleaned up by the watermark, and have lateness."""

    @property
    def time_zone(self) -> tzinfo | None:
        """The time zone in which results have the bounds of windows as datetimes, or None for UTC."""
        return None

    def describe(self) -> str:
        """One line for ``explain()``."""
        return type(self).__name__

    def __repr__(self) -> str:
        return constructor_text(self, WindowAssigner)


class InEventTime(WindowAssigner[T_contra, TimeWindow]):
    """The base of assigners whose windows end by the watermark."""

    def default_trigger(self) -> EventTimeTrigger:
        """:class:`~windrow.triggers.EventTimeTrigger`."""
        return EventTimeTrigger.create()

    @property
    def is_event_time(self) -> bool:
        return True


class InProcessingTime(WindowAssigner[T_contra, TimeWindow]):
    """The base of assigners whose windows end by the clock."""

    def default_trigger(self) -> ProcessingTimeTrigger:
        """:class:`~windrow.triggers.ProcessingTimeTrigger`."""
        return ProcessingTimeTrigger.create()

    @property
    def is_event_time(self) -> bool:
        return False


@dataclass(frozen=True)
class Merge(Generic[W]):
    """One group of windows that become one.

    Attributes:
        result: The window that takes the contents of all ``sources``.
        sources: The windows that merge; ``result`` may be one of them.
    """

    result: W
    sources: Collection[W]


class MergingWindowAssigner(WindowAssigner[T_contra, W]):
    """An assigner whose windows may merge as elements arrive, such as sessions."""

    @abstractmethod
    def merge_windows(self, windows: Collection[W]) -> Iterable[Merge[W]]:
        """Returns which of ``windows`` merge; called whenever a window is added to a key.

        Args:
            windows: The live windows of one key in the order in which they came to be, the new one last.

        Returns:
            Disjoint groups. A window that merges with no other is in no group.
        """
