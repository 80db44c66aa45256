"""Defines calls of windows for the usual declared aggregates: a sum, a count, the lowest and the highest."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from windrow.aggregates import arithmetic, order
from windrow.aggregates.combined import combine
from windrow.aggregates.declared import DeclaredAggregate
from windrow.aggregates.facts import key
from windrow.calls.no_policy import CALLS_NOTHING, no_on_error
from windrow.failures import OnError
from windrow.plan.location import refusal
from windrow.rolling import Comparable

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

T = TypeVar("T")
N = TypeVar("N", int, float, Decimal, timedelta)
C = TypeVar("C", bound=Comparable)
K = TypeVar("K")
E = TypeVar("E")


class ReadyMade(Generic[T, E]):
    """The calls of windows for single aggregates.

    ``E`` is the type of their results where no element is left when a window fires, such as None; a count is 0 then.
    """

    __slots__ = ()

    @abstractmethod
    # Any: each of the calls says of which type its results are.
    def _declared(
        self, function: DeclaredAggregate[T, Any, Any, Any], name: str | None, on_error: OnError[T | None] = "fail"
    ) -> DataStream[Any]:
        """The stream of the results of an aggregate."""

    @no_on_error(CALLS_NOTHING)
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

    def sum(
        self, selector: Callable[[T], N], *, on_error: OnError[T | None] = "fail", name: str | None = None
    ) -> DataStream[N | E]:
        """Add up the values that ``selector`` takes; as ``aggregate`` of :func:`windrow.aggregates.sum`.

        Args:
            selector: Takes a number or a time span from an element.
            on_error: As of ``aggregate``.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._declared(arithmetic.sum(selector), name, on_error)

    def min(
        self, selector: Callable[[T], C], *, on_error: OnError[T | None] = "fail", name: str | None = None
    ) -> DataStream[C | E]:
        """Find the lowest value that ``selector`` takes; as ``aggregate`` of :func:`windrow.aggregates.min`.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            on_error: As of ``aggregate``.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._declared(order.min(selector), name, on_error)

    def max(
        self, selector: Callable[[T], C], *, on_error: OnError[T | None] = "fail", name: str | None = None
    ) -> DataStream[C | E]:
        """Find the highest value that ``selector`` takes; as ``aggregate`` of :func:`windrow.aggregates.max`.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            on_error: As of ``aggregate``.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._declared(order.max(selector), name, on_error)

    def min_by(
        self, selector: Callable[[T], C], *, on_error: OnError[T | None] = "fail", name: str | None = None
    ) -> DataStream[T | E]:
        """Find the element with the lowest selected value; as ``aggregate`` of :func:`windrow.aggregates.min_by`.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            on_error: As of ``aggregate``.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._declared(order.min_by(selector), name, on_error)

    def max_by(
        self, selector: Callable[[T], C], *, on_error: OnError[T | None] = "fail", name: str | None = None
    ) -> DataStream[T | E]:
        """Find the element with the highest selected value; as ``aggregate`` of :func:`windrow.aggregates.max_by`.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            on_error: As of ``aggregate``.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._declared(order.max_by(selector), name, on_error)


class KeyedReadyMade(ReadyMade[T, E], Generic[T, K, E]):
    """The same calls of windows with keys."""

    __slots__ = ()

    # Any below: the overloads say of which type the results are.
    def _of_key(
        self,
        function: DeclaredAggregate[T, Any, Any, Any],
        name: str | None,
        on_error: OnError[T | None] = "fail",
        *,
        with_key: bool,
    ) -> DataStream[Any]:
        if not isinstance(with_key, bool):
            raise refusal("with_key must be a bool", given=with_key, expected="True or False")
        return self._declared(combine(key(), function) if with_key else function, name, on_error)

    @overload
    def count(self, *, with_key: Literal[False] = False, name: str | None = None) -> DataStream[int]: ...
    @overload
    def count(self, *, with_key: Literal[True], name: str | None = None) -> DataStream[tuple[K, int]]: ...
    @no_on_error(CALLS_NOTHING)
    def count(self, *, with_key: bool = False, name: str | None = None) -> DataStream[Any]:
        """Count the elements of each window; as ``aggregate`` of :func:`windrow.aggregates.count`.

        Args:
            with_key: Whether to give pairs of the key and the count.
            name: Names the step.

        Example:
            >>> from windrow import from_collection
            >>> words = from_collection(["a", "b", "a"]).key_by(lambda word: word)
            >>> sorted(words.count_window(9, fire_at_end=True).count(with_key=True).collect())
            [('a', 2), ('b', 1)]
        """
        return self._of_key(arithmetic.Count(None), name, with_key=with_key)

    @overload
    def sum(
        self,
        selector: Callable[[T], N],
        *,
        with_key: Literal[False] = False,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[N | E]: ...
    @overload
    def sum(
        self,
        selector: Callable[[T], N],
        *,
        with_key: Literal[True],
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[tuple[K, N | E]]: ...
    def sum(
        self,
        selector: Callable[[T], N],
        *,
        with_key: bool = False,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[Any]:
        """Add up the values that ``selector`` takes; as ``aggregate`` of :func:`windrow.aggregates.sum`.

        Args:
            selector: Takes a number or a time span from an element.
            with_key: Whether to give pairs of the key and the value, as :meth:`KeyedStream.sum` does.
            on_error: As of ``aggregate``.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._of_key(arithmetic.sum(selector), name, on_error, with_key=with_key)

    @overload
    def min(
        self,
        selector: Callable[[T], C],
        *,
        with_key: Literal[False] = False,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[C | E]: ...
    @overload
    def min(
        self,
        selector: Callable[[T], C],
        *,
        with_key: Literal[True],
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[tuple[K, C | E]]: ...
    def min(
        self,
        selector: Callable[[T], C],
        *,
        with_key: bool = False,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[Any]:
        """Find the lowest value that ``selector`` takes; as ``aggregate`` of :func:`windrow.aggregates.min`.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            with_key: Whether to give pairs of the key and the value, as :meth:`KeyedStream.min` does.
            on_error: As of ``aggregate``.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._of_key(order.min(selector), name, on_error, with_key=with_key)

    @overload
    def max(
        self,
        selector: Callable[[T], C],
        *,
        with_key: Literal[False] = False,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[C | E]: ...
    @overload
    def max(
        self,
        selector: Callable[[T], C],
        *,
        with_key: Literal[True],
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[tuple[K, C | E]]: ...
    def max(
        self,
        selector: Callable[[T], C],
        *,
        with_key: bool = False,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[Any]:
        """Find the highest value that ``selector`` takes; as ``aggregate`` of :func:`windrow.aggregates.max`.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            with_key: Whether to give pairs of the key and the value, as :meth:`KeyedStream.max` does.
            on_error: As of ``aggregate``.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called.
        """
        return self._of_key(order.max(selector), name, on_error, with_key=with_key)
