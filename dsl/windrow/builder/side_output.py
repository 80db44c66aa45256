"""Makes the step that takes a side output of another step."""

from __future__ import annotations

from typing import Any

from windrow.errors import InvalidArgumentError
from windrow.plan.base_node import Node
from windrow.plan.location import caller_location
from windrow.plan.nodes import SideOutputNode
from windrow.tags import OutputTag


# Any: elements of every type; the methods of streams say which.
def side_output_node(node: Node, tag: OutputTag[Any]) -> SideOutputNode:
    """The step that takes a side output of ``node``.

    Raises:
        InvalidArgumentError: If it is no :class:`OutputTag`.
    """
    if not isinstance(tag, OutputTag):
        raise InvalidArgumentError(
            "a side output is named by a tag", given=tag, expected="an OutputTag", where=caller_location()
        )
    type_form = node.aside_type(tag) if tag.element_type is None else tag.element_type
    return SideOutputNode(input=node, tag=tag, element_type=type_form, location=caller_location())
