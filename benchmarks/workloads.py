"""The workloads: what is computed, over how much, by whom."""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from benchmarks import interpreter
from benchmarks.interpreter import InterpreterFigure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.check import Reference
    from benchmarks.contenders.base import Contender, SinkKind
    from benchmarks.data import Dataset
    from benchmarks.measure import Timing
    from benchmarks.memory import PeakMemory

__all__ = [
    "FOLDING",
    "HANDWRITTEN",
    "INTERPRETER_WORKLOADS",
    "NATIVE",
    "SPARK_WORKLOADS",
    "WINDROW_PYTHON",
    "InputResult",
    "InputSize",
    "InterpreterResult",
    "InterpreterWorkload",
    "Run",
    "Scale",
    "SparkWorkload",
    "SparkWorkloadResult",
    "run_interpreter_workload",
    "run_spark_workload",
    "warm_up",
]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to run.

    Attributes:
        quick: Little input, to see that everything works; the figures are rough.
        full: The largest inputs as well.
        rounds: How often each contender runs over an input.
        sink: Where results of Spark queries go.
        contenders: The contenders to run, by the beginning of their names; empty for all.
    """

    quick: bool
    full: bool
    rounds: int
    sink: SinkKind
    contenders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InputSize:
    """A size of input.

    Attributes:
        rows_per_batch: Rows of a micro-batch.
        batches: How many micro-batches.
        left_out: The contenders that would take many minutes for it. They have no ratio there: a ratio across inputs
            would compare sizes of batches, not contenders.
    """

    rows_per_batch: int
    batches: int
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SparkWorkload:
    """A computation over a number of keys, on Spark.

    Attributes:
        name: What ``--only`` and the tables call it.
        title: What it computes.
        keys: How many keys.
        inputs: The sizes of input, each with all its contenders, since speed depends on the size of a batch.
        contenders: Makes each contender, by name, in the order in which they run. Functions, since they import Spark.
    """

    name: str
    title: str
    keys: int
    inputs: tuple[InputSize, ...]
    contenders: Mapping[str, Callable[[], Contender]]


@dataclass(frozen=True, slots=True)
class Run:
    """One contender over one input: all its rounds.

    Attributes:
        contender: Its name.
        timings: The time of each round.
        memory: The peak of each round; None where it cannot be read.
        loads: The load average of the machine at the end of each round.
    """

    contender: str
    timings: list[Timing] = field(default_factory=list)
    memory: list[PeakMemory | None] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    @property
    def rows_per_second(self) -> float:
        """The rows of the steady state of all rounds by its time."""
        rows = sum(timing.rows_per_batch * len(timing.batches) for timing in self.timings)
        return rows / sum(sum(timing.batches) for timing in self.timings)

    @property
    def slowest_and_fastest_batch(self) -> tuple[float, float]:
        """Rows a second of the slowest and of the fastest batch: how steady the steady state was."""
        speeds = [timing.rows_per_batch / batch for timing in self.timings for batch in timing.batches]
        return min(speeds), max(speeds)

    @property
    def first_batch(self) -> float:
        """Seconds for the first batch: the best round."""
        return min(timing.first_batch for timing in self.timings)

    @property
    def peak_memory(self) -> PeakMemory | None:
        """The peak of the round that took most."""
        return max((peak for peak in self.memory if peak), key=lambda peak: peak.workers, default=None)


@dataclass(frozen=True, slots=True)
class InputResult:
    """All contenders over one input.

    Attributes:
        rows_per_batch: Rows of a batch.
        batches: How many batches, the closing one left out.
        windows: How many windows every contender got right.
        runs: A run for each contender.
    """

    rows_per_batch: int
    batches: int
    windows: int
    runs: list[Run]


@dataclass(frozen=True, slots=True)
class SparkWorkloadResult:
    """All figures of a workload on Spark."""

    workload: SparkWorkload
    inputs: list[InputResult]


def _native() -> Contender:
    from benchmarks.contenders.native import NativeTumblingMean

    return NativeTumblingMean()


def _windrow_python() -> Contender:
    from benchmarks.contenders.windrow_python import WindrowTumblingMean

    return WindrowTumblingMean()


def _handwritten(*, folding: bool) -> Contender:
    from benchmarks.contenders.handwritten import HandwrittenTumblingMean

    return HandwrittenTumblingMean(folding=folding)


NATIVE = "native Spark SQL"
WINDROW_PYTHON = "windrow, AggregateFunction"
HANDWRITTEN = "hand-written, state by row"
FOLDING = "hand-written, folding batches"

_TUMBLING_MEAN: Mapping[str, Callable[[], Contender]] = {
    NATIVE: _native,
    WINDROW_PYTHON: _windrow_python,
    HANDWRITTEN: partial(_handwritten, folding=False),
    FOLDING: partial(_handwritten, folding=True),
}

SPARK_WORKLOADS = (
    SparkWorkload(
        name="tumbling-1k",
        title="tumbling mean, 5 s, 1,000 sensors",
        keys=1_000,
        inputs=(
            InputSize(50_000, 5),
            InputSize(200_000, 5),
            InputSize(1_000_000, 4, left_out=(HANDWRITTEN,)),
        ),
        contenders=_TUMBLING_MEAN,
    ),
    SparkWorkload(
        name="tumbling-100k",
        title="tumbling mean, 5 s, 100,000 sensors",
        keys=100_000,
        inputs=(
            InputSize(20_000, 4),
            InputSize(100_000, 3),
            InputSize(1_000_000, 4, left_out=(HANDWRITTEN, FOLDING)),
        ),
        contenders=_TUMBLING_MEAN,
    ),
)


def run_spark_workload(workload: SparkWorkload, spark: SparkSession, scale: Scale) -> SparkWorkloadResult:
    """Run the contenders in turn over each input, the smallest first.

    Raises:
        WrongResultError: If a contender's result is wrong. No figure is taken then.
        MeasurementError: If a query did not take the input in the batches that it should.
    """
    from benchmarks.data import DatasetSpec, prepare

    results: list[InputResult] = []
    for size in workload.inputs[:1] if scale.quick else workload.inputs:
        wanted = [n for n in workload.contenders if _is_wanted(n, scale) and n not in size.left_out]
        if wanted:
            contenders = {name: workload.contenders[name]() for name in wanted}
            spec = DatasetSpec(workload.keys, size.rows_per_batch, 3 if scale.quick else size.batches)
            results.append(_run_input(prepare(spec), contenders, spark, scale))
    return SparkWorkloadResult(workload, results)


def _is_wanted(name: str, scale: Scale) -> bool:
    return not scale.contenders or any(name.startswith(wanted) for wanted in scale.contenders)


def _run_input(
    dataset: Dataset, contenders: Mapping[str, Contender], spark: SparkSession, scale: Scale
) -> InputResult:
    from benchmarks.check import Reference

    reference = Reference(dataset)
    runs = [Run(name) for name in contenders]
    for number in range(scale.rounds):
        for contender, run in zip(contenders.values(), runs, strict=True):
            _say(f"{dataset.spec.name}: {run.contender}, round {number + 1} of {scale.rounds}")
            _run_contender(contender, dataset, reference, run, spark, scale)
    spec = dataset.spec
    return InputResult(spec.rows_per_batch, spec.batches, reference.windows, runs)


def _run_contender(
    contender: Contender,
    dataset: Dataset,
    reference: Reference,
    run: Run,
    spark: SparkSession,
    scale: Scale,
) -> None:
    from benchmarks.contenders.base import Job
    from benchmarks.measure import BatchWatch, timing
    from benchmarks.memory import PeakMemorySampler

    gc.collect()
    _use_fresh_workers(spark)
    with TemporaryDirectory(prefix="windrow-bench-") as scratch, BatchWatch(spark) as watch:
        with PeakMemorySampler() as sampler:
            results = contender.run(Job(spark, dataset, scale.sink, Path(scratch)))
        reference.check(results)
        run.timings.append(timing(watch.batches(), dataset.spec))
        run.memory.append(sampler.peak)
        run.loads.append(round(os.getloadavg()[0], 2))


def warm_up(spark: SparkSession) -> None:
    """Run one small query that does not count, so that the first contender does not pay for the start of the JVM."""
    from benchmarks.contenders.base import Job
    from benchmarks.contenders.native import NativeTumblingMean
    from benchmarks.data import DatasetSpec, prepare

    dataset = prepare(DatasetSpec(keys=100, rows_per_batch=10_000, batches=3))
    with TemporaryDirectory(prefix="windrow-bench-") as scratch:
        NativeTumblingMean().run(Job(spark, dataset, "parquet", Path(scratch)))


_fresh = itertools.count()


def _use_fresh_workers(spark: SparkSession) -> None:
    # Spark keeps Python workers apart by their environment. A new value gives each run fresh ones, so that no
    # contender finds the imports of another done, and the memory of the workers is its own.
    spark.sparkContext.environment["WINDROW_BENCHMARK_RUN"] = str(next(_fresh))


# The interpreter


class MeasureInterpreter(Protocol):
    """Measures one size of input."""

    def __call__(self, elements: int, rounds: int, *, fast: bool) -> InterpreterFigure:
        """The figure for so many elements, with faster forms or with the general operator."""
        ...


@dataclass(frozen=True, slots=True)
class InterpreterWorkload:
    """A computation in the interpreter, over growing input.

    Attributes:
        name: What ``--only`` and the tables call it.
        title: What it computes.
        measure: Measures one size.
    """

    name: str
    title: str
    measure: MeasureInterpreter


INTERPRETER_WORKLOADS = (
    InterpreterWorkload(
        "interpreter-tumbling-1k",
        "tumbling mean, 5 s, 1,000 sensors: some 50 elements a window",
        partial(interpreter.tumbling, keys=1_000),
    ),
    InterpreterWorkload(
        "interpreter-tumbling-100k",
        "tumbling mean, 5 s, 100,000 sensors: most windows hold one element",
        partial(interpreter.tumbling, keys=100_000),
    ),
    InterpreterWorkload(
        "interpreter-sessions",
        "sessions, gap of 2 s, count, 1,000 sensors: some 25 elements a session",
        interpreter.sessions,
    ),
)


@dataclass(frozen=True, slots=True)
class InterpreterResult:
    """All figures of a workload in the interpreter."""

    workload: InterpreterWorkload
    figures: list[InterpreterFigure]


def run_interpreter_workload(workload: InterpreterWorkload, scale: Scale) -> InterpreterResult:
    """Measure a workload for each size, with the forms that steps take by themselves and with the general operator.

    Raises:
        WrongResultError: If a result is wrong.
    """
    sizes = [20_000, 100_000] if scale.quick else [100_000, 1_000_000]
    if scale.full:
        sizes.append(10_000_000)
    figures: list[InterpreterFigure] = []
    for fast in (True, False):
        for size in sizes:
            # Large inputs take long enough to be steady.
            rounds = 1 if size > 1_000_000 else 3
            _say(f"{workload.name}: {size:,} elements, {'fast' if fast else 'general'}")
            figures.append(workload.measure(size, rounds, fast=fast))
    return InterpreterResult(workload, figures)


def _say(what: str) -> None:
    print(f"... {what}", file=sys.stderr, flush=True)
