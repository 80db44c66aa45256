"""Finds the steps whose watermark is made per partition of their source, as Flink makes it per split.

The partitions of Kafka and of a user's own source are those that it names. Each file of a source with
``files_per_batch`` is one, too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from windrow.addresses.paths import local_path
from windrow.connectors import CustomSource
from windrow.kafka import TopicSource
from windrow.plan import ReturnsNode, SideOutputNode, SourceNode, Step
from windrow.sources import FileSource, Source
from windrow_runtime.operators.topology import Topology, source_of
from windrow_runtime.operators.watermarks import PartitionsRead

# Any in this module: sources of elements of every type.


class PartitionMark(NamedTuple):
    """Says, among what a worker reads from a source, whose elements follow, and which partitions are open."""

    name: str
    open: Collection[str] | None  # None: this is not told here


class PartitionedSource(NamedTuple):
    """The source of a step whose watermark is made per partition."""

    step: str  # the id of the source's step
    files_per_batch: int | None = None  # None: the partitions are no files

    def read(self, open_partitions: Collection[str] | None) -> PartitionsRead | None:
        """Returns what a batch has told of the partitions that are open; of files, of those that it has read.

        A batch of as many files as ``files_per_batch`` may have left some; one with fewer shows that it has not.
        """
        if self.files_per_batch is None:
            return None if open_partitions is None else PartitionsRead(open_partitions)
        return PartitionsRead((), more_to_come=len(set(open_partitions or ())) >= self.files_per_batch)


def has_partitions(source: Source[Any]) -> bool:
    """Returns whether a source may have several partitions, each with a watermark of its own."""
    match source:
        case FileSource():
            # A batch of one file has no other beside it.
            return (source.files_per_batch or 1) > 1 and local_path(source.path) is not None
        case TopicSource():
            return not source.engine_connector
        case CustomSource():
            return type(source).partitions is not CustomSource.partitions
    return False


def partitioned_sources(topology: Topology) -> dict[str, PartitionedSource]:
    """Returns the sources of timestamp-assigning steps whose watermark is made per partition, by the ids of these.

    Such a step takes its elements from one such source alone, by steps without state.
    """
    found = {}
    for step in topology.timestamps:
        before = topology.boundaries_before[step.id]
        if len(before) == 1 and isinstance(topology.step(before[0]).node, SourceNode):
            source = source_of(topology.step(before[0]))
            if has_partitions(source) and not _takes_malformed(topology, step):
                size = source.files_per_batch if isinstance(source, FileSource) else None
                found[step.id] = PartitionedSource(before[0], size)
    return found


def _takes_malformed(topology: Topology, step: Step) -> bool:
    """Returns whether a step reads the malformed records of a source, of which no partition is told."""
    inputs = [topology.step(each) for each in step.inputs]
    if isinstance(step.node, SideOutputNode):
        while isinstance(inputs[0].node, ReturnsNode):
            inputs = [topology.step(each) for each in inputs[0].inputs]
        if isinstance(inputs[0].node, SourceNode):
            return True
    return any(_takes_malformed(topology, each) for each in inputs)
