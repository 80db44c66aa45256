"""Tells streams whose elements have timestamps of the clock, from windows in processing time."""

from __future__ import annotations

from typing import Any

from windrow import DataStream
from windrow.plan import Node, WindowNode
from windrow.windows import GlobalWindows

__all__ = ["stamped_by_clock"]


# Any: elements of every type.
def stamped_by_clock(stream: DataStream[Any]) -> bool:
    """Whether windows on the clock are in front: it may be years from such a timestamp to the watermark.

    A trigger that fires at intervals of event time would fire at each of them, in windows that take late elements.
    """
    nodes: list[Node] = [stream.node]
    while nodes:
        node = nodes.pop()
        assigner = node.assigner if isinstance(node, WindowNode) else None
        if assigner is not None and not assigner.is_event_time and not isinstance(assigner, GlobalWindows):
            return True
        nodes.extend(node.inputs)
    return False
