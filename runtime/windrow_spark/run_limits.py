"""Defines the limits by which a run on Spark waits and reads, which tests make small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits that a :class:`~windrow_spark.runner.SparkRunner` hands down."""

    end_seconds: float = 20.0  # an interrupted run waits so long for its query, or its job, before a thread ends it
    lease_seconds: float = 30.0  # so long others leave a checkpoint alone whose file system has no locks
    large_file_bytes: int = 32 << 20  # files from this size on are read in parts side by side


USUAL_LIMITS: Final = RunLimits()
