"""Hypothesis strategies for streams whose elements arrive out of order; the extra ``testing`` brings Hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from hypothesis import strategies as st

from windrow.errors import InvalidArgumentError
from windrow.time import duration_millis

__all__ = ["Arrival", "disordered_streams"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Arrival(Generic[T]):
    """An element of a stream, in the place where it arrives.

    Attributes:
        value: The element.
        timestamp: Its time, in milliseconds since 1970.
    """

    value: T
    timestamp: int


def disordered_streams(
    values: st.SearchStrategy[T],
    *,
    max_out_of_orderness: timedelta,
    max_gap: timedelta = timedelta(seconds=10),
    start: int = 0,
    min_size: int = 0,
    max_size: int = 50,
) -> st.SearchStrategy[Sequence[Arrival[T]]]:
    """Returns a strategy for streams in their order of arrival, none of whose elements is late.

    An element arrives at most ``max_out_of_orderness`` of event time after its own time. A stream with
    ``WatermarkStrategy.for_bounded_out_of_orderness`` of that bound, or of a longer one, has no late element; with a
    shorter one it may have some. Failing streams shrink to few elements, in order, close to ``start``.

    Args:
        values: Draws the elements.
        max_out_of_orderness: How far an element may arrive behind the highest timestamp before it.
        max_gap: The longest time between two elements in order of time.
        start: The earliest timestamp, in milliseconds since 1970.
        min_size: The least number of elements.
        max_size: The greatest number of elements.

    Raises:
        InvalidArgumentError: If a duration is negative, or ``max_size`` is below ``min_size``.

    Example:
        >>> from datetime import timedelta
        >>> from hypothesis import given, strategies as st
        >>> @given(disordered_streams(st.integers(), max_out_of_orderness=timedelta(seconds=5)))
        ... def test_nothing_is_late(arrivals):
        ...     highest = 0
        ...     for arrival in arrivals:
        ...         assert arrival.timestamp >= highest - 5_000
        ...         highest = max(highest, arrival.timestamp)
        >>> test_nothing_is_late()
    """
    bound = _not_negative(max_out_of_orderness, "max_out_of_orderness")
    gap = _not_negative(max_gap, "max_gap")
    if not 0 <= min_size <= max_size:
        raise InvalidArgumentError(
            "the sizes of a stream are a range", given=f"{min_size} to {max_size}", expected="0 <= min_size <= max_size"
        )
    parts = st.tuples(values, st.integers(0, gap), st.integers(0, bound))

    def arrivals(drawn: list[tuple[T, int, int]]) -> Sequence[Arrival[T]]:
        # An element that arrives after another has a later moment of arrival, so its time is at most a delay behind.
        moments: list[tuple[int, Arrival[T]]] = []
        time = start
        for value, since, delay in drawn:
            time += since
            moments.append((time + delay, Arrival(value, time)))
        return [arrival for _, arrival in sorted(moments, key=lambda moment: moment[0])]

    return st.lists(parts, min_size=min_size, max_size=max_size).map(arrivals)


def _not_negative(duration: timedelta, name: str) -> int:
    millis = duration_millis(duration, name)
    if millis < 0:
        raise InvalidArgumentError(f"{name} must not be negative", given=duration)
    return millis
