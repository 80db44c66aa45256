"""Replays the batches of a run on Spark by the interpreter, and compares their results.

A checkpoint has notes of each batch: what it has read, its clock, its watermarks, and its counters. The interpreter
processes the same batches under the same times, so even results that depend on the clock or on the batches must be
equal. If they are not, one engine is wrong, or a function returns something else at each call. The command is
``windrow replay CHECKPOINT FILE:PIPELINE``. Only the last 100 batches of a run have notes, so the run may have at most
100 batches. Its sources must be collections and files of mounted file systems, which still exist.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

from windrow import Pipeline
from windrow.errors import IncompatibleStateError, UnsupportedOperationError
from windrow.plan import Step
from windrow.sinks import Collects, CollectSink
from windrow_runtime.codecs.malformed import short_repr
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.local.execution import Execution
from windrow_runtime.operators.topology import Topology, sink_of, source_of, topology_of
from windrow_runtime.outputs.registry import open_outputs
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.outputs.writer import SinkWriter, writer_of
from windrow_spark.checkpoint.batch_notes import CounterNotes, NotedBatch, noted_batches
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_streams import streams_of
from windrow_spark.physical.plan import PhysicalPlan
from windrow_spark.sources.scanner import scanner_of

__all__ = ["Replay", "replay"]

# Any in this module: elements of every type, and pyarrow has no types.

T = TypeVar("T")

_SHOWN: Final = 3


@dataclass(frozen=True)
class Replay:
    """The results of replaying the batches of a run by the interpreter.

    Attributes:
        batches: The number of batches.
        counters: The counters of each step, by step id and name, as ``PipelineResult.counters`` has them.
        differences: A line for each difference from the run.
        compared: The ids of the file sinks that were compared.
        left_out: The ids of the sinks that were not: those of memory, which :meth:`compare` compares, and those whose
            rows are not read back.
    """

    batches: int
    counters: Mapping[str, Mapping[str, int]]
    differences: list[str]
    compared: Sequence[str]
    left_out: Sequence[str]
    _collected: Mapping[int, list[Any]] = field(repr=False)

    def collected(self, sink: Collects[T]) -> list[T]:
        """Returns the elements that went to a sink of the pipeline, batch by batch.

        Args:
            sink: The sink, the object that ``sink_to`` was given.

        Raises:
            KeyError: If it is not part of the pipeline.
        """
        return list(self._collected[id(sink)])

    def compare(self, results: Sequence[PipelineResult], sinks: Iterable[CollectSink[Any]]) -> list[str]:
        """Compares the elements that the runs with the checkpoint collected; returns a line for each difference.

        Args:
            results: The results of all of these runs.
            sinks: The sinks to compare.
        """
        differences: list[str] = []
        for sink in sinks:
            of_run = Counter(repr(element) for result in results for element in result.collected(sink))
            differences += _differences(f"collect {sink.name}", of_run, Counter(map(repr, self.collected(sink))))
        return differences


def replay(checkpoint: str | Path, pipeline: Pipeline, *, fast: bool = False) -> Replay:
    """Replays the batches of a checkpoint by the interpreter, and compares file sinks and counters.

    It changes nothing in the checkpoint, nor where the sinks of the pipeline write.

    Args:
        checkpoint: The folder of the checkpoint, which no run may be using.
        pipeline: The pipeline, as it was when the batches ran.
        fast: Whether steps of common shapes run in a faster form; by default by the general operators.

    Raises:
        UnsupportedOperationError: If a source is neither a collection nor files of a mounted file system.
        IncompatibleStateError: If the checkpoint is that of another plan, or has no notes of the first batches.
        CheckpointError: If a file of the checkpoint is damaged.
        SourceError: If a file that was read is gone.
    """
    topology = topology_of(pipeline)
    for step in topology.sources:
        _check_source(step)
    folder = Checkpoint(Path(checkpoint).absolute())
    streams = folder.streams.read()
    plan = PhysicalPlan(topology)
    # Sinks may differ: what a run has written is compared, and not where it wrote.
    if streams is not None and replace(streams, sinks=None) != streams_of(plan):
        raise IncompatibleStateError(
            "the checkpoint belongs to another plan",
            given=pipeline.name,
            expected="the pipeline as it was when the batches ran",
            where=str(folder.path),
        )
    batches = noted_batches(folder, plan)
    with TemporaryDirectory(prefix="windrow-replay-") as sinks_folder:
        run = _Run(topology, Path(sinks_folder), fast=fast)
        run.take(batches)
        differences = [*_counter_differences(folder, batches, run.counters)]
        for step, moved in run.moved.items():
            differences += _sink_differences(step, moved, {batch.number for batch in batches})
    left_out = [step.id for step in topology.sinks if step.id not in {each.id for each in run.moved}]
    return Replay(len(batches), run.counters, differences, [each.id for each in run.moved], left_out, run.collected)


def _check_source(step: Step) -> None:
    if scanner_of(step).is_replayable:
        return
    raise UnsupportedOperationError(
        "what a run has read from this source is not known any more",
        given=source_of(step).describe(),
        expected="a collection, or files of a mounted file system",
        where=step.where,
    )


class _Run:
    """Runs batches by the interpreter; file sinks write below a temporary folder."""

    def __init__(self, topology: Topology, sinks_folder: Path, *, fast: bool) -> None:
        self._execution = Execution(topology, fast=fast)
        self._topology = self._execution.topology
        # The sinks whose rows are read back, each with its copy for a temporary folder.
        self.moved: dict[Step, SinkWriter[Any]] = {}
        self.collected: dict[int, list[Any]] = {}
        for number, step in enumerate(topology.sinks):
            writer = writer_of(step)
            if writer.keeps_elements:
                self.collected[id(writer.sink)] = []
            elif (moved := writer.moved_to(sinks_folder / str(number))) is not None:
                self.moved[step] = moved
        self._outputs = open_outputs([writer.step for writer in self.moved.values()], "replay", {})

    @property
    def counters(self) -> Mapping[str, Mapping[str, int]]:
        return {step: dict(metrics.totals) for step, metrics in self._execution.metrics.items() if metrics.totals}

    def take(self, batches: Iterable[NotedBatch]) -> None:
        self._execution.open()
        try:
            for batch in batches:
                self._round(batch)
        finally:
            self._execution.close()

    def _round(self, batch: NotedBatch) -> None:
        inputs = {step.id: _read(step, batch.files[step.id]) for step in self._topology.sources}
        elements = self._execution.inputs_of({step: read for step, read in inputs.items() if read is not None})
        self._execution.round(elements, watermark=batch.watermarks, processing_time=batch.now)
        sinks = [
            step for step in self._topology.sinks if step.id in self._outputs or id(sink_of(step)) in self.collected
        ]
        self._execution.write_sinks(sinks, batch.number, self.collected, self._outputs)
        self._execution.sinks.clear()  # what others would get


def _read(step: Step, files: Sequence[str]) -> SourceBatch | None:
    """Reads what a batch has read from a source; None if it has read nothing."""
    return scanner_of(step).replayed(files) if files else None


def _counter_differences(
    folder: Checkpoint, batches: Iterable[NotedBatch], replayed: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    notes = CounterNotes(folder.counters_folder)
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for batch in batches:
        for step, counters in notes.read(batch.number).items():
            counted[step].update(counters)
    for step in sorted({*counted, *replayed}):
        of_run, of_replay = counted.get(step, Counter()), replayed.get(step, {})
        for name in sorted({*of_run, *of_replay}):
            if of_run.get(name, 0) != of_replay.get(name, 0):
                yield f"{step}, {name}: the run counted {of_run.get(name, 0)}, the replay {of_replay.get(name, 0)}"


def _sink_differences(step: Step, moved: SinkWriter[Any], batches: set[int]) -> Iterator[str]:
    of_run, of_replay = writer_of(step).rows_written(batches), moved.rows_written(batches)
    for key in sorted({*of_run, *of_replay}):
        number, folder = key
        shown = f"{step.id}, batch {number}{folder and f', {folder}'}"
        yield from _differences(shown, of_run.get(key, Counter()), of_replay.get(key, Counter()))


def _differences(shown: str, of_run: Counter[str], of_replay: Counter[str]) -> Iterator[str]:
    for rows, who in ((of_run - of_replay, "the run"), (of_replay - of_run, "the replay")):
        if rows:
            first = ", ".join(short_repr(row) for row in list(rows)[:_SHOWN])
            yield f"{shown}: {rows.total()} of {who} alone: {first}{', ...' * (len(rows) > _SHOWN)}"
