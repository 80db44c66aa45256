"""The time of a batch, in both domains."""

from __future__ import annotations

from typing import Final, NamedTuple

from windrow.time import MIN_TIMESTAMP

__all__ = ["NO_TIME", "BatchTime"]


class BatchTime(NamedTuple):
    """The time under which a batch runs.

    Attributes:
        watermark: The watermark, in milliseconds.
        now: The clock, in milliseconds. Spark keeps it with the batch, so that a batch that is run again sees the same.
    """

    watermark: int
    now: int


NO_TIME: Final = BatchTime(MIN_TIMESTAMP, MIN_TIMESTAMP)
"""Before the first batch."""
