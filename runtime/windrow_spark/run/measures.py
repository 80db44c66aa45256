"""Measures how far a bounded run on Spark is, from its reports and from Spark's count of tasks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from windrow_runtime.bar import Measure
from windrow_runtime.inputs.checks import rows_there
from windrow_runtime.operators.topology import Topology
from windrow_spark.sinks.batch_reports import Results
from windrow_spark.sources.scanner import scanner_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RunMeasure:
    """Measures one run; called by one thread.

    ``begins`` says whether the run reads its sources from their begin, so that what they have is what it will read;
    ``is_job`` whether it reads it all in one batch.
    """

    def __init__(
        self, topology: Topology, results: Results, spark: SparkSession, *, begins: bool, is_job: bool = False
    ) -> None:
        self._sources = [step.id for step in topology.sources]
        self._results = results
        self._spark = spark
        self._rows_total = rows_there(topology.sources) if begins else None
        batches = max(scanner_of(step).known_batches for step in topology.sources) if begins else math.inf
        self._batches_total = 1 if is_job else None if math.isinf(batches) else int(batches)
        self._rows = 0
        self._batches = 0
        self._newest = -1
        self._watermark: int | None = None

    def __call__(self) -> Measure:
        for report in self._results.reports(self._newest):
            self._newest = report.batch
            self._batches += 1
            self._rows += sum(report.steps[source].records_in for source in self._sources)
            watermarks = [step.watermark for step in report.steps.values() if step.watermark is not None]
            self._watermark = min(watermarks, default=None)
        tasks, tasks_total = _tasks(self._spark)
        return Measure(
            self._rows, self._rows_total, self._batches, self._batches_total, tasks, tasks_total, self._watermark
        )


def _tasks(spark: SparkSession) -> tuple[int, int]:
    """Returns how many tasks of the running job are done, and how many it has.

    Nothing is known over Spark Connect, between two jobs, and where several jobs or queries run. That the jobs of a
    group are not asked for is on purpose: Spark gives all of a run, one call for each.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return 0, 0
    tracker = context.statusTracker()
    active = tracker.getActiveJobsIds()
    if len(active) != 1 or len(spark.streams.active) > 1:
        return 0, 0
    job = tracker.getJobInfo(active[0])
    stages = [] if job is None else [tracker.getStageInfo(stage) for stage in job.stageIds]
    infos = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in infos), sum(stage.numTasks for stage in infos)


def has_own_bar(spark: SparkSession | None) -> bool:
    """Returns whether Spark shows a bar of its own for this session, which is drawn over the row of the cursor."""
    context = getattr(spark, "sparkContext", None)
    return context is not None and context.getConf().get("spark.ui.showConsoleProgress", "false").lower() == "true"
