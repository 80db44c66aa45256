"""The order of what a session on columns holds: that in which the general operator adds and merges it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from windrow.windows import TimeWindow
from windrow_runtime.columnar.windows.sessions import _contents_in_order
from windrow_runtime.operators.windows.general import add_session


def as_the_general_operator(windows: list[tuple[int, int]]) -> list[int]:
    """Rows in the order in which sessions hold them, which stand in the order of their births."""
    live: list[TimeWindow] = []
    held: dict[TimeWindow, list[int]] = {}
    for row, (start, end) in enumerate(windows):
        into, merges = add_session(live, TimeWindow(start, end))
        for merge in merges:
            held[merge.into] = [member for source in merge.sources for member in held.pop(source)]
        held.setdefault(into, []).append(row)
    return [row for window in live for row in held[window]]


@given(st.lists(st.integers(0, 400), max_size=40), st.integers(1, 30))
def test_elements_stand_as_the_general_operator_has_them(stamps: list[int], gap: int) -> None:
    windows = [(stamp, stamp + gap) for stamp in stamps]
    starts, ends = np.array([it[0] for it in windows]), np.array([it[1] for it in windows])
    assert _contents_in_order(list(range(len(windows))), starts, ends) == as_the_general_operator(windows)


def test_twenty_thousand_sessions_that_join_backwards_are_put_in_order_at_once() -> None:
    count, gap = 20_000, 10
    apart = [20 * number for number in reversed(range(count))]
    between = [stamp + 10 for stamp in apart]
    starts = np.array([*apart, *between])
    found = _contents_in_order(list(range(2 * count)), starts, starts + gap)
    assert sorted(found) == list(range(2 * count))
    # Its session was born first, and so what others hold stands behind it.
    assert found[0] == 0
