"""Runs cases through a savepoint: a run stops after some batches, and others go on from it.

They go on with other partitions, on Python objects where the state of all steps can leave its columns, and in the
interpreter.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, TypeAlias

from tests.differential.cases import Engine
from tests.differential.live import both
from windrow import Pipeline
from windrow.errors import IncompatibleStateError
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.savepoint import take
from windrow_runtime.spark import PipelineProgress, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_SECONDS: Final = 120.0


def saved_engines(spark: SparkSession) -> Mapping[str, Engine]:
    """Makes engines that run pipelines on Spark up to a savepoint between two batches, and go on from it."""
    return {
        f"Spark and {name} from a savepoint": partial(_run, spark, go_on)
        for name, go_on in {
            "other partitions": _on_other_partitions,
            "Python objects": _on_objects,
            "the interpreter": _in_the_interpreter,
        }.items()
    }


@dataclass(frozen=True)
class _Savepoint:
    """A savepoint of a run that was stopped.

    Attributes:
        spark: The session.
        path: Where the savepoint lies.
        folder: A folder for new checkpoints.
        clock: The clock of the run, if it had one.
        chance: Draws how the run goes on.
    """

    spark: SparkSession
    path: Path
    folder: Path
    clock: Callable[[], int] | None
    chance: random.Random


_GoOn: TypeAlias = Callable[[Pipeline, _Savepoint], PipelineResult]


def _run(spark: SparkSession, go_on: _GoOn, pipeline: Pipeline, clock: Callable[[], int] | None) -> PipelineResult:
    chance = random.Random(f"{pipeline.name}, {len(pipeline.steps)}")
    with TemporaryDirectory(prefix="windrow-saved-") as folder:
        old, path = (Path(folder, name) for name in ("old", "saved"))
        first = stopped(SparkRunner(spark, checkpoint=old, partitions=2, clock=clock), pipeline, chance.randrange(2))
        take(old, pipeline, path, spark=spark)
        return both(first, go_on(pipeline, _Savepoint(spark, path, Path(folder), clock, chance)))


def _on_other_partitions(pipeline: Pipeline, saved: _Savepoint) -> PipelineResult:
    partitions, groups = saved.chance.choice([(1, 1), (3, 1), (3, 2)])
    runner = SparkRunner(
        saved.spark,
        checkpoint=saved.folder / "partitions",
        savepoint=saved.path,
        partitions=partitions,
        key_groups_per_partition=groups,
        clock=saved.clock,
    )
    return runner.run(pipeline)


def _on_objects(pipeline: Pipeline, saved: _Savepoint) -> PipelineResult:
    runner = SparkRunner(
        saved.spark, checkpoint=saved.folder / "objects", savepoint=saved.path, columnar=False, clock=saved.clock
    )
    return _unless_refused(runner.run, pipeline, saved)


def _in_the_interpreter(pipeline: Pipeline, saved: _Savepoint) -> PipelineResult:
    if saved.clock is not None:
        return _on_other_partitions(pipeline, saved)  # a case's clock goes by numbers of batches, which begin anew here
    runner = LocalRunner(savepoint=saved.path, fast=saved.chance.random() < 0.5)
    return _unless_refused(runner.run, pipeline, saved)


def _unless_refused(run: Callable[[Pipeline], PipelineResult], pipeline: Pipeline, saved: _Savepoint) -> PipelineResult:
    """Runs a pipeline; where the state of a step cannot leave its columns, with other partitions."""
    try:
        return run(pipeline)
    except IncompatibleStateError as error:
        if "its state cannot leave its columns" not in str(error):
            raise
        return _on_other_partitions(pipeline, saved)


def stopped(runner: SparkRunner, pipeline: Pipeline, last: int) -> PipelineResult:
    """Runs a pipeline up to the end of a batch: a further one would move the clock of the case."""
    is_done, stops = threading.Event(), threading.Event()

    def stop_after(progress: PipelineProgress) -> None:
        if progress.batch >= last:
            is_done.set()
            # The batch is not done before this returns, and the gate for others is closed by then.
            assert stops.wait(_PATIENCE_SECONDS), "the gate was not closed"

    running = runner.start(pipeline, on_progress=stop_after)
    close = running._query._gate.close

    def closed(planned: Callable[[], int]) -> int:
        number = close(planned)
        stops.set()
        return number

    running._query._gate.close = closed  # type: ignore[method-assign]  # to know when it is closed
    assert is_done.wait(_PATIENCE_SECONDS), "no batch was done"
    return running.stop()
