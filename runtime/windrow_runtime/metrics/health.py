"""Defines how a running pipeline is, for people and for probes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from windrow.errors import WindrowError
from windrow_runtime.metrics.reports import Backlog

RunState: TypeAlias = Literal["running", "failed", "ended"]


@dataclass(frozen=True, slots=True)
class Health:
    """How a pipeline is at one moment.

    Attributes:
        pipeline: The name of the pipeline.
        state: ``"running"``, also while it drains; ``"failed"``; or ``"ended"``, if it was stopped or drained.
        is_ready: Whether it runs, and has asked its sources for the first time: what the checkpoint holds is read, and
            the sources answer.
        batch: The number of the newest batch that the sinks have; None before the first one of this run.
        batch_age_seconds: How long ago that batch ended, by the runner's clock. A pipeline whose sources have nothing
            new makes no batches, so that it grows then, too.
        lag_ms: How far the watermark was behind at the end of that batch, in milliseconds, the highest of all steps.
            None where there is no watermark.
        backlog: What waits in the sources behind the newest batch, by step id. Sources that do not tell it are left
            out.
        last_error: Why it has failed; None if it has not.
    """

    pipeline: str
    state: RunState
    is_ready: bool
    batch: int | None = None
    batch_age_seconds: float | None = None
    lag_ms: int | None = None
    backlog: Mapping[str, Backlog] = field(default_factory=dict)
    last_error: WindrowError | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the pipeline runs; the process of one that does not should be started again."""
        return self.state == "running"
