"""Defines keyed streams, the stage before windows, process functions, and joins by key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin, overload

from typing_extensions import deprecated

from windrow.aggregates.selectors import refuse_texts
from windrow.builder.arguments import check_assigner, check_function, check_kind, check_plain_function, error_policy
from windrow.builder.broadcast import BroadcastConnectedStream, BroadcastStream
from windrow.builder.connect import KeyedConnectedStreams
from windrow.builder.interval_join import AsOfJoin, IntervalJoin, LeftAsOfJoin
from windrow.builder.pattern_stream import PatternSettings, PatternStream
from windrow.builder.side_input_stream import SideInputCalls
from windrow.builder.sides import keyed_by_both
from windrow.builder.stage import side_output_node
from windrow.builder.window_settings import WindowSettings, count_window
from windrow.builder.windowed import MergingWindowedStream, WindowedStream
from windrow.calls.no_policy import CALLS_NOTHING, no_on_error
from windrow.calls.other_names import unknown_call
from windrow.counts import check_positive
from windrow.failures import OnError
from windrow.functions import KeyedProcessFunction
from windrow.functions.names import function_name
from windrow.functions.type_names import type_name
from windrow.panes import Change
from windrow.patterns import AfterMatchSkipStrategy, Pattern
from windrow.patterns.ordered_nodes import EventTimeOrderNode
from windrow.patterns.skip import NO_SKIP
from windrow.plan.emitting import WRAP_IT, NotRecords, OneValue
from windrow.plan.keyed_nodes import KeyedProcessNode
from windrow.plan.keys import HINT as HASH_HINT
from windrow.plan.keys import key_type, unhashable_part
from windrow.plan.location import AtCaller, caller_location, refusal
from windrow.plan.nodes import FromChangesNode, KeyByNode
from windrow.plan.render import node_line
from windrow.plan.types import base_argument, iterable_item, made_type, result_type
from windrow.rolling import Comparable, Extreme, RollingReduce, RollingValue, added, higher, lower
from windrow.rows.newest import NewestOrDeleted, NewestRow
from windrow.rows.repeated import DistinctOfKey, FirstOfKey, OnChange, StatefulFlatMap, StatefulMap
from windrow.state import StateTtlConfig
from windrow.tags import OutputTag
from windrow.time import TimeDomain, positive_millis
from windrow.triggers import CountOrEndOfStreamTrigger, ProcessingTimeoutTrigger, PurgingTrigger, Trigger
from windrow.windows import GlobalWindow, GlobalWindows, MergingWindowAssigner, Window, WindowAssigner

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")
U = TypeVar("U")
S = TypeVar("S")
W = TypeVar("W", bound=Window)
N = TypeVar("N", int, float, Decimal, timedelta)
C = TypeVar("C", bound=Comparable)


class KeyedStream(SideInputCalls[T], Generic[T, K]):
    """A stream split by key: elements of type ``T``, keys of type ``K``."""

    __slots__ = ("_node",)

    def __init__(self, node: KeyByNode) -> None:
        self._node = node

    @property
    def node(self) -> KeyByNode:
        """The step of the plan that makes this stream."""
        return self._node

    # The overloads overlap where a merging assigner hides behind the type WindowAssigner: the plan checks that case.
    @overload
    def window(  # type: ignore[overload-overlap]
        self, assigner: MergingWindowAssigner[T, W]
    ) -> MergingWindowedStream[T, K, W]: ...
    @overload
    def window(self, assigner: WindowAssigner[T, W]) -> WindowedStream[T, K, W]: ...
    def window(self, assigner: WindowAssigner[T, W]) -> WindowedStream[T, K, W] | MergingWindowedStream[T, K, W]:
        """Assign the elements of each key to windows.

        Args:
            assigner: Which windows. One that merges, such as sessions, gives a stage that takes only triggers that
                can merge.

        Raises:
            InvalidArgumentError: If it is no assigner.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import WatermarkStrategy, from_collection
            >>> from windrow.windows import TumblingEventTimeWindows
            >>> readings = [("a", 1_000, 20), ("a", 2_000, 22), ("b", 3_000, 7)]
            >>> by_sensor = (
            ...     from_collection(readings)
            ...     .assign_timestamps_and_watermarks(
            ...         WatermarkStrategy.for_monotonous_timestamps(), lambda reading: reading[1]
            ...     )
            ...     .key_by(lambda reading: reading[0])
            ... )
            >>> minutes = by_sensor.window(TumblingEventTimeWindows.of(timedelta(minutes=1)))
            >>> sorted(minutes.max(lambda reading: reading[2]).collect())
            [7, 22]
        """
        settings = WindowSettings(self._node, check_assigner(assigner))
        if isinstance(assigner, MergingWindowAssigner):
            return MergingWindowedStream(settings)
        return WindowedStream(settings)

    def count_window(
        self, size: int, slide: int | None = None, *, fire_at_end: bool = False
    ) -> WindowedStream[T, K, GlobalWindow]:
        """Windows of ``size`` elements of a key.

        Without ``slide`` a window fires when it has ``size`` elements, and begins anew. With it, every ``slide``
        elements the last ``size`` ones are evaluated.

        Elements that wait for a window to fill up when the stream ends, or is drained, are in no result. They are
        counted (``unfired_window_records_dropped``).

        Args:
            size: How many elements.
            slide: After how many elements a window fires.
            fire_at_end: Whether windows fire once more at the end of the stream with the elements that are left, which
                are fewer than ``size``, or with ``slide`` the last ``size`` ones.

        Raises:
            InvalidArgumentError: If ``size`` or ``slide`` is not a positive int, or ``fire_at_end`` no bool.

        Example:
            >>> from windrow import from_collection
            >>> orders = from_collection([("ann", 1), ("ann", 2), ("bob", 9), ("ann", 5)])
            >>> orders.key_by(lambda order: order[0]).count_window(2).sum(lambda order: order[1]).collect()
            [3]
        """
        settings = count_window(self._node, size, slide, fire_at_end=fire_at_end)
        return WindowedStream(settings)

    @no_on_error(CALLS_NOTHING)
    def group_into_batches(
        self, max_size: int, *, timeout: timedelta | None = None, name: str | None = None
    ) -> DataStream[list[T]]:
        """Lists of at most ``max_size`` elements of a key: Beam's ``GroupIntoBatches``, and ``collect`` of Bytewax.

        A list comes out when it is full, when its first element has waited for the timeout, and at the end of the
        stream. Its elements are in order of arrival. It is the result of a global window: windows in event time behind
        it need timestamps that are assigned anew.

        Args:
            max_size: How many elements a list has at most.
            timeout: How long an element may wait for others, by the machine's clock; None: until the list is full.
            name: Names the step.

        Raises:
            InvalidArgumentError: If ``max_size`` is no positive int, or the timeout not positive.

        Example:
            >>> from windrow import from_collection
            >>> orders = from_collection([("ann", 1), ("ann", 2), ("bob", 9), ("ann", 5)])
            >>> sorted(orders.key_by(lambda order: order[0]).group_into_batches(2).collect())
            [[('ann', 1), ('ann', 2)], [('ann', 5)], [('bob', 9)]]
        """
        check_positive(max_size, "the size of a batch", where=caller_location())
        trigger: Trigger[T, GlobalWindow] = CountOrEndOfStreamTrigger.of(max_size)
        if timeout is not None:
            with AtCaller():
                trigger = ProcessingTimeoutTrigger.of(trigger, timeout)
        windows = self.window(GlobalWindows.create()).trigger(PurgingTrigger.of(trigger))
        lists: DataStream[list[T]] = windows.apply(as_one_list, name=name)
        element_type = self._node.element_type
        # Any: a type that is known when the plan is built alone.
        list_type: Any = GenericAlias(list, (element_type,))
        return lists if element_type is None else lists.returns(list_type)

    def map(
        self, function: Callable[[T], R], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[R]:
        """Make one element from each; the result has no keys. See :meth:`windrow.DataStream.map`.

        Args:
            function: A function, or a :class:`~windrow.functions.MapFunction`.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the function cannot be called, or is a coroutine function.
        """
        return self._without_keys("map").map(function, on_error=on_error, name=name)

    # As for streams without keys: the first overload is for functions that return Any.
    @overload
    def flat_map(
        self, function: Callable[[T], list[R]], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    @overload
    @deprecated(WRAP_IT)
    def flat_map(  # type: ignore[overload-overlap]
        self, function: Callable[[T], OneValue], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> NotRecords: ...
    @overload
    def flat_map(  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[[T], Iterable[R] | None], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    def flat_map(
        self, function: Callable[[T], Iterable[Any] | None], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[Any] | NotRecords:
        """Make any number of elements from each; the result has no keys. See :meth:`windrow.DataStream.flat_map`.

        Args:
            function: A function or generator function, or a :class:`~windrow.functions.FlatMapFunction`. It returns an
                iterable of records, or None for none.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the function cannot be called, or is a coroutine function.
        """
        return self._without_keys("flat_map").flat_map(function, on_error=on_error, name=name)

    def filter(
        self, function: Callable[[T], bool], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[T]:
        """Keep the elements for which the function is true; the result has no keys.

        Args:
            function: A function, or a :class:`~windrow.functions.FilterFunction`.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the function cannot be called, or is a coroutine function.
        """
        return self._without_keys("filter").filter(function, on_error=on_error, name=name)

    def union(self, *others: DataStream[T] | KeyedStream[T, Any]) -> DataStream[T]:
        """This stream and others of the same type as one, without keys; its watermark is the lowest of theirs.

        Args:
            others: The other streams, with keys or without; their keys are left aside.

        Raises:
            InvalidArgumentError: If one of them is no stream.
        """
        plain = [other._without_keys("union") if isinstance(other, KeyedStream) else other for other in others]
        return self._without_keys("union").union(*plain)

    def _by_key(self) -> KeyByNode:
        return self._node

    def _without_keys(self, call: str) -> DataStream[T]:
        policy = self._node.on_error
        if policy is not None:
            raise refusal(
                f"{call} selects no keys, so that on_error of key_by would leave no element out",
                given=f"key_by(..., {policy.describe()})",
                expected="key_by without on_error",
                hint=f"call {call} on the stream before key_by; what fails goes aside in map(..., on_error=tag)",
            )
        return self._stream_of(self._node.input)

    @overload
    def connect(self, other: KeyedStream[U, K]) -> KeyedConnectedStreams[T, U, K]: ...
    @overload
    def connect(self, other: BroadcastStream[U]) -> BroadcastConnectedStream[T, U, K]: ...
    def connect(
        self, other: KeyedStream[U, K] | BroadcastStream[U]
    ) -> KeyedConnectedStreams[T, U, K] | BroadcastConnectedStream[T, U, K]:
        """This stream and another one, to be processed together by key.

        Args:
            other: A keyed stream with keys of the same type, or a stream of rules that
                :meth:`windrow.DataStream.broadcast` made.

        Raises:
            InvalidArgumentError: If the keys are known to be of different types.
        """
        if isinstance(other, BroadcastStream):
            return BroadcastConnectedStream(self._node, other.node)
        return KeyedConnectedStreams(self._keyed_with(other, "connect"))

    def interval_join(self, other: KeyedStream[U, K]) -> IntervalJoin[T, U, K]:
        """Join elements of this stream and of another one that share a key and are near in time.

        Args:
            other: The right stream.

        Raises:
            InvalidArgumentError: If the keys are known to be of different types.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import DataStream, WatermarkStrategy, from_collection
            >>> def with_times(elements: list[tuple[str, int]]) -> DataStream[tuple[str, int]]:
            ...     strategy = WatermarkStrategy.for_monotonous_timestamps()
            ...     stream = from_collection(elements)
            ...     return stream.assign_timestamps_and_watermarks(strategy, lambda each: each[1])
            >>> orders = with_times([("a", 1_000)]).key_by(lambda order: order[0])
            >>> payments = with_times([("a", 4_000), ("a", 9_000)]).key_by(lambda payment: payment[0])
            >>> paid = (
            ...     orders.interval_join(payments)
            ...     .between(timedelta(0), timedelta(seconds=5))
            ...     .apply(lambda order, payment: (order[0], payment[1] - order[1]))
            ... )
            >>> paid.collect()
            [('a', 3000)]
        """
        return IntervalJoin(self._keyed_with(other, "interval_join"))

    def as_of_join(self, other: KeyedStream[U, K]) -> AsOfJoin[T, U, K]:
        """Join each element with the last one of another stream, of the same key, at or before its timestamp.

        Args:
            other: The right stream, of versions.

        Raises:
            InvalidArgumentError: If the keys are known to be of different types.

        Example:
            >>> from windrow import WatermarkStrategy, from_collection
            >>> in_order = WatermarkStrategy.for_monotonous_timestamps()
            >>> orders = from_collection([("EUR", 5_000)]).assign_timestamps_and_watermarks(
            ...     in_order, lambda order: order[1]
            ... )
            >>> listed = from_collection([("EUR", 1_000, 1.1), ("EUR", 6_000, 1.2)])
            >>> rates = listed.assign_timestamps_and_watermarks(in_order, lambda rate: rate[1])
            >>> at_their_rates = (
            ...     orders.key_by(lambda order: order[0])
            ...     .as_of_join(rates.key_by(lambda rate: rate[0]))
            ...     .apply(lambda order, rate: (order[1], rate[2]))
            ... )
            >>> at_their_rates.collect()
            [(5000, 1.1)]
        """
        return AsOfJoin(self._keyed_with(other, "as_of_join"))

    def left_as_of_join(self, other: KeyedStream[U, K]) -> LeftAsOfJoin[T, U, K]:
        """As :meth:`as_of_join`, but also emits elements without a version, with None in its place.

        Args:
            other: The right stream, of versions.

        Raises:
            InvalidArgumentError: If the keys are known to be of different types.
        """
        return LeftAsOfJoin(self._keyed_with(other, "left_as_of_join"))

    def _keyed_with(self, other: object, call: str) -> KeyByNode:
        if not isinstance(other, KeyedStream):
            raise refusal(
                f"{call} on a keyed stream needs another keyed stream",
                given=other,
                expected="a KeyedStream with keys of the same type",
                hint="call key_by on both streams; for rules that all keys get, other.broadcast(descriptor)"
                if call == "connect"
                else "call key_by on both streams",
            )
        left, right = self._node, other._node
        for node in (left, right):
            if node.on_error is not None:
                raise refusal(
                    f"{call} selects the keys of two streams in one step, which has no on_error",
                    given=f"key_by(..., {node.on_error.describe()})",
                    expected="key_by without on_error",
                    hint="compute the key in map(function, on_error=tag) before key_by, which then only reads it",
                )
        return keyed_by_both(
            (left.input, left.selector),
            (right.input, right.selector),
            (left.key_type, right.key_type),
            counts_at_once=True,
        )

    def in_event_time_order(
        self, *, late: OutputTag[T] | None = None, max_buffered: int | None = None, name: str | None = None
    ) -> KeyedStream[T, K]:
        """The same elements, those of a key in the order of their timestamps; of equal ones, in order of arrival.

        An element waits until the watermark reaches its timestamp, so that no earlier one can come any more. Results
        of upstream windows and timers wait as others do. An element at or below the watermark is late.

        Args:
            late: Names the side output for late elements, which ``get_side_output`` of the result takes; None: they
                are counted and dropped (``late_records_dropped``).
            max_buffered: How many elements of a key may wait. One more fails the run, before a watermark that stands
                still lets the state grow without end. None: any number.
            name: Names the step.

        Raises:
            InvalidArgumentError: If ``late`` is no tag, or ``max_buffered`` no positive int.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import WatermarkStrategy, from_collection
            >>> readings = from_collection([("a", 3_000), ("a", 1_000), ("a", 2_000)])
            >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5))
            >>> stamped = readings.assign_timestamps_and_watermarks(strategy, lambda each: each[1])
            >>> by_sensor = stamped.key_by(lambda reading: reading[0])
            >>> by_sensor.in_event_time_order().max(lambda reading: reading[1]).collect()
            [('a', 1000), ('a', 2000), ('a', 3000)]
        """
        if late is not None:
            check_kind(late, OutputTag, "late elements go to the side output of a tag", "an OutputTag")
        if max_buffered is not None and (type(max_buffered) is not int or max_buffered < 1):
            raise refusal("max_buffered is a number of elements", given=max_buffered, expected="an int > 0")
        ordered = EventTimeOrderNode(
            input=self._node, late_tag=late, max_buffered=max_buffered, element_type=self._node.element_type, name=name
        )
        return KeyedStream(
            KeyByNode(
                input=ordered,
                selector=self._node.selector,
                key_type=self._node.key_type,
                element_type=self._node.element_type,
            )
        )

    def get_side_output(self, tag: OutputTag[S]) -> DataStream[S]:
        """The side output of the step whose elements have the keys, such as :meth:`in_event_time_order`.

        Args:
            tag: The one that the step was given, or another of the same name.

        Raises:
            InvalidArgumentError: If it is no :class:`OutputTag`.
        """
        if tag in self._node.failed_tags:
            return self._stream_of(side_output_node(self._node, tag))
        return self._stream_of(self._node.input).get_side_output(tag)

    @no_on_error(
        "select and apply take it, also for conditions and tie_break: pattern(...).select(function, on_error=tag)"
    )
    def pattern(
        self,
        pattern: Pattern[T],
        *,
        skip: AfterMatchSkipStrategy = NO_SKIP,
        tie_break: Callable[[T], Comparable] | None = None,
        late: OutputTag[T] | None = None,
        timed_out: OutputTag[dict[str, list[T]]] | None = None,
    ) -> PatternStream[T]:
        """Look for a pattern in the elements of each key, in event time.

        Elements wait for the watermark, as with :meth:`in_event_time_order`, and are looked at in that order.

        Args:
            pattern: The pattern.
            skip: What becomes of other matches when a match comes out.
            tie_break: Orders elements of one key and one timestamp; None: they are in order of arrival.
            late: Names the side output for late elements; None: they are counted and dropped
                (``late_records_dropped``).
            timed_out: Names the side output for partial matches whose time is up: dicts of lists of elements by part.
                None: they vanish.

        Raises:
            InvalidArgumentError: If an argument is of another kind, if the pattern ends with ``not_followed_by`` and
                has no time, or if ``skip`` names a part that no match has.

        Example:
            :class:`~windrow.patterns.Pattern` has one.
        """
        settings = PatternSettings(pattern=pattern, skip=skip, tie_break=tie_break, late=late, timed_out=timed_out)
        settings.check()
        return PatternStream(self._node, settings)

    def distinct(
        self,
        selector: Callable[[T], Hashable] | None = None,
        *,
        within: timedelta,
        by: TimeDomain = TimeDomain.EVENT_TIME,
        on_error: OnError[T] = "fail",
        name: str | None = None,
    ) -> DataStream[T]:
        """The elements of each key, without those whose value passed before; Spark's ``dropDuplicatesWithinWatermark``.

        The first element to arrive passes. For ``within`` after it others with the same value are left out, and none of
        them prolongs that time. In event time an element counts at its timestamp, or at the watermark where that is
        later: none is late, and a replay leaves out the same ones. To have the earliest of several pass, call
        :meth:`in_event_time_order` before. State has an entry for each value of the last ``within``.

        Args:
            selector: Takes from an element what is compared, which has a hash; by default the element itself.
            within: For how long an element is remembered.
            by: ``TimeDomain.EVENT_TIME``, or ``TimeDomain.PROCESSING_TIME``: the clock at which elements arrive.
            on_error: What becomes of elements for which the selector raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If ``within`` is no positive time, ``by`` no time domain, the selector cannot be
                called, or what it takes is of a type without a hash.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import from_collection
            >>> from windrow.time import TimeDomain
            >>> clicks = from_collection([("ann", "/a"), ("ann", "/b"), ("ann", "/a"), ("bob", "/a")])
            >>> by_user = clicks.key_by(lambda click: click[0])
            >>> hour = timedelta(hours=1)
            >>> sorted(by_user.distinct(within=hour, by=TimeDomain.PROCESSING_TIME).collect())
            [('ann', '/a'), ('ann', '/b'), ('bob', '/a')]
        """
        if selector is not None:
            check_function(selector, "distinct", "element")
        kind = self._node.element_type if selector is None else made_type(selector, self._node.element_type)
        if (part := unhashable_part(kind)) is not None:
            raise refusal(
                f"distinct compares values by their hash, and those of type {type_name(part)} have none",
                given=type_name(kind),
                expected="scalars, tuples of them, or frozen records",
                hint=HASH_HINT,
            )
        function: DistinctOfKey[K, T] = DistinctOfKey(selector, _remembered(within, by))
        return self._process(function, self._node.element_type, name, on_error)

    @no_on_error(CALLS_NOTHING)
    def first(
        self, *, within: timedelta, by: TimeDomain = TimeDomain.EVENT_TIME, name: str | None = None
    ) -> DataStream[T]:
        """The first element of each key, and no other one for ``within`` after it; then the next one, and so on.

        Times are those of :meth:`distinct`. State has a mark for each key of the last ``within``.

        Args:
            within: For how long no other element of the key passes.
            by: ``TimeDomain.EVENT_TIME``, or ``TimeDomain.PROCESSING_TIME``: the clock at which elements arrive.
            name: Names the step.

        Raises:
            InvalidArgumentError: If ``within`` is no positive time, or ``by`` no time domain.
        """
        function: FirstOfKey[K, T] = FirstOfKey(_remembered(within, by))
        return self._process(function, self._node.element_type, name, "fail")

    def on_change(
        self, selector: Callable[[T], object], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[T]:
        """The elements of each key whose selected value is not equal to that of the element before; the first passes.

        Elements come in order of arrival; :meth:`in_event_time_order` before it has them by timestamp. State has the
        value of each key, for good.

        Args:
            selector: Takes from an element what is compared.
            on_error: What becomes of elements for which the selector raises; see :data:`~windrow.failures.OnError`.
                The next element is compared with the one before it.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called, or is a coroutine function.

        Example:
            >>> from windrow import from_collection
            >>> doors = from_collection([("a", "open"), ("a", "open"), ("a", "shut"), ("a", "open")])
            >>> doors.key_by(lambda door: door[0]).on_change(lambda door: door[1]).collect()
            [('a', 'open'), ('a', 'shut'), ('a', 'open')]
        """
        check_function(selector, "on_change", "element")
        return self._process(OnChange(selector), self._node.element_type, name, on_error)

    def stateful_map(
        self,
        initial: Callable[[], S],
        function: Callable[[S, T], tuple[S | None, R]],
        *,
        ttl: StateTtlConfig | None = None,
        on_error: OnError[T] = "fail",
        name: str | None = None,
    ) -> DataStream[R]:
        """Make one element from each, with a state by key.

        Args:
            initial: Makes the state of a key that has none, such as ``int`` or a class.
            function: Gets the state and an element, and returns the new state and the result. With None for a state the
                key is forgotten.
            ttl: How long a state lives after the last element of its key; None: until it is None.
            on_error: What becomes of elements for which a function raises; see :data:`~windrow.failures.OnError`. The
                state of the key stays as it was.
            name: Names the step.

        Raises:
            InvalidArgumentError: If ``initial`` or ``function`` cannot be called, or ``ttl`` is no
                :class:`~windrow.state.StateTtlConfig`.

        Example:
            >>> from windrow import from_collection
            >>> payments = from_collection([("ann", 5), ("bob", 1), ("ann", 2)])
            >>> def numbered(count: int, payment: tuple[str, int]) -> tuple[int, str]:
            ...     return count + 1, f"{payment[0]} {count + 1}"
            >>> sorted(payments.key_by(lambda payment: payment[0]).stateful_map(int, numbered).collect())
            ['ann 1', 'ann 2', 'bob 1']
        """
        _check_stateful(initial, function, ttl, "stateful_map")
        process: StatefulMap[K, T, S, R] = StatefulMap(initial, function, ttl)
        return self._process(process, _second(result_type(function)), name, on_error)

    def stateful_flat_map(
        self,
        initial: Callable[[], S],
        function: Callable[[S, T], tuple[S | None, Iterable[R]]],
        *,
        ttl: StateTtlConfig | None = None,
        on_error: OnError[T] = "fail",
        name: str | None = None,
    ) -> DataStream[R]:
        """Make any number of elements from each, with a state by key; otherwise as :meth:`stateful_map`.

        Args:
            initial: Makes the state of a key that has none.
            function: Gets the state and an element, and returns the new state and an iterable of results. With None for
                a state the key is forgotten.
            ttl: How long a state lives after the last element of its key; None: until it is None.
            on_error: What becomes of elements for which a function raises; see :data:`~windrow.failures.OnError`. The
                state of the key stays as it was.
            name: Names the step.

        Raises:
            InvalidArgumentError: If ``initial`` or ``function`` cannot be called, or ``ttl`` is no
                :class:`~windrow.state.StateTtlConfig`.
        """
        _check_stateful(initial, function, ttl, "stateful_flat_map")
        process: StatefulFlatMap[K, T, S, R] = StatefulFlatMap(initial, function, ttl)
        return self._process(process, iterable_item(_second(result_type(function))), name, on_error)

    def process(
        self, function: KeyedProcessFunction[K, T, R], *, on_error: OnError[T | None] = "fail", name: str | None = None
    ) -> DataStream[R]:
        """Process each element of a key, with state and timers.

        Args:
            function: Gets elements and timers.
            on_error: What becomes of elements and timers for which the function raises; see
                :data:`~windrow.failures.OnError`. What the failed call has emitted, stored and set is discarded. In the
                side output of a tag the element of a timer is None.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it is no instance of :class:`~windrow.functions.KeyedProcessFunction`.

        Example:
            >>> from windrow import from_collection
            >>> from windrow.functions import KeyedProcessContext, KeyedProcessFunction
            >>> from windrow.state import ValueStateDescriptor
            >>> class Numbered(KeyedProcessFunction[str, str, str]):
            ...     SEEN = ValueStateDescriptor("seen", int)
            ...
            ...     def process_element(self, value: str, context: KeyedProcessContext[str]) -> list[str]:
            ...         seen = context.get_state(self.SEEN)
            ...         number = (seen.value() or 0) + 1
            ...         seen.update(number)
            ...         return [f"{value}{number}"]
            >>> words = from_collection(["a", "b", "a"])
            >>> sorted(words.key_by(lambda word: word).process(Numbered()).collect())
            ['a1', 'a2', 'b1']
        """
        if not isinstance(function, KeyedProcessFunction):
            raise refusal(
                "process needs a process function",
                given=function,
                expected="an instance of KeyedProcessFunction",
                hint=f"an instance of a subclass, such as {function.__name__}()"
                if isinstance(function, type)
                else "map and flat_map take functions; here it is an instance of a subclass of KeyedProcessFunction",
            )
        type_form = base_argument(function, KeyedProcessFunction, 2)
        type_form = type_form or iterable_item(result_type(function.process_element))
        return self._process(function, type_form, name, on_error)

    def reduce(
        self, function: Callable[[T, T], T], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[T]:
        """Emit, for each element, the elements of its key so far combined into one.

        Args:
            function: Combines what was combined so far with a new element: a function, or a
                :class:`~windrow.functions.ReduceFunction`.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the function cannot be called, or is a coroutine function.
        """
        check_function(function, "reduce", "so_far, element")
        rolling: RollingReduce[K, T] = RollingReduce(function, f"rolling reduce {function_name(function)}")
        return self._process(rolling, self._node.element_type, name, on_error)

    def sum(
        self, selector: Callable[[T], N], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[tuple[K, N]]:
        """Emit, for each element, its key and the sum so far of what ``selector`` takes from the key's elements.

        Args:
            selector: Takes a number or a time span from an element.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called, or is a coroutine function.
        """
        check_function(selector, "sum", "element")
        refuse_texts(selector, self._node.element_type, "sum", caller_location())
        return self._process(RollingValue(selector, added, "rolling sum"), self._pair(selector), name, on_error)

    def min(
        self, selector: Callable[[T], C], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[tuple[K, C]]:
        """Emit, for each element, its key and the lowest so far of what ``selector`` takes from its elements.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called, or is a coroutine function.
        """
        check_function(selector, "min", "element")
        return self._process(RollingValue(selector, lower, "rolling min"), self._pair(selector), name, on_error)

    def max(
        self, selector: Callable[[T], C], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[tuple[K, C]]:
        """Emit, for each element, its key and the highest so far of what ``selector`` takes from its elements.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called, or is a coroutine function.
        """
        check_function(selector, "max", "element")
        return self._process(RollingValue(selector, higher, "rolling max"), self._pair(selector), name, on_error)

    def min_by(
        self, selector: Callable[[T], C], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[T]:
        """Emit, for each element, the one of its key so far with the lowest selected value; of equals the first.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called, or is a coroutine function.
        """
        check_function(selector, "min_by", "element")
        rolling: RollingReduce[K, T] = RollingReduce(Extreme(selector, lowest=True), "rolling min_by")
        return self._process(rolling, self._node.element_type, name, on_error)

    def max_by(
        self, selector: Callable[[T], C], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[T]:
        """Emit, for each element, the one of its key so far with the highest selected value; of equals the first.

        Args:
            selector: Takes from an element what is compared: any values that have an order.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If the selector cannot be called, or is a coroutine function.
        """
        check_function(selector, "max_by", "element")
        rolling: RollingReduce[K, T] = RollingReduce(Extreme(selector, lowest=False), "rolling max_by")
        return self._process(rolling, self._node.element_type, name, on_error)

    @no_on_error("a column that a map(function, on_error=tag) before key_by computes says what is deleted")
    def latest(self, *, is_deleted: Callable[[T], bool] | None = None, name: str | None = None) -> DataStream[T]:
        """The table of the newest element of each key, as a stream of changes (a ``KTable`` of Kafka Streams).

        When an element comes, the one before of its key is withdrawn, with the timestamp with which it came: it is late
        where its window is gone. Windows, and sinks with the same key, understand that; other steps need
        :meth:`~windrow.DataStream.changelog` before them. The newest element of each key is kept for ever, unless an
        element deletes it.

        Args:
            is_deleted: Says whether an element deletes the row of its key, as a record without value does in Kafka.
            name: Names the step.

        Raises:
            InvalidArgumentError: If ``is_deleted`` cannot be called, or is a coroutine function.

        Example:
            >>> from windrow import from_collection
            >>> prices = from_collection([("tea", 5), ("cup", 9), ("tea", 6)])
            >>> newest = prices.key_by(lambda price: price[0]).latest()
            >>> newest.changelog(lambda kind, price: (kind.value, *price)).collect()
            [('+I', 'tea', 5), ('+I', 'cup', 9), ('-U', 'tea', 5), ('+U', 'tea', 6)]
        """
        if is_deleted is not None:
            check_plain_function(is_deleted, "latest", "element")
        element_type = self._node.element_type
        change_type = None if element_type is None else GenericAlias(Change, (element_type,))
        newest: NewestRow[K, T, T] = NewestRow(NewestOrDeleted(is_deleted), "the newest element")
        changes = self._process(newest, change_type, name, "fail")
        return self._stream_of(
            FromChangesNode(input=changes.node, element_type=element_type, call="latest", row_key=self._node.selector)
        )

    # Any: a policy for elements alone, or for those of timers too.
    def _process(
        self,
        function: KeyedProcessFunction[K, T, R],
        element_type: object | None,
        name: str | None,
        on_error: OnError[Any],
    ) -> DataStream[R]:
        return self._stream_of(
            KeyedProcessNode(
                input=self._node,
                function=function,
                on_error=error_policy(on_error),
                name=name,
                element_type=element_type,
            )
        )

    def _pair(self, selector: Callable[[T], object]) -> object | None:
        pair = (key_type(self._node), made_type(selector, self._node.element_type))
        return None if None in pair else tuple.__class_getitem__(pair)

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what to write instead of a name of streams without keys, or of other systems."""
            # As in Stage._stream_of.
            from windrow.builder.stream import DataStream

            raise unknown_call(self, name, {**dict.fromkeys(vars(DataStream), _BEFORE), **_ELSEWHERE})

    def __repr__(self) -> str:
        return node_line("KeyedStream", self._node)


def as_one_list(key: object, window: GlobalWindow, elements: Iterable[T]) -> list[list[T]]:
    """Returns one list of all elements of a window."""
    return [list(elements)]


def _remembered(within: timedelta, by: TimeDomain) -> StateTtlConfig:
    """How long an element is remembered; errors have the line of the program."""
    with AtCaller():
        positive_millis(within, "within")
        return StateTtlConfig(within, time_domain=by)


def _check_stateful(initial: object, function: object, ttl: object, call: str) -> None:
    check_plain_function(initial, call, "")
    check_function(function, call, "state, element")
    if ttl is not None:
        hint = "ttl=StateTtlConfig(timedelta(...))"
        check_kind(ttl, StateTtlConfig, "ttl says how long a state lives", "a StateTtlConfig", hint)


def _second(type_form: object | None) -> object | None:
    """The type of the second member of a pair; None where annotations do not say."""
    arguments = get_args(type_form) if get_origin(type_form) is tuple else ()
    return arguments[1] if len(arguments) == _PAIR else None


_PAIR = 2
_BEFORE = "keys change no element: take it from the stream, before key_by"
_JOINS = (
    "as_of_join(other) for the row that was valid at the time, interval_join(other), connect(other), or "
    "with_side_input(as_dict(other, ...)); in windows join(other) of the stream before key_by; "
    "tables by latest().join(other.latest())"
)
_ELSEWHERE: Mapping[str, str] = {
    "add_sink": _BEFORE,
    **dict.fromkeys(("join", "left_join", "right_join", "full_join", "outer_join", "left_outer_join"), _JOINS),
    "to_table": "latest()",
    "on_error": "on_error= of key_by, or of the call that has the function, such as process(function, on_error=tag)",
    "aggregate": "window(assigner).aggregate(function), or process(function) with an AggregatingStateDescriptor",
    "collect": "group_into_batches(max_size, timeout=...) for lists; to run a stream, collect() of one without keys",
    "count": "sum(lambda element: 1) for a count so far, or window(assigner).count()",
    "key_by": "a stream has one key: call key_by on the stream before, with a tuple of several fields if need be",
    **dict.fromkeys(("apply", "transform"), "pipe(function), which calls function(stream)"),
}
"""What to write instead of calls that streams without keys have, or keyed streams of other systems."""
