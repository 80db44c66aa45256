"""Many sessions of one key are searched by halves, with the results of a look at each of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operators.streams import millis
from windrow import from_source
from windrow.time import MAX_TIMESTAMP
from windrow.windows import EventTimeSessionWindows
from windrow_runtime.operators.windows import merging, session_loop
from windrow_runtime.operators.windows.session_order import SessionOrder
from windrow_runtime.testing import PushSource, StreamHarness

MOVES = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9)), max_size=60)


def run(moves: list[tuple[int, int]], *, fast: bool, late: int, lists: bool) -> list[object]:
    source = PushSource(str)
    windows = from_source(source).key_by(lambda text: "key").window(EventTimeSessionWindows.with_gap(millis(4)))
    kept = windows.allowed_lateness(millis(late))
    stream = kept.apply(lambda key, window, texts: ["".join(texts)]) if lists else kept.reduce(lambda a, b: a + b)
    found: list[object] = []
    with StreamHarness(stream, source, explains=not fast) as harness:
        for number, (at, what) in enumerate(moves):
            harness.process_element(chr(64 + number), timestamp=at)
            if what == 0:
                harness.process_watermark(at - 100)
            elif what == 1:
                harness.snapshot_restore()
            found.append(harness.take_values())
        harness.process_watermark(MAX_TIMESTAMP)
        return [*found, harness.take_values(), harness.counter("late_records_dropped")]


@settings(max_examples=60)
@given(MOVES, st.booleans(), st.sampled_from([0, 30]), st.booleans())
def test_a_search_by_halves_finds_what_a_look_at_each_finds(
    moves: list[tuple[int, int]], fast: bool, late: int, lists: bool
) -> None:
    expected = run(moves, fast=fast, late=late, lists=lists)
    with pytest.MonkeyPatch.context() as patch:
        for module in (merging, session_loop):
            patch.setattr(module, "MANY", 0)
        assert run(moves, fast=fast, late=late, lists=lists) == expected


def test_few_of_many_sessions_are_looked_at() -> None:
    sessions = [(start * 10, start * 10 + 3) for start in range(10_000)]
    order, looks = SessionOrder(1), 0

    def start_of(place: int) -> int:
        nonlocal looks
        looks += 1
        return sessions[place][0]

    def met(window: tuple[int, int]) -> list[int]:
        return order.met("key", sessions, start_of, lambda place: sessions[place][1], window)

    assert met((50_000, 50_001)) == [5_000]
    looks = 0
    assert met((77_003, 77_020)) == [7_700, 7_701, 7_702]
    sessions.append((4, 8))
    assert met((2, 5)) == [0, 10_000]
    del sessions[3]
    order.gone("key", 3)
    assert met((30, 35)) == []
    assert met((40, 41)) == [3]
    assert looks < 100
