"""Folders of a plan: no two sinks write into one, and no source reads what a sink of its pipeline writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import combinations

from windrow.addresses.paths import is_inside, reads_from, real_path
from windrow.errors import Fault
from windrow.plan.nodes import SinkNode, SourceNode
from windrow.plan.steps import Step
from windrow.sinks import DeltaSink, FileSink
from windrow.sources import FileSource

__all__ = ["folder_faults"]


def folder_faults(steps: Sequence[Step]) -> Iterator[Fault]:
    """The faults, each with both steps."""
    written = [(step, real_path(path)) for step in steps if (path := _written(step)) is not None]
    for (step, folder), (other, another) in combinations(written, 2):
        if _is_delta(step) and _is_delta(other):
            continue  # a table takes the rows of several
        if _same(folder, another):
            how = "one folder"
        elif is_inside(folder, another) or is_inside(another, folder):
            how = "folders of which one holds the other"
        else:
            continue
        yield Fault(
            f"the sinks {step.node.describe()!r} and {other.node.describe()!r} write into {how} ({step.where})",
            other.where,
            "give each sink a folder of its own, or unite the streams before one sink",
        )
    for source in steps:
        if not isinstance(source.node, SourceNode) or not isinstance(source.node.source, FileSource):
            continue
        path = source.node.source.path
        for step, folder in written:
            if reads_from(path, folder):
                yield Fault(
                    f"the source {source.node.describe()!r} reads what the sink {step.node.describe()!r} writes"
                    f" ({source.where})",
                    step.where,
                    "write into a folder that no source of the pipeline reads",
                )


def _written(step: Step) -> str | None:
    sink = step.node.sink if isinstance(step.node, SinkNode) else None
    return sink.path if isinstance(sink, (FileSink, DeltaSink)) else None


def _is_delta(step: Step) -> bool:
    return isinstance(step.node, SinkNode) and isinstance(step.node.sink, DeltaSink)


def _same(folder: str, other: str) -> bool:
    try:
        # Two mounts of one folder have two names.
        return folder == other or os.path.samefile(folder, other)
    except OSError:
        return False
