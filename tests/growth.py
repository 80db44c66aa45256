"""Asks whether the time of a computation grows with the number of its elements, and not with their square."""

from __future__ import annotations

from collections.abc import Callable


def assert_no_square(seconds: Callable[[int], float], few: int, times: int) -> None:
    """Compares the time for ``few`` elements with the time for ``times`` as many.

    Each is the least of three measurements, since other work on the machine only ever adds to one of them. The limit is
    a third of what a square would take, and no measurement counts as less than 0.03 s.
    """
    seconds(few // 10)
    limit = times * times / 3 * max(min(seconds(few) for _ in range(3)), 0.03)
    measurements: list[float] = []
    while not measurements or (measurements[-1] >= limit and len(measurements) < 3):
        measurements.append(seconds(few * times))
    assert min(measurements) < limit, (limit, measurements)
