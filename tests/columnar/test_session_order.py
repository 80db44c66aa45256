"""The order of what a session on columns holds: that in which the general operator adds and merges it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from windrow.windows import TimeWindow
from windrow_runtime.operators.windows.merging import add_session
from windrow_spark.columnar.windows.sessions import _contents_in_order


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
    #  gap 10   |40 |20 |0     the latest comes first, until elements at 30 and 10 join them
    count = 20_000
    apart = [20 * number for number in reversed(range(count))]
    starts = np.array([*apart, *(stamp - 10 for stamp in apart[:-1])])
    found = _contents_in_order(list(range(len(starts))), starts, starts + 10)
    # What has been joined was born first, so the next session stands behind it, and then the element that joins both.
    assert found == [0, *(row for number in range(1, count) for row in (number, count + number - 1))]
