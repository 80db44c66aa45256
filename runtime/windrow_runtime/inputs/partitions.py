"""Finds the steps whose watermark is made per partition of their source, as Flink makes it per split.

The partitions of Kafka and of a user's own source are those that it names. Each file of a source with
``files_per_batch`` is one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from windrow.errors import UnsupportedOperationError
from windrow.plan import SourceNode, Step
from windrow.time import MIN_TIMESTAMP
from windrow.watermarks import WatermarkAlignment
from windrow_runtime.inputs.batches import OpenPartitions
from windrow_runtime.inputs.reader import reader_of
from windrow_runtime.operators.topology import Topology, timestamps_of
from windrow_runtime.operators.watermarks import PartitionsRead


class PartitionedSource(NamedTuple):
    """The source of a step whose watermark is made per partition."""

    step: str  # the id of the source's step
    files_per_batch: int | None = None  # None: the partitions are no files

    def read(self, partitions: OpenPartitions | None) -> PartitionsRead | None:
        """Returns what a batch tells the tracker of the step; None if it has read nothing from the source.

        A batch of as many files as ``files_per_batch`` may have left some; one with fewer shows that it has not.
        """
        if self.files_per_batch is None:
            return None if partitions is None else PartitionsRead(partitions.open)
        files = set() if partitions is None else set(partitions.open)
        return PartitionsRead((), more_to_come=len(files) >= self.files_per_batch)


def alignments(topology: Topology) -> dict[str, WatermarkAlignment]:
    """Returns the alignments of timestamp-assigning steps, by the ids of these.

    Raises:
        UnsupportedOperationError: If no step has keys, a step reads no partitions that can wait, or a source has two
            such steps.
    """
    partitioned = partitioned_sources(topology)
    aligned: dict[str, WatermarkAlignment] = {}
    for step in topology.timestamps:
        alignment: WatermarkAlignment | None = timestamps_of(step).strategy.alignment
        if alignment is None:
            continue
        source = partitioned.get(step.id)
        aligned_sources = {partitioned[each].step for each in aligned}
        if not topology.keyed:
            raise UnsupportedOperationError(
                "watermarks are aligned so that less state waits for the slowest partition, and no keyed step has any",
                given=f"with_watermark_alignment({alignment.group!r}, ...)",
                expected="a keyed step, such as a window, or a strategy without alignment",
                where=step.where,
            )
        if source is None or source.files_per_batch is not None or source.step in aligned_sources:
            raise UnsupportedOperationError(
                "watermarks are aligned where the partitions of a source can wait for others",
                given=f"with_watermark_alignment({alignment.group!r}, ...)",
                expected="one such step for each source, a topic or a CustomSource, and no "
                "keyed step and no union between",
                where=step.where,
            )
        aligned[step.id] = alignment
    return aligned


def partitioned_sources(topology: Topology) -> dict[str, PartitionedSource]:
    """Returns the sources of timestamp-assigning steps whose watermark is made per partition, by the ids of these.

    Such a step takes its elements from one such source alone, by steps without state.
    """
    sources = {}
    for step in topology.timestamps:
        before = topology.boundaries_before[step.id]
        if len(before) == 1 and isinstance(topology.step(before[0]).node, SourceNode):
            reader = reader_of(topology.step(before[0]))
            if reader.has_partitions and not _takes_malformed(topology, step):
                sources[step.id] = PartitionedSource(before[0], reader.files_per_batch)
    return sources


def held_partitions(
    aligned: Mapping[str, WatermarkAlignment],
    sources: Mapping[str, PartitionedSource],
    watermarks: Callable[[str], Mapping[str, int]],
    waiting: Mapping[str, Collection[str]],
) -> dict[str, set[str]]:
    """Returns the partitions of each source, by the step id of the source, of which the next batch reads nothing.

    They are too far ahead of the lowest one in their group that has elements which the last batch has left. That one is
    read next, so something is read as long as there is something.

    Args:
        aligned: The alignments of steps, by id.
        sources: Their sources.
        watermarks: The watermarks of a step's partitions.
        waiting: The partitions that have elements which the last batch has left, by the step id of the source.
    """
    lowest: dict[str, int] = {}
    for step, alignment in aligned.items():
        times = watermarks(step)
        for name in waiting.get(sources[step].step, ()):
            time = times.get(name, MIN_TIMESTAMP)
            lowest[alignment.group] = min(lowest.get(alignment.group, time), time)
    return {
        sources[step].step: {
            name for name, time in watermarks(step).items() if time > lowest[alignment.group] + alignment.max_drift
        }
        for step, alignment in aligned.items()
        if alignment.group in lowest
    }


def _takes_malformed(topology: Topology, step: Step) -> bool:
    """Returns whether a step reads the malformed records of a source, which belong to no partition."""
    inputs = [topology.step(each) for each in step.inputs]
    if step.node.side_output is not None:
        while inputs[0].node.states_type:
            inputs = [topology.step(each) for each in inputs[0].inputs]
        if inputs[0].node.is_source:
            return True
    return any(_takes_malformed(topology, each) for each in inputs)
