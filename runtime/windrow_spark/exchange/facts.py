"""Defines the facts of steps: numbers that workers report with every batch, beside the metrics of users' functions.

They are sent in the same rows as counters, as (step id, name, increment), where the name of a counter is a string and
that of a fact a number. The driver adds them up; of watermarks it takes the highest, of timers the earliest, and of the
rows of a key group the highest and the sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeAlias

from windrow_runtime.metrics.step_metrics import Metric

Count: TypeAlias = "tuple[str, str | int, Metric]"
"""Step id, name, and an increment, the value of a gauge, or what a histogram has counted."""

Fact: TypeAlias = "tuple[str, str | int, int]"
"""Step id, name and increment of a fact, or of a counter of records that were lost."""

RECORDS_IN: Final = 1
RECORDS_OUT: Final = 2
LATE: Final = 3
OPEN_WINDOWS: Final = 4
TIMERS: Final = 5
STATE_BYTES: Final = 6
WATERMARK: Final = 7
ROWS_READ: Final = 8
"""The rows that Spark gave the stage of a source, including those that name files and ranges; 0: nothing to read."""

GROUP_ROWS: Final = 9
"""The rows that one key group took: the driver compares the groups."""

NEXT_TIMER: Final = 10
"""When the next event timer of a step in one key group is due: the driver takes the earliest."""


def facts_of(step: str, counts: Counter[int]) -> list[Count]:
    """Returns the facts of a step that are not zero, and resets them."""
    facts: list[Count] = [(step, name, number) for name, number in counts.items() if number]
    counts.clear()
    return facts


def earliest_timers(facts: Iterable[Fact]) -> dict[str, int]:
    """Returns when the next event timer of each step is due, by step id."""
    earliest: dict[str, int] = {}
    for step, name, time in facts:
        if name == NEXT_TIMER:
            earliest[step] = min(time, earliest.get(step, time))
    return earliest


def records_in(records: Counter[str]) -> list[Count]:
    """Returns how many elements went to each step, and resets the numbers."""
    counts: list[Count] = [(step, RECORDS_IN, number) for step, number in records.items()]
    records.clear()
    return counts
