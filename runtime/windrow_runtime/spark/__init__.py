"""The Spark engine: runs a pipeline as one streaming query."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windrow_runtime.operators.pipeline_result import PipelineResult
    from windrow_runtime.spark.run.progress import PipelineProgress, StepProgress
    from windrow_runtime.spark.runner import RunningPipeline, SparkRunner

__all__ = ["PipelineProgress", "PipelineResult", "RunningPipeline", "SparkRunner", "StepProgress"]

_MODULES = {
    "PipelineProgress": "windrow_runtime.spark.run.progress",
    "StepProgress": "windrow_runtime.spark.run.progress",
    "PipelineResult": "windrow_runtime.operators.pipeline_result",
    "RunningPipeline": "windrow_runtime.spark.run.running",
    "SparkRunner": "windrow_runtime.spark.runner",
}


def __getattr__(name: str) -> object:
    # Modules are imported on first use: every Python worker imports this package, and none needs the runner.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "PipelineResult":
        return getattr(import_module(_MODULES[name]), name)
    from windrow_runtime.spark.requirements import spark_required

    with spark_required():
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
