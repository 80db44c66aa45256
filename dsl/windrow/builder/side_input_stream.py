"""The stage whose functions take values of side inputs beside each element, and the call of streams that makes it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pickle import PicklingError, dumps
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, TypeVarTuple, overload
from zlib import crc32

from typing_extensions import deprecated

from windrow.builder.arguments import check_function, check_kind, error_policy
from windrow.builder.late import millis_once
from windrow.builder.side_inputs import SideInput
from windrow.builder.stage import Stage, side_output_node
from windrow.calls.other_names import unknown_call
from windrow.failures import OnError
from windrow.functions import FilterFunction, FlatMapFunction, MapFunction
from windrow.functions.names import function_name
from windrow.functions.stateless import ProcessContext, ProcessFunction
from windrow.functions.wrapper import Wrapper
from windrow.plan.base_node import Node
from windrow.plan.emitting import WRAP_IT, NotRecords, OneValue
from windrow.plan.location import refusal
from windrow.plan.nodes import BroadcastNode, FilterNode, FlatMapNode, KeyByNode, MapNode, ProcessNode, UnionNode
from windrow.plan.render import node_line
from windrow.plan.types import iterable_item, made_type, result_type
from windrow.side_inputs.views import ElementNode, SideElement, SideInputNode
from windrow.tags import OutputTag

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")
S = TypeVar("S")
Vs = TypeVarTuple("Vs")

# Any in this module: views and elements of every type; the signatures say which belong together.


class SideInputCalls(Stage, Generic[T_co]):
    """A stream whose functions may be given values of other streams."""

    __slots__ = ()

    @abstractmethod
    def _by_key(self) -> KeyByNode:
        """The step that divides the stream, by the keys that it has or by a hash."""

    @overload
    def with_side_input(
        self,
        first: SideInput[A],
        /,
        *,
        allowed_lateness: timedelta = ...,
        late: OutputTag[T_co] | None = None,
        name: str | None = None,
    ) -> SideInputStream[T_co, A]: ...
    @overload
    def with_side_input(
        self,
        first: SideInput[A],
        second: SideInput[B],
        /,
        *,
        allowed_lateness: timedelta = ...,
        late: OutputTag[T_co] | None = None,
        name: str | None = None,
    ) -> SideInputStream[T_co, A, B]: ...
    @overload
    def with_side_input(
        self,
        first: SideInput[A],
        second: SideInput[B],
        third: SideInput[C],
        /,
        *,
        allowed_lateness: timedelta = ...,
        late: OutputTag[T_co] | None = None,
        name: str | None = None,
    ) -> SideInputStream[T_co, A, B, C]: ...
    @overload
    def with_side_input(
        self,
        first: SideInput[A],
        second: SideInput[B],
        third: SideInput[C],
        fourth: SideInput[D],
        /,
        *,
        allowed_lateness: timedelta = ...,
        late: OutputTag[T_co] | None = None,
        name: str | None = None,
    ) -> SideInputStream[T_co, A, B, C, D]: ...
    # Any: the overloads have the types of up to four views.
    def with_side_input(
        self,
        *views: SideInput[Any],
        allowed_lateness: timedelta = timedelta(0),
        late: OutputTag[T_co] | None = None,
        name: str | None = None,
    ) -> Any:
        """Give functions values of other streams beside each element, as side inputs of Beam's ``ParDo``.

        An element sees the view of the window into which its timestamp maps. It waits until that is complete, when the
        watermark of all streams has passed the window; where windows of the side input fire early panes, and in the
        global window, until the first element of the side input is there. Views then follow their stream. Results
        carry the timestamp of the element, and have no keys; the step of a keyed stream is divided by its keys.

        Args:
            views: One to four of :func:`~windrow.as_singleton`, :func:`~windrow.as_dict`, :func:`~windrow.as_list`.
            allowed_lateness: For how long after the end of a window its view is kept for late elements. A view that
                the windows of the side input may still change is kept for their allowed lateness.
            late: The side output for elements whose view is gone, which ``get_side_output`` of the result takes;
                without it they are counted and dropped.
            name: Names the step.

        Raises:
            InvalidArgumentError: If a view is none, or the lateness negative.

        Example:
            >>> from windrow import as_singleton, from_collection
            >>> limit = as_singleton(from_collection([5]), default=0)
            >>> sizes = from_collection([3, 8])
            >>> sizes.with_side_input(limit).filter(lambda size, limit: size > limit).collect()
            [8]
        """
        node = side_input_node(self._by_key(), views, allowed_lateness, late, name)
        return SideInputStream(node, [node.input.element_type, *[view.value_type for view in views]])


class SideInputStream(Stage, Generic[T, *Vs]):
    """A stream whose functions take the values ``Vs`` of side inputs beside each element ``T``.

    Made by :meth:`windrow.DataStream.with_side_input`. An element waits until the view of its window is there.
    """

    __slots__ = ("_node", "_types")

    def __init__(self, node: SideInputNode, types: Sequence[object | None]) -> None:
        self._node = node
        self._types = tuple(types)  # of what functions take

    @property
    def node(self) -> SideInputNode:
        """The step of the plan that makes this stage."""
        return self._node

    def map(
        self, function: Callable[[T, *Vs], R], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[R]:
        """Make one element from each.

        Args:
            function: Gets an element and the values of the side inputs, which it must not change. A subclass of
                :class:`~windrow.functions.RichFunction` with a ``__call__`` of these has ``open``, ``close`` and
                metrics.
            on_error: What becomes of elements for which the function raises; see :data:`~windrow.failures.OnError`.
                A side output has them without the values of the side inputs.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it cannot be called, or is a coroutine, or a function of an element alone.
        """
        self._check(function, "map")
        kind = made_type(function, *self._types)
        settings = self._settings(on_error, name)
        return self._stream_of(MapNode(function=_Unpacked(function), element_type=kind, **settings))

    # The first overload is for functions that return Any, which would match the second one too.
    @overload
    def flat_map(
        self, function: Callable[[T, *Vs], list[R]], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[R]: ...
    @overload
    @deprecated(WRAP_IT)
    def flat_map(  # type: ignore[overload-overlap]
        self, function: Callable[[T, *Vs], OneValue], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> NotRecords: ...
    @overload
    def flat_map(  # pyright: ignore[reportOverlappingOverload]
        self,
        function: Callable[[T, *Vs], Iterable[R] | None],
        *,
        on_error: OnError[T] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def flat_map(
        self,
        function: Callable[[T, *Vs], Iterable[Any] | None],
        *,
        on_error: OnError[T] = "fail",
        name: str | None = None,
    ) -> DataStream[Any] | NotRecords:
        """Make any number of elements from each, in order.

        Args:
            function: As for :meth:`map`; it may be a generator function. It returns an iterable of records, or None
                for none; a text, bytes, a dict or a tuple of a fixed number of parts is refused, as it is one value.
            on_error: As for :meth:`map`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it cannot be called, or is a coroutine, or a function of an element alone.
        """
        self._check(function, "flat_map")
        kind = iterable_item(made_type(function, *self._types))
        settings = self._settings(on_error, name)
        return self._stream_of(FlatMapNode(function=_Unpacked(function), element_type=kind, **settings))

    def filter(
        self, function: Callable[[T, *Vs], bool], *, on_error: OnError[T] = "fail", name: str | None = None
    ) -> DataStream[T]:
        """Keep the elements for which the function is true.

        Args:
            function: As for :meth:`map`.
            on_error: As for :meth:`map`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it cannot be called, or is a coroutine, or a function of an element alone.
        """
        self._check(function, "filter")
        settings = self._settings(on_error, name)
        kept = FilterNode(function=_Unpacked(function), element_type=self._node.element_type, **settings)
        element_type = self._node.input.element_type
        return self._stream_of(
            ElementNode(input=kept, function=without_views, element_type=element_type, location=kept.location)
        )

    # The first overload is for functions that return Any, as of flat_map.
    @overload
    def process(
        self,
        function: Callable[[T, *Vs, ProcessContext], list[R]],
        *,
        on_error: OnError[T] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    @overload
    @deprecated(WRAP_IT)
    def process(  # type: ignore[overload-overlap]
        self,
        function: Callable[[T, *Vs, ProcessContext], OneValue],
        *,
        on_error: OnError[T] = "fail",
        name: str | None = None,
    ) -> NotRecords: ...
    @overload
    def process(  # pyright: ignore[reportOverlappingOverload]
        self,
        function: Callable[[T, *Vs, ProcessContext], Iterable[R] | None],
        *,
        on_error: OnError[T] = "fail",
        name: str | None = None,
    ) -> DataStream[R]: ...
    def process(
        self,
        function: Callable[[T, *Vs, ProcessContext], Iterable[Any] | None],
        *,
        on_error: OnError[T] = "fail",
        name: str | None = None,
    ) -> DataStream[Any] | NotRecords:
        """Make any number of elements from each, and put others out at side outputs.

        Args:
            function: As for :meth:`flat_map`, with a :class:`~windrow.functions.ProcessContext` as its last argument:
                timestamp, time and side outputs.
            on_error: As for :meth:`map`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it cannot be called, or is a coroutine, or a function of an element alone.
        """
        self._check(function, "process")
        kind = iterable_item(result_type(function))
        settings = self._settings(on_error, name)
        return self._stream_of(ProcessNode(function=_UnpackedProcess(function), element_type=kind, **settings))

    def get_side_output(self, tag: OutputTag[S]) -> DataStream[S]:
        """The elements that came too late: the view of their window was gone.

        Args:
            tag: The one that ``with_side_input(..., late=tag)`` was given.
        """
        return self._stream_of(side_output_node(self._node, tag))

    def _check(self, function: object, call: str) -> None:
        if isinstance(function, (MapFunction, FlatMapFunction, FilterFunction)):
            raise refusal(
                f"{call} of a stream with side inputs takes a function of an element and the values of the views",
                given=function,
                expected="a function, or an instance of a class of yours with RichFunction as its base",
                hint="class Rated(RichFunction): def open(...), and def __call__(self, element, view)",
            )
        views = ["first", "second", "third", "fourth"][: len(self._types) - 1]
        takes = ", ".join(["element", *(views if len(views) > 1 else ["view"]), *["context"] * (call == "process")])
        check_function(function, call, takes, may_yield=call in {"flat_map", "process"})

    def _settings(self, on_error: OnError[T], name: str | None) -> dict[str, Any]:
        return {"input": self._node, "on_error": error_policy(on_error), "name": name}

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what to write instead of a name of streams, or of other systems."""
            from windrow.builder.stream import DataStream

            raise unknown_call(self, name, dict.fromkeys(dir(DataStream), _FIRST))

    def __repr__(self) -> str:
        return node_line("SideInputStream", self._node)


_FIRST: Final = "call map(...), flat_map(...), filter(...) or process(...) first, whose result is a stream"


class _Unpacked(Wrapper):
    """Calls a function with an element and the values of views, each as an argument."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.__qualname__ = function_name(function)  # its name in a plan

    def __call__(self, joined: Any) -> Any:
        return self.function(*joined)


class _UnpackedProcess(Wrapper, ProcessFunction[Any, Any]):
    def process_element(self, value: Any, context: ProcessContext) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self.function(*value, context)
        return results

    def describe(self) -> str:
        return function_name(self.function)


def without_views(joined: Any) -> Any:
    """Returns the element of an element with the values of views."""
    return joined[0]


_PARTS: Final = 256


def spread(element: object) -> int:
    """Spreads elements without a key over the tasks of an engine, each to the same key whenever it is computed."""
    try:
        return crc32(dumps(element, 5)) % _PARTS
    except (PicklingError, AttributeError, TypeError):
        return 0  # an element of a class that cannot be found by its name, as one within a function


def spread_by_hash(node: Node) -> KeyByNode:
    """The step that spreads a stream without keys.

    Args:
        node: The step that makes the stream.
    """
    return KeyByNode(input=node, selector=spread, key_type=int, element_type=node.element_type)


def side_input_node(
    keyed: KeyByNode,
    views: Sequence[SideInput[Any]],
    allowed_lateness: timedelta,
    late: OutputTag[Any] | None,
    name: str | None,
) -> SideInputNode:
    """The step that gives the elements of a stream the values of views.

    Raises:
        InvalidArgumentError: If a view is none, there is none or more than four, the lateness is no duration or
            negative, or ``late`` is no tag.
    """
    for view in views:
        check_kind(
            view, SideInput, "with_side_input takes views of streams", "as_singleton(...), as_dict(...) or as_list(...)"
        )
    if not 1 <= len(views) <= _MOST_VIEWS:
        raise refusal("with_side_input takes one to four views", given=f"{len(views)} views", expected="one to four")
    lateness = millis_once(allowed_lateness, None, "the allowed lateness")
    if late is not None:
        check_kind(late, OutputTag, "late elements go to a side output, which a tag names", "an OutputTag")
    elements = [view.elements(number) for number, view in enumerate(views)]
    # As upstream of connected streams, an input that comes back from being idle holds the watermark at once.
    rules: Node = (
        elements[0]
        if len(elements) == 1
        else UnionNode(streams=tuple(elements), counts_at_once=True, element_type=SideElement)
    )
    types = [keyed.element_type, *[view.value_type for view in views]]
    return SideInputNode(
        input=keyed,
        rules=BroadcastNode(input=rules, descriptors=(), element_type=SideElement),
        views=tuple(view.view for view in views),
        allowed_lateness=lateness,
        late_tag=late,
        name=name,
        element_type=GenericAlias(tuple, tuple(object if each is None else each for each in types)),
    )


_MOST_VIEWS: Final = 4
