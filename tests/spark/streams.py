"""How plans of these tests begin: the timestamps, keys and windows of elements that have an ``at`` and a ``key``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.support.records import millis
from windrow import DataStream, KeyedStream, WatermarkStrategy, WindowedStream, from_source
from windrow.sources import JsonFileSource
from windrow.windows import TimeWindow, TumblingEventTimeWindows

__all__ = ["files_of", "keyed", "stamped", "tumbling"]

# Any in this module: elements of every type; their times are milliseconds or datetimes.
T = TypeVar("T")


def files_of(folder: Path, kind: type[T]) -> DataStream[T]:
    """Reads files of JSON lines, one in a batch."""
    return from_source(JsonFileSource(folder, kind, files_per_batch=1))


def stamped(
    stream: DataStream[T], behind: int | None = None, *, at: Callable[[Any], Any] = lambda element: element.at
) -> DataStream[T]:
    """Assigns timestamps; elements come in order, or so many milliseconds out of it."""
    strategy: WatermarkStrategy[Any] = WatermarkStrategy.for_monotonous_timestamps()
    if behind is not None:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(millis(behind))
    return stream.assign_timestamps_and_watermarks(strategy, timestamp=at)


def keyed(stream: DataStream[T], behind: int | None = None) -> KeyedStream[T, Any]:
    """The same by key."""
    return stamped(stream, behind).key_by(lambda element: element.key)  # type: ignore[attr-defined]  # any with a key


def tumbling(stream: DataStream[T], size: int, behind: int | None = None) -> WindowedStream[T, Any, TimeWindow]:
    """Windows of so many milliseconds over it."""
    return keyed(stream, behind).window(TumblingEventTimeWindows.of(millis(size)))
