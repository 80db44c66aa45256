"""Views of streams for side inputs: values that functions of another stream take beside each element, as in Beam."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import GenericAlias, NoneType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from windrow.builder.arguments import check_assigner, check_kind, check_plain_function
from windrow.errors import InvalidArgumentError
from windrow.functions.names import function_name
from windrow.functions.type_names import type_name
from windrow.panes import ChangeKind
from windrow.plan.base_node import Node
from windrow.plan.changing import repeating_origins
from windrow.plan.fitting import widest
from windrow.plan.keys import HINT as KEY_HINT
from windrow.plan.keys import unhashable_part
from windrow.plan.location import caller_location, refusal
from windrow.plan.nodes import ChangelogNode
from windrow.plan.render import node_line
from windrow.plan.types import made_type
from windrow.side_inputs.views import (
    DictView,
    ListView,
    SideElement,
    SideView,
    SingletonView,
    stated_windows,
    windows_upstream,
)
from windrow.windows import WindowAssigner

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

T = TypeVar("T")
D = TypeVar("D")
H = TypeVar("H", bound=Hashable)
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)

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
        """The definition of the view in the plan."""
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
    check_plain_function(key, "the key of as_dict", "element")
    if value is not None:
        check_plain_function(value, "the value of as_dict", "element")
    to_element = _ToElement(key=key, value=value)
    key_kind = made_type(key, node.element_type)
    if (part := unhashable_part(key_kind)) is not None:
        raise refusal(f"keys of type {type_name(part)} cannot be hashed", given=key, expected=_HASHABLE, hint=KEY_HINT)
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
