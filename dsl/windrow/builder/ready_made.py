"""Defines calls of windows for the usual declared aggregates: a sum, a count, the lowest and the highest."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from windrow.aggregates import arithmetic, order
from windrow.aggregates.declared import DeclaredAggregate
from windrow.rolling import Comparable

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

T = TypeVar("T")
N = TypeVar("N", int, float, Decimal, timedelta)
C = TypeVar("C", bound=Comparable)


class ReadyMade(Generic[T]):
    """The calls of windows that have elements when they fire."""

    __slots__ = ()

    @abstractmethod
    # Any: each of the calls says of which type its results are.
    def _declared(self, function: DeclaredAggregate[T, Any, Any, Any], name: str | None) -> DataStream[Any]:
        """The stream of the results of an aggregate."""

    def count(self, *, name: str | None = None) -> DataStream[int]:
        """Count the elements of each window; as ``aggregate`` of :func:`windrow.aggregates.count`.

        Args:
            name: Names the step.

        Example:
            >>> from windrow import from_collection
            >>> from windrow.windows import GlobalWindows
            >>> letters = from_collection(["a", "b", "c"])
            >>> everything = letters.window_all(GlobalWindows.create_with_end_of_stream_trigger())
            >>> everything.count().collect()
            [3]
        """
        return self._declared(arithmetic.Count(None), name)

    def sum(self, selector: Callable[[T], N], *, name: str | None = None) -> DataStream[N]:
        """Add up the values that ``selector`` takes; as ``aggregate`` of :func:`windrow.aggregates.sum`.

        Args:
            selector: Takes a number or a time span from an element.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._declared(arithmetic.sum(selector), name)

    def min(self, selector: Callable[[T], C], *, name: str | None = None) -> DataStream[C]:
        """Find the lowest value that ``selector`` takes; as ``aggregate`` of :func:`windrow.aggregates.min`.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._declared(order.min(selector), name)

    def max(self, selector: Callable[[T], C], *, name: str | None = None) -> DataStream[C]:
        """Find the highest value that ``selector`` takes; as ``aggregate`` of :func:`windrow.aggregates.max`.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._declared(order.max(selector), name)

    def min_by(self, selector: Callable[[T], C], *, name: str | None = None) -> DataStream[T]:
        """Find the element with the lowest selected value; as ``aggregate`` of :func:`windrow.aggregates.min_by`.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._declared(order.min_by(selector), name)

    def max_by(self, selector: Callable[[T], C], *, name: str | None = None) -> DataStream[T]:
        """Find the element with the highest selected value; as ``aggregate`` of :func:`windrow.aggregates.max_by`.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._declared(order.max_by(selector), name)


class ReadyMadeOrNone(ReadyMade[T]):
    """The calls of windows that may have no element left when they fire, whose result is None then; a count is 0."""

    __slots__ = ()

    # An empty window has a result too, so a variable for windows without an evictor hides that it may be None.
    def sum(  # type: ignore[override]
        self, selector: Callable[[T], N], *, name: str | None = None
    ) -> DataStream[N | None]:
        return self._declared(arithmetic.sum(selector), name)

    def min(  # type: ignore[override]
        self, selector: Callable[[T], C], *, name: str | None = None
    ) -> DataStream[C | None]:
        return self._declared(order.min(selector), name)

    def max(  # type: ignore[override]
        self, selector: Callable[[T], C], *, name: str | None = None
    ) -> DataStream[C | None]:
        return self._declared(order.max(selector), name)

    def min_by(  # type: ignore[override]
        self, selector: Callable[[T], C], *, name: str | None = None
    ) -> DataStream[T | None]:
        return self._declared(order.min_by(selector), name)

    def max_by(  # type: ignore[override]
        self, selector: Callable[[T], C], *, name: str | None = None
    ) -> DataStream[T | None]:
        return self._declared(order.max_by(selector), name)
