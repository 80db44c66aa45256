"""Encodes windrow's watermarks and timers as the timestamps that Spark takes.

Spark keeps the watermark in milliseconds, never below 0, and 0 means that there is none yet; its timestamps are
microseconds in 64 bits. Windrow's watermarks may be negative, and the highest one ends the stream. So times are shifted
into the upper part of Spark's range: 0 stays "none", the topmost value is the end of the stream, and between them lie
the years from 144,000 before to 148,000 after 1970. Times beyond are clamped, which delays a watermark and never
hastens it; a timer beyond waits for the end of the stream.
"""

from __future__ import annotations

from typing import Final

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP

__all__ = ["END_OF_STREAM", "decode_watermark", "encode_timer", "encode_watermark"]

END_OF_STREAM: Final = (2**63 - 1) // 1000
"""Spark's watermark (in ms) for the end of the stream: the latest timestamp that Spark has."""

_SHIFT: Final = END_OF_STREAM // 2


def encode_watermark(watermark: int) -> int | None:
    """The watermark as Spark's milliseconds; None where there is none, which does not move Spark's watermark."""
    if watermark == MAX_TIMESTAMP:
        return END_OF_STREAM
    shifted = watermark + _SHIFT
    return min(shifted, END_OF_STREAM - 1) if shifted >= 1 else None


def decode_watermark(spark_millis: int) -> int:
    """The watermark that Spark reports, as windrow's."""
    if spark_millis <= 0:
        return MIN_TIMESTAMP
    if spark_millis >= END_OF_STREAM:
        return MAX_TIMESTAMP
    return spark_millis - _SHIFT


def encode_timer(time: int) -> int:
    """The expiry, in Spark's milliseconds, of a timer that is due when the watermark reaches ``time``."""
    return min(max(time + _SHIFT, 1), END_OF_STREAM)
