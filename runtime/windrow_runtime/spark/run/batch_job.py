"""Runs a pipeline over bounded sources as one Spark batch job: no streaming query, no state store, no checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from windrow.errors import UnsupportedOperationError
from windrow.plan import Pipeline
from windrow.time import now_millis
from windrow_runtime.inputs.checks import check_bounded
from windrow_runtime.operators.pipeline_result import PipelineResult
from windrow_runtime.operators.secrets import secrets_of
from windrow_runtime.operators.topology import Topology
from windrow_runtime.operators.watermarks import clock_millis
from windrow_runtime.outputs import closing_outputs, open_outputs
from windrow_runtime.outputs.sink_folders import check_folders, claim_folders
from windrow_runtime.spark.batch_number import JOB_BATCH
from windrow_runtime.spark.faults.spark_errors import engine_errors
from windrow_runtime.spark.key_groups import KeyGroups
from windrow_runtime.spark.lowering import Lowered, forms_of, lower_batch, steps_by_clock
from windrow_runtime.spark.run.progress_keeper import ProgressKeeper
from windrow_runtime.spark.run.query import result_of, writer_sink
from windrow_runtime.spark.run.reporter import OnProgress, Reporter
from windrow_runtime.spark.sinks.batch_writer import BatchSetup, BatchWriter, driver_sinks
from windrow_runtime.spark.sinks.by_spark import refuse_written
from windrow_runtime.spark.sinks.results import MemoryResults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def batch_job(
    spark: SparkSession,
    topology: Topology,
    groups: KeyGroups,
    clock: Callable[[], int] | None,
    *,
    allow_pickled: bool,
    columnar: bool = True,
) -> Lowered:
    """Makes the batch job of a pipeline whose sources are bounded, and whose steps do not wait for the clock."""
    check_bounded(topology.sources, "a batch job reads sources that come to an end")
    for step in steps_by_clock(topology):
        raise UnsupportedOperationError(
            "a step waits for the clock, and a batch job has one instant",
            given=step.node.describe(),
            expected="windows, triggers and timers in event time",
            where=step.where,
            hint="run(pipeline)",
        )
    forms = forms_of(topology) if columnar else {}
    now = clock_millis(clock or now_millis)
    return lower_batch(spark, topology, groups, now, forms, allow_pickled=allow_pickled)


def run_job(pipeline: Pipeline, lowered: Lowered, on_progress: OnProgress | None = None) -> PipelineResult:
    """Run a job, and write its sinks as batch 0."""
    written = writer_sink(lowered)
    if written is not None:
        _, step, sink = written
        raise UnsupportedOperationError(
            "a DataStreamWriter writes streams only",
            given=sink.describe(),
            where=step.where,
            hint="to_dataframe(stream, batch=True).write writes with every writer of Spark's",
        )
    results = MemoryResults()
    query = lowered.job
    sinks = list(lowered.sinks.values())
    check_folders(sinks, query, begins=True)
    refuse_written(lowered.frame.sparkSession, sinks)
    outputs = open_outputs(driver_sinks(sinks), query)
    with closing_outputs(outputs):
        claim_folders(sinks, query, begins=True)
        progress = ProgressKeeper(lowered.watched, None)
        setup = BatchSetup(lowered.sinks, lowered.classes, results, query, lowered.parts, progress=progress)
        write = BatchWriter(setup, outputs)
        with engine_errors(f"pipeline {pipeline.name!r}", secrets_of(pipeline.steps)):
            write(lowered.frame, JOB_BATCH)
    report = results.latest_report()
    if report is not None:
        Reporter(pipeline.name, lowered.topology, on_progress).report(report)
    return result_of(pipeline, lowered, results)
