"""Warns of plans of which something never comes out: side outputs that nothing reads, windows that nothing fires."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from windrow.errors import warn
from windrow.plan.base_node import Node
from windrow.plan.nodes import SideOutputNode, SourceNode
from windrow.plan.steps import Step
from windrow.plan.walk import upstream_of
from windrow.tags import OutputTag
from windrow.watermarks import NoWatermarks

# Any in this module: elements of every type.


class TagsRead:
    """The tags of the side outputs that some steps of a plan read, by the step that has the output."""

    def __init__(self, steps: Iterable[Step]) -> None:
        nodes = [step.node for step in steps]
        self._read = {(id(node.input), node.tag) for node in nodes if isinstance(node, SideOutputNode)}

    def unread(self, node: Node) -> list[OutputTag[Any]]:
        """Returns the tags of a node that no step reads."""
        return [tag for tag in node.side_outputs if (id(node), tag) not in self._read]


def waits_for_ever(node: Node) -> bool:
    """Returns whether windows in event time wait for watermarks that a stream without an end never makes."""
    if not node.windows_in_time:
        return False
    upstream = list(upstream_of(node))
    strategies = [each.makes_watermarks for each in upstream if each.makes_watermarks is not None]
    endless = any(isinstance(each, SourceNode) and not each.source.is_bounded for each in upstream)
    return endless and any(each.create_generator is NoWatermarks for each in strategies)


def warn_of_what_is_lost(steps: Sequence[Step]) -> None:
    """Warns of each side output that a setting names and nothing reads, and of windows that only an end would fire."""
    tags = TagsRead(steps)
    for step in steps:
        for tag in tags.unread(step.node):
            warn(
                "elements go to a side output that nothing reads, so they are lost",
                given=tag,
                where=step.where,
                hint="give the pipeline a sink of get_side_output(tag)",
                location=step.node.location,
            )
        if waits_for_ever(step.node):
            warn(
                "windows fire at the end of a stream alone, which this one does not have",
                given="WatermarkStrategy.no_watermarks()",
                where=step.where,
                hint="another strategy, or running.drain(), which makes an end",
                location=step.node.location,
            )
