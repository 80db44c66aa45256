"""Encodes the time of a batch, watermark and clock, as the timestamps that Spark takes.

Spark keeps the watermark in milliseconds, never below 0, and 0 stands for none yet; its timestamps are
microseconds in 64 bits. Windrow's watermarks may be negative, and the highest one ends the stream. So times are shifted
into the upper part of Spark's range: 0 stays "none", the topmost value is the end of the stream, and between them lie
the years from 144,000 before to 148,000 after 1970. Times beyond are clamped, which delays a watermark and never
hastens it; a timer beyond waits for the end of the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP

END_OF_STREAM: Final = (2**63 - 1) // 1000
"""Spark's watermark (in ms) for the end of the stream: the latest timestamp that Spark has."""

_SHIFT: Final = END_OF_STREAM // 2


def encode_watermark(watermark: int) -> int | None:
    """Returns the watermark in Spark's milliseconds; None if there is none, which does not move Spark's watermark."""
    if watermark == MAX_TIMESTAMP:
        return END_OF_STREAM
    shifted = watermark + _SHIFT
    return min(shifted, END_OF_STREAM - 1) if shifted >= 1 else None


def decode_watermark(spark_millis: int) -> int:
    """Returns windrow's watermark for the one that Spark reports."""
    if spark_millis <= 0:
        return MIN_TIMESTAMP
    if spark_millis >= END_OF_STREAM:
        return MAX_TIMESTAMP
    return spark_millis - _SHIFT


def encode_timer(time: int) -> int:
    """Returns the expiry, in Spark's milliseconds, of a timer that is due when the watermark reaches ``time``."""
    return min(max(time + _SHIFT, 1), END_OF_STREAM)


class BatchTime(NamedTuple):
    """The time under which a batch runs: its watermark and its clock, in milliseconds.

    Spark keeps the clock with the batch, so that a batch that is run again sees the same.
    """

    watermark: int
    now: int


NO_TIME: Final = BatchTime(MIN_TIMESTAMP, MIN_TIMESTAMP)
"""The time before the first batch."""


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """The time of the batch before, which elements that precede the watermark need, and of this one.

    Where windrow keeps the watermarks, those of each keyed step are given, in the batch before and in this one.
    """

    previous: BatchTime
    current: BatchTime
    watermarks: Mapping[str, tuple[int, int]] | None = None

    def of(self, step: str, *, has_watermark: bool = True) -> tuple[BatchTime, BatchTime]:
        """Returns the time of the batch before and of this one, for a step.

        A step that has no timestamp-assigning step in front of it sees the end of the stream alone.
        """
        if self.watermarks is not None:
            before, now = self.watermarks.get(step, (MIN_TIMESTAMP, MIN_TIMESTAMP))
            return self.previous._replace(watermark=before), self.current._replace(watermark=now)
        if has_watermark:
            return self.previous, self.current
        return _without_watermark(self.previous), _without_watermark(self.current)


def _without_watermark(time: BatchTime) -> BatchTime:
    return time if time.watermark == MAX_TIMESTAMP else time._replace(watermark=MIN_TIMESTAMP)
