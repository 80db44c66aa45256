"""Computes which windows slices are in where windows begin together and grow by a step.

A slice is a step. A window is known by the start of its last slice, since several windows have one start::

    length 60, step 20   slices   |0   |20  |40  |
                         windows  |-0--|
                                  |----20---|
                                  |------40------|
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from windrow_spark.columnar import Ints
from windrow_spark.columnar.windows.geometry import Slices


@dataclass(frozen=True, slots=True)
class CumulativeSlices(Slices):
    """Windows that begin together; ``size`` and ``slide`` are their step, in milliseconds."""

    length: int = field(kw_only=True)  # of the longest windows

    @property
    def windows_each(self) -> int:
        return self.length // self.slide

    def starts(self, windows: Ints) -> Ints:
        return windows - (windows - self.offset) % self.length

    def last_windows(self, slices: Ints) -> Ints:
        return self.starts(slices) + (self.length - self.slide)

    def first_windows(self, slices: Ints) -> Ints:
        return slices

    def held_by(self, slices: Ints, starts: Ints) -> tuple[Ints, Ints]:
        return np.searchsorted(slices, self.starts(starts)), np.searchsorted(slices, self.ends(starts))
