"""Runs the workloads on Spark: the contenders in turn, in one session, each result checked."""

from __future__ import annotations

import gc
import itertools
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from benchmarks.answers import Answer, answer
from benchmarks.check import check
from benchmarks.contenders.base import Job
from benchmarks.contenders.catalogue import contender
from benchmarks.contenders.flink_process import run_pyflink
from benchmarks.data import Dataset, DatasetSpec, prepare
from benchmarks.errors import MeasurementError, WrongResultError
from benchmarks.measure import BatchWatch, timing
from benchmarks.memory import PeakMemorySampler
from benchmarks.problems import Problem
from benchmarks.results import InputResult, Run, SparkWorkloadResult
from benchmarks.scale import Scale
from benchmarks.workloads import (
    CLOCK_OBJECTS,
    COUNT_OBJECTS,
    FOLDING,
    GENERAL,
    HANDWRITTEN,
    NATIVE,
    OBJECTS,
    PYFLINK,
    InputSize,
    SparkWorkload,
)

__all__ = ["Warm", "run_spark_workload", "use_fresh_workers", "warm_up"]

# PyFlink has no batches, so its speed does not depend on their size. It begins with four of them, since readings are
# too late from the third one on, and gets more until the start of its job is a small part of the job's time.
_PYFLINK_ROWS_PER_BATCH = 50_000
_PYFLINK_BATCHES = 4
_PYFLINK_QUICK_ROWS_PER_BATCH = 5_000
_PYFLINK_START_SHARE = 0.05
_PYFLINK_MARGIN = 1.3
_PYFLINK_MOST_BATCHES = 64
_QUICK_BATCHES = 3
_QUICK_ROWS_PER_BATCH = 20_000
# The JVM compiles what Spark runs for each batch (planning, scheduling, state) over a hundred batches: until then
# its compiler takes as much of the processors as the query. Such batches need few rows for that. Where a batch takes
# seconds all the same, the work is in Python, which is as fast as it gets after some of them.
_WARM_BATCHES = 120
_WARM_SECONDS = 60
_WARM_BATCHES_PER_QUERY = 10
_WARM_ROWS_PER_BATCH = 8_000
# One of their batches takes longer than several of the others: they need no more to be as fast as they get.
_SLOW = (GENERAL, OBJECTS, CLOCK_OBJECTS, COUNT_OBJECTS, HANDWRITTEN, FOLDING)
_SLOW_BATCHES = 5

Warm = set[tuple[Problem, str]]
"""The contenders that have run for long enough in this session, each by its problem."""


def run_spark_workload(workload: SparkWorkload, spark: SparkSession, scale: Scale, warm: Warm) -> SparkWorkloadResult:
    """Run the contenders in turn over each input, the smallest first.

    Args:
        workload: The workload.
        spark: The session.
        scale: How much to run.
        warm: The contenders that need no warming up; those that have been warmed up here are added.

    Raises:
        WrongResultError: If a contender's result is wrong. No figure is taken then.
        MeasurementError: If a query did not take the input in the batches that it should.
    """
    results: list[InputResult] = []
    for size in workload.inputs[:1] if scale.quick else workload.inputs:
        wanted = [
            name for name in workload.contenders if scale.wants(name) and (scale.full or name not in size.left_out)
        ]
        if scale.pyflink is None:
            wanted = [name for name in wanted if name != PYFLINK]
        if wanted:
            spec = _spec(workload, size, scale)
            if not scale.quick:
                cold = [name for name in wanted if (workload.problem, name) not in warm]
                _warm_up_contenders(workload, spec, cold, spark, scale)
                warm.update((workload.problem, name) for name in wanted)
            results.append(_run_input(workload, spec, wanted, spark, scale))
    return SparkWorkloadResult(workload, results)


def _spec(workload: SparkWorkload, size: InputSize, scale: Scale) -> DatasetSpec:
    rows, batches = size.rows_per_batch, size.batches
    if scale.quick:
        rows, batches = min(rows, _QUICK_ROWS_PER_BATCH), _QUICK_BATCHES
    return DatasetSpec(
        size.keys, rows, batches, shape=workload.shape, rows_per_second=workload.rows_per_second, format=workload.format
    )


def _run_input(
    workload: SparkWorkload, spec: DatasetSpec, wanted: list[str], spark: SparkSession, scale: Scale
) -> InputResult:
    few = replace(spec, batches=min(spec.batches, _SLOW_BATCHES))
    specs = {name: few if name in _SLOW else spec for name in wanted}
    answers = {chosen: answer(workload.problem, prepare(chosen)) for chosen in {spec, *specs.values()}}
    runs = {name: Run(name, chosen.rows) for name, chosen in specs.items()}
    for number in range(scale.rounds):
        for name, run in runs.items():
            print(
                f"... {workload.name}, {spec.name}: {name}, round {number + 1} of {scale.rounds}",
                file=sys.stderr,
                flush=True,
            )
            gc.collect()
            with _named(workload, name):
                if name == PYFLINK:
                    runs[name] = _run_pyflink(workload.problem, spec, run, scale)
                else:
                    dataset = prepare(specs[name])
                    _run_contender(workload.problem, name, dataset, answers[specs[name]], run, spark, scale)
            runs[name].loads.append(round(os.getloadavg()[0], 2))
    right = answers[spec]
    return InputResult(spec.keys, spec.rows_per_batch, spec.batches, right.windows, right.late, list(runs.values()))


@contextmanager
def _named(workload: SparkWorkload, name: str) -> Iterator[None]:
    """Say of an error whose it is."""
    try:
        yield
    except (WrongResultError, MeasurementError) as error:
        raise type(error)(f"{workload.name}, {name}: {error}") from error


def _warm_up_contenders(
    workload: SparkWorkload, spec: DatasetSpec, wanted: list[str], spark: SparkSession, scale: Scale
) -> None:
    """Run each of Spark's contenders until the JVM has compiled what they do, or for a minute and a query."""
    dataset = prepare(replace(spec, rows_per_batch=_WARM_ROWS_PER_BATCH, batches=_WARM_BATCHES_PER_QUERY))
    for name in wanted:
        if name != PYFLINK:
            print(f"... {workload.name}: {name}, warming up", file=sys.stderr, flush=True)
            end = time.monotonic() + _WARM_SECONDS
            for _ in range(_WARM_BATCHES // _WARM_BATCHES_PER_QUERY):
                with TemporaryDirectory(prefix="windrow-bench-") as scratch:
                    contender(workload.problem, name).run(Job(spark, dataset, scale.sink, Path(scratch)))
                if time.monotonic() > end:
                    break


def _run_contender(
    problem: Problem, name: str, dataset: Dataset, right: Answer, run: Run, spark: SparkSession, scale: Scale
) -> None:
    use_fresh_workers(spark)
    with TemporaryDirectory(prefix="windrow-bench-") as scratch, BatchWatch(spark) as watch:
        with PeakMemorySampler() as sampler:
            outcome = contender(problem, name).run(Job(spark, dataset, scale.sink, Path(scratch)))
        check(outcome, right)
        run.timings.append(timing(watch.batches(), dataset.spec))
        run.memory.append(sampler.peak)


def _run_pyflink(problem: Problem, spec: DatasetSpec, run: Run, scale: Scale) -> Run:
    assert scale.pyflink is not None
    rows = _PYFLINK_QUICK_ROWS_PER_BATCH if scale.quick else _PYFLINK_ROWS_PER_BATCH
    batches = _PYFLINK_BATCHES
    while True:
        given = replace(spec, rows_per_batch=rows, batches=batches)
        dataset = prepare(given)
        found = run_pyflink(problem, dataset, scale.pyflink)
        check(found.outcome, answer(problem, dataset))
        share = found.start_seconds / sum(found.timing.batches)
        if scale.quick or share < _PYFLINK_START_SHARE:
            break
        if batches >= _PYFLINK_MOST_BATCHES:
            raise MeasurementError(f"the start of the job is {share:.1%} of its time over {given.rows:,} rows")
        wanted = math.ceil(batches * share / _PYFLINK_START_SHARE * _PYFLINK_MARGIN)
        batches = min(max(wanted, 2 * batches), _PYFLINK_MOST_BATCHES)
    run.timings.append(found.timing)
    run.memory.append(found.memory)
    seconds = sum(found.timing.batches)
    conditions = f"{given.rows / 1e6:g} M rows of text, no batches; {seconds:.0f} s, start of the job {share:.1%}"
    return replace(run, rows=given.rows, version=found.version, conditions=conditions)


def warm_up(spark: SparkSession) -> None:
    """Run one small query that does not count, so that the first contender does not pay for the start of the JVM."""
    dataset = prepare(DatasetSpec(keys=100, rows_per_batch=10_000, batches=3))
    with TemporaryDirectory(prefix="windrow-bench-") as scratch:
        contender("tumbling", NATIVE).run(Job(spark, dataset, "parquet", Path(scratch)))


_fresh = itertools.count()


def use_fresh_workers(spark: SparkSession) -> None:
    """Make the next run start Python workers of its own.

    Spark keeps them apart by their environment. A new value gives each run fresh ones, so that no contender finds the
    imports of another done, and the memory of the workers is its own.
    """
    spark.sparkContext.environment["WINDROW_BENCHMARK_RUN"] = str(next(_fresh))
