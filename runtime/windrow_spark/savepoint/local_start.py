"""Reads a savepoint for the interpreter, so that it goes on with the state of a run on Spark. It starts no Spark."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow.parquet as pq

from windrow.errors import UnsupportedOperationError
from windrow.plan import Pipeline, Step
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.reader import Held, reader_of
from windrow_runtime.local.run_start import RunStart, StepStart
from windrow_runtime.operators.topology import source_of
from windrow_runtime.operators.watermarks import TrackerMemory
from windrow_spark.checkpoint.folder import Description
from windrow_spark.checkpoint.spark_files import LogOffset, file_log
from windrow_spark.checkpoint.stored_file import checkpoint_errors, damaged_file
from windrow_spark.checkpoint.stored_plan import KEPT_TIME
from windrow_spark.checkpoint.stored_streams import check_accepted, streams_of
from windrow_spark.clock import BatchClock, ClockFiles, decoded_note
from windrow_spark.exchange.classes import register_classes, state_codec
from windrow_spark.savepoint.description import SavedStep, SavepointDescription, SavepointFolder
from windrow_spark.savepoint.fitting import FittedPlan, PlanChange, fitted
from windrow_spark.savepoint.log_files import offsets_of
from windrow_spark.savepoint.next_clock import clock_of_spark, fitted_clock
from windrow_spark.savepoint.step_parts import ConvertedPart, ObjectPart, StepChange
from windrow_spark.shipping import known_classes
from windrow_spark.sources.scanner import ReadFiles, scanner_of

T = TypeVar("T")

# Any in this module: offsets of every type.


def start_of(
    path: str | os.PathLike[str], pipeline: Pipeline, renamed: Mapping[str, str], accepted: Collection[str] = ()
) -> RunStart:
    """Reads where a run of the interpreter begins that goes on from a savepoint.

    Args:
        path: The folder of the savepoint.
        pipeline: The pipeline that goes on; its plan may have changed as for a run on Spark.
        renamed: The new names of steps and sources, by their names in the savepoint.
        accepted: The ids or names of steps that may take other streams.

    Raises:
        InvalidArgumentError: If there is no savepoint in the folder, or steps are named that are not there.
        IncompatibleStateError: If a step cannot go on with the state of its name, or cannot leave its columns.
        UnsupportedOperationError: If nobody knows what of a source was read.
        CheckpointError: If a file is damaged or missing.
    """
    check_accepted(pipeline.steps, accepted)
    folder = SavepointFolder.at(path)
    saved, stored = folder.description(), folder.checkpoint.description()
    if stored is None:
        raise damaged_file(folder.path / "checkpoint" / "plan", "it is gone")
    streams = folder.checkpoint.streams.read()
    fit = fitted(pipeline, saved.steps, stored, streams, PlanChange(renamed, accepted, columnar=False))
    fit.check_filled()
    topology = fit.plan.topology
    ids = {name: step for step, name in fit.plan.state_ids.items()}
    classes = known_classes(topology.steps)
    register_classes(classes)
    steps: dict[str, StepStart] = {}
    for name, own in fit.steps.items():
        step, of_step = topology.step(ids[name]), saved.steps[own.origin]
        change, pickled = StepChange(own.places, own.is_other), pipeline.allow_pickled_state
        part = (
            ObjectPart(step, classes, pickled, change=change)
            if own.former is None
            else ConvertedPart(step, classes, pickled, change=change, form=own.former, watermark=of_step.watermark)
        )
        steps[step.id] = _step_start(folder, own.origin, of_step, part)
    clock = _next_clock(folder, pipeline, fit, saved, stored).renamed(ids)
    return RunStart(
        steps,
        _memories(pipeline, fit, clock),
        clock.watermarks,
        clock.previous,
        {
            step.id: _rest(folder, fit, saved, stored, number, step)
            for number, step in enumerate(topology.sources)
            if fit.sources.places[number] is not None
        },
        saved.batch + 1,
        tuple(fit.changes),
    )


def _step_start(folder: SavepointFolder, origin: str, saved: SavedStep, part: ObjectPart) -> StepStart:
    files = [folder.folder_of(origin) / file.name for file in saved.files]
    state = part.whole(_opened(files), base64.b64decode(saved.shared))
    return StepStart(state, saved.watermark, saved.now)


def _opened(files: Iterable[Path]) -> Iterator[pq.ParquetFile]:
    for path in files:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file


def _next_clock(
    folder: SavepointFolder, pipeline: Pipeline, fit: FittedPlan, saved: SavepointDescription, stored: Description
) -> BatchClock:
    """Returns the time of the batch after the savepoint, with the names that steps have in the plan."""
    if stored.time != KEPT_TIME:
        return clock_of_spark(folder.checkpoint, pipeline, fit, saved)
    return fitted_clock(ClockFiles(folder.checkpoint.clock_folder).read(saved.batch + 1), fit)


def _memories(pipeline: Pipeline, fit: FittedPlan, clock: BatchClock) -> dict[str, TrackerMemory]:
    topology = fit.plan.topology
    codec = state_codec(known_classes(topology.steps), allow_pickled=pipeline.allow_pickled_state)
    memories: dict[str, TrackerMemory] = {}
    for step in topology.timestamps:
        if step.id not in clock.trackers:
            continue
        memory = decoded_note(codec, clock.trackers[step.id])
        partitions = {name: decoded_note(codec, note) for name, note in clock.partitions.get(step.id, {}).items()}
        released = clock.released.get(step.id, memory.watermark)
        memories[step.id] = memory._replace(partitions=partitions, released=released)
    return memories


def _rest(
    folder: SavepointFolder, fit: FittedPlan, saved: SavepointDescription, stored: Description, number: int, step: Step
) -> Callable[[Held], Iterator[SourceBatch]]:
    """Returns what yields the batches that a source has left."""
    place = fit.sources.places[number]
    assert place is not None, "it was there"
    scanner = scanner_of(step)
    if not scanner.is_replayable and scanner.has_offsets_of_reader:
        # Without an offset nothing was read; the source is told nothing in that case either.
        offsets = _offsets(folder, saved, place, dict[str, list[Any]]) or {}
        return partial(scanner.reader.batches_after, offsets)
    if not scanner.is_replayable:
        raise UnsupportedOperationError(
            "the interpreter does not know what of this source was read",
            given=source_of(step).describe(),
            expected="a collection, files of a mounted file system, a topic or a CustomSource",
            where=step.where,
            hint="SparkRunner(checkpoint=..., savepoint=...) goes on from the savepoint",
        )
    before = folder.checkpoint.streams.read()
    now = streams_of(fit.plan).sources[number]
    if reader_of(step).may_grow and before is not None and before.sources[place].moving != now.moving:
        raise UnsupportedOperationError(
            "the source reads from elsewhere than before, and only the paths of files tell which were read",
            given=source_of(step).describe(),
            expected="the folder of before",
            where=step.where,
        )
    read = _read(folder, saved, stored, place)
    return lambda held: scanner.left(read)


def _read(folder: SavepointFolder, saved: SavepointDescription, stored: Description, place: int) -> ReadFiles:
    """Returns the files that a source has read by the end of the batch of a savepoint."""
    checkpoint = folder.checkpoint
    offset = _offsets(folder, saved, place, LogOffset)
    count = 0 if offset is None else offset.read
    log = checkpoint.log_of_files(stored.sources[place].folder)
    if log.exists():
        log.update(count)
        planned = {file for files in log.files_of(range(count, log.count)) for file in files}
        return ReadFiles(lambda files: (each := {*files}) & planned | log.unread(each))
    entries = file_log(checkpoint.spark_path / "sources" / f"{place}")
    done = {file for number, files in entries.items() if number < count for file in files}
    return ReadFiles(lambda files: {*files} - done, frozenset(Path(file).name for file in done))


def _offsets(folder: SavepointFolder, saved: SavepointDescription, place: int, type_: type[T]) -> T | None:
    """Returns the offsets that a source had reached by the end of the batch of a savepoint; None: it had read none."""
    path = Path(folder.checkpoint.spark_path, "offsets", f"{saved.batch}")
    with checkpoint_errors(path.parent):
        line = offsets_of(path)[place]
    try:
        return None if line == b"-" else msgspec.json.decode(line, type=type_)
    except ValueError as error:
        raise damaged_file(path, f"{error}") from error
