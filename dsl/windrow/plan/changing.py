"""Finds the streams that carry changes: downstream of windows that retract, up to where changes become records."""

from __future__ import annotations

from typing import Final

from windrow.panes import AccumulationMode
from windrow.plan.nodes import (
    BroadcastProcessNode,
    ChangelogNode,
    KeyedProcessNode,
    MapAsyncNode,
    Node,
    ProcessNode,
    SideOutputNode,
    SourceNode,
    TimedJoinNode,
    WindowNode,
)

__all__ = ["carries_changes", "takes_changes"]

_MAKING_RECORDS: Final = (SourceNode, ChangelogNode, KeyedProcessNode, BroadcastProcessNode, TimedJoinNode)
"""The steps whose output has no changes, whatever they take."""


def carries_changes(node: Node) -> bool:
    """Returns whether the output of a step holds withdrawals beside results."""
    waiting, seen = [node], {id(node)}
    while waiting:
        found = waiting.pop()
        if isinstance(found, WindowNode):
            if found.panes.mode is AccumulationMode.RETRACTING:
                return True
        elif isinstance(found, SideOutputNode):
            if _side_carries_changes(found):
                return True
        elif not isinstance(found, _MAKING_RECORDS):
            further = [each for each in found.inputs if id(each) not in seen]
            seen.update(map(id, further))
            waiting += further
    return False


def takes_changes(node: Node) -> bool:
    """Returns whether withdrawals reach a step."""
    return any(map(carries_changes, node.inputs))


def _side_carries_changes(node: SideOutputNode) -> bool:
    """Late withdrawals go to the side output for late elements; what a function outputs is never withdrawn."""
    producer = node.input
    while isinstance(producer, SideOutputNode):
        producer = producer.input
    if isinstance(producer, (ProcessNode, MapAsyncNode)):
        return takes_changes(producer)
    if not isinstance(producer, WindowNode):
        return False
    return node.tag in (producer.late_tag, *producer.late_tags) and takes_changes(producer)
