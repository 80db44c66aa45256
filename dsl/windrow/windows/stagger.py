"""Staggering: shifting the windows of each parallel instance, so that not all fire at the same moment."""

from __future__ import annotations

import random
from enum import Enum


class WindowStagger(Enum):
    """Says how the windows of a parallel instance are shifted, after Flink's ``WindowStagger``."""

    ALIGNED = "aligned"
    """Not at all."""

    RANDOM = "random"
    """By a random part of the size, uniform in ``[0, size)``."""

    NATURAL = "natural"
    """By the processing time of the first element minus the start of its unshifted window."""

    def offset(self, current_processing_time: int, size: int) -> int:
        """The shift in milliseconds for windows of ``size`` milliseconds.

        Args:
            current_processing_time: The clock in milliseconds.
            size: The length of a window in milliseconds.
        """
        if self is WindowStagger.ALIGNED:
            return 0
        if self is WindowStagger.RANDOM:
            return random.randrange(size)
        return current_processing_time % size
