"""Defines evictors, which remove elements from a window before or after it is evaluated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from windrow.calls.results import truth
from windrow.errors import InvalidArgumentError, require_callable
from windrow.functions.names import function_name
from windrow.time import Clocks, duration_millis, duration_text
from windrow.triggers.call_text import call_text, constructor_text, millis_text
from windrow.windows.window import Window

__all__ = ["CountEvictor", "DeltaEvictor", "Evictor", "EvictorContext", "TimeEvictor", "TimestampedValue"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
W_contra = TypeVar("W_contra", bound=Window, contravariant=True)


@dataclass(frozen=True)
class TimestampedValue(Generic[T_co]):
    """An element in a window.

    Attributes:
        value: The element.
        timestamp: Its timestamp in milliseconds, or None.
    """

    value: T_co
    timestamp: int | None


class EvictorContext(Clocks, Protocol):
    """Gives an evictor the times it may need during one call."""


class Evictor(ABC, Generic[T_contra, W_contra]):
    """Removes elements from a window, before or after the window function sees them.

    What is removed leaves the window for good. With an evictor a window keeps all its elements, also where a reduce or
    an aggregate would have kept one value; these are then computed when the window fires.
    """

    @abstractmethod
    def evict_before(
        self, elements: Sequence[TimestampedValue[T_contra]], size: int, window: W_contra, context: EvictorContext
    ) -> Sequence[int]:
        """Called at each firing, before the window function.

        Args:
            elements: The contents in order of arrival.
            size: How many there are.
            window: The window.
            context: Time.

        Returns:
            The positions in ``elements`` that are to leave, each at most once, in any order. Others than those from 0
            to ``size - 1`` end the run with an :class:`~windrow.errors.InvalidArgumentError`.
        """

    @abstractmethod
    def evict_after(
        self, elements: Sequence[TimestampedValue[T_contra]], size: int, window: W_contra, context: EvictorContext
    ) -> Sequence[int]:
        """Called at each firing, after the window function; see :meth:`evict_before`.

        Args:
            elements: The contents in order of arrival.
            size: How many there are.
            window: The window.
            context: Time.

        Returns:
            The positions in ``elements`` that are to leave.
        """

    def describe(self) -> str:
        """One line for ``explain()``."""
        return type(self).__name__

    def __repr__(self) -> str:
        return constructor_text(self, Evictor)


class _OneSided(Evictor[T_contra, Window]):
    """Evicts by one rule, before the function or after it."""

    def __init__(self, do_evict_after: bool) -> None:
        self.do_evict_after = do_evict_after

    @abstractmethod
    def _evict(self, elements: Sequence[TimestampedValue[T_contra]]) -> Sequence[int]: ...

    def evict_before(
        self, elements: Sequence[TimestampedValue[T_contra]], size: int, window: Window, context: EvictorContext
    ) -> Sequence[int]:
        """Evicts by the rule, unless it is to be applied after the function."""
        return () if self.do_evict_after else self._evict(elements)

    def evict_after(
        self, elements: Sequence[TimestampedValue[T_contra]], size: int, window: Window, context: EvictorContext
    ) -> Sequence[int]:
        """Evicts by the rule, if it is to be applied after the function."""
        return self._evict(elements) if self.do_evict_after else ()

    def _side(self) -> str:
        return ", after" if self.do_evict_after else ""

    def _call(self, *texts: str) -> str:
        return call_text(f"{type(self).__name__}.of", *texts, do_evict_after="True" if self.do_evict_after else None)


class CountEvictor(_OneSided[object]):
    """Keeps the last elements, up to a number."""

    def __init__(self, max_count: int, do_evict_after: bool) -> None:
        if type(max_count) is not int or max_count < 0:
            raise InvalidArgumentError(
                "the count of a count evictor must not be negative", given=max_count, expected="an int of at least 0"
            )
        super().__init__(do_evict_after)
        self.max_count = max_count

    @classmethod
    def of(cls, max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Keep the last ``max_count`` elements.

        Args:
            max_count: How many elements stay, at least 0.
            do_evict_after: Whether it evicts after the window function instead of before it.

        Raises:
            InvalidArgumentError: If ``max_count`` is negative or not an int.
        """
        return cls(max_count, do_evict_after)

    def _evict(self, elements: Sequence[TimestampedValue[object]]) -> Sequence[int]:
        return range(len(elements) - self.max_count)

    def describe(self) -> str:
        return f"CountEvictor({self.max_count}{self._side()})"

    def __repr__(self) -> str:
        return self._call(repr(self.max_count))


class TimeEvictor(_OneSided[object]):
    """Keeps the elements that are younger than the newest one minus a span. Without timestamps it evicts nothing."""

    def __init__(self, window_size: timedelta, do_evict_after: bool) -> None:
        super().__init__(do_evict_after)
        self.window_size = duration_millis(window_size, "the span of a time evictor")
        if self.window_size < 0:
            raise InvalidArgumentError(
                "the span of a time evictor must not be negative", given=window_size, expected="a timedelta >= 0"
            )

    @classmethod
    def of(cls, window_size: timedelta, do_evict_after: bool = False) -> TimeEvictor:
        """Keep elements with a timestamp greater than the newest one's minus ``window_size``.

        Args:
            window_size: The span, at least 0.
            do_evict_after: Whether it evicts after the window function instead of before it.

        Raises:
            InvalidArgumentError: If ``window_size`` is negative.
        """
        return cls(window_size, do_evict_after)

    def _evict(self, elements: Sequence[TimestampedValue[object]]) -> Sequence[int]:
        # Flink looks at the first element to tell whether there are timestamps at all.
        if not elements or elements[0].timestamp is None:
            return ()
        newest = max(element.timestamp for element in elements if element.timestamp is not None)
        cut = newest - self.window_size
        return [
            position
            for position, element in enumerate(elements)
            if element.timestamp is not None and element.timestamp <= cut
        ]

    def describe(self) -> str:
        return f"TimeEvictor({duration_text(self.window_size)}{self._side()})"

    def __repr__(self) -> str:
        return self._call(millis_text(self.window_size))


class DeltaEvictor(_OneSided[T_contra]):
    """Evicts elements that are too far from the last one."""

    def __init__(self, threshold: float, delta: Callable[[T_contra, T_contra], float], do_evict_after: bool) -> None:
        super().__init__(do_evict_after)
        require_callable(
            delta, "the delta of a delta evictor", "a callable of (element, last element)", takes="element, last"
        )
        self.threshold = threshold
        self._delta = delta

    @staticmethod
    def of(threshold: float, delta: Callable[[T, T], float], do_evict_after: bool = False) -> DeltaEvictor[T]:
        """Evict each element with ``delta(element, last element) >= threshold``.

        Args:
            threshold: The distance from which on an element leaves.
            delta: Gives the distance of an element from the last one: ``delta(element, last)``.
            do_evict_after: Whether it evicts after the window function instead of before it.

        Raises:
            InvalidArgumentError: If ``delta`` cannot be called.
        """
        return DeltaEvictor(threshold, delta, do_evict_after)

    def _evict(self, elements: Sequence[TimestampedValue[T_contra]]) -> Sequence[int]:
        if not elements:
            return ()
        last = elements[-1].value
        return [
            position
            for position, element in enumerate(elements)
            if truth(self._delta(element.value, last) >= self.threshold)
        ]

    def describe(self) -> str:
        return f"DeltaEvictor({self.threshold}{self._side()})"

    def __repr__(self) -> str:
        return self._call(repr(self.threshold), function_name(self._delta))
