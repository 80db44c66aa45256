"""The builder: streams, and the stages between a stream and its windows.

Each stage is a type of its own with only the calls that are legal on it, and every call returns a new stage: a stream
may be used many times and is never changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from typing_extensions import TypeForm, deprecated

from windrow.builder.arguments import check_assigner, check_function, check_sink, error_policy, sink_policy
from windrow.builder.broadcast import BroadcastStream, broadcast_node
from windrow.builder.connect import ConnectedStreams
from windrow.builder.keyed_stream import KeyedStream
from windrow.builder.lookups import map_async_node, map_batches_node, process_node
from windrow.builder.side_input_stream import SideInputCalls, spread_by_hash
from windrow.builder.stage import DataStreamSink, side_output_node
from windrow.builder.window_join import CoGroupedStreams, JoinedStreams, TwoStreams
from windrow.builder.window_settings import WindowSettings, count_window
from windrow.builder.windowed import AllWindowedStream, MergingAllWindowedStream
from windrow.calls.no_policy import no_on_error
from windrow.calls.other_names import unknown_call
from windrow.failures import Failed, OnError, Then
from windrow.functions import AsyncRetryStrategy, FlatMapFunction, MapFunction, ProcessFunction
from windrow.functions.marked import JoinKind
from windrow.panes import Change, ChangeKind
from windrow.plan.base_node import Node
from windrow.plan.emitting import WRAP_IT, NotRecords, OneValue
from windrow.plan.fitting import widest
from windrow.plan.location import refusal
from windrow.plan.nodes import (
    ChangelogNode,
    FilterNode,
    FlatMapNode,
    KeyByNode,
    MapNode,
    ReturnsNode,
    SinkNode,
    TimestampsNode,
    UnionNode,
)
from windrow.plan.pipeline import PartialPipeline, Runner, checked_runner
from windrow.plan.render import node_line
from windrow.plan.types import base_argument, iterable_item, made_type, stated_type
from windrow.sinks import CollectSink, ConsoleSink, Sink
from windrow.state import MapStateDescriptor
from windrow.tags import OutputTag
from windrow.watermarks import WatermarkStrategy
from windrow.windows import GlobalWindow, MergingWindowAssigner, Window, WindowAssigner

__all__ = ["DataStream", "KeyedStream"]

T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
S_co = TypeVar("S_co", covariant=True)
R = TypeVar("R")
H = TypeVar("H", bound=Hashable)
S = TypeVar("S")
U = TypeVar("U")
W = TypeVar("W", bound=Window)


class _Wider(Protocol[T_contra, S_co]):
    """A stream that could have elements of type ``T_contra`` as well; its own are of type ``S_co``."""

    def _takes(self, element: T_contra, /) -> None: ...
    def _gives(self) -> S_co: ...


class DataStream(SideInputCalls[T_co], Generic[T_co]):
    """A stream of elements of type ``T_co``.

    A stream of elements of a class is also a stream of elements of its base classes.
    """

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def node(self) -> Node:
        """The step of the plan that makes this stream."""
        return self._node

    @property
    def element_type(self) -> object | None:
        """The type of the elements, where the plan knows it."""
        return self._node.element_type

    def map(
        self, function: Callable[[T_co], R], *, on_error: OnError[T_co] = "fail", name: str | None = None
    ) -> DataStream[R]:
        """Make one element from each.

        Args:
            function: A function, or a :class:`~windrow.functions.MapFunction`.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the function cannot be called, or is a coroutine function.

        Example:
            >>> from windrow import from_collection
            >>> from_collection([1, 2, 3]).map(lambda number: number * 2).collect()
            [2, 4, 6]
        """
        check_function(function, "map", "element")
        return DataStream(
            MapNode(
                input=self._node,
                function=function,
                on_error=error_policy(on_error),
                name=name,
                element_type=made_type(function, self._node.element_type) or base_argument(function, MapFunction, 1),
            )
        )

    # The first overload is for functions that return Any, which would match the second one too.
    @overload
    def flat_map(
        self, function: Callable[[T_co], list[R]], *, on_error: OnError[T_co] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    @overload
    @deprecated(WRAP_IT)
    def flat_map(  # type: ignore[overload-overlap]
        self, function: Callable[[T_co], OneValue], *, on_error: OnError[T_co] = "fail", name: str | None = None
    ) -> NotRecords: ...
    @overload
    def flat_map(  # pyright: ignore[reportOverlappingOverload]
        self,
        function: Callable[[T_co], Iterable[R] | None],
        *,
        on_error: OnError[T_co] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def flat_map(
        self,
        function: Callable[[T_co], Iterable[Any] | None],
        *,
        on_error: OnError[T_co] = "fail",
        name: str | None = None,
    ) -> DataStream[Any] | NotRecords:
        """Make any number of elements from each, in order.

        Args:
            function: A function or generator function, or a :class:`~windrow.functions.FlatMapFunction`. It returns
                an iterable of records, or None for none; a text, bytes, a dict or a tuple of a fixed number of parts
                is refused, as it is one value.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the function cannot be called, or is a coroutine function.

        Example:
            >>> from windrow import from_collection
            >>> from_collection(["to be", "or not"]).flat_map(lambda line: line.split()).collect()
            ['to', 'be', 'or', 'not']
        """
        check_function(function, "flat_map", "element", may_yield=True)
        return DataStream(
            FlatMapNode(
                input=self._node,
                function=function,
                on_error=error_policy(on_error),
                name=name,
                element_type=iterable_item(made_type(function, self._node.element_type))
                or base_argument(function, FlatMapFunction, 1),
            )
        )

    def filter(
        self, function: Callable[[T_co], bool], *, on_error: OnError[T_co] = "fail", name: str | None = None
    ) -> DataStream[T_co]:
        """Keep the elements for which the function is true.

        Args:
            function: A function, or a :class:`~windrow.functions.FilterFunction`.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the function cannot be called, or is a coroutine function.

        Example:
            >>> from windrow import from_collection
            >>> from_collection([1, 2, 3, 4]).filter(lambda number: number % 2 == 0).collect()
            [2, 4]
        """
        check_function(function, "filter", "element")
        return DataStream(
            FilterNode(
                input=self._node,
                function=function,
                on_error=error_policy(on_error),
                name=name,
                element_type=self._node.element_type,
            )
        )

    if TYPE_CHECKING:
        # For the type checker alone: _Wider asks whether another stream could have the elements of this one.
        def _takes(self, element: T_co, /) -> None: ...  # type: ignore[misc]  # no stream has such a method
        def _gives(self) -> T_co: ...

    @overload
    def union(self, *others: DataStream[T_co]) -> DataStream[T_co]: ...
    @overload
    def union(self, *others: _Wider[T_co, S]) -> DataStream[S]: ...
    @overload
    def union(self, other: DataStream[S], another: DataStream[R], /) -> DataStream[T_co | S | R]: ...
    @overload
    def union(
        self, other: DataStream[S], another: DataStream[R], third: DataStream[U], /
    ) -> DataStream[T_co | S | R | U]: ...
    @overload
    def union(self, *others: DataStream[S]) -> DataStream[T_co | S]: ...
    # Any: the overloads say which type.
    def union(self, *others: object) -> DataStream[Any]:
        """This stream and others as one; its watermark is the lowest of theirs.

        The others may have elements of other types: those of the result are of any of these, ``A | B``. A type checker
        knows all of up to four types; more streams of different types are united one after the other.

        Args:
            others: The other streams, none with keys; with none the result has the elements of this stream.

        Raises:
            InvalidArgumentError: If one of them is no :class:`DataStream`.

        Example:
            >>> from windrow import from_collection
            >>> sorted(from_collection([1, 2]).union(from_collection([3])).collect())
            [1, 2, 3]
        """
        nodes = [self._node]
        for other in others:
            if not isinstance(other, DataStream):
                raise refusal(
                    "a union is made of streams",
                    given=other,
                    expected="a DataStream",
                    hint="bring streams together before key_by",
                )
            nodes.append(other._node)
        return DataStream(UnionNode(streams=tuple(nodes), element_type=widest([node.element_type for node in nodes])))

    @overload
    def returns(self, element_type: TypeForm[T_co]) -> DataStream[T_co]: ...
    @overload
    def returns(self, element_type: TypeForm[S]) -> DataStream[T_co | S]: ...
    def returns(self, element_type: object) -> DataStream[Any]:
        """Say the type of the elements where the plan cannot know it, such as before a sink with columns.

        The plan reads it from the annotations of functions, and from the code of functions without them, such as
        lambdas. It cannot read loops and comprehensions, or functions of other libraries.

        Args:
            element_type: The type, or a wider one: a base class, or ``X | None`` for ``X``. The plan refuses one that
                the known type of the elements does not fit. Elements are not looked at one by one, but for plain
                tuples: a wrong type shows where a sink or a state needs it.
        """
        return DataStream(ReturnsNode(input=self._node, element_type=element_type))

    @overload
    def changelog(self, *, name: str | None = None) -> DataStream[Change[T_co]]: ...
    @overload
    def changelog(self, function: Callable[[ChangeKind, T_co], R], *, name: str | None = None) -> DataStream[R]: ...
    @no_on_error("changelog().map(lambda change: ..., on_error=tag) has a policy for what may fail")
    def changelog(
        self, function: Callable[[ChangeKind, T_co], Any] | None = None, *, name: str | None = None
    ) -> DataStream[Any]:
        """Make a record from each change, so that sinks and functions see withdrawals as well as results.

        After windows that retract, a stream carries withdrawals, which steps understand and functions do not see.
        Sinks, which would write them as results, are refused there. On another stream each element is a first result.

        Args:
            function: Makes the record from the kind and the result: ``lambda kind, total: Row(kind.value, total)``. By
                default the record is a :class:`~windrow.panes.Change`. In a file or table it has two columns: ``kind``,
                a text such as ``-U``, and ``value``, the result with its fields. Declared aggregates whose windows
                retract then stay on columns from end to end.
            name: Names the step.
        """
        if function is not None:
            check_function(function, "changelog", "kind, row")
        element_type = self._node.element_type
        type_form: object = Change if element_type is None else GenericAlias(Change, (element_type,))
        if function is not None:
            type_form = made_type(function, ChangeKind, element_type)
        return DataStream(
            ChangelogNode(input=self._node, function=function or Change, element_type=type_form, name=name)
        )

    def assign_timestamps_and_watermarks(
        self,
        strategy: WatermarkStrategy[T_co],
        timestamp: Callable[[T_co], int | datetime] | None = None,
        *,
        on_error: OnError[T_co] = "fail",
        name: str | None = None,
    ) -> DataStream[T_co]:
        """Give elements timestamps, and make watermarks from them.

        Args:
            strategy: How watermarks are made.
            timestamp: Takes the timestamp from an element: epoch milliseconds, or an aware datetime. May be left out
                where the elements have timestamps, such as downstream of a window.
            on_error: What becomes of elements for which ``timestamp`` raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the strategy is none, or ``timestamp`` cannot be called or is a coroutine function.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import WatermarkStrategy, from_collection
            >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5))
            >>> clicks = from_collection([("home", 1_000), ("cart", 3_000)])
            >>> clicks.assign_timestamps_and_watermarks(strategy, lambda click: click[1])
            DataStream(...)
        """
        if not isinstance(strategy, WatermarkStrategy):
            raise refusal(
                "watermarks need a strategy",
                given=strategy,
                expected="a WatermarkStrategy",
                hint="WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1))",
            )
        if timestamp is not None:
            check_function(timestamp, "assign_timestamps_and_watermarks", "element")
        policy = error_policy(on_error)
        if policy is not None and timestamp is None:
            raise refusal(
                "on_error is for elements whose timestamp function raises, and there is none",
                given=f"on_error={on_error!r}",
                expected="timestamp=lambda element: ...",
                hint="leave on_error out: elements keep the timestamps that they have",
            )
        return DataStream(
            TimestampsNode(
                input=self._node,
                strategy=strategy,
                timestamp=timestamp,
                on_error=policy,
                name=name,
                element_type=self._node.element_type,
            )
        )

    @overload
    def key_by(self, selector: Callable[[T_co], H], *, on_error: OnError[T_co] = "fail") -> KeyedStream[T_co, H]: ...
    @overload
    def key_by(
        self, selector: Callable[[T_co], H], key_type: TypeForm[H], *, on_error: OnError[T_co] = "fail"
    ) -> KeyedStream[T_co, H]: ...
    def key_by(
        self, selector: Callable[[T_co], H], key_type: object | None = None, *, on_error: OnError[T_co] = "fail"
    ) -> KeyedStream[T_co, H]:
        """Split the stream by key.

        Args:
            selector: Takes the key from an element: a function, or a :class:`~windrow.functions.KeySelector`. Keys
                are hashable and compare by value: str, int, bytes, None, tuples, enums, frozen dataclasses of these.
                All NaNs are one key, as they are to Flink and Spark SQL.
            key_type: The type of the key, where the selector is a lambda and something needs it.
            on_error: What becomes of elements for which the selector raises; see :data:`~windrow.failures.OnError`.
                ``get_side_output`` of the keyed stream takes the side output of a tag.

        Raises:
            InvalidArgumentError: If the selector cannot be called, or is a coroutine function.

        Example:
            >>> from windrow import from_collection
            >>> orders = from_collection([("ann", 10), ("bob", 5), ("ann", 2)])
            >>> sorted(orders.key_by(lambda order: order[0]).sum(lambda order: order[1]).collect())
            [('ann', 10), ('ann', 12), ('bob', 5)]
        """
        check_function(selector, "key_by", "element")
        return KeyedStream(
            KeyByNode(
                input=self._node,
                selector=selector,
                on_error=error_policy(on_error),
                key_type=key_type if key_type is not None else stated_type(selector, self._node.element_type),
                element_type=self._node.element_type,
            )
        )

    # The overloads overlap where a merging assigner hides behind the type WindowAssigner: the plan checks that case.
    @overload
    def window_all(  # type: ignore[overload-overlap]
        self, assigner: MergingWindowAssigner[T_co, W]
    ) -> MergingAllWindowedStream[T_co, W]: ...
    @overload
    def window_all(self, assigner: WindowAssigner[T_co, W]) -> AllWindowedStream[T_co, W]: ...
    def window_all(
        self, assigner: WindowAssigner[T_co, W]
    ) -> AllWindowedStream[T_co, W] | MergingAllWindowedStream[T_co, W]:
        """Windows over the whole stream, without keys. They run on one core; with keys they spread.

        Args:
            assigner: Which windows. One that merges, such as sessions, gives a stage that takes only triggers that can
                merge.

        Raises:
            InvalidArgumentError: If it is no assigner.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import WatermarkStrategy, from_collection
            >>> from windrow.windows import TumblingEventTimeWindows
            >>> times = from_collection([1_000, 2_000, 61_000]).assign_timestamps_and_watermarks(
            ...     WatermarkStrategy.for_monotonous_timestamps(), lambda time: time
            ... )
            >>> times.window_all(TumblingEventTimeWindows.of(timedelta(minutes=1))).count().collect()
            [2, 1]
        """
        settings = WindowSettings(self._node, check_assigner(assigner))
        if isinstance(assigner, MergingWindowAssigner):
            return MergingAllWindowedStream(settings)
        return AllWindowedStream(settings)

    def count_window_all(
        self, size: int, slide: int | None = None, *, fire_at_end: bool = False
    ) -> AllWindowedStream[T_co, GlobalWindow]:
        """Windows of ``size`` elements over the whole stream; see :meth:`KeyedStream.count_window`.

        Args:
            size: How many elements a window has.
            slide: After how many elements a window fires; None: after ``size`` of them, and it begins anew.
            fire_at_end: Whether windows fire once more at the end of the stream with the elements that are left.

        Raises:
            InvalidArgumentError: If ``size`` or ``slide`` is not a positive int, or ``fire_at_end`` no bool.
        """
        return AllWindowedStream(count_window(self._node, size, slide, fire_at_end=fire_at_end))

    def process(
        self, function: ProcessFunction[T_co, R], *, on_error: OnError[T_co] = "fail", name: str | None = None
    ) -> DataStream[R]:
        """Make records from each element, and split the stream into side outputs, which ``get_side_output`` takes.

        Args:
            function: Gets the elements.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
                What the failed call put out, at side outputs too, is discarded.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it is no instance of :class:`~windrow.functions.ProcessFunction`.
        """
        return DataStream(process_node(self._node, function, on_error, name))

    @overload
    def map_batches(
        self,
        function: Callable[[Sequence[T_co]], list[R]],
        *,
        size: int,
        on_error: OnError[T_co] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    @overload
    @deprecated(WRAP_IT)
    def map_batches(  # type: ignore[overload-overlap]
        self,
        function: Callable[[Sequence[T_co]], OneValue],
        *,
        size: int,
        on_error: OnError[T_co] = "fail",
        name: str | None = None,
    ) -> NotRecords: ...
    @overload
    def map_batches(  # pyright: ignore[reportOverlappingOverload]
        self,
        function: Callable[[Sequence[T_co]], Sequence[R]],
        *,
        size: int,
        on_error: OnError[T_co] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def map_batches(
        self,
        function: Callable[[Sequence[T_co]], Iterable[Any]],
        *,
        size: int,
        on_error: OnError[T_co] = "fail",
        name: str | None = None,
    ) -> DataStream[Any] | NotRecords:
        """Make one element from each, several at a time, for models and databases.

        Args:
            function: Takes a sequence of elements in order, and returns a sequence of as many results. A call has at
                most ``size`` elements, and fewer at the end of what has arrived: it waits for no more. A text, bytes, a
                dict or a tuple of a fixed number of parts is refused, as it is one value.
            size: The most elements of a call.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
                After an exception the function is called again for each element of the batch alone, to find them.
            name: Names the step.
        """
        return DataStream(map_batches_node(self._node, function, size, on_error, name))

    def map_async(
        self,
        function: Callable[[T_co], Awaitable[R]],
        *,
        capacity: int,
        timeout: timedelta | None = None,
        rate_limit: float | None = None,
        retries: int = 0,
        retry_strategy: AsyncRetryStrategy | None = None,
        ordered: bool = True,
        timed_out: OutputTag[T_co] | None = None,
        failed: OutputTag[T_co] | None = None,
        on_error: OnError[T_co] = "fail",
        name: str | None = None,
    ) -> DataStream[R]:
        """Make one element from each by a coroutine, many side by side on one event loop for each worker.

        All that are under way are done when the batch ends, so no result is lost or doubled.

        Args:
            function: ``async def f(element)``, or an :class:`~windrow.functions.AsyncFunction`.
            capacity: How many are under way at most; further elements wait.
            timeout: How long a try may take; None: any time. A coroutine is cancelled then. One that goes on in spite
                of that is left behind, at most ``capacity`` of them at a time, and an answer that comes later is none.
            rate_limit: How many tries each worker may begin in a second, evenly spread; None: any number. A try that
                waits for its turn has not begun, so ``timeout`` does not count that. On Spark as many workers as there
                are tasks of the step may call at the same time: divide what a service allows by their number.
            retries: How many tries follow one that has raised an exception or taken too long, at once.
            retry_strategy: Decides which failures are tried again, how often and after which time, instead of
                ``retries``: a :class:`~windrow.functions.FixedDelayRetryStrategy`, an
                :class:`~windrow.functions.ExponentialBackoffDelayRetryStrategy`, or your own.
            ordered: Whether results keep the order of the elements. Else they come in the order in which they are done.
            timed_out: The side output for elements whose last try took too long; without it they have failed.
            failed: The side output for elements whose last try has raised an exception; without it that ends the run.
            on_error: In place of ``failed``, ``"drop"`` to count and leave out such elements, or a tag for them with
                the error: :class:`~windrow.failures.Failed`.
            name: Names the step.
        """
        return DataStream(
            map_async_node(
                self._node,
                function,
                capacity=capacity,
                timeout=timeout,
                rate_limit=rate_limit,
                retries=retries,
                retry_strategy=retry_strategy,
                ordered=ordered,
                timed_out=timed_out,
                failed=failed,
                on_error=on_error,
                name=name,
            )
        )

    def connect(self, other: DataStream[U]) -> ConnectedStreams[T_co, U]:
        """This stream and another one, of any type, to be processed together.

        Args:
            other: The second stream.

        Raises:
            InvalidArgumentError: If it is no :class:`DataStream`.

        Example:
            >>> from windrow import from_collection
            >>> numbers, texts = from_collection([1, 2]), from_collection(["three"])
            >>> sorted(numbers.connect(texts).map(lambda number: number, lambda text: len(text)).collect())
            [1, 2, 5]
        """
        return ConnectedStreams(self, _stream(other, "connect"))

    # Any: a stream may change maps of any types.
    def broadcast(self, *descriptors: MapStateDescriptor[Any, Any]) -> BroadcastStream[T_co]:
        """This stream as one of rules: each element reaches all keys of a keyed stream that is connected to it.

        Args:
            descriptors: Those of the maps that hold the rules, each with a name of its own.

        Raises:
            InvalidArgumentError: If a descriptor is not one of a map, has the name of another, or lets rules expire.
        """
        return BroadcastStream(broadcast_node(self._node, descriptors))

    def _by_key(self) -> KeyByNode:
        return spread_by_hash(self._node)

    def join(self, other: DataStream[U]) -> JoinedStreams[T_co, U, T_co, U]:
        """Join this stream and another one by key and window: ``join(b).where(f).equal_to(g).window(w).apply(h)``.

        Each pair of a left and a right element that share a key and a window makes a record when the window fires.

        Args:
            other: The right stream; this one is the left one. Neither has keys yet.

        Returns:
            The stage whose ``where`` takes the key of the left stream.

        Raises:
            InvalidArgumentError: If it is no :class:`DataStream`.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import DataStream, WatermarkStrategy, from_collection
            >>> from windrow.windows import TumblingEventTimeWindows
            >>> def with_times(elements: list[tuple[str, int]]) -> DataStream[tuple[str, int]]:
            ...     strategy = WatermarkStrategy.for_monotonous_timestamps()
            ...     stream = from_collection(elements)
            ...     return stream.assign_timestamps_and_watermarks(strategy, lambda each: each[1])
            >>> orders, visits = with_times([("ann", 1_000)]), with_times([("ann", 2_000)])
            >>> joined = (
            ...     orders.join(visits)
            ...     .where(lambda order: order[0])
            ...     .equal_to(lambda visit: visit[0])
            ...     .window(TumblingEventTimeWindows.of(timedelta(minutes=1)))
            ...     .apply(lambda order, visit: (order[0], order[1], visit[1]))
            ... )
            >>> joined.collect()
            [('ann', 1000, 2000)]
        """
        return JoinedStreams(self._with(other, JoinKind.INNER))

    def left_join(self, other: DataStream[U]) -> JoinedStreams[T_co, U, T_co, U | None]:
        """As :meth:`join`; a left element of a window without right ones comes with None.

        Args:
            other: The right stream; this one is the left one. Neither has keys yet.

        Returns:
            The stage whose ``where`` takes the key of the left stream.

        Raises:
            InvalidArgumentError: If it is no :class:`DataStream`.
        """
        return JoinedStreams(self._with(other, JoinKind.LEFT))

    def right_join(self, other: DataStream[U]) -> JoinedStreams[T_co, U, T_co | None, U]:
        """As :meth:`join`; a right element of a window without left ones comes with None.

        Args:
            other: The right stream; this one is the left one. Neither has keys yet.

        Returns:
            The stage whose ``where`` takes the key of the left stream.

        Raises:
            InvalidArgumentError: If it is no :class:`DataStream`.
        """
        return JoinedStreams(self._with(other, JoinKind.RIGHT))

    def full_join(self, other: DataStream[U]) -> JoinedStreams[T_co, U, T_co | None, U | None]:
        """As :meth:`join`; an element of a window without elements of the other stream comes with None.

        Args:
            other: The right stream; this one is the left one. Neither has keys yet.

        Returns:
            The stage whose ``where`` takes the key of the left stream.

        Raises:
            InvalidArgumentError: If it is no :class:`DataStream`.
        """
        return JoinedStreams(self._with(other, JoinKind.FULL))

    def co_group(self, other: DataStream[U]) -> CoGroupedStreams[T_co, U]:
        """Group this stream and another one by key and window: both lists of elements make records together.

        Args:
            other: The right stream; this one is the left one. Neither has keys yet.

        Returns:
            The stage whose ``where`` takes the key of the left stream.

        Raises:
            InvalidArgumentError: If it is no :class:`DataStream`.
        """
        return CoGroupedStreams(self._with(other, None))

    def _with(self, other: object, kind: JoinKind | None) -> TwoStreams:
        return TwoStreams(self._node, _stream(other, "join" if kind else "co_group").node, kind)

    def get_side_output(self, tag: OutputTag[S]) -> DataStream[S]:
        """The side output of the step that made this stream.

        It has late elements, malformed records, elements that failed, or what a process function put out under ``tag``.

        Args:
            tag: The one that the step was given, or another of the same name.

        Returns:
            The elements of that output, with their timestamps. It is empty where the step puts nothing out under the
                tag.

        Raises:
            InvalidArgumentError: If it is no :class:`OutputTag`.

        Example:
            >>> from windrow import OutputTag, from_collection
            >>> from windrow.functions import ProcessContext, ProcessFunction
            >>> odd = OutputTag("odd", int)
            >>> class Split(ProcessFunction[int, int]):
            ...     def process_element(self, value: int, context: ProcessContext) -> list[int]:
            ...         if value % 2:
            ...             context.output(odd, value)
            ...             return []
            ...         return [value]
            >>> even = from_collection([1, 2, 3]).process(Split())
            >>> even.get_side_output(odd).collect()
            [1, 3]
        """
        return DataStream(side_output_node(self._node, tag))

    def sink_to(
        self, sink: Sink[T_co], *, on_error: Then | OutputTag[Failed[T_co]] = "fail", name: str | None = None
    ) -> DataStreamSink:
        """Write the stream. Hand the result to a :class:`~windrow.Pipeline`.

        Args:
            sink: Takes the elements, such as a :class:`~windrow.sinks.CollectSink`; an instance, not the class.
            on_error: What becomes of elements that the sink cannot write, such as those with a value that does not fit
                its column: ``"fail"``, ``"drop"``, or a tag, whose elements ``get_side_output`` of the result has. Each
                element is encoded twice then. Failures of the target, such as a full disk, fail the run in any case.
            name: Names the step.

        Returns:
            The sink for a :class:`~windrow.Pipeline`; without one nothing is written.

        Raises:
            InvalidArgumentError: If it is no sink, or one that cannot tell which elements it will not write is given a
                policy for them.

        Example:
            >>> from windrow import Pipeline, from_collection
            >>> from windrow.sinks import CollectSink
            >>> from windrow_runtime.local import LocalRunner
            >>> sink = CollectSink[int]()
            >>> pipeline = Pipeline("numbers", from_collection([1, 2]).sink_to(sink))
            >>> LocalRunner().run(pipeline).collected(sink)
            [1, 2]
        """
        check_sink(sink)
        return DataStreamSink(
            SinkNode(
                input=self._node,
                sink=sink,
                on_error=sink_policy(sink, on_error),
                name=name,
                element_type=self._node.element_type,
            )
        )

    def print(self, prefix: str = "", *, name: str | None = None) -> DataStreamSink:
        """Print each element on a line of its own, in the program that runs the pipeline.

        It is :meth:`sink_to` with a :class:`~windrow.sinks.ConsoleSink`, so a :class:`~windrow.Pipeline` takes the
        result::

            LocalRunner().run(Pipeline("look", coldest.print("coldest: "), late.print("late: ")))

        Args:
            prefix: Printed before each element.
            name: Names the step.
        """
        return self.sink_to(ConsoleSink(prefix), name=name)

    def collect(self, runner: Runner | None = None, *, name: str = "collect") -> list[T_co]:
        """Run only this stream to the end of its sources, and return its elements, in order of arrival.

        It is for a look, and for tests: all elements are kept in memory, and each call reads the sources again. A
        program that writes, or has several results, makes one :class:`~windrow.Pipeline` of them::

            >>> from windrow import from_collection
            >>> from_collection([1, 2, 3]).map(lambda number: 2 * number).collect()
            [2, 4, 6]

        Args:
            runner: A ``LocalRunner`` or a ``SparkRunner``; by default a new ``LocalRunner``. One of Spark's with a
                checkpoint goes on from there, and gives the elements of this run.
            name: Names the pipeline in errors, and in Spark's pages.

        Raises:
            InvalidArgumentError: If ``runner`` is no runner, or ``name`` is empty.
            PlanError: If the plan has faults.
            WindrowError: What the runner raises.
        """
        runner = checked_runner(runner)
        sink = CollectSink[T_co]()
        return runner.run(PartialPipeline(name, self.sink_to(sink))).collected(sink)

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what to write instead of a name of other systems."""
            raise unknown_call(self, name, _ELSEWHERE)

    def __repr__(self) -> str:
        return node_line(type(self).__name__, self._node)


def _stream(other: object, call: str) -> DataStream[Any]:
    """The other stream of a call, or an error where it is none."""
    if not isinstance(other, DataStream):
        raise refusal(
            f"{call} needs another stream", given=other, expected="a DataStream", hint=_HINTS.get(type(other))
        )
    return other


_HINTS: Mapping[type[object], str] = {
    KeyedStream: "call key_by on both streams, or on the connected ones",
    BroadcastStream: "call key_by on the stream that the rules are for; key_by(lambda element: 0) where it has no key, "
    "which brings all its elements into one task",
}
"""What to write instead where a call takes a stream, and was given another stage."""

_KEYED = "key_by(lambda element: ...) first, and after it window(assigner) for results by time"
_ELSEWHERE: Mapping[str, str] = {
    "show": "print(), whose result a Pipeline takes; collect() gives the elements",
    **dict.fromkeys(("add_sink", "write", "writeStream"), "sink_to(sink), whose result a Pipeline takes"),
    **dict.fromkeys(("execute", "execute_and_collect"), "collect(), or collect(SparkRunner()), runs it"),
    **dict.fromkeys(("apply", "transform"), "pipe(function), which calls function(stream)"),
    **dict.fromkeys(("aggregate", "count", "max", "max_by", "min", "min_by", "reduce", "sum"), _KEYED),
    "count_window": "key_by(lambda element: ...).count_window(size), or count_window_all(size) without keys",
    "on_error": "on_error= of the call that has the function, such as map(function, on_error=tag)",
    "uid": "name=... of the call that makes the step",
    "window": "key_by(lambda element: ...).window(assigner), or window_all(assigner) without keys",
}
"""What to write instead of calls that streams of other systems have, or keyed streams."""
