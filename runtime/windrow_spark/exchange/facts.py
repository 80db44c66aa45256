"""Defines the facts of steps: numbers that workers report with every batch, beside the counters of users' functions.

They are sent in the same rows as counters, as (step id, name, increment), where the name of a counter is a string and
that of a fact a number. The driver adds them up; of watermarks it takes the highest.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Final, TypeAlias

from windrow_runtime.operators.state.model import OperatorState

Count: TypeAlias = "tuple[str, str | int, int]"
"""Step id, name, increment."""

RECORDS_IN: Final = 1
RECORDS_OUT: Final = 2
LATE: Final = 3
OPEN_WINDOWS: Final = 4
TIMERS: Final = 5
STATE_BYTES: Final = 6
WATERMARK: Final = 7
ROWS_READ: Final = 8
"""The rows that Spark gave the stage of a source, including those that name files and ranges; 0: nothing to read."""


def facts_of(step: str, counts: Counter[int]) -> list[Count]:
    """Returns the facts of a step that are not zero, and resets them."""
    facts: list[Count] = [(step, name, number) for name, number in counts.items() if number]
    counts.clear()
    return facts


def records_in(records: Counter[str]) -> list[Count]:
    """Returns how many elements went to each step, and resets the numbers."""
    counts: list[Count] = [(step, RECORDS_IN, number) for step, number in records.items()]
    records.clear()
    return counts


def windows_in(state: OperatorState) -> int:
    """Returns the number of windows with elements or state in an operator's state."""
    return sum(len(key_state.windows) for key_state in state.keys.values()) + _in_tables(state)


def timers_in(state: OperatorState) -> int:
    """Returns the number of timers in an operator's state; a window in a table, and a session, have one each."""
    return len(state.event_timers) + len(state.processing_timers) + _in_tables(state)


def _in_tables(state: OperatorState) -> int:
    tables = chain(state.tables.values(), state.fired.values())
    return sum(map(len, tables)) + len(state.session_columns) + sum(map(len, state.sessions.values())) // 3
