"""The Spark engine: runs a pipeline as one streaming query."""

from windrow_runtime.operators.result import PipelineResult
from windrow_runtime.spark.runner import RunningPipeline, SparkRunner

__all__ = ["PipelineResult", "RunningPipeline", "SparkRunner"]
