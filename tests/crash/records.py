"""What killed pipelines write."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Total:
    kind: str
    key: str
    value: int
