"""The workloads on Spark: what is computed, over how much, by whom. This module imports neither Spark nor Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.problems import Problem

if TYPE_CHECKING:
    from benchmarks.data import Format, Shape

__all__ = [
    "BASELINES",
    "BY_CLOCK",
    "BY_COUNT",
    "CLOCK_OBJECTS",
    "COUNT_OBJECTS",
    "DECLARED",
    "DISCARDING",
    "FOLDING",
    "GENERAL",
    "HANDWRITTEN",
    "LATENCY",
    "NATIVE",
    "OBJECTS",
    "PYFLINK",
    "PYTHON",
    "RETRACTING",
    "RETRACTING_COUNT",
    "SPARK_WORKLOADS",
    "TUNED",
    "InputSize",
    "SparkWorkload",
]

NATIVE = "native Spark SQL, defaults"
TUNED = "native Spark SQL, tuned"
DECLARED = "windrow, declared"
PYTHON = "windrow, Python functions"
BY_CLOCK = "windrow, early by the clock"
BY_COUNT = "windrow, early by count"
DISCARDING = "windrow, by the clock, discarding"
RETRACTING = "windrow, by the clock, retracting"
RETRACTING_COUNT = "windrow, by count, retracting"
OBJECTS = "windrow, declared, on objects"
CLOCK_OBJECTS = "windrow, early by the clock, on objects"
COUNT_OBJECTS = "windrow, early by count, on objects"
GENERAL = "windrow, general operator"
HANDWRITTEN = "hand-written, state by row"
FOLDING = "hand-written, folding batches"
PYFLINK = "PyFlink, thread mode"
LATENCY = "latency"
"""The name of the workload that has no batches of a size: readings come in real time; see ``benchmarks.latency``."""

BASELINES: Mapping[str, str] = {TUNED: "x tuned", HANDWRITTEN: "x by row", FOLDING: "x folding", PYFLINK: "x PyFlink"}
"""Whom the others are compared with, and what the column is called."""

_WINDROW = (DECLARED, PYTHON, GENERAL)
_FORMATS: Mapping[Format, str] = {"parquet": "Parquet", "json": "JSON lines"}


@dataclass(frozen=True, slots=True)
class InputSize:
    """A size of input.

    Attributes:
        keys: How many sensors.
        rows_per_batch: Rows of a micro-batch.
        batches: How many micro-batches.
        left_out: The contenders that would take many minutes for it, unless the run is a full one. They have no ratio
            there: a ratio across inputs would compare sizes of batches, not contenders.
    """

    keys: int
    rows_per_batch: int
    batches: int
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SparkWorkload:
    """A computation over a number of keys, on Spark.

    Attributes:
        name: What ``--only`` and the tables call it.
        title: What it computes.
        problem: The problem.
        inputs: The sizes of input, each with all its contenders, since speed depends on the size of a batch.
        contenders: In the order in which they run.
        shape: How readings fall.
        rows_per_second: How many readings there are for a second of event time.
        format: How readings are written.
    series: What grows from input to input, if that is the point: a table then has the cost of a record for each.
    """

    name: str
    title: str
    problem: Problem
    inputs: tuple[InputSize, ...]
    contenders: tuple[str, ...]
    shape: Shape = "steady"
    rows_per_second: int = 10_000
    format: Format = "parquet"
    series: str | None = None


def _both(
    name: str,
    title: str,
    problem: Problem,
    contenders: tuple[str, ...],
    *,
    shape: Shape = "steady",
    rows_per_second: int = 10_000,
    large: bool = False,
) -> tuple[SparkWorkload, SparkWorkload]:
    """The workload with few keys and with many; in large batches too, if that is wanted."""

    def workload(suffix: str, *sizes: InputSize) -> SparkWorkload:
        return SparkWorkload(
            name=f"{name}-{suffix}",
            title=f"{title}, {sizes[0].keys:,} sensors",
            problem=problem,
            inputs=sizes,
            contenders=contenders,
            shape=shape,
            rows_per_second=rows_per_second,
        )

    more = (InputSize(1_000, 1_000_000, 4, left_out=(GENERAL, FOLDING, PYFLINK)),) if large else ()
    # Fresh Python workers take some batches to be as fast as they get.
    few = workload("1k", InputSize(1_000, 250_000, 16), *more)
    # By hand each key costs, in Python; it stays where there is no native query to be compared with.
    by_hand = (FOLDING,) if NATIVE in contenders else ()
    return few, workload("100k", InputSize(100_000, 250_000, 4, left_out=by_hand))


_TEXT_FORMATS: Final[tuple[tuple[Format, str], ...]] = (("json", "JSON lines"), ("csv", "CSV"))

SPARK_WORKLOADS = (
    SparkWorkload(
        name="tumbling-1k",
        title="tumbling mean, 5 s, 1,000 sensors",
        problem="tumbling",
        inputs=(
            InputSize(1_000, 50_000, 5, left_out=(GENERAL, PYFLINK)),
            InputSize(1_000, 250_000, 8),
            InputSize(1_000, 1_000_000, 4, left_out=(HANDWRITTEN, PYFLINK)),
        ),
        contenders=(NATIVE, TUNED, *_WINDROW, HANDWRITTEN, FOLDING, PYFLINK),
    ),
    SparkWorkload(
        name="tumbling-100k",
        title="tumbling mean, 5 s, 100,000 sensors",
        problem="tumbling",
        inputs=(
            InputSize(100_000, 20_000, 4, left_out=(GENERAL, PYFLINK)),
            InputSize(100_000, 250_000, 4, left_out=(FOLDING,)),
            InputSize(100_000, 1_000_000, 4, left_out=(HANDWRITTEN, FOLDING, PYFLINK)),
        ),
        contenders=(NATIVE, TUNED, *_WINDROW, HANDWRITTEN, FOLDING, PYFLINK),
    ),
    *[
        SparkWorkload(
            name=f"tumbling-{format_}-{suffix}",
            title=f"tumbling mean, 5 s, of {lines}, {keys:,} sensors",
            problem="tumbling",
            inputs=inputs,
            contenders=(NATIVE, TUNED, DECLARED, PYTHON),
            format=format_,
        )
        for format_, lines in _TEXT_FORMATS
        for suffix, keys, inputs in (
            ("1k", 1_000, (InputSize(1_000, 250_000, 8), InputSize(1_000, 1_000_000, 4))),
            ("100k", 100_000, (InputSize(100_000, 250_000, 4),)),
        )
    ],
    # The fixed cost of a batch: what it takes beside its rows.
    *[
        SparkWorkload(
            name=f"small-{form}-{suffix}",
            title=f"tumbling mean, 5 s, small batches of {label}, {keys:,} sensors",
            problem="tumbling",
            inputs=(InputSize(keys, 2_000, 60),),
            contenders=(TUNED, DECLARED, PYTHON),
            format=form,
        )
        for form, label in _FORMATS.items()
        for suffix, keys in (("1k", 1_000), ("100k", 100_000))
    ],
    *_both("sliding", "sliding mean, 60 s by 5 s", "sliding", (NATIVE, TUNED, *_WINDROW, FOLDING, PYFLINK), large=True),
    *_both(
        "sessions",
        "sessions, gap of 30 s, count and mean",
        "sessions",
        (NATIVE, TUNED, *_WINDROW, FOLDING, PYFLINK),
        shape="turns",
        rows_per_second=5_000,
        large=True,
    ),
    *_both(
        "lateness",
        "count and mean over 5 s, 5 % of readings late, 30 s allowed, side output",
        "lateness",
        (NATIVE, TUNED, *_WINDROW, FOLDING, PYFLINK),
        shape="late",
    ),
    *_both(
        "panes",
        "the same, refined: early, on time and at each late reading",
        "panes",
        (
            *(NATIVE, TUNED, DECLARED, BY_CLOCK, BY_COUNT, DISCARDING, RETRACTING, RETRACTING_COUNT),
            *(CLOCK_OBJECTS, COUNT_OBJECTS),
        ),
        shape="late",
    ),
    *_both("intervals", "count and mean over 60 s, each 5 s of them", "intervals", (DECLARED, OBJECTS)),
    # The general operator runs Python functions here, so it is no contender of its own.
    *_both(
        "count",
        "count and mean of each hundred readings",
        "count",
        (DECLARED, PYTHON, FOLDING, PYFLINK),
        shape="skewed",
    ),
    *_both("top", "three highest values over 5 s", "top", (NATIVE, TUNED, DECLARED, PYTHON, FOLDING, PYFLINK)),
    *_both(
        "chained",
        "mean over 5 s, then the highest of these over 60 s",
        "chained",
        (NATIVE, TUNED, *_WINDROW, FOLDING, PYFLINK),
        rows_per_second=5_000,
    ),
    # A cold reading has five partners where there are few sensors, and half a one where there are many.
    *[
        SparkWorkload(
            name=f"join-{suffix}",
            title=f"interval join of two streams, 10 s, {keys:,} sensors",
            problem="join",
            inputs=(InputSize(keys, rows, batches),),
            contenders=(NATIVE, TUNED, DECLARED, PYTHON),
            shape="two",
            rows_per_second=rows_per_second,
        )
        for suffix, keys, rows, batches, rows_per_second in (
            # More rows a batch would take Spark minutes: for each it looks at all readings of the sensor.
            ("1k", 1_000, 50_000, 5, 1_000),
            ("100k", 100_000, 250_000, 4, 10_000),
        )
    ],
    SparkWorkload(
        name="records",
        title="tumbling mean, 5 s, 1,000 sensors: cost of a record as the stream gets longer",
        problem="tumbling",
        inputs=tuple([InputSize(1_000, 250_000, batches) for batches in (4, 16, 64)]),
        contenders=(TUNED, DECLARED),
        series="records",
    ),
    SparkWorkload(
        name="keys",
        title="tumbling mean, 5 s: cost of a record as keys get more",
        problem="tumbling",
        inputs=tuple([InputSize(keys, 500_000, 4) for keys in (1_000, 10_000, 100_000, 1_000_000)]),
        contenders=(TUNED, DECLARED, PYTHON),
        series="keys",
    ),
)
