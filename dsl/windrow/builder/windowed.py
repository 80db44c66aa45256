"""Defines the stages after ``window``, whose calls set triggers, evictors and lateness, and then the function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Never, Self, TypeVar, overload

from windrow.aggregates.declared import DeclaredAggregate
from windrow.builder.ready_made import KeyedReadyMade, ReadyMade
from windrow.builder.window_functions import AllStage, KeyedStage
from windrow.builder.window_settings import WindowSettings
from windrow.evictors import Evictor
from windrow.failures import OnError
from windrow.functions import AggregateFunction, ProcessAllWindowFunction, ProcessWindowFunction, WithPane
from windrow.panes import AccumulationMode, WindowResult
from windrow.triggers import MergingTrigger, Trigger
from windrow.windows import Window

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

__all__ = [
    "AllWindowedStream",
    "MaybeEmptyAllWindowedStream",
    "MaybeEmptyMergingAllWindowedStream",
    "MaybeEmptyMergingWindowedStream",
    "MaybeEmptyWindowedStream",
    "MergingAllWindowedStream",
    "MergingWindowedStream",
    "WindowSettings",
    "WindowedStream",
]

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")
A = TypeVar("A")
V = TypeVar("V")
E = TypeVar("E")
N = TypeVar("N")
W = TypeVar("W", bound=Window)


# Any below: the overloads of aggregate say what its results are.


class _Keyed(KeyedReadyMade[T, K, N], KeyedStage[T, K, W], Generic[T, K, W, N]):
    """Windows of a keyed stream; ``N`` is None if they may have no element left when they fire, else ``Never``."""

    __slots__ = ()

    @overload
    def aggregate(
        self,
        function: AggregateFunction[T, A, R, E, K],
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    @overload
    def aggregate(
        self,
        function: AggregateFunction[T, A, R, E, K],
        window_function: WithPane,
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[WindowResult[K, W, R]]: ...
    @overload
    def aggregate(
        self,
        function: AggregateFunction[T, A, V, E, K],
        window_function: ProcessWindowFunction[V, R, K, W],
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def aggregate(
        self,
        function: AggregateFunction[T, A, V, E, K],
        window_function: ProcessWindowFunction[V, R, K, W] | WithPane | None = None,
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[Any]:
        """Fold the elements of a window into an accumulator, as they arrive.

        Args:
            function: Folds. On merging windows it must have ``merge``.
            window_function: Gets the one result, with the key and the window.
            on_error: What becomes of an element for which a function raises, and which then is in none of its windows;
                see :data:`~windrow.failures.OnError`. A firing whose function raises has no element: it is None.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it is no aggregate function, the window function is of another kind, or the types
                of its parts are known not to fit.

        Example:
            >>> from windrow import aggregates as agg, from_collection
            >>> orders = from_collection([("ann", 10), ("bob", 5), ("ann", 2)])
            >>> last_two = orders.key_by(lambda order: order[0]).count_window(2)
            >>> last_two.aggregate(agg.mean(lambda order: order[1])).collect()
            [6.0]
        """
        return self._aggregate_keyed(function, window_function, name, on_error)

    # Any: the calls say of which type their results are.
    def _declared(
        self, function: DeclaredAggregate[T, Any, Any, Any], name: str | None, on_error: OnError[T | None] = "fail"
    ) -> DataStream[Any]:
        return self._aggregate_keyed(function, None, name, on_error)


class WindowedStream(_Keyed[T, K, W, Never]):
    """Windows of a keyed stream: elements ``T``, keys ``K``, windows ``W``."""

    __slots__ = ()

    def trigger(self, trigger: Trigger[T, W], *, may_lose_data: bool = False) -> Self:
        """Decide when windows are evaluated; by default the assigner's trigger does.

        Args:
            trigger: The trigger.
            may_lose_data: Take a trigger that may be finished before the window is cleaned up. What arrives afterwards
                is dropped and counted (``closed_window_records_dropped``); without this the plan is refused.

        Raises:
            InvalidArgumentError: If there is a trigger already.
            InvalidArgumentError: If it is no trigger.

        Example:
            >>> from windrow import from_collection
            >>> from windrow.triggers import CountTrigger
            >>> from windrow.windows import GlobalWindows
            >>> words = from_collection(["a", "b", "a", "a"]).key_by(lambda word: word)
            >>> words.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).count().collect()
            [2]
        """
        return self._with_trigger(trigger, may_lose_data)

    def discarding(self) -> MaybeEmptyWindowedStream[T, K, W]:
        """Let each pane of a window hold the elements that came since the last one.

        A pane on time may be empty then, see :meth:`on_time_behavior`. Panes are counted, as by :meth:`accumulating`.

        Raises:
            InvalidArgumentError: If the accumulation mode was set already.
        """
        return MaybeEmptyWindowedStream(self._accumulated(AccumulationMode.DISCARDING))

    def evictor(self, evictor: Evictor[T, W]) -> MaybeEmptyWindowedStream[T, K, W]:
        """Remove elements before or after the function sees them. The window then keeps all its elements.

        Args:
            evictor: Says which elements leave, and when.

        Returns:
            The stage whose results may be those of a window without elements.

        Raises:
            InvalidArgumentError: If there is an evictor already.
        """
        return MaybeEmptyWindowedStream(self._evicted(evictor))


class MergingWindowedStream(_Keyed[T, K, W, Never]):
    """Windows of a keyed stream that may merge, such as sessions."""

    __slots__ = ()

    def trigger(self, trigger: MergingTrigger[T, W], *, may_lose_data: bool = False) -> Self:
        """Decide when windows are evaluated, by a trigger that can follow merges; see :meth:`WindowedStream.trigger`.

        Args:
            trigger: The trigger, a :class:`~windrow.triggers.MergingTrigger`.
            may_lose_data: Take a trigger that may be finished before the window is cleaned up; see
                :meth:`WindowedStream.trigger`.

        Raises:
            InvalidArgumentError: If there is a trigger already.
        """
        return self._with_trigger(trigger, may_lose_data)

    def discarding(self) -> MaybeEmptyMergingWindowedStream[T, K, W]:
        """Let each pane of a window hold what came since the last one; see :meth:`WindowedStream.discarding`.

        Raises:
            InvalidArgumentError: If the accumulation mode was set already.
        """
        return MaybeEmptyMergingWindowedStream(self._accumulated(AccumulationMode.DISCARDING))

    def evictor(self, evictor: Evictor[T, W]) -> MaybeEmptyMergingWindowedStream[T, K, W]:
        """Remove elements before or after the function sees them. The window then keeps all its elements.

        Args:
            evictor: Says which elements leave, and when.

        Returns:
            The stage whose results may be those of a window without elements.

        Raises:
            InvalidArgumentError: If there is an evictor already.
        """
        return MaybeEmptyMergingWindowedStream(self._evicted(evictor))


class _All(ReadyMade[T, N], AllStage[T, W], Generic[T, W, N]):
    """Windows of a stream without keys; see :class:`_Keyed`."""

    __slots__ = ()

    @overload
    def aggregate(
        self,
        function: AggregateFunction[T, A, R, E, None],
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    @overload
    def aggregate(
        self,
        function: AggregateFunction[T, A, R, E, None],
        window_function: WithPane,
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[WindowResult[None, W, R]]: ...
    @overload
    def aggregate(
        self,
        function: AggregateFunction[T, A, V, E, None],
        window_function: ProcessAllWindowFunction[V, R, W],
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def aggregate(
        self,
        function: AggregateFunction[T, A, V, E, None],
        window_function: ProcessAllWindowFunction[V, R, W] | WithPane | None = None,
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[Any]:
        """Fold the elements of a window into an accumulator; see :meth:`WindowedStream.aggregate`.

        Args:
            function: Folds. On merging windows it must have ``merge``.
            window_function: Gets the one result, with the window; None: that is what is emitted.
            on_error: As of :meth:`WindowedStream.aggregate`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it is no aggregate function, the window function is of another kind, or the types
                of its parts are known not to fit.
        """
        return self._aggregate_all(function, window_function, name, on_error)

    # Any: the calls say of which type their results are.
    def _declared(
        self, function: DeclaredAggregate[T, Any, Any, Any], name: str | None, on_error: OnError[T | None] = "fail"
    ) -> DataStream[Any]:
        return self._aggregate_all(function, None, name, on_error)


class AllWindowedStream(_All[T, W, Never]):
    """Windows of a stream without keys."""

    __slots__ = ()

    def trigger(self, trigger: Trigger[T, W], *, may_lose_data: bool = False) -> Self:
        """Decide when windows are evaluated; see :meth:`WindowedStream.trigger`.

        Args:
            trigger: The trigger.
            may_lose_data: Take a trigger that may be finished before the window is cleaned up; see
                :meth:`WindowedStream.trigger`.

        Raises:
            InvalidArgumentError: If it is no trigger, or there is one already.
        """
        return self._with_trigger(trigger, may_lose_data)

    def discarding(self) -> MaybeEmptyAllWindowedStream[T, W]:
        """Let each pane of a window hold what came since the last one; see :meth:`WindowedStream.discarding`.

        Raises:
            InvalidArgumentError: If the accumulation mode was set already.
        """
        return MaybeEmptyAllWindowedStream(self._accumulated(AccumulationMode.DISCARDING))

    def evictor(self, evictor: Evictor[T, W]) -> MaybeEmptyAllWindowedStream[T, W]:
        """Remove elements before or after the function sees them. The window then keeps all its elements.

        Args:
            evictor: Says which elements leave, and when.

        Returns:
            The stage whose results may be those of a window without elements.

        Raises:
            InvalidArgumentError: If there is an evictor already.
        """
        return MaybeEmptyAllWindowedStream(self._evicted(evictor))


class MergingAllWindowedStream(_All[T, W, Never]):
    """Windows of a stream without keys that may merge."""

    __slots__ = ()

    def trigger(self, trigger: MergingTrigger[T, W], *, may_lose_data: bool = False) -> Self:
        """Decide when windows are evaluated; see :meth:`MergingWindowedStream.trigger`.

        Args:
            trigger: The trigger, a :class:`~windrow.triggers.MergingTrigger`.
            may_lose_data: Take a trigger that may be finished before the window is cleaned up; see
                :meth:`WindowedStream.trigger`.

        Raises:
            InvalidArgumentError: If it is no trigger, or there is one already.
        """
        return self._with_trigger(trigger, may_lose_data)

    def discarding(self) -> MaybeEmptyMergingAllWindowedStream[T, W]:
        """Let each pane of a window hold what came since the last one; see :meth:`WindowedStream.discarding`.

        Raises:
            InvalidArgumentError: If the accumulation mode was set already.
        """
        return MaybeEmptyMergingAllWindowedStream(self._accumulated(AccumulationMode.DISCARDING))

    def evictor(self, evictor: Evictor[T, W]) -> MaybeEmptyMergingAllWindowedStream[T, W]:
        """Remove elements before or after the function sees them. The window then keeps all its elements.

        Args:
            evictor: Says which elements leave, and when.

        Returns:
            The stage whose results may be those of a window without elements.

        Raises:
            InvalidArgumentError: If there is an evictor already.
        """
        return MaybeEmptyMergingAllWindowedStream(self._evicted(evictor))


class MaybeEmptyKeyedWindows(_Keyed[T, K, W, None]):
    """Windows of a keyed stream that may have no element left when they fire."""

    __slots__ = ()

    # An empty window has a result too, so a variable for windows without an evictor hides that it may be None.
    @overload  # type: ignore[override]
    def aggregate(
        self,
        function: AggregateFunction[T, A, R, E, K],
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R | E]: ...
    @overload
    def aggregate(
        self,
        function: AggregateFunction[T, A, R, E, K],
        window_function: WithPane,
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[WindowResult[K, W, R | E]]: ...
    @overload
    def aggregate(
        self,
        function: AggregateFunction[T, A, V, E, K],
        window_function: ProcessWindowFunction[V | E, R, K, W],
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def aggregate(
        self,
        function: AggregateFunction[T, A, V, E, K],
        window_function: ProcessWindowFunction[V | E, R, K, W] | WithPane | None = None,
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[Any]:
        """Fold the elements that are left; see :meth:`WindowedStream.aggregate`.

        Where no element is left, the result is that of an empty window: None for
        :func:`windrow.aggregates.min`.

        Args:
            function: Folds. On merging windows it must have ``merge``.
            window_function: Gets the one result, with the key and the window; None: that is what is emitted.
            on_error: As of :meth:`WindowedStream.aggregate`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it is no aggregate function, the window function is of another kind, or the types
                of its parts are known not to fit.
        """
        return self._aggregate_keyed(function, window_function, name, on_error)


class MaybeEmptyWindowedStream(MaybeEmptyKeyedWindows[T, K, W], WindowedStream[T, K, W]):  # pyright: ignore[reportGeneralTypeIssues]  # results may be None
    """Windows of a keyed stream that may have no element left when they fire: with an evictor, or discarding."""

    __slots__ = ()


class MaybeEmptyMergingWindowedStream(MaybeEmptyKeyedWindows[T, K, W], MergingWindowedStream[T, K, W]):  # pyright: ignore[reportGeneralTypeIssues]  # results may be None
    """Windows of a keyed stream that may merge, and may have no element left when they fire."""

    __slots__ = ()


class MaybeEmptyAllWindows(_All[T, W, None]):
    """Windows of a stream without keys that may have no element left when they fire."""

    __slots__ = ()

    # An empty window has a result too, so a variable for windows without an evictor hides that it may be None.
    @overload  # type: ignore[override]
    def aggregate(
        self,
        function: AggregateFunction[T, A, R, E, None],
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R | E]: ...
    @overload
    def aggregate(
        self,
        function: AggregateFunction[T, A, R, E, None],
        window_function: WithPane,
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[WindowResult[None, W, R | E]]: ...
    @overload
    def aggregate(
        self,
        function: AggregateFunction[T, A, V, E, None],
        window_function: ProcessAllWindowFunction[V | E, R, W],
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def aggregate(
        self,
        function: AggregateFunction[T, A, V, E, None],
        window_function: ProcessAllWindowFunction[V | E, R, W] | WithPane | None = None,
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[Any]:
        return self._aggregate_all(function, window_function, name, on_error)


class MaybeEmptyAllWindowedStream(MaybeEmptyAllWindows[T, W], AllWindowedStream[T, W]):  # pyright: ignore[reportGeneralTypeIssues]  # results may be None
    """Windows of a stream without keys that may have no element left when they fire."""

    __slots__ = ()


class MaybeEmptyMergingAllWindowedStream(MaybeEmptyAllWindows[T, W], MergingAllWindowedStream[T, W]):  # pyright: ignore[reportGeneralTypeIssues]  # results may be None
    """Windows of a stream without keys that may merge, and may have no element left when they fire."""

    __slots__ = ()
