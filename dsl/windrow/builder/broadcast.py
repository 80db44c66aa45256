"""Defines broadcast streams, whose elements are rules for all keys of another stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from windrow.builder.arguments import error_policy
from windrow.builder.stage import Stage
from windrow.errors import InvalidArgumentError
from windrow.failures import OnError
from windrow.functions.broadcast import KeyedBroadcastProcessFunction
from windrow.plan.base_node import Node
from windrow.plan.keyed_nodes import BroadcastProcessNode
from windrow.plan.location import refusal
from windrow.plan.nodes import BroadcastNode, KeyByNode
from windrow.plan.render import node_line
from windrow.plan.types import base_argument, iterable_item, result_type
from windrow.state import MapStateDescriptor

if TYPE_CHECKING:
    from windrow.builder.stream import DataStream

T = TypeVar("T")
B_co = TypeVar("B_co", covariant=True)
B = TypeVar("B")
K = TypeVar("K")
R = TypeVar("R")

# Any in this module: rules of every type.


class BroadcastStream(Stage, Generic[B_co]):
    """A stream of elements ``B_co``, each of which reaches all keys. Made by ``DataStream.broadcast``."""

    __slots__ = ("_node",)

    def __init__(self, node: BroadcastNode) -> None:
        self._node = node

    @property
    def node(self) -> BroadcastNode:
        """The step of the plan that makes this stream."""
        return self._node

    def __repr__(self) -> str:
        return node_line("BroadcastStream", self._node)


class BroadcastConnectedStream(Stage, Generic[T, B, K]):
    """A keyed stream and a broadcast one that are processed together. Made by ``KeyedStream.connect``."""

    __slots__ = ("_keyed", "_rules")

    def __init__(self, keyed: KeyByNode, rules: BroadcastNode) -> None:
        self._keyed = keyed
        self._rules = rules

    def process(
        self,
        function: KeyedBroadcastProcessFunction[K, T, B, R],
        *,
        on_error: OnError[T | None] = "fail",
        name: str | None = None,
    ) -> DataStream[R]:
        """Process each element by key, with state, timers, and the current rules of the broadcast stream.

        Args:
            function: Gets the elements of both streams, and timers.
            on_error: What becomes of elements of the keyed stream and timers for which the function raises; see
                :meth:`windrow.KeyedStream.process`. Where it raises for a rule, the run fails: each group of keys has a
                copy of the rules, and all copies must stay the same.
            name: Names the step.
        """
        if not isinstance(function, KeyedBroadcastProcessFunction):
            raise refusal(
                "a keyed stream with broadcast rules needs a process function of both",
                given=function,
                expected="an instance of KeyedBroadcastProcessFunction",
                hint=f"{function.__name__}()" if isinstance(function, type) else None,
            )
        type_form = base_argument(function, KeyedBroadcastProcessFunction, 3)
        return self._stream_of(
            BroadcastProcessNode(
                input=self._keyed,
                rules=self._rules,
                function=function,
                on_error=error_policy(on_error),
                name=name,
                element_type=type_form or iterable_item(result_type(function.process_element)),
            )
        )

    def __repr__(self) -> str:
        return f"BroadcastConnectedStream({node_line('KeyedStream', self._keyed)}, {BroadcastStream(self._rules)!r})"


def broadcast_node(node: Node, descriptors: Sequence[MapStateDescriptor[Any, Any]]) -> BroadcastNode:
    """The step that sends elements to all keys.

    Raises:
        InvalidArgumentError: If a descriptor is not one of a map, has the name of another, or lets rules expire.
    """
    for place, descriptor in enumerate(descriptors):
        if not isinstance(descriptor, MapStateDescriptor):
            raise _refused("rules are kept in maps", descriptor, "a MapStateDescriptor")
        if descriptor.ttl is not None:
            raise _refused("rules do not expire", descriptor, "a descriptor without a time to live")
        if any(descriptor.name == other.name for other in descriptors[:place]):
            raise _refused("two maps of rules have one name", descriptor, "a name of its own for each")
    return BroadcastNode(input=node, descriptors=tuple(descriptors), element_type=node.element_type)


def _refused(message: str, given: object, expected: str) -> InvalidArgumentError:
    return refusal(message, given=given, expected=expected)
