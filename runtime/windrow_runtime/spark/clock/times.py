"""The time of a batch, in both domains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP

__all__ = ["NO_TIME", "BatchTime", "BatchTimes"]


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


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """The time of a batch for each keyed step.

    Attributes:
        previous: The time of the batch before. Only what precedes the watermark needs it.
        current: The time of this one.
        watermarks: Where windrow keeps the time: the watermarks of each step, of the batch before and of this one.
    """

    previous: BatchTime
    current: BatchTime
    watermarks: Mapping[str, tuple[int, int]] | None = field(default=None)

    def of(self, step: str, *, has_watermark: bool = True) -> tuple[BatchTime, BatchTime]:
        """The time of the batch before and of this one, for a step.

        Args:
            step: Its id.
            has_watermark: Whether a timestamp-assigning step is in front; otherwise only the end of the stream is seen.
        """
        if self.watermarks is not None:
            before, now = self.watermarks.get(step, (MIN_TIMESTAMP, MIN_TIMESTAMP))
            return self.previous._replace(watermark=before), self.current._replace(watermark=now)
        if has_watermark:
            return self.previous, self.current
        return _without_watermark(self.previous), _without_watermark(self.current)


def _without_watermark(time: BatchTime) -> BatchTime:
    return time if time.watermark == MAX_TIMESTAMP else time._replace(watermark=MIN_TIMESTAMP)
