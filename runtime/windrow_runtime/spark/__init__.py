"""Runs a pipeline on Spark as one streaming query.

The engine is the package ``windrow_spark``; users import its public names from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import windrow_spark

if TYPE_CHECKING:
    from windrow_runtime.metrics.health import Health
    from windrow_runtime.metrics.reports import Backlog, PipelineProgress, StepProgress
    from windrow_runtime.outputs.result import PipelineResult
    from windrow_spark.runner import RunningPipeline, SparkRunner

__all__ = ["Backlog", "Health", "PipelineProgress", "PipelineResult", "RunningPipeline", "SparkRunner", "StepProgress"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(windrow_spark, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
