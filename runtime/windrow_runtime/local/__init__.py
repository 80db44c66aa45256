"""The interpreter: runs a pipeline in process, without Spark and without Java."""

from windrow_runtime.local.runner import LocalRunner
from windrow_runtime.outputs.result import PipelineResult

__all__ = ["LocalRunner", "PipelineResult"]
