"""Defines where a run of the interpreter begins that goes on from a savepoint, and finds what reads savepoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast

from windrow.entry_points import load
from windrow.plan import Pipeline
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.reader import Held
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.operators.watermarks import TrackerMemory

_READERS: Final = "windrow.savepoints"
"""The entry points by which packages register what reads their savepoints, by the name of the engine."""


@dataclass(frozen=True, slots=True)
class StepStart:
    """The state of a keyed step, and the watermark and the clock under which it ran last, in milliseconds."""

    state: OperatorState
    watermark: int
    clock: int


@dataclass(frozen=True, slots=True)
class RunStart:
    """Where a run begins that goes on from a savepoint. Steps are known by their ids.

    Attributes:
        steps: The keyed steps that go on.
        trackers: The memories of timestamp-assigning steps.
        watermarks: The watermarks of keyed and other steps in the next batch, in milliseconds.
        previous: The same in the batch before.
        sources: What yields the batches that each source has left; it asks before each for the partitions that wait.
        batch: The number of the next batch.
        changes: A line for each change of the plan that the user has to know.
    """

    steps: Mapping[str, StepStart]
    trackers: Mapping[str, TrackerMemory]
    watermarks: Mapping[str, int]
    previous: Mapping[str, int]
    sources: Mapping[str, Callable[[Held], Iterator[SourceBatch]]]
    batch: int
    changes: tuple[str, ...] = ()


class SavepointReader(Protocol):
    """Reads a savepoint for the interpreter."""

    def __call__(
        self,
        path: str | os.PathLike[str],
        pipeline: Pipeline,
        renamed: Mapping[str, str],
        accepted: Collection[str] = (),
    ) -> RunStart: ...


def savepoint_reader() -> SavepointReader:
    """Returns what reads the savepoints of runs on Spark."""
    return cast(SavepointReader, load(_READERS, "spark"))  # whoever registers it promises that
