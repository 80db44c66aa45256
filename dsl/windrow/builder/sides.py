"""Makes the step that unites two streams, each element with the mark of its stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any

from windrow.errors import InvalidArgumentError
from windrow.functions.marked import FromLeft, FromRight, SideKey, Tagged
from windrow.functions.type_names import type_name
from windrow.plan.base_node import Node
from windrow.plan.fitting import can_fit
from windrow.plan.location import refusal
from windrow.plan.nodes import KeyByNode, MapNode, UnionNode
from windrow.plan.types import made_type, stated_type


def both_inputs(left: Node, right: Node, *, counts_at_once: bool) -> UnionNode:
    """The union of two streams, whose elements are marked.

    Args:
        left: The first stream.
        right: The second one.
        counts_at_once: Whether a stream that comes back from being idle holds the watermark at once, as upstream of
            Flink's operators with two inputs; else from the time on at which it has caught up, as downstream of a
            union.
    """
    kinds = (left.element_type, right.element_type)
    kind = None if None in kinds else GenericAlias(Tagged, kinds)
    marked = (
        MapNode(input=left, function=FromLeft(), element_type=kind),
        MapNode(input=right, function=FromRight(), element_type=kind),
    )
    return UnionNode(streams=marked, element_type=kind, counts_at_once=counts_at_once)


# Any: keys and elements of every type; the stages have proved that they fit.
def keyed_by_both(
    left: tuple[Node, Callable[[Any], Any]],
    right: tuple[Node, Callable[[Any], Any]],
    key_types: tuple[object | None, object | None] = (None, None),
    *,
    counts_at_once: bool,
) -> KeyByNode:
    """Two streams in one, marked, and split by the key that each of the selectors takes.

    Raises:
        InvalidArgumentError: If the keys are known to be of different types.
    """
    known_types = [
        key_type if key_type is not None else stated_type(selector, node.element_type)
        for (node, selector), key_type in zip((left, right), key_types, strict=True)
    ]
    if None not in known_types and known_types[0] != known_types[1]:
        raise _unlike_keys(known_types)
    selected_types = [made_type(selector, node.element_type) for node, selector in (left, right)]
    if (
        None in known_types
        and None not in selected_types
        and not (can_fit(selected_types[0], selected_types[1]) or can_fit(selected_types[1], selected_types[0]))
    ):
        raise _unlike_keys(selected_types)
    union = both_inputs(left[0], right[0], counts_at_once=counts_at_once)
    return KeyByNode(
        input=union,
        selector=SideKey(left[1], right[1]),
        key_type=known_types[0] if known_types[0] is not None else known_types[1],
        element_type=union.element_type,
    )


def _unlike_keys(kinds: Sequence[object]) -> InvalidArgumentError:
    return refusal(
        "the keys of both streams must be of one type",
        given=" and ".join(map(type_name, kinds)),
        expected="two selectors that take keys of the same type",
        hint="convert one of them: where(lambda order: str(order.id))",
    )
