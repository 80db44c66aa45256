"""Joins or groups elements of two streams that share a key and a window."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, get_args, overload

from windrow.builder.arguments import check_assigner, check_function, error_policy
from windrow.builder.late import with_tag
from windrow.builder.sides import keyed_by_both
from windrow.builder.stage import Stage
from windrow.builder.window_settings import WindowSettings
from windrow.builder.window_stage import WindowStage
from windrow.calls.no_policy import KEY_BEFORE, no_on_error
from windrow.evictors import Evictor
from windrow.failures import OnError
from windrow.functions.marked import CoGroup, JoinKind, JoinPairs
from windrow.functions.window_function import ProcessWindowFunction
from windrow.joins.declared_join import DeclaredJoin, joined_by
from windrow.joins.unmarked import assigner_of_both, evictor_of_both, trigger_of_both
from windrow.plan.base_node import Node
from windrow.plan.keyed_nodes import NO_LATE_TAGS, LateTags, ProcessSpec
from windrow.plan.render import node_line
from windrow.plan.types import iterable_item, made_type, sequence_type
from windrow.tags import OutputTag
from windrow.triggers import MergingTrigger, Trigger
from windrow.windows import MergingWindowAssigner, Window, WindowAssigner

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

L = TypeVar("L")
U = TypeVar("U")
A = TypeVar("A")
B = TypeVar("B")
H = TypeVar("H", bound=Hashable)
R = TypeVar("R")
W = TypeVar("W", bound=Window)


# Any in this module: keys and elements of every type; the stages have proved that they fit.
@dataclass(frozen=True, slots=True)
class TwoStreams:
    """Holds two streams, and the selectors of their keys as they are given."""

    left: Node
    right: Node
    kind: JoinKind | None  # None: a co-group
    where: Callable[[Any], Any] | None = None
    equal_to: Callable[[Any], Any] | None = None

    def settings(self, assigner: WindowAssigner[Any, Any]) -> _Settings:
        assert self.where is not None, "the stages ask for both"
        assert self.equal_to is not None, "the stages ask for both"
        node = keyed_by_both((self.left, self.where), (self.right, self.equal_to), counts_at_once=False)
        assigner = assigner_of_both(check_assigner(assigner))
        return _Settings(node, assigner, kind=self.kind or JoinKind.INNER)


class _OfTwo(Stage):
    """The base of the stages before windows."""

    __slots__ = ("_two",)

    def __init__(self, two: TwoStreams) -> None:
        self._two = two

    def __repr__(self) -> str:
        left, right = (node_line("DataStream", node) for node in (self._two.left, self._two.right))
        return f"{type(self).__name__}({left}, {right})"


class JoinedStreams(_OfTwo, Generic[L, U, A, B]):
    """Two streams to be joined by window; ``where`` takes the key of the left one.

    The type parameters are the elements of the streams, and those that the join function gets: they may be None where
    an outer join has found no partner.
    """

    __slots__ = ()

    @no_on_error(KEY_BEFORE)
    def where(self, selector: Callable[[L], H]) -> JoinWhere[L, U, A, B, H]:
        """Take the key from the elements of the left stream.

        Args:
            selector: A function of a left element; see :meth:`windrow.DataStream.key_by` for what a key may be.

        Returns:
            The stage whose ``equal_to`` takes the key of the right stream.

        Raises:
            InvalidArgumentError: If the selector cannot be called, or is a coroutine function.
        """
        check_function(selector, "where", "element")
        return JoinWhere(replace(self._two, where=selector))


class JoinWhere(_OfTwo, Generic[L, U, A, B, H]):
    """Two streams to be joined, the left one by key; ``equal_to`` takes the key of the right one."""

    __slots__ = ()

    @no_on_error(KEY_BEFORE)
    def equal_to(self, selector: Callable[[U], H]) -> JoinEqualTo[L, U, A, B, H]:
        """Take the key from the elements of the right stream. Keys are of the same type.

        Args:
            selector: A function of a right element, whose keys are of the same type as those of the left ones.

        Returns:
            The stage whose ``window`` says in which windows.

        Raises:
            InvalidArgumentError: If the selector cannot be called, or is a coroutine function.
        """
        check_function(selector, "equal_to", "element")
        return JoinEqualTo(replace(self._two, equal_to=selector))


class JoinEqualTo(_OfTwo, Generic[L, U, A, B, H]):
    """Two streams to be joined by key; ``window`` says in which windows."""

    __slots__ = ()

    # The overloads overlap where a merging assigner hides behind the type WindowAssigner: the plan checks that case.
    @overload
    def window(  # type: ignore[overload-overlap]
        self, assigner: MergingWindowAssigner[L | U, W]
    ) -> MergingWindowJoin[L, U, A, B, H, W]: ...
    @overload
    def window(self, assigner: WindowAssigner[L | U, W]) -> WindowJoin[L, U, A, B, H, W]: ...
    def window(
        self, assigner: WindowAssigner[L | U, W]
    ) -> WindowJoin[L, U, A, B, H, W] | MergingWindowJoin[L, U, A, B, H, W]:
        """Join the elements of each key that share a window.

        Args:
            assigner: Which windows; it sees the elements of both streams.

        Raises:
            InvalidArgumentError: If the keys are known to be of different types.
        """
        stage = MergingWindowJoin if isinstance(assigner, MergingWindowAssigner) else WindowJoin
        return stage(self._two.settings(assigner))


class CoGroupedStreams(_OfTwo, Generic[L, U]):
    """Two streams to be grouped by key and window; ``where`` takes the key of the left one."""

    __slots__ = ()

    @no_on_error(KEY_BEFORE)
    def where(self, selector: Callable[[L], H]) -> CoGroupWhere[L, U, H]:
        """Take the key from the elements of the left stream.

        Args:
            selector: A function of a left element; see :meth:`windrow.DataStream.key_by` for what a key may be.

        Returns:
            The stage whose ``equal_to`` takes the key of the right stream.

        Raises:
            InvalidArgumentError: If the selector cannot be called, or is a coroutine function.
        """
        check_function(selector, "where", "element")
        return CoGroupWhere(replace(self._two, where=selector))


class CoGroupWhere(_OfTwo, Generic[L, U, H]):
    """Two streams to be grouped, the left one by key; ``equal_to`` takes the key of the right one."""

    __slots__ = ()

    @no_on_error(KEY_BEFORE)
    def equal_to(self, selector: Callable[[U], H]) -> CoGroupEqualTo[L, U, H]:
        """Take the key from the elements of the right stream. Keys are of the same type.

        Args:
            selector: A function of a right element, whose keys are of the same type as those of the left ones.

        Returns:
            The stage whose ``window`` says in which windows.

        Raises:
            InvalidArgumentError: If the selector cannot be called, or is a coroutine function.
        """
        check_function(selector, "equal_to", "element")
        return CoGroupEqualTo(replace(self._two, equal_to=selector))


class CoGroupEqualTo(_OfTwo, Generic[L, U, H]):
    """Two streams to be grouped by key; ``window`` says in which windows."""

    __slots__ = ()

    @overload
    def window(  # type: ignore[overload-overlap]  # as for joins
        self, assigner: MergingWindowAssigner[L | U, W]
    ) -> MergingWindowCoGroup[L, U, H, W]: ...
    @overload
    def window(self, assigner: WindowAssigner[L | U, W]) -> WindowCoGroup[L, U, H, W]: ...
    def window(
        self, assigner: WindowAssigner[L | U, W]
    ) -> WindowCoGroup[L, U, H, W] | MergingWindowCoGroup[L, U, H, W]:
        """Group the elements of each key that share a window.

        Args:
            assigner: Which windows; it sees the elements of both streams.

        Raises:
            InvalidArgumentError: If the keys are known to be of different types.
        """
        stage = MergingWindowCoGroup if isinstance(assigner, MergingWindowAssigner) else WindowCoGroup
        return stage(self._two.settings(assigner))


@dataclass(frozen=True, slots=True)
class _Settings(WindowSettings):
    """Holds what the calls of a stage of two streams have set so far."""

    kind: JoinKind = JoinKind.INNER
    late: LateTags = NO_LATE_TAGS


class WithWindow(WindowStage[L | U, W], Generic[L, U, W]):
    """Windows of two streams, joined or grouped; what both kinds share.

    The type parameters are the elements of the left and of the right stream, and the windows.
    """

    __slots__ = ("_both",)

    def __init__(self, settings: _Settings) -> None:
        super().__init__(settings)
        self._both = settings

    def side_output_late_data(self, tag: OutputTag[L | U]) -> Self:
        """Send elements of both streams that are too late for all their windows to one side output.

        Without it, or one for each stream, they are counted (``late_records_dropped``) and dropped.

        Args:
            tag: Names the output, which ``get_side_output`` of the stream of results takes.

        Raises:
            InvalidArgumentError: If there is a tag already.
        """
        return self._with_late(with_tag(with_tag(self._both.late, tag, left=True), tag, left=False))

    def side_output_left_late_data(self, tag: OutputTag[L]) -> Self:
        """Send left elements that are too late for all their windows to a side output.

        Args:
            tag: Names the output, which ``get_side_output`` of the stream of results takes.

        Raises:
            InvalidArgumentError: If there is a tag already.
        """
        return self._with_late(with_tag(self._both.late, tag, left=True))

    def side_output_right_late_data(self, tag: OutputTag[U]) -> Self:
        """Send right elements that are too late for all their windows to a side output.

        Args:
            tag: Names the output, which ``get_side_output`` of the stream of results takes.

        Raises:
            InvalidArgumentError: If there is a tag already.
        """
        return self._with_late(with_tag(self._both.late, tag, left=False))

    def evictor(self, evictor: Evictor[L | U, W]) -> Self:
        """Remove elements of both streams before or after the function sees them.

        Args:
            evictor: Says which elements leave, and when; it sees those of both streams.

        Raises:
            InvalidArgumentError: If there is an evictor already.
        """
        self._evicted(evictor)
        return type(self)(replace(self._both, evictor=evictor_of_both(evictor), may_evict_all=True))

    def _with_late(self, late: LateTags) -> Self:
        return type(self)(replace(self._both, late=late))

    def _triggered(self, trigger: Trigger[Any, Any], may_lose_data: bool) -> Self:
        both = self._with_trigger(trigger, may_lose_data)._both
        return type(self)(replace(both, trigger=trigger_of_both(trigger)))

    def _joined(
        self,
        function: ProcessWindowFunction[Any, Any, Any, Any],
        element_type: object | None,
        name: str | None,
        on_error: OnError[Any],
    ) -> DataStream[Any]:
        policy = error_policy(on_error)
        node = self._both.node(ProcessSpec(process=function), element_type, name, policy)
        return self._stream_of(replace(node, late_tags=self._both.late))


class JoinWithWindow(WithWindow[L, U, W], Generic[L, U, A, B, H, W]):
    """Windows in which two streams are joined, whether they may merge or not; :meth:`apply` makes records of pairs.

    The type parameters are those of :class:`JoinedStreams`, the key, and the windows.
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
        """Make one record from each pair of elements of a window, when it fires.

        Args:
            function: A function of a left and a right element, or a :class:`~windrow.functions.JoinFunction`.
                Records carry the last timestamp of the window.
            on_error: What becomes of a pair for which the function raises, as a tuple of both elements; see
                :data:`~windrow.failures.OnError`. Other pairs of its elements go on.
            name: Names the step.
        """
        check_function(function, "apply", "left, right")
        function, record_type = joined_by(function, self._both.input, self._both.kind)
        return self._joined(JoinPairs(function, self._both.kind), record_type, name, on_error)


class WindowJoin(JoinWithWindow[L, U, A, B, H, W]):
    """Windows in which two streams are joined."""

    __slots__ = ()

    def trigger(self, trigger: Trigger[L | U, W], *, may_lose_data: bool = False) -> Self:
        """Decide when windows are evaluated; see :meth:`windrow.WindowedStream.trigger`.

        Args:
            trigger: The trigger; it sees the elements of both streams.
            may_lose_data: Take a trigger that may be finished before the window is cleaned up; see
                :meth:`windrow.WindowedStream.trigger`.

        Raises:
            InvalidArgumentError: If it is no trigger, or there is one already.
        """
        return self._triggered(trigger, may_lose_data)


class MergingWindowJoin(JoinWithWindow[L, U, A, B, H, W]):
    """Windows that may merge, such as sessions, in which two streams are joined."""

    __slots__ = ()

    def trigger(self, trigger: MergingTrigger[L | U, W], *, may_lose_data: bool = False) -> Self:
        """Decide when windows are evaluated, by a trigger that can follow merges.

        Args:
            trigger: The trigger, a :class:`~windrow.triggers.MergingTrigger`; it sees the elements of both streams.
            may_lose_data: Take a trigger that may be finished before the window is cleaned up; see
                :meth:`windrow.WindowedStream.trigger`.

        Raises:
            InvalidArgumentError: If it is no trigger, or there is one already.
        """
        return self._triggered(trigger, may_lose_data)


class CoGroupWithWindow(WithWindow[L, U, W], Generic[L, U, H, W]):
    """Windows in which two streams are grouped, whether they may merge or not; :meth:`apply` makes records of lists.

    The type parameters are the elements of the left and of the right stream, the key, and the windows.
    """

    __slots__ = ()

    def apply(
        self,
        function: Callable[[Sequence[L], Sequence[U]], Iterable[R] | None],
        *,
        on_error: OnError[tuple[list[L], list[U]]] = "fail",
        name: str | None = None,
    ) -> DataStream[R]:
        """Make records from each window when it fires, even if only one stream has elements in it.

        Args:
            function: A function of the left and the right elements that returns an iterable of records, or a
                :class:`~windrow.functions.CoGroupFunction`. Records carry the last timestamp of the window.
            on_error: What becomes of a window for which the function raises, as a tuple of the lists of its left and
                its right elements; see :data:`~windrow.failures.OnError`.
            name: Names the step.
        """
        check_function(function, "apply", "left, right", may_yield=True)
        sides = get_args(self._both.input.element_type) or (None, None)
        record_type = iterable_item(made_type(function, *map(sequence_type, sides)))
        return self._joined(CoGroup(function), record_type, name, on_error)


class WindowCoGroup(CoGroupWithWindow[L, U, H, W]):
    """Windows in which two streams are grouped."""

    __slots__ = ()

    def trigger(self, trigger: Trigger[L | U, W], *, may_lose_data: bool = False) -> Self:
        """Decide when windows are evaluated; see :meth:`windrow.WindowedStream.trigger`.

        Args:
            trigger: The trigger; it sees the elements of both streams.
            may_lose_data: Take a trigger that may be finished before the window is cleaned up; see
                :meth:`windrow.WindowedStream.trigger`.

        Raises:
            InvalidArgumentError: If it is no trigger, or there is one already.
        """
        return self._triggered(trigger, may_lose_data)


class MergingWindowCoGroup(CoGroupWithWindow[L, U, H, W]):
    """Windows that may merge, such as sessions, in which two streams are grouped."""

    __slots__ = ()

    def trigger(self, trigger: MergingTrigger[L | U, W], *, may_lose_data: bool = False) -> Self:
        """Decide when windows are evaluated, by a trigger that can follow merges.

        Args:
            trigger: The trigger, a :class:`~windrow.triggers.MergingTrigger`; it sees the elements of both streams.
            may_lose_data: Take a trigger that may be finished before the window is cleaned up; see
                :meth:`windrow.WindowedStream.trigger`.

        Raises:
            InvalidArgumentError: If it is no trigger, or there is one already.
        """
        return self._triggered(trigger, may_lose_data)
