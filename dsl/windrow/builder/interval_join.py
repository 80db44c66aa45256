"""Defines interval joins, of elements near in time, and as-of joins, with the version that held at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, overload

from windrow.builder.arguments import check_function, error_policy
from windrow.builder.late import NOTHING_SAID, Lateness, LateStage, millis_once
from windrow.builder.stage import Stage
from windrow.calls.other_names import unknown_call
from windrow.failures import OnError
from windrow.functions.marked import JoinKind, OneRecord
from windrow.functions.two_inputs import ProcessJoinFunction
from windrow.joins.declared_join import DeclaredJoin, joined_by
from windrow.plan.keyed_nodes import AsOfJoinNode, IntervalJoinNode
from windrow.plan.location import AtCaller, refusal
from windrow.plan.nodes import KeyByNode
from windrow.plan.render import node_line
from windrow.plan.types import base_argument, iterable_item, result_type
from windrow.time import duration_millis, duration_text

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

L = TypeVar("L")
U = TypeVar("U")
K = TypeVar("K")
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")


class IntervalJoin(Stage, Generic[L, U, K]):
    """Two keyed streams to be joined; ``between`` says which timestamps belong together."""

    __slots__ = ("_node",)

    def __init__(self, node: KeyByNode) -> None:
        self._node = node

    def __repr__(self) -> str:
        return node_line(type(self).__name__, self._node)

    def between(self, lower: timedelta, upper: timedelta) -> IntervalJoined[L, U, K]:
        """Join each left element with the right ones from ``lower`` to ``upper`` after its timestamp.

        Args:
            lower: Of the pair left ``l`` and right ``r``, ``l.timestamp + lower <= r.timestamp``. May be negative.
            upper: And ``r.timestamp <= l.timestamp + upper``.

        Raises:
            InvalidArgumentError: If ``lower`` is above ``upper``.
        """
        with AtCaller():
            bounds = duration_millis(lower, "the lower bound"), duration_millis(upper, "the upper bound")
        if bounds[0] > bounds[1]:
            raise refusal(
                "the lower bound of an interval join must not be above the upper one",
                given=" and ".join(map(duration_text, bounds)),
                expected="lower <= upper",
            )
        return IntervalJoined(_Bounds(self._node, *bounds))


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Holds what the calls of an interval join have set so far."""

    node: KeyByNode
    lower: int
    upper: int
    lower_exclusive: bool = False
    upper_exclusive: bool = False
    kind: JoinKind = JoinKind.INNER


class _IntervalStage(LateStage[L, U]):
    __slots__ = ("_bounds",)

    def __init__(self, bounds: _Bounds, lateness: Lateness = NOTHING_SAID) -> None:
        super().__init__(lateness)
        self._bounds = bounds

    def __repr__(self) -> str:
        return node_line(type(self).__name__, self._bounds.node)

    def _with(self, lateness: Lateness) -> Self:
        return type(self)(self._bounds, lateness)

    # Any: the stages that have apply() have proved that the function fits.
    def _applied(
        self, function: Callable[[Any, Any], Any], name: str | None, on_error: OnError[Any]
    ) -> DataStream[Any]:
        check_function(function, "apply", "left, right")
        function, record_type = joined_by(function, self._bounds.node, self._bounds.kind)
        return self._joined(OneRecord(function), record_type, name, on_error)

    def _joined(
        self,
        function: ProcessJoinFunction[Any, Any, R],
        element_type: object | None,
        name: str | None,
        on_error: OnError[Any],
    ) -> DataStream[R]:
        bounds = self._bounds
        return self._stream_of(
            IntervalJoinNode(
                input=bounds.node,
                lower=bounds.lower + bounds.lower_exclusive,
                upper=bounds.upper - bounds.upper_exclusive,
                join_kind=bounds.kind,
                allowed_lateness=self._lateness.allowed or 0,
                late_tags=self._lateness.tags,
                on_error=error_policy(on_error),
                function=function,
                element_type=element_type,
                name=name,
            )
        )


class IntervalJoined(_IntervalStage[L, U], Generic[L, U, K]):
    """Two keyed streams that are joined within bounds, which are inclusive unless said otherwise."""

    __slots__ = ()

    def left(self) -> OuterIntervalJoined[L, U, L, U | None, K]:
        """Emit left elements without a partner, too, with None in its place (``LEFT OUTER JOIN`` of SQL).

        See :class:`OuterIntervalJoined` for when.
        """
        return self._outer(JoinKind.LEFT)

    def right(self) -> OuterIntervalJoined[L, U, L | None, U, K]:
        """Emit right elements without a partner, too, with None in its place (``RIGHT OUTER JOIN`` of SQL)."""
        return self._outer(JoinKind.RIGHT)

    def full(self) -> OuterIntervalJoined[L, U, L | None, U | None, K]:
        """Emit elements of both streams without a partner, too, with None in its place (``FULL OUTER JOIN``)."""
        return self._outer(JoinKind.FULL)

    # Any: what the function gets, which the callers say.
    def _outer(self, kind: JoinKind) -> OuterIntervalJoined[L, U, Any, Any, K]:
        return OuterIntervalJoined(replace(self._bounds, kind=kind), self._lateness)

    def lower_bound_exclusive(self) -> IntervalJoined[L, U, K]:
        """Leave out pairs whose timestamps are exactly the lower bound apart."""
        return IntervalJoined(replace(self._bounds, lower_exclusive=True), self._lateness)

    def upper_bound_exclusive(self) -> IntervalJoined[L, U, K]:
        """Leave out pairs whose timestamps are exactly the upper bound apart."""
        return IntervalJoined(replace(self._bounds, upper_exclusive=True), self._lateness)

    def process(
        self,
        function: ProcessJoinFunction[L, U, R],
        *,
        on_error: OnError[tuple[L, U]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]:
        """Process each pair as soon as its second element is there.

        An element is held until no partner of it can come that is not late: left ones until the watermark reaches
        their timestamp and the upper bound, right ones until it reaches their timestamp less the lower bound.

        Args:
            function: Gets the pairs.
            on_error: What becomes of a pair for which the function raises, as a tuple of both elements; see
                :data:`~windrow.failures.OnError`. Other pairs of its elements go on.
            name: Names the step.
        """
        if not isinstance(function, ProcessJoinFunction):
            raise refusal(
                "process needs a function of pairs",
                given=function,
                expected="an instance of ProcessJoinFunction",
                hint=f"{function.__name__}()"
                if isinstance(function, type)
                else "apply(...) takes a plain function that makes one record of a pair",
            )
        type_form = base_argument(function, ProcessJoinFunction, 2)
        type_form = type_form or iterable_item(result_type(function.process_element))
        return self._joined(function, type_form, name, on_error)

    # A declared join is one of these functions, yet type checkers infer the types of its parts where it is named.
    @overload
    def apply(
        self, function: DeclaredJoin[L, U, R], *, on_error: OnError[tuple[L, U]] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    @overload
    def apply(
        self, function: Callable[[L, U], R], *, on_error: OnError[tuple[L, U]] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    def apply(
        self, function: Callable[[L, U], R], *, on_error: OnError[tuple[L, U]] = "fail", name: str | None = None
    ) -> DataStream[R]:
        """Make one record from each pair, as soon as its second element is there.

        Args:
            function: A function of the left and the right element, or a :class:`~windrow.functions.JoinFunction`.
            on_error: What becomes of a pair for which the function raises, as a tuple of both elements; see
                :data:`~windrow.failures.OnError`. Other pairs of its elements go on.
            name: Names the step.
        """
        return self._applied(function, name, on_error)


class OuterIntervalJoined(_IntervalStage[L, U], Generic[L, U, A, B, K]):
    """Two keyed streams that are joined within bounds, with None for a partner that does not come.

    A pair is emitted as soon as its second element is there. That an element has no partner is known when all that
    could be one would be late: when the watermark is past the last timestamp that a partner may have and, since the
    element itself may come before the watermark reaches its own timestamp, past that; and past the allowed lateness on
    top. The record carries that time, and not the element's own, so that it is late for no window behind the join.
    Flink's SQL delays the watermark of the join instead. Elements are kept longer than by an inner join: until the last
    element that they may be partners of is decided.

    The type parameters are the elements of the streams, those that the function gets, and the key.
    """

    __slots__ = ()

    # A declared join is one of these functions, yet type checkers infer the types of its parts where it is named.
    @overload
    def apply(
        self, function: DeclaredJoin[A, B, R], *, on_error: OnError[tuple[A, B]] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    @overload
    def apply(
        self, function: Callable[[A, B], R], *, on_error: OnError[tuple[A, B]] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    def apply(
        self, function: Callable[[A, B], R], *, on_error: OnError[tuple[A, B]] = "fail", name: str | None = None
    ) -> DataStream[R]:
        """Make one record from each pair, and from each element that has no partner.

        Args:
            function: A function of the left and the right element, or a :class:`~windrow.functions.JoinFunction`. One
                of them is None where an element has no partner.
            on_error: What becomes of a pair for which the function raises, as a tuple of both elements; see
                :data:`~windrow.failures.OnError`. Other pairs of its elements go on.
            name: Names the step.
        """
        return self._applied(function, name, on_error)

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what makes a join outer on both sides."""
            raise unknown_call(self, name, _ONE_CALL)


class _AsOfStage(LateStage[L, U], Generic[L, U, K]):
    __slots__ = ("_node", "_retention")

    def __init__(self, node: KeyByNode, lateness: Lateness = NOTHING_SAID, retention: int | None = None) -> None:
        super().__init__(lateness)
        self._node = node
        self._retention = retention  # in milliseconds; None: nobody said

    def retention(self, retention: timedelta) -> Self:
        """Join an element with no version older than this, and drop versions that are.

        A version is no partner of an element whose timestamp is more than the retention after its own. Only event time
        counts, so that the result is the same in every run. A version is dropped when the watermark has passed its
        timestamp, the retention and the allowed lateness. Without this call the last version of a key stays for ever.

        It bounds what is kept, as ``historyRetention`` of Kafka Streams' versioned stores does, and the age of a
        partner, as ``tolerance`` of pandas' and Polars' as-of joins does. Flink's ``table.exec.state.ttl`` bounds
        state by the machine's clock, where a replay may have another result.

        Args:
            retention: How long, in event time. With zero only versions with the timestamp of the element join.

        Raises:
            InvalidArgumentError: If it is negative, or was set already.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import DataStream, WatermarkStrategy, from_collection
            >>> def with_times(elements: list[tuple[str, int]]) -> DataStream[tuple[str, int]]:
            ...     strategy = WatermarkStrategy.for_monotonous_timestamps()
            ...     stream = from_collection(elements)
            ...     return stream.assign_timestamps_and_watermarks(strategy, lambda each: each[1])
            >>> orders = with_times([("EUR", 5_000), ("EUR", 9_000)]).key_by(lambda order: order[0])
            >>> rates = with_times([("EUR", 1_000)]).key_by(lambda rate: rate[0])
            >>> fresh = orders.as_of_join(rates).retention(timedelta(seconds=5))
            >>> fresh.apply(lambda order, rate: (order[1], rate[1])).collect()
            [(5000, 1000)]
        """
        stated = millis_once(retention, self._retention, "the retention")
        return type(self)(self._node, self._lateness, stated)

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what bounds the age of versions, by the names that other systems have for it."""
            raise unknown_call(self, name, _RETENTION)

    def __repr__(self) -> str:
        return node_line(type(self).__name__, self._node)

    def _with(self, lateness: Lateness) -> Self:
        return type(self)(self._node, lateness, self._retention)

    # Any: the stages that have apply() have proved that the function fits.
    def _joined(
        self, function: Callable[[Any, Any], Any], kind: JoinKind, name: str | None, on_error: OnError[Any]
    ) -> DataStream[Any]:
        check_function(function, "apply", "left, right")
        function, record_type = joined_by(function, self._node, kind)
        return self._stream_of(
            AsOfJoinNode(
                input=self._node,
                function=function,
                is_outer=kind is JoinKind.LEFT,
                retention=self._retention,
                allowed_lateness=self._lateness.allowed or 0,
                late_tags=self._lateness.tags,
                on_error=error_policy(on_error),
                element_type=record_type,
                name=name,
            )
        )


class AsOfJoin(_AsOfStage[L, U, K]):
    """Joins each left element with the last right one of its key at or before its timestamp: the version valid then.

    It waits for the watermark to reach the timestamp, so that it misses no version. Of several right elements with one
    timestamp the one that arrived last counts. The last version of a key stays for ever, but with :meth:`retention`.
    """

    __slots__ = ()

    # A declared join is one of these functions, yet type checkers infer the types of its parts where it is named.
    @overload
    def apply(
        self, function: DeclaredJoin[L, U, R], *, on_error: OnError[tuple[L, U]] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    @overload
    def apply(
        self, function: Callable[[L, U], R], *, on_error: OnError[tuple[L, U]] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    def apply(
        self, function: Callable[[L, U], R], *, on_error: OnError[tuple[L, U]] = "fail", name: str | None = None
    ) -> DataStream[R]:
        """Make one record from each left element and the version for it; left ones without a version are dropped.

        Args:
            function: A function of both, or a :class:`~windrow.functions.JoinFunction`. Records carry the timestamp
                of the left element.
            on_error: What becomes of a pair for which the function raises, as a tuple of both elements; see
                :data:`~windrow.failures.OnError`. Other pairs of its elements go on.
            name: Names the step.
        """
        return self._joined(function, JoinKind.INNER, name, on_error)


class LeftAsOfJoin(_AsOfStage[L, U, K]):
    """As :class:`AsOfJoin`, but emits each left element: without a version, with None in its place.

    Late left elements are emitted as well, when the watermark advances, with the version that is still kept for their
    time, or None; unless they go to a side output.
    """

    __slots__ = ()

    # A declared join is one of these functions, yet type checkers infer the types of its parts where it is named.
    @overload
    def apply(
        self,
        function: DeclaredJoin[L, U | None, R],
        *,
        on_error: OnError[tuple[L, U | None]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    @overload
    def apply(
        self,
        function: Callable[[L, U | None], R],
        *,
        on_error: OnError[tuple[L, U | None]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def apply(
        self,
        function: Callable[[L, U | None], R],
        *,
        on_error: OnError[tuple[L, U | None]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]:
        """Make one record from each left element and the version for it, or None.

        Args:
            function: A function of both, or a :class:`~windrow.functions.JoinFunction`. Records carry the timestamp
                of the left element.
            on_error: What becomes of a pair for which the function raises, as a tuple of both elements; see
                :data:`~windrow.failures.OnError`. Other pairs of its elements go on.
            name: Names the step.
        """
        return self._joined(function, JoinKind.LEFT, name, on_error)


_RETENTION: Final = dict.fromkeys(
    ("history_retention", "with_history_retention", "tolerance", "ttl", "state_ttl", "within"),
    "retention(timedelta(...)), in event time",
)
_ONE_CALL: Final = {
    **dict.fromkeys(
        ("left", "right", "full"),
        "one call says it: between(...).full() is outer on both sides, .left() or .right() on one",
    ),
    "process": "apply(function), which takes None in place of a partner that is not there",
}
