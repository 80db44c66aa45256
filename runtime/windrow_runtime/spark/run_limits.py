"""Limits of a run on Spark, which tests make small.

A :class:`~windrow_runtime.spark.runner.SparkRunner` hands its limits down to whatever waits or reads by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The seconds and sizes by which a run decides."""

    end_seconds: float = 20.0  # an interrupted run waits so long for its query, or its job, before a thread ends it
    large_file_bytes: int = 32 << 20  # files from this size on are read in parts side by side


USUAL_LIMITS: Final = RunLimits()
