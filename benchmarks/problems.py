"""What is computed: the problems that contenders solve, and their constants."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "BOUND_MS",
    "COUNT",
    "EARLY_COUNT",
    "EARLY_MS",
    "GAP_MS",
    "JOIN_MS",
    "LATENESS_MS",
    "LONG_WINDOW_MS",
    "SECOND_MS",
    "SLIDE_MS",
    "TOP",
    "WINDOW_MS",
    "Problem",
]

Problem = Literal[
    "tumbling", "sliding", "sessions", "lateness", "panes", "intervals", "count", "top", "chained", "join"
]
"""What is computed.

- ``tumbling``: the mean of each sensor over 5 s.
- ``sliding``: the mean over 60 s, each 5 s.
- ``sessions``: count and mean of sessions with a gap of 30 s.
- ``lateness``: count and mean over 5 s, kept for 30 s more; what is later is counted.
- ``panes``: the same, refined: results before the end of a window as well, and again for late readings.
- ``intervals``: count and mean over 60 s, each 5 s of them, and at the end.
- ``count``: count and mean of each hundred readings of a sensor.
- ``top``: the three highest values over 5 s.
- ``chained``: the mean over 5 s, and the highest of these over 60 s.
- ``join``: each reading of a stream with those of its sensor in another one that follow within 10 s.
"""

WINDOW_MS = 5_000
SECOND_MS = 1_000  # the windows of ``latency``
LONG_WINDOW_MS = 60_000  # of sliding windows, and of the second ones of a chain
SLIDE_MS = 5_000
GAP_MS = 30_000
LATENESS_MS = 30_000
JOIN_MS = 10_000
BOUND_MS = 1_000  # how far the watermark stays behind the highest timestamp
COUNT = 100
EARLY_COUNT = 10
EARLY_MS = 500
TOP = 3
