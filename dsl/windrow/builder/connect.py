"""Defines connected streams: two streams of different types that are processed together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Never, Protocol, TypeVar, overload

from typing_extensions import TypeVar as TypeVarWithDefault

from windrow.builder.arguments import check_function, check_result, error_policy
from windrow.builder.sides import both_inputs, keyed_by_both
from windrow.builder.stage import Stage
from windrow.calls.no_policy import KEY_BEFORE, no_on_error
from windrow.failures import ErrorPolicy, OnError
from windrow.functions.element import FlatMapFunction, MapFunction
from windrow.functions.marked import CoProcess, CoProcessed, CoProcessWithoutKeys
from windrow.functions.two_inputs import CoFlatMapFunction, CoMapFunction, CoProcessFunction, KeyedCoProcessFunction
from windrow.functions.wrapper import Wrapper
from windrow.plan.keyed_nodes import KeyedProcessNode
from windrow.plan.location import refusal
from windrow.plan.nodes import KeyByNode, ProcessNode, UnionNode
from windrow.plan.render import node_line
from windrow.plan.types import base_argument, iterable_item, result_type

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

L = TypeVar("L")
U = TypeVar("U")
K = TypeVar("K")
R = TypeVar("R")
S = TypeVar("S")
H = TypeVar("H", bound=Hashable)
J = TypeVarWithDefault("J", bound=Hashable, default=Never)
U_contra = TypeVar("U_contra", contravariant=True)
J_co = TypeVar("J_co", covariant=True)


class NoOtherKey(Protocol[U_contra, J_co]):
    """Stands beside the second selector of ``key_by`` for type checkers alone: no function is written as one.

    mypy would widen the key type until it fits both selectors, to ``object`` if need be. Given two ways to read the
    second selector, it takes the key type from the first one, and refuses a second one with keys of another type.
    pyright widens all the same: its key type is the union of both, which the function of ``key_by`` does not take.
    """

    def __call__(self, element: U_contra, /) -> J_co: ...


class ConnectedStreams(Stage, Generic[L, U]):
    """Two streams, of elements ``L`` and ``U``, that are processed together. Made by ``DataStream.connect``."""

    __slots__ = ("_left", "_right")

    def __init__(self, left: DataStream[L], right: DataStream[U]) -> None:
        self._left = left
        self._right = right

    @overload
    def map(
        self, function: CoMapFunction[L, U, R], *, on_error: OnError[L | U] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    @overload
    def map(
        self,
        function: Callable[[L], R],
        second: Callable[[U], S],
        *,
        on_error: OnError[L | U] = "fail",
        name: str | None = None,
    ) -> DataStream[R | S]: ...
    # Any: the overloads say which type.
    def map(
        self,
        function: CoMapFunction[L, U, Any] | Callable[[L], Any],
        second: Callable[[U], Any] | None = None,
        *,
        on_error: OnError[L | U] = "fail",
        name: str | None = None,
    ) -> DataStream[Any]:
        """Make one element from each.

        Args:
            function: A :class:`~windrow.functions.CoMapFunction`, or a function of the elements of the first stream.
                The streams may be read by different workers, each of which opens a copy of its own.
            second: A function of those of the second stream, where the first one is a plain function.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`. A
                policy makes one step of both streams, as :meth:`process` does, which takes Python objects.
            name: Names the step of the first stream.
        """
        first, other = _both("map", function, second, CoMapFunction, _First, _Second)
        together = self._together(self._left.map(first, name=name), self._right.map(other), function, CoMapFunction)
        return self._guarded(together, CoProcessed(first, other, makes_one=True), on_error, name)

    @overload
    def flat_map(
        self, function: CoFlatMapFunction[L, U, R], *, on_error: OnError[L | U] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    @overload
    def flat_map(
        self,
        function: Callable[[L], Iterable[R] | None],
        second: Callable[[U], Iterable[S] | None],
        *,
        on_error: OnError[L | U] = "fail",
        name: str | None = None,
    ) -> DataStream[R | S]: ...
    # Any: the overloads say which type.
    def flat_map(
        self,
        function: CoFlatMapFunction[L, U, Any] | Callable[[L], Iterable[Any] | None],
        second: Callable[[U], Iterable[Any] | None] | None = None,
        *,
        on_error: OnError[L | U] = "fail",
        name: str | None = None,
    ) -> DataStream[Any]:
        """Make any number of elements from each, in order.

        Args:
            function: A :class:`~windrow.functions.CoFlatMapFunction`, or a function of the elements of the first
                stream. The streams may be read by different workers, each of which opens a copy of its own.
            second: A function of those of the second stream, where the first one is a plain function.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`. A
                policy makes one step of both streams, as :meth:`process` does, which takes Python objects.
            name: Names the step of the first stream.
        """
        first: Callable[[L], Iterable[Any] | None]
        other: Callable[[U], Iterable[Any] | None]
        first, other = _both("flat_map", function, second, CoFlatMapFunction, _FirstOfMany, _SecondOfMany)
        first_results: DataStream[Any] = self._left.flat_map(first, name=name)
        together = self._together(first_results, self._right.flat_map(other), function, CoFlatMapFunction)
        return self._guarded(together, CoProcessed(first, other, makes_one=False), on_error, name)

    def process(
        self, function: CoProcessFunction[L, U, R], *, on_error: OnError[L | U] = "fail", name: str | None = None
    ) -> DataStream[R]:
        """Make records from each element of both streams, and split them into side outputs.

        There are no keys, so there is neither state nor a timer; with :meth:`key_by` there is both.

        Args:
            function: Gets the elements, and puts out to what ``get_side_output`` takes.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
            name: Names the step.
        """
        if not isinstance(function, CoProcessFunction):
            hint = f"{function.__name__}()" if isinstance(function, type) else None
            if isinstance(function, KeyedCoProcessFunction):
                hint = "key_by(first, second) splits both streams by key, for a function with state and timers"
            raise refusal(
                "connected streams without keys need a process function of two inputs without keys",
                given=function,
                expected="an instance of CoProcessFunction",
                hint=hint,
            )
        type_form = base_argument(function, CoProcessFunction, 2)
        type_form = type_form or iterable_item(result_type(function.process_element1))
        return self._processed(function, type_form, error_policy(on_error), name)

    # Any: the calls have proved that the function fits.
    def _processed(
        self,
        function: CoProcessFunction[Any, Any, Any],
        element_type: object | None,
        policy: ErrorPolicy | None,
        name: str | None,
    ) -> DataStream[Any]:
        return self._stream_of(
            ProcessNode(
                input=both_inputs(self._left.node, self._right.node, counts_at_once=True),
                function=CoProcessWithoutKeys(function),
                on_error=policy,
                name=name,
                element_type=element_type,
            )
        )

    def _guarded(
        self, together: DataStream[Any], function: CoProcessed, on_error: OnError[Any], name: str | None
    ) -> DataStream[Any]:
        """Returns the stream of results without a policy, or one step of both streams with it."""
        policy = error_policy(on_error)
        return together if policy is None else self._processed(function, together.node.element_type, policy, name)

    @no_on_error(KEY_BEFORE)
    def key_by(
        self, first: Callable[[L], H], second: Callable[[U], H] | NoOtherKey[U, J]
    ) -> KeyedConnectedStreams[L, U, H | J]:
        """Split both streams by key, so that elements of one key are processed together.

        Args:
            first: Takes the key from an element of the first stream; see :meth:`windrow.DataStream.key_by`.
            second: Takes it from one of the second stream. Keys are of the same type, that of the first ones.

        Raises:
            InvalidArgumentError: If the keys are known to be of different types.
        """
        for selector in (first, second):
            check_function(selector, "key_by", "element")
        node = keyed_by_both((self._left.node, first), (self._right.node, second), counts_at_once=True)
        return KeyedConnectedStreams(node)

    def _together(
        self, first: DataStream[Any], second: DataStream[Any], function: object, base: type
    ) -> DataStream[Any]:
        """Returns the results of both streams as one stream, with the watermark of an operator with two inputs.

        The type of its elements is known if the class of the function states it.
        """
        union = first.union(second).node
        node = UnionNode(streams=union.inputs, counts_at_once=True, element_type=union.element_type)
        union_stream = self._stream_of(node)
        # Any: what a class says of its parameters is a type.
        kind: Any = base_argument(function, base, 2) if isinstance(function, base) else None
        return union_stream if kind is None else union_stream.returns(kind)

    def __repr__(self) -> str:
        return f"ConnectedStreams({self._left!r}, {self._right!r})"


class KeyedConnectedStreams(Stage, Generic[L, U, K]):
    """Two streams that are split by the same key. Made by ``connect`` of two keyed streams, or by ``key_by``."""

    __slots__ = ("_node",)

    def __init__(self, node: KeyByNode) -> None:
        self._node = node

    def process(
        self,
        function: KeyedCoProcessFunction[K, L, U, R],
        *,
        on_error: OnError[L | U | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R]:
        """Process each element of both streams by key, with state that they share, and timers.

        Args:
            function: Gets elements and timers.
            on_error: What becomes of elements and timers for which the function raises; see
                :meth:`windrow.KeyedStream.process`.
            name: Names the step.
        """
        if not isinstance(function, KeyedCoProcessFunction):
            raise refusal(
                "connected streams need a process function of two inputs",
                given=function,
                expected="an instance of KeyedCoProcessFunction",
                hint=f"{function.__name__}()"
                if isinstance(function, type)
                else "connect(...) of streams without keys takes a CoProcessFunction",
            )
        type_form = base_argument(function, KeyedCoProcessFunction, 3)
        return self._stream_of(
            KeyedProcessNode(
                input=self._node,
                function=CoProcess(function),
                on_error=error_policy(on_error),
                name=name,
                element_type=type_form or iterable_item(result_type(function.process_element1)),
            )
        )

    def __repr__(self) -> str:
        return node_line("KeyedConnectedStreams", self._node)


class _Half(Wrapper):
    """One method of a function of two inputs."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.__qualname__ = type(function).__qualname__.rpartition("<locals>.")[2]  # its name in a plan


class _First(_Half, MapFunction[Any, Any]):
    def map(self, value: Any) -> Any:
        return self.function.map1(value)


class _Second(_Half, MapFunction[Any, Any]):
    def map(self, value: Any) -> Any:
        return self.function.map2(value)


class _FirstOfMany(_Half, FlatMapFunction[Any, Any]):
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self.function.flat_map1(value)
        return results


class _SecondOfMany(_Half, FlatMapFunction[Any, Any]):
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self.function.flat_map2(value)
        return results


def _both(
    call: str,
    function: object,
    second: object,
    class_: type,
    first_half: Callable[[Any], Any],
    second_half: Callable[[Any], Any],
) -> tuple[Any, Any]:
    """The functions of the first and of the second stream."""
    if isinstance(function, class_):
        if second is not None:
            raise refusal(
                f"a {class_.__name__} is for both streams, and a second function was given",
                given=second,
                expected="no second function",
            )
        check_result(function, call, may_yield=call == "flat_map")
        return first_half(function), second_half(function)
    if not callable(function) or not callable(second):
        raise refusal(
            "connected streams need a function for each stream",
            given="no second function"
            if callable(function) and second is None
            else second
            if callable(function)
            else function,
            expected=f"a {class_.__name__}, or two callables",
        )
    return function, second
