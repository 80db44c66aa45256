"""Makes the contender of a name for a problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql import DataFrame

from benchmarks.contenders import (
    handwritten,
    handwritten_spans,
    handwritten_windows,
    joining,
    native,
    windrow_declared,
    windrow_panes,
    windrow_python,
)
from benchmarks.contenders.base import Contender, SparkQuery
from benchmarks.contenders.windrow_run import WindrowJoin, WindrowPlan
from benchmarks.problems import Problem
from benchmarks.workloads import (
    BY_CLOCK,
    BY_COUNT,
    CLOCK_OBJECTS,
    COUNT_OBJECTS,
    DECLARED,
    DISCARDING,
    FOLDING,
    GENERAL,
    HANDWRITTEN,
    NATIVE,
    OBJECTS,
    PYTHON,
    RETRACTING,
    RETRACTING_COUNT,
    TUNED,
)

__all__ = ["contender"]

_NATIVE: Mapping[Problem, Callable[[DataFrame], DataFrame]] = {
    "tumbling": native.tumbling,
    "sliding": native.sliding,
    "sessions": native.sessions,
    "lateness": native.late,
    "panes": native.late,
    "top": native.top,
    "chained": native.chained,
}
_CONTENDERS: Mapping[Problem, Mapping[str, Contender]] = {
    "tumbling": {
        DECLARED: WindrowPlan(windrow_declared.tumbling),
        PYTHON: WindrowPlan(windrow_python.tumbling),
        GENERAL: WindrowPlan(partial(windrow_python.tumbling, general=True)),
        HANDWRITTEN: SparkQuery(handwritten.tumbling),
        FOLDING: SparkQuery(handwritten.folding),
    },
    "sliding": {
        DECLARED: WindrowPlan(windrow_declared.sliding),
        PYTHON: WindrowPlan(windrow_python.sliding),
        GENERAL: WindrowPlan(partial(windrow_python.sliding, general=True)),
        FOLDING: SparkQuery(handwritten_spans.sliding),
    },
    "sessions": {
        DECLARED: WindrowPlan(windrow_declared.sessions),
        PYTHON: WindrowPlan(windrow_python.sessions),
        GENERAL: WindrowPlan(partial(windrow_python.sessions, general=True)),
        FOLDING: SparkQuery(handwritten_spans.sessions),
    },
    "lateness": {
        DECLARED: WindrowPlan(windrow_declared.lateness),
        PYTHON: WindrowPlan(windrow_python.lateness),
        GENERAL: WindrowPlan(partial(windrow_python.lateness, general=True)),
        FOLDING: SparkQuery(handwritten_windows.lateness, handwritten_windows.split_late),
    },
    "panes": {
        DECLARED: WindrowPlan(windrow_panes.on_time),
        BY_CLOCK: WindrowPlan(windrow_panes.by_clock),
        BY_COUNT: WindrowPlan(windrow_panes.by_count),
        DISCARDING: WindrowPlan(windrow_panes.discarding, windrow_panes.added_up),
        RETRACTING: WindrowPlan(windrow_panes.retracting, windrow_panes.netted),
        RETRACTING_COUNT: WindrowPlan(windrow_panes.retracting_by_count, windrow_panes.netted),
        CLOCK_OBJECTS: WindrowPlan(windrow_panes.by_clock, columnar=False),
        COUNT_OBJECTS: WindrowPlan(windrow_panes.by_count, columnar=False),
    },
    "intervals": {
        DECLARED: WindrowPlan(windrow_declared.intervals),
        OBJECTS: WindrowPlan(windrow_declared.intervals, columnar=False),
    },
    "count": {
        DECLARED: WindrowPlan(windrow_declared.count),
        PYTHON: WindrowPlan(windrow_python.count),
        FOLDING: SparkQuery(handwritten_windows.count),
    },
    "top": {
        DECLARED: WindrowPlan(windrow_declared.top),
        PYTHON: WindrowPlan(windrow_python.top),
        FOLDING: SparkQuery(handwritten_windows.top),
    },
    "join": {
        NATIVE: joining.NativeJoin(has_settings=False),
        TUNED: joining.NativeJoin(has_settings=True),
        DECLARED: WindrowJoin(joining.declared),
        PYTHON: WindrowJoin(joining.python),
    },
    "chained": {
        DECLARED: WindrowPlan(windrow_declared.chained),
        PYTHON: WindrowPlan(windrow_python.chained),
        GENERAL: WindrowPlan(partial(windrow_python.chained, general=True)),
        FOLDING: SparkQuery(handwritten_spans.chained),
    },
}


def contender(problem: Problem, name: str) -> Contender:
    """The contender."""
    if name in {NATIVE, TUNED} and problem in _NATIVE:
        return SparkQuery(_NATIVE[problem], has_settings=name == TUNED)
    return _CONTENDERS[problem][name]
