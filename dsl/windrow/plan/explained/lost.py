"""Warns of plans of which something never comes out: side outputs that nothing reads, windows that nothing fires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    """Knows which side outputs of its steps a plan reads."""

    def __init__(self, steps: Iterable[Step]) -> None:
        nodes = [step.node for step in steps]
        self._read = {_output(_producer(node), node.tag) for node in nodes if isinstance(node, SideOutputNode)}

    def unread(self, node: Node) -> list[OutputTag[Any]]:
        """Returns the tags of a node that no step reads."""
        return [tag for tag in node.side_outputs if _output(node, tag) not in self._read]


def _output(node: Node, tag: OutputTag[Any]) -> tuple[object, ...]:
    """Returns what tells a side output from others: several results of the same windows have the same late elements."""
    if not node.windows_in_time or tag in node.failed_tags:
        return tag, id(node)
    return tag, node.lateness, *map(id, node.inputs), *map(repr, node.windows_in_time)


def _producer(node: SideOutputNode) -> Node:
    """Returns the step that puts a side output out; the stream may have stated its type since."""
    producer = node.input
    while producer.states_type:
        producer = producer.inputs[0]
    return producer


def waits_for_ever(node: Node) -> bool:
    """Returns whether windows in event time wait for watermarks that a stream without an end never makes."""
    windows = node.windows
    if windows is None or not node.windows_in_time:
        return False
    # Other triggers may fire without a watermark.
    has_own_trigger = type(windows.effective_trigger) is type(windows.assigner.default_trigger())
    return has_own_trigger and any(map(_is_endless, _newest_without_watermarks(node)))


def _newest_without_watermarks(node: Node) -> Iterator[Node]:
    """Yields the steps upstream that assign timestamps without watermarks, but for those behind another strategy."""
    waiting, seen = [*node.inputs], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if each.makes_watermarks is None:
            waiting += each.inputs
        elif each.makes_watermarks.create_generator is NoWatermarks:
            yield each


def _is_endless(node: Node) -> bool:
    return any(isinstance(each, SourceNode) and each.source.is_endless for each in upstream_of(node))


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
