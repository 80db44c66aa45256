"""Runs cases through a savepoint: a run stops after some batches, and another one goes on with other partitions."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from tests.differential.live import both
from windrow import Pipeline
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.savepoint import take
from windrow_runtime.spark import PipelineProgress, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_SECONDS: Final = 120.0


def saved_engine(spark: SparkSession) -> Callable[[Pipeline, Callable[[], int] | None], PipelineResult]:
    """Makes the engine that runs pipelines on Spark with a savepoint between two batches."""

    def run(pipeline: Pipeline, clock: Callable[[], int] | None) -> PipelineResult:
        chance = random.Random(f"{pipeline.name}, {len(pipeline.steps)}")
        with TemporaryDirectory(prefix="windrow-saved-") as folder:
            old, saved, new = (Path(folder, name) for name in ("old", "saved", "new"))
            runner = SparkRunner(spark, checkpoint=old, partitions=2, clock=clock)
            first = _stopped(runner, pipeline, chance.randrange(2))
            take(old, pipeline, saved, spark=spark)
            partitions, groups = chance.choice([(1, 1), (3, 1), (3, 2)])
            runner = SparkRunner(
                spark,
                checkpoint=new,
                savepoint=saved,
                partitions=partitions,
                key_groups_per_partition=groups,
                clock=clock,
            )
            return both(first, runner.run(pipeline))

    return run


def _stopped(runner: SparkRunner, pipeline: Pipeline, last: int) -> PipelineResult:
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
