"""A pipeline as an engine sees it: sources, keyed steps and sinks, with fragments of stateless steps between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windrow.plan import (
    KeyByNode,
    KeyedProcessNode,
    Node,
    ReturnsNode,
    SideOutputNode,
    SinkNode,
    SourceNode,
    Step,
    TimestampsNode,
    WindowNode,
)
from windrow.sinks import Sink
from windrow.sources import Source
from windrow.windows import GlobalWindows

# Any in this module: sources and sinks of elements of every type.


def source_of(step: Step) -> Source[Any]:
    """Returns the source that a step reads."""
    assert isinstance(step.node, SourceNode)
    return step.node.source


def sink_of(step: Step) -> Sink[Any]:
    """Returns the sink that a step writes."""
    assert isinstance(step.node, SinkNode)
    return step.node.sink


@dataclass(frozen=True, slots=True)
class Port:
    """An output of a source or a keyed step.

    Attributes:
        step: The id of the step.
        tag: The name of the side output; None: the main output.
    """

    step: str
    tag: str | None = None


class Topology:
    """The boundaries of a pipeline.

    Args:
        steps: The steps of the pipeline, inputs before what reads them.

    Attributes:
        steps: The same.
        sources: The sources.
        keyed: The keyed steps, those that others read from first.
        sinks: The sinks.
        timestamps: The steps that make watermarks.
        levels: For each keyed step by id, 1 if it reads from no other keyed step, else one more than those it reads.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self._by_id = {step.id: step for step in steps}
        self.sources = tuple(step for step in steps if isinstance(step.node, SourceNode))
        self.keyed = tuple(step for step in steps if is_keyed(step.node))
        self.sinks = tuple(step for step in steps if isinstance(step.node, SinkNode))
        self.timestamps = tuple(step for step in steps if isinstance(step.node, TimestampsNode))
        self._readers: defaultdict[str, list[Step]] = defaultdict(list)
        for step in steps:
            for source in step.inputs:
                self._readers[source].append(step)
        self.levels = self._levels()

    def step(self, identifier: str) -> Step:
        """The step with that id."""
        return self._by_id[identifier]

    def readers(self, step: Step) -> list[Step]:
        """The steps that read the main output of ``step``; side outputs are read through their port."""
        return [reader for reader in self._readers[step.id] if not isinstance(reader.node, SideOutputNode)]

    def side_outputs(self, step: Step) -> list[Step]:
        """The steps that take a side output of ``step``, also behind a ``returns``."""
        found: list[Step] = []
        for reader in self._readers[step.id]:
            if isinstance(reader.node, SideOutputNode):
                found.append(reader)
                found.extend(self.side_outputs(reader))
            elif isinstance(reader.node, ReturnsNode):
                found.extend(self.side_outputs(reader))
        return found

    def entries(self, port: Port) -> list[Step]:
        """The steps that read from a port."""
        step = self.step(port.step)
        if port.tag is None:
            return self.readers(step)
        taps: list[Step] = []
        for tap in self.side_outputs(step):
            if isinstance(tap.node, SideOutputNode) and tap.node.tag.name == port.tag:
                taps.extend(self.readers(tap))
        return taps

    def ports(self, step: Step) -> list[Port]:
        """The outputs of a source or a keyed step that have readers."""
        tags = {tap.node.tag.name for tap in self.side_outputs(step) if isinstance(tap.node, SideOutputNode)}
        main = [Port(step.id)] if self.readers(step) else []
        return main + [Port(step.id, tag) for tag in sorted(tags)]

    def stampers(self, step: Step) -> tuple[str, ...]:
        """The ids of the timestamp-assigning steps whose watermarks reach a step: on each way, the last one.

        A keyed step hands on the watermark that reaches it. A source without timestamps has none.
        """
        found: dict[str, None] = {}
        for source in step.inputs:
            upstream = self.step(source)
            stamps = isinstance(upstream.node, TimestampsNode)
            found.update(dict.fromkeys((upstream.id,) if stamps else self.stampers(upstream)))
        return tuple(found)

    def keyed_before(self, step: Step) -> bool:
        """Returns whether a step's elements come from a keyed step."""
        return any(is_keyed(self.step(source).node) or self.keyed_before(self.step(source)) for source in step.inputs)

    def _levels(self) -> dict[str, int]:
        depth: dict[str, int] = {}
        for step in self.steps:
            above = max((depth[source] for source in step.inputs), default=0)
            depth[step.id] = above + 1 if is_keyed(step.node) else above
        return {step.id: depth[step.id] for step in self.keyed}


def is_keyed(node: Node) -> bool:
    """Returns whether a step keeps state by key, and so is a boundary."""
    return isinstance(node, (WindowNode, KeyedProcessNode))


def key_step(topology: Topology, step: Step) -> Step | None:
    """The ``key_by`` in front of a keyed step; None where the stream has no keys."""
    source = topology.step(step.inputs[0])
    return source if isinstance(source.node, KeyByNode) else None


def in_processing_time(node: WindowNode) -> bool:
    """Returns whether windows fire by the clock."""
    if node.effective_trigger.uses_processing_time:
        return True
    # Windows on the clock are cleaned up by it; the global window never is.
    return not node.assigner.is_event_time and not isinstance(node.assigner, GlobalWindows)
