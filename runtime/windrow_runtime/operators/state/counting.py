"""Counts the windows and the timers in an operator's state, for reports."""

from __future__ import annotations

from itertools import chain

from windrow_runtime.operators.state.model import OperatorState


def windows_in(state: OperatorState) -> int:
    """Returns the number of windows with elements or state in an operator's state."""
    return sum(len(key_state.windows) for key_state in state.keys.values()) + _in_tables(state)


def timers_in(state: OperatorState) -> int:
    """Returns the number of timers in an operator's state; a window in a table, and a session, have one each."""
    return len(state.event_timers) + len(state.processing_timers) + _in_tables(state)


def _in_tables(state: OperatorState) -> int:
    tables = chain(state.tables.values(), state.fired.values())
    return sum(map(len, tables)) + len(state.session_columns) + sum(map(len, state.sessions.values())) // 3
