"""Defines the calls that give windows their function, whether they have an evictor or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from typing_extensions import deprecated

from windrow.builder.arguments import check_function
from windrow.builder.window_stage import WindowStage, check_process, needs_process, result_of
from windrow.errors import function_hint
from windrow.failures import OnError
from windrow.functions import AggregateFunction, ProcessAllWindowFunction, ProcessWindowFunction, WithPane
from windrow.functions.plain import Applied, AppliedAll, WithoutKey
from windrow.panes import WindowResult
from windrow.plan.emitting import WRAP_IT, NotRecords, OneValue
from windrow.plan.keyed_nodes import ProcessSpec
from windrow.plan.location import refusal
from windrow.plan.types import iterable_item, made_type
from windrow.windows import Window

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")
W = TypeVar("W", bound=Window)
F = TypeVar("F")


class KeyedStage(WindowStage[T, W], Generic[T, K, W]):
    """The base of the keyed stages: their functions."""

    __slots__ = ()

    @overload
    def reduce(
        self, function: Callable[[T, T], T], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[T]: ...
    @overload
    def reduce(
        self,
        function: Callable[[T, T], T],
        window_function: WithPane,
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[WindowResult[K, W, T]]: ...
    @overload
    def reduce(
        self,
        function: Callable[[T, T], T],
        window_function: ProcessWindowFunction[T, R, K, W],
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def reduce(
        self,
        function: Callable[[T, T], T],
        window_function: ProcessWindowFunction[T, R, K, W] | WithPane | None = None,
        *,
        on_error: OnError[Any] = "fail",
        name: str | None = None,
    ) -> DataStream[Any]:
        """Combine the elements of a window two by two, as they arrive.

        Args:
            function: Combines what was combined so far with a new element: a function, or a
                :class:`~windrow.functions.ReduceFunction`.
            window_function: Gets the one element that is left, with the key and the window.
            on_error: What becomes of an element for which a function raises, and which then is in none of its windows;
                see :data:`~windrow.failures.OnError`. A window function that raises has no element: it is None.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the function cannot be called or is a coroutine function, or the window function is
                of another kind.

        Example:
            >>> from windrow import from_collection
            >>> words = from_collection(["to", "be", "or", "not"])
            >>> threes = words.key_by(lambda word: "all").count_window(3)
            >>> threes.reduce(lambda left, right: f"{left} {right}").collect()
            ['to be or']
        """
        following, type_form = self._following(window_function, self._settings.input.element_type)
        return self._reduce(function, following, type_form, name, on_error)

    # Any: the stages that have aggregate() have proved that the parts fit.
    def _aggregate_keyed(
        self,
        function: AggregateFunction[Any, Any, Any, Any, Any],
        window_function: ProcessWindowFunction[Any, Any, Any, Any] | WithPane | None,
        name: str | None,
        on_error: OnError[Any] = "fail",
    ) -> DataStream[Any]:
        value = None if isinstance(window_function, ProcessWindowFunction) else self._aggregated(function)
        following, type_form = self._following(window_function, value)
        return self._aggregate(function, following, type_form, name, on_error)

    def process(
        self,
        function: ProcessWindowFunction[T, R, K, W],
        *,
        on_error: OnError[list[T]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]:
        """Compute from all elements of a window when it fires.

        Args:
            function: Gets key, window, time, state and side outputs.
            on_error: What becomes of a window for which the function raises; see :data:`~windrow.failures.OnError`. In
                the side output of a tag the element is the list of the elements that the function got. What the failed
                call has emitted and stored is discarded, and the window keeps its elements.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it is no instance of :class:`~windrow.functions.ProcessWindowFunction`.

        Example:
            >>> from collections.abc import Sequence
            >>> from windrow import from_collection
            >>> from windrow.functions import ProcessWindowContext, ProcessWindowFunction
            >>> from windrow.windows import GlobalWindow
            >>> class Span(ProcessWindowFunction[int, tuple[str, int], str, GlobalWindow]):
            ...     def process(
            ...         self, key: str, context: ProcessWindowContext[GlobalWindow], elements: Sequence[int]
            ...     ) -> list[tuple[str, int]]:
            ...         return [(key, max(elements) - min(elements))]
            >>> spans = from_collection([4, 1, 7]).key_by(lambda number: "all").count_window(3).process(Span())
            >>> spans.collect()
            [('all', 6)]
        """
        if not isinstance(function, ProcessWindowFunction):
            raise needs_process(function, ProcessWindowFunction)
        return self._stream(ProcessSpec(process=function), result_of(function), name, on_error)

    @overload
    def apply(
        self,
        function: Callable[[K, W, Sequence[T]], list[R]],
        *,
        on_error: OnError[list[T]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    @overload
    @deprecated(WRAP_IT)
    def apply(  # type: ignore[overload-overlap]
        self,
        function: Callable[[K, W, Sequence[T]], OneValue],
        *,
        on_error: OnError[list[T]] = "fail",
        name: str | None = None,
    ) -> NotRecords: ...
    @overload
    def apply(  # pyright: ignore[reportOverlappingOverload]
        self,
        function: Callable[[K, W, Sequence[T]], Iterable[R] | None],
        *,
        on_error: OnError[list[T]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def apply(
        self,
        function: Callable[[K, W, Sequence[T]], Iterable[Any] | None],
        *,
        on_error: OnError[list[T]] = "fail",
        name: str | None = None,
    ) -> DataStream[Any] | NotRecords:
        """As :meth:`process`, with a plain function.

        Args:
            function: Takes key, window and elements in order of arrival; returns an iterable of the records to emit, or
                None for none. A text, bytes or a dict is refused, as it is one value.
            on_error: As of :meth:`process`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the function cannot be called, or is a coroutine function.

        Example:
            >>> from windrow import from_collection
            >>> pairs = from_collection([4, 1]).key_by(lambda number: "all").count_window(2)
            >>> pairs.apply(lambda key, window, elements: [(key, max(elements) - min(elements))]).collect()
            [('all', 3)]
        """
        type_form = made_type(function, self._key_type(), *self._window_and_elements())
        return self._stream(
            ProcessSpec(process=Applied(check_apply(function, "key, window, elements"))),
            iterable_item(type_form),
            name,
            on_error,
        )


class AllStage(WindowStage[T, W]):
    """The base of the stages without keys: their functions."""

    __slots__ = ()

    @overload
    def reduce(
        self, function: Callable[[T, T], T], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[T]: ...
    @overload
    def reduce(
        self,
        function: Callable[[T, T], T],
        window_function: WithPane,
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[WindowResult[None, W, T]]: ...
    @overload
    def reduce(
        self,
        function: Callable[[T, T], T],
        window_function: ProcessAllWindowFunction[T, R, W],
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def reduce(
        self,
        function: Callable[[T, T], T],
        window_function: ProcessAllWindowFunction[T, R, W] | WithPane | None = None,
        *,
        on_error: OnError[Any] = "fail",
        name: str | None = None,
    ) -> DataStream[Any]:
        """Combine the elements of a window two by two; see :meth:`WindowedStream.reduce`.

        Args:
            function: Combines what was combined so far with a new element: a function, or a
                :class:`~windrow.functions.ReduceFunction`.
            window_function: Gets the one element that is left, with the window; None: it is the result.
            on_error: As of :meth:`WindowedStream.reduce`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the function cannot be called or is a coroutine function, or the window function is
                of another kind.
        """
        following, type_form = self._following_all(window_function, self._settings.input.element_type)
        return self._reduce(function, following, type_form, name, on_error)

    # Any: as in KeyedStage.
    def _aggregate_all(
        self,
        function: AggregateFunction[Any, Any, Any, Any, Any],
        window_function: ProcessAllWindowFunction[Any, Any, Any] | WithPane | None,
        name: str | None,
        on_error: OnError[Any] = "fail",
    ) -> DataStream[Any]:
        value = None if isinstance(window_function, ProcessAllWindowFunction) else self._aggregated(function)
        following, type_form = self._following_all(window_function, value)
        return self._aggregate(function, following, type_form, name, on_error)

    # Any: as in WindowStage._following.
    def _following_all(
        self, following: ProcessAllWindowFunction[Any, Any, Any] | WithPane | None, value: object | None
    ) -> tuple[ProcessWindowFunction[Any, Any, Any, Any] | None, object | None]:
        """What follows a function whose results are of type ``value``, and the type of the elements downstream."""
        if following is None or isinstance(following, WithPane):
            return self._following(following, value)
        check_process(following, ProcessAllWindowFunction)
        return WithoutKey(following), result_of(following)

    def process(
        self,
        function: ProcessAllWindowFunction[T, R, W],
        *,
        on_error: OnError[list[T]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]:
        """Compute from all elements of a window when it fires.

        Args:
            function: Gets the elements, window, time, state and side outputs.
            on_error: What becomes of a window for which the function raises; see :data:`~windrow.failures.OnError`. In
                the side output of a tag the element is the list of the elements that the function got. What the failed
                call has emitted and stored is discarded, and the window keeps its elements.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it is no instance of :class:`~windrow.functions.ProcessAllWindowFunction`.
        """
        if not isinstance(function, ProcessAllWindowFunction):
            raise needs_process(function, ProcessAllWindowFunction)
        return self._stream(ProcessSpec(process=WithoutKey(function)), result_of(function), name, on_error)

    @overload
    def apply(
        self,
        function: Callable[[W, Sequence[T]], list[R]],
        *,
        on_error: OnError[list[T]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    @overload
    @deprecated(WRAP_IT)
    def apply(  # type: ignore[overload-overlap]
        self,
        function: Callable[[W, Sequence[T]], OneValue],
        *,
        on_error: OnError[list[T]] = "fail",
        name: str | None = None,
    ) -> NotRecords: ...
    @overload
    def apply(  # pyright: ignore[reportOverlappingOverload]
        self,
        function: Callable[[W, Sequence[T]], Iterable[R] | None],
        *,
        on_error: OnError[list[T]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def apply(
        self,
        function: Callable[[W, Sequence[T]], Iterable[Any] | None],
        *,
        on_error: OnError[list[T]] = "fail",
        name: str | None = None,
    ) -> DataStream[Any] | NotRecords:
        """As :meth:`process`, with a plain function of window and elements.

        Args:
            function: Takes window and elements in order of arrival; returns an iterable of the records to emit, or None
                for none.
            on_error: As of :meth:`process`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the function cannot be called, or is a coroutine function.
        """
        type_form = made_type(function, *self._window_and_elements())
        process = AppliedAll(check_apply(function, "window, elements"))
        return self._stream(ProcessSpec(process=WithoutKey(process)), iterable_item(type_form), name, on_error)


def check_apply(function: F, takes: str) -> F:
    """Refuse what ``apply`` cannot call with arguments of these names; returns the function."""
    if not callable(function):
        raise refusal(
            "apply needs a function",
            given=function,
            expected="a callable; process takes a ProcessWindowFunction",
            hint=function_hint(function),
        )
    check_function(function, "apply", takes, may_yield=True)
    return function
