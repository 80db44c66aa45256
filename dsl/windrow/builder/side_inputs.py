"""Side inputs: values of other streams that functions take beside each element, as in Beam."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from pickle import PicklingError, dumps
from types import GenericAlias, NoneType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, TypeVarTuple, overload
from zlib import crc32

from typing_extensions import deprecated

from windrow.builder.arguments import check_assigner, check_function, check_kind, check_plain_function
from windrow.builder.stage import Stage, side_output_node
from windrow.calls.other_names import unknown_call
from windrow.errors import InvalidArgumentError
from windrow.functions.names import function_name
from windrow.functions.rich import RichFunction
from windrow.functions.stateless import ProcessContext, ProcessFunction
from windrow.functions.type_names import type_name
from windrow.functions.wrapper import Wrapper
from windrow.panes import ChangeKind
from windrow.plan.base_node import Node
from windrow.plan.changing import repeating_origins
from windrow.plan.emitting import WRAP_IT, NotRecords, OneValue
from windrow.plan.fitting import widest
from windrow.plan.keys import HINT as KEY_HINT
from windrow.plan.keys import unhashable_part
from windrow.plan.location import caller_location
from windrow.plan.nodes import (
    BroadcastNode,
    ChangelogNode,
    FilterNode,
    FlatMapNode,
    KeyByNode,
    MapNode,
    ProcessNode,
    UnionNode,
)
from windrow.plan.render import node_line
from windrow.plan.types import iterable_item, made_type, result_type
from windrow.side_inputs.views import (
    DictView,
    ListView,
    SideElement,
    SideInputNode,
    SideView,
    SingletonView,
    stated_windows,
    windows_upstream,
)
from windrow.tags import OutputTag
from windrow.time import duration_millis
from windrow.windows import WindowAssigner

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

T = TypeVar("T")
D = TypeVar("D")
H = TypeVar("H", bound=Hashable)
R = TypeVar("R")
S = TypeVar("S")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
Vs = TypeVarTuple("Vs")

# Any in this module: views and elements of every type; the signatures say which belong together.


class SideInput(Generic[V_co]):
    """A view of a stream, for ``with_side_input``. Functions get it as a value ``V_co``, which they must not change.

    Made by :func:`as_singleton`, :func:`as_dict` and :func:`as_list`.
    """

    __slots__ = ("_element", "_node", "_value_type", "_view")

    def __init__(self, node: Node, view: SideView, element: _ToElement, value_type: object | None) -> None:
        self._node = node
        self._view = view
        self._element = element
        self._value_type = value_type

    @property
    def view(self) -> SideView:
        """What the plan knows of the view."""
        return self._view

    @property
    def value_type(self) -> object | None:
        """The type of the value that functions get, where it is known."""
        return self._value_type

    def elements(self, number: int) -> ChangelogNode:
        """The step that makes the elements of the view.

        Args:
            number: The number of the view among those of the step that takes it.
        """
        return ChangelogNode(
            input=self._node,
            function=self._element.of(number),
            element_type=self._element.type_of(self._node.element_type),
            location=self._view.location,
        )

    def __repr__(self) -> str:
        return f"SideInput({self._view.describe()}, {node_line('DataStream', self._node)})"


class _ToElement:
    """Makes an element of a view from a change of the stream."""

    def __init__(
        self, number: int = 0, key: Callable[[Any], Any] | None = None, value: Callable[[Any], Any] | None = None
    ) -> None:
        self.number = number
        self.key = key
        self.value = value
        names = [function_name(each) for each in (key, value) if each is not None]
        self.__qualname__ = ", ".join(["side input", *names])  # its name in a plan

    def of(self, number: int) -> _ToElement:
        return _ToElement(number, self.key, self.value)

    def type_of(self, element: object | None) -> object:
        key = NoneType if self.key is None else made_type(self.key, element)
        value = element if self.value is None else made_type(self.value, element)
        return GenericAlias(SideElement, (key or object, value or object))

    def __call__(self, kind: ChangeKind, element: Any) -> SideElement[Any, Any]:
        key = None if self.key is None else self.key(element)
        try:
            hash(key)
        except Exception as error:  # a hash of the user's may raise anything
            raise InvalidArgumentError(
                "a key of as_dict cannot be hashed",
                given=f"{key!r:.200}, of the element {element!r:.200}",
                expected=_HASHABLE,
                hint=KEY_HINT,
            ) from error
        value = element if self.value is None else self.value(element)
        return SideElement(self.number, kind.is_withdrawal, key, value)


_NO_DEFAULT: Final[Any] = object()
_HASHABLE: Final = "a key that stays the same, with a hash"


@overload
def as_singleton(stream: DataStream[T], *, windows: WindowAssigner[T, Any] | None = None) -> SideInput[T]: ...
@overload
def as_singleton(
    stream: DataStream[T], *, default: D, windows: WindowAssigner[T, Any] | None = None
) -> SideInput[T | D]: ...
def as_singleton(
    stream: DataStream[T], *, default: Any = _NO_DEFAULT, windows: WindowAssigner[T, Any] | None = None
) -> SideInput[Any]:
    """View a stream as one value: its newest element in the window of the main element, as ``AsSingleton`` in Beam.

    Args:
        stream: The stream, such as the totals of ``window_all``.
        default: The value where the window has no element. Without it elements wait for one as long as the window is
            open, also where the one that was there is withdrawn; afterwards that is an error.
        windows: Windows in event time for elements that have timestamps. By default they are those of the windows
            whose results the stream has, through any steps without keys or with side inputs; any other stream is in
            the global window.

    Raises:
        InvalidArgumentError: If it is no :class:`DataStream`, or if timestamps do not map to its windows.

    Example:
        >>> from windrow import as_singleton, from_collection
        >>> rate = as_singleton(from_collection([2]))
        >>> from_collection([1, 3]).with_side_input(rate).map(lambda amount, rate: amount * rate).collect()
        [2, 6]
    """
    node, settings = _settings(stream, "as_singleton", windows)
    has_default = default is not _NO_DEFAULT
    kind = node.element_type
    view = SingletonView(default=(default,) if has_default else (), **settings)
    return SideInput(node, view, _ToElement(), widest([kind, type(default)]) if has_default else kind)


@overload
def as_dict(
    stream: DataStream[T], key: Callable[[T], H], *, windows: WindowAssigner[T, Any] | None = None
) -> SideInput[Mapping[H, T]]: ...
@overload
def as_dict(
    stream: DataStream[T],
    key: Callable[[T], H],
    value: Callable[[T], V],
    *,
    windows: WindowAssigner[T, Any] | None = None,
) -> SideInput[Mapping[H, V]]: ...
def as_dict(
    stream: DataStream[T],
    key: Callable[[T], Any],
    value: Callable[[T], Any] | None = None,
    *,
    windows: WindowAssigner[T, Any] | None = None,
) -> SideInput[Any]:
    """View a stream as a mapping, with the newest element of each key in the window, as ``AsDict`` in Beam.

    Args:
        stream: The stream.
        key: Takes the key from an element: a plain function.
        value: Takes the value; by default it is the element.
        windows: See :func:`as_singleton`.

    Raises:
        InvalidArgumentError: If it is no :class:`DataStream`, if a function cannot be called or is a rich function, if
            keys are of a type without a hash, or if timestamps do not map to its windows.

    Example:
        >>> from windrow import as_dict, from_collection
        >>> rates = as_dict(from_collection([("USD", 2), ("GBP", 3)]), lambda rate: rate[0], lambda rate: rate[1])
        >>> orders = from_collection([("GBP", 10)])
        >>> orders.with_side_input(rates).map(lambda order, rates: order[1] * rates[order[0]]).collect()
        [30]
    """
    node, settings = _settings(stream, "as_dict", windows)
    check_plain_function(key, "the key of as_dict")
    if value is not None:
        check_plain_function(value, "the value of as_dict")
    to_element = _ToElement(key=key, value=value)
    key_kind = made_type(key, node.element_type)
    if (part := unhashable_part(key_kind)) is not None:
        raise InvalidArgumentError(
            f"keys of type {type_name(part)} cannot be hashed",
            given=key,
            expected=_HASHABLE,
            where=caller_location(),
            hint=KEY_HINT,
        )
    kinds = (key_kind, node.element_type if value is None else made_type(value, node.element_type))
    value_type = None if None in kinds else GenericAlias(Mapping, kinds)
    return SideInput(node, DictView(**settings), to_element, value_type)


def as_list(stream: DataStream[T], *, windows: WindowAssigner[T, Any] | None = None) -> SideInput[Sequence[T]]:
    """View a stream as a sequence of its elements in the window, in order of arrival, as ``AsList`` in Beam.

    Args:
        stream: The stream. Windows upstream must not fire panes that repeat elements of earlier ones.
        windows: See :func:`as_singleton`.

    Raises:
        InvalidArgumentError: If it is no :class:`DataStream`, if timestamps do not map to its windows, or if panes of
            these repeat elements.

    Example:
        >>> from windrow import as_list, from_collection
        >>> words = as_list(from_collection(["spam"]))
        >>> mails = from_collection(["spam", "ham"])
        >>> mails.with_side_input(words).filter(lambda mail, words: mail not in words).collect()
        ['ham']
    """
    node, settings = _settings(stream, "as_list", windows, each=True)
    kind = None if node.element_type is None else GenericAlias(Sequence, (node.element_type,))
    return SideInput(node, ListView(**settings), _ToElement(), kind)


def _settings(
    stream: object, call: str, windows: WindowAssigner[Any, Any] | None, *, each: bool = False
) -> tuple[Node, dict[str, Any]]:
    """The node of a stream, and what all views of it have; with ``each`` the view holds each element of the stream."""
    # A stream makes all stages, so their modules cannot import its module while they are imported.
    from windrow.builder.stream import DataStream

    check_kind(stream, DataStream, f"{call} views a stream", "a DataStream, without keys")
    assert isinstance(stream, DataStream)
    node, where = stream.node, caller_location()
    if windows is None:
        view_windows = windows_upstream(node, where)
    else:
        view_windows = stated_windows(check_assigner(windows), where)
    if each and (repeating := repeating_origins(node)):
        raise InvalidArgumentError(
            "panes of the windows upstream repeat elements of earlier ones, which the view would hold twice",
            given=", ".join(origin.describe() for origin in repeating),
            expected="windows that fire once, or with discarding() or retracting()",
            where=where,
            hint="as_dict(stream, key=...) keeps the newest element of each key",
        )
    return node, {"windows": view_windows, "has_timestamps": node.has_timestamps, "location": where}


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

    def map(self, function: Callable[[T, *Vs], R], *, name: str | None = None) -> DataStream[R]:
        """Make one element from each.

        Args:
            function: A plain function of an element and the values of the side inputs, which it must not change.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it cannot be called, or is a coroutine or a rich function.
        """
        _check(function, "map")
        kind = made_type(function, *self._types)
        return self._stream_of(MapNode(function=_Unpacked(function), element_type=kind, **self._settings(name)))

    # The first overload is for functions that return Any, which would match the second one too.
    @overload
    def flat_map(self, function: Callable[[T, *Vs], list[R]], *, name: str | None = None) -> DataStream[R]: ...
    @overload
    @deprecated(WRAP_IT)
    def flat_map(  # type: ignore[overload-overlap]
        self, function: Callable[[T, *Vs], OneValue], *, name: str | None = None
    ) -> NotRecords: ...
    @overload
    def flat_map(  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[[T, *Vs], Iterable[R] | None], *, name: str | None = None
    ) -> DataStream[R]: ...
    def flat_map(
        self, function: Callable[[T, *Vs], Iterable[Any] | None], *, name: str | None = None
    ) -> DataStream[Any] | NotRecords:
        """Make any number of elements from each, in order.

        Args:
            function: As for :meth:`map`; it may be a generator function. It returns an iterable of records, or None
                for none; a text, bytes, a dict or a tuple of a fixed number of parts is refused, as it is one value.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it cannot be called, or is a coroutine or a rich function.
        """
        _check(function, "flat_map")
        kind = iterable_item(made_type(function, *self._types))
        return self._stream_of(FlatMapNode(function=_Unpacked(function), element_type=kind, **self._settings(name)))

    def filter(self, function: Callable[[T, *Vs], bool], *, name: str | None = None) -> DataStream[T]:
        """Keep the elements for which the function is true.

        Args:
            function: As for :meth:`map`.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it cannot be called, or is a coroutine or a rich function.
        """
        _check(function, "filter")
        kept = FilterNode(function=_Unpacked(function), element_type=self._node.element_type, **self._settings(name))
        element_type = self._node.input.element_type
        return self._stream_of(
            MapNode(input=kept, function=without_views, element_type=element_type, location=kept.location)
        )

    # The first overload is for functions that return Any, as of flat_map.
    @overload
    def process(
        self, function: Callable[[T, *Vs, ProcessContext], list[R]], *, name: str | None = None
    ) -> DataStream[R]: ...
    @overload
    @deprecated(WRAP_IT)
    def process(  # type: ignore[overload-overlap]
        self, function: Callable[[T, *Vs, ProcessContext], OneValue], *, name: str | None = None
    ) -> NotRecords: ...
    @overload
    def process(  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[[T, *Vs, ProcessContext], Iterable[R] | None], *, name: str | None = None
    ) -> DataStream[R]: ...
    def process(
        self, function: Callable[[T, *Vs, ProcessContext], Iterable[Any] | None], *, name: str | None = None
    ) -> DataStream[Any] | NotRecords:
        """Make any number of elements from each, and put others out at side outputs.

        Args:
            function: As for :meth:`flat_map`, with a :class:`~windrow.functions.ProcessContext` as its last argument:
                timestamp, time and side outputs.
            name: Names the step.

        Raises:
            InvalidArgumentError: If it cannot be called, or is a coroutine or a rich function.
        """
        _check(function, "process")
        kind = iterable_item(result_type(function))
        return self._stream_of(
            ProcessNode(function=_UnpackedProcess(function), element_type=kind, **self._settings(name))
        )

    def get_side_output(self, tag: OutputTag[S]) -> DataStream[S]:
        """The elements that came too late: the view of their window was gone.

        Args:
            tag: The one that ``with_side_input(..., late=tag)`` was given.
        """
        return self._stream_of(side_output_node(self._node, tag))

    def _settings(self, name: str | None) -> dict[str, Any]:
        return {"input": self._node, "name": name, "location": caller_location()}

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what to write instead of a name of streams, or of other systems."""
            from windrow.builder.stream import DataStream

            raise unknown_call(self, name, dict.fromkeys(vars(DataStream), _FIRST))

    def __repr__(self) -> str:
        return node_line("SideInputStream", self._node)


_FIRST: Final = "call map(...), flat_map(...), filter(...) or process(...) first, whose result is a stream"


def _check(function: object, call: str) -> None:
    check_function(function, call, may_yield=call in {"flat_map", "process"})
    if isinstance(function, RichFunction):
        raise InvalidArgumentError(
            f"{call} of a stream with side inputs takes a plain function of an element and the values of the views",
            given=function,
            expected="a function or a lambda",
            where=caller_location(),
            hint="a function with open() belongs into a step before or after",
        )


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


def side_input_node(
    node: Node,
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
    where = caller_location()
    for view in views:
        check_kind(
            view, SideInput, "with_side_input takes views of streams", "as_singleton(...), as_dict(...) or as_list(...)"
        )
    if not 1 <= len(views) <= _MOST_VIEWS:
        raise InvalidArgumentError(
            "with_side_input takes one to four views", given=f"{len(views)} views", expected="one to four", where=where
        )
    lateness = duration_millis(allowed_lateness, "the allowed lateness")
    if lateness < 0:
        raise InvalidArgumentError(
            "the allowed lateness is negative", given=allowed_lateness, expected="zero or more", where=where
        )
    if late is not None:
        check_kind(late, OutputTag, "late elements go to a side output, which a tag names", "an OutputTag")
    elements = [view.elements(number) for number, view in enumerate(views)]
    # As upstream of connected streams, an input that comes back from being idle holds the watermark at once.
    rules: Node = (
        elements[0]
        if len(elements) == 1
        else UnionNode(streams=tuple(elements), counts_at_once=True, element_type=SideElement, location=where)
    )
    types = [node.element_type, *[view.value_type for view in views]]
    return SideInputNode(
        input=KeyByNode(input=node, selector=spread, key_type=int, element_type=node.element_type, location=where),
        rules=BroadcastNode(input=rules, descriptors=(), element_type=SideElement, location=where),
        views=tuple(view.view for view in views),
        allowed_lateness=lateness,
        late_tag=late,
        name=name,
        element_type=GenericAlias(tuple, tuple(object if each is None else each for each in types)),
        location=where,
    )


_MOST_VIEWS: Final = 4
