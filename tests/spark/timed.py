"""Streams whose elements have a time ``at``."""

from __future__ import annotations

from typing import TypeVar

from tests.support.records import millis
from windrow import DataStream, WatermarkStrategy

__all__ = ["timed"]

T = TypeVar("T")


def timed(stream: DataStream[T], delay: int = 0) -> DataStream[T]:
    """The elements with their times; the watermark follows the highest, with a delay in milliseconds."""
    return stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(millis(delay)),
        timestamp=lambda element: element.at,  # type: ignore[attr-defined]  # whatever the class is
    )
