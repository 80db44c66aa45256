"""Sessions that are kept behind their end, on columns, against the general operator."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import cycle, product
from typing import Any

import pyarrow as pa
import pytest

from tests.budget import for_a_night, seeds
from tests.columnar.engine import Element, at, by_key, millis, run, told
from tests.columnar.planning import column_form
from tests.columnar.window_steps import TINY, Build, step
from tests.working_sets import small_working_sets
from windrow import aggregates as agg
from windrow.time import MAX_TIMESTAMP
from windrow.windows import EventTimeSessionWindows
from windrow_spark.columnar.kernels.choice import kernel_for
from windrow_spark.columnar.windows.session_places import TimeLine
from windrow_spark.columnar.windows.sessions import SessionOperator
from windrow_spark.columnar.windows.step_windows import Sessions
from windrow_spark.storage.tuning import ROW_PAGES, StateTuning

# Any in this module: results of every type.


def sessions(gap: int, lateness: timedelta, *members: Any, late: bool = False) -> Build:
    """Key, start, end and what else is asked for, of sessions with lateness."""
    function: Any = agg.combine(agg.key(), agg.window_start(), agg.window_end(), *members)
    return step(EventTimeSessionWindows.with_gap(millis(gap)), function, lateness=lateness, late=late)


def test_an_element_fires_its_session_unless_that_reaches_ahead() -> None:
    # Gap 10, lateness 40. A batch runs under a watermark 81 ms behind the highest timestamp before it.
    #
    #   watermark 50      5    14     22      30     44     54
    #   fired             |------18|          |-------45|
    #   14                |-----------24|                             fires: 3 elements
    #   22                |--------------------------45|              fires, both in one: 6
    #   41                |------------------------------51|          fires, with an end of 50 + 1: 7
    #   44                |---------------------------------54|       waits for 53
    #   2              |--------------------------------------54|     waits with it
    #   watermark 53                                                  fires: 9
    #   watermark 92                 |------30|                       fires, as it is still there: 10
    #   watermark 93                                                  is cleaned up
    batches = [
        [at(5), at(8), at(30), at(35), at(131, "clock")],
        # With the lateness, the windows of the other keys last until 50 and 51.
        [*map(at, (14, 22, 41, 44, 2)), at(1, "late"), at(2, "not late"), at(134, "clock")],
        [at(173, "clock")],
        [at(20), at(174, "clock")],
        [at(20)],
    ]
    build = sessions(10, millis(40), agg.count(), late=True)
    engine, wanted, _ = run(build, batches, column_form, late=True)
    found = by_key(engine.results)
    assert found["k"] == [
        ("k", 5, 18, 2),
        ("k", 30, 45, 2),
        ("k", 5, 24, 3),
        ("k", 5, 45, 6),
        ("k", 5, 51, 7),
        ("k", 2, 54, 9),
        ("k", 2, 54, 10),
    ]
    assert found["not late"] == [("not late", 2, 12, 1)]
    assert engine.late == [at(1, "late"), at(20)]
    assert found == by_key(wanted[0])
    assert told(engine.late) == told(wanted[1])
    assert set(engine.records.values()) == {None}


def test_what_is_kept_for_ever_fires_once_when_the_stream_ends() -> None:
    batches = [[at(5), at(500)], [at(1_000)], [], [at(9), at(40)]]
    engine, (expected,), dropped = run(sessions(10, timedelta.max, agg.count()), batches, column_form)
    assert by_key(engine.results) == by_key(expected)
    assert Counter(engine.results) == Counter(
        [("k", 5, 15, 1), ("k", 500, 510, 1), ("k", 5, 19, 2), ("k", 40, 50, 1), ("k", 1_000, 1_010, 1)]
    )
    assert dropped == engine.counted["late_records_dropped"] == 0


def scattered(chance: random.Random, keys: list[str]) -> Iterator[list[Element]]:
    """Small batches around a time that creeps and jumps; elements come up to 430 ms behind it."""
    now = chance.randrange(-500, 500)
    for _ in range(30):
        now += chance.choice([0, 0, 5, 40, 60, 100, 600])
        yield [
            Element(
                chance.choice(keys),
                now - chance.choice([0, 0, 40, 120, 400]) + chance.randrange(-30, 30),
                chance.choice([None, chance.randrange(100)]),
                chance.choice([None, chance.random()]),
                chance.choice("abc"),
            )
            for _ in range(chance.choice([0, 2, 12, 25]))
        ]


def bridges(results: list[tuple[Any, ...]]) -> int:
    """How many results are of sessions in which lie two that had fired apart from each other."""
    found = 0
    for place, (key, start, end, *_) in enumerate(results):
        inside = [r for r in results[:place] if r[0] == key and start <= r[1] and r[2] <= end]
        found += any(one[2] < other[1] for one in inside for other in inside)
    return found


LATENESS = (millis(1), millis(60), millis(250), timedelta(days=10**8), timedelta.max)
MEMBERS: tuple[Any, ...] = (
    agg.count(),
    agg.sum(lambda e: e.number),
    agg.mean(lambda e: e.level),
    agg.stddev(lambda e: e.number),
    agg.min(lambda e: e.level),
    agg.max(lambda e: e.text),
    agg.count_distinct(lambda e: e.number),
)


@pytest.mark.parametrize(
    ("lateness", "late"),
    for_a_night([*product(LATENESS, (False, True))], [*zip(LATENESS, cycle((True, False)), strict=False)]),
)
def test_elements_in_any_order(lateness: timedelta, late: bool) -> None:
    build = sessions(15, lateness, *MEMBERS, late=late)
    bridged = came_late = 0
    for seed in (*seeds(2), 3):
        chance = random.Random(seed)
        keys = [f"key {number}" for number in range(40 if seed == 3 else 3)]
        batches = [*scattered(chance, keys)]
        engine, wanted, dropped = run(build, batches, column_form, crash_at=seed % 6, late=late, tuning=TINY)
        assert by_key(engine.results) == by_key(wanted[0])
        if late:
            assert told(engine.late) == told(wanted[1])
        assert engine.counted["late_records_dropped"] == dropped
        bridged += bridges(engine.results)
        came_late += dropped + len(engine.late)
    if lateness < timedelta(seconds=1):
        assert came_late > 2
    if lateness > millis(1):
        assert bridged >= 2


def test_sessions_are_due_when_they_fire_and_when_they_go() -> None:
    #   0          10        20                   40                  60
    #   |-----first|                              cleaned up at 49
    #              |---second|                                        cleaned up at 59
    def due(lateness: int, watermark: int) -> int:
        operator = SessionOperator(Sessions(10, lateness), kernel_for(agg.count(), lambda _: None), pa.string())
        rows = pa.RecordBatch.from_arrays(
            [pa.array(["first", "second"]), pa.array([0, 10]), pa.array([10, 20]), pa.array([1, 1])],
            schema=operator.schema,
        )
        return operator.next_time(watermark, rows)

    found = {watermark: due(40, watermark) for watermark in (8, 9, 18, 19, 48, 49, 58)}
    assert found == {8: 9, 9: 19, 18: 19, 19: 49, 48: 49, 49: 59, 58: 59}
    assert {watermark: due(MAX_TIMESTAMP, watermark) for watermark in (9, 19)} == {9: 19, 19: MAX_TIMESTAMP}


def test_a_time_line_takes_what_a_window_touches() -> None:
    #   0    5    10   15   20   25
    #   |-a--|    |-b--|    |-c--|
    line: TimeLine[str] = TimeLine()
    for start, held in ((10, "b"), (0, "a"), (20, "c")):
        line.put(start, start + 5, held)
    assert line.take(6, 9) == (6, 9, [])
    assert line.take(26, 30) == (26, 30, [])
    assert line.take(5, 9) == (0, 9, ["a"])
    assert line.take(12, 20) == (10, 25, ["b", "c"])
    assert line.contents == []


def in_order(gap: int, lateness: int = 0) -> Build:
    """What depends on the order in which elements come and sessions merge."""
    return sessions(
        gap,
        millis(lateness),
        agg.collect_list(lambda e: e.number),
        agg.first(lambda e: e.text),
        agg.last(lambda e: e.level),
        agg.min_by(lambda e: e.text, lambda e: e.at),
        agg.top_k(2, lambda e: e.text, lambda e: e.at),
        agg.count(),
    )


def test_contents_of_sessions_stand_in_the_order_in_which_these_were_born() -> None:
    # Gap 10: two sessions grow in turn until an element joins them; a third one, of a later batch, joins all of it.
    first = [at(moment, number=number) for number, moment in enumerate((0, 30, 5, 8, 38, 15, 20))]
    later = [at(70, number=10), at(60, number=11), at(48, number=12), at(55, number=13)]
    ran = run(in_order(10), [first, later], column_form)
    assert ran.engine.results == ran.expected[0]
    assert [result[3] for result in ran.engine.results] == [[0, 2, 3, 5, 1, 4, 6, 12, 10, 11, 13]]


@pytest.mark.parametrize("lateness", [0, 60, 400])
@pytest.mark.parametrize("are_small", [False, True])
def test_aggregates_that_depend_on_order_have_it_in_sessions(are_small: bool, lateness: int) -> None:
    small = replace(ROW_PAGES, inline_bytes=100, small=100, dense=300, hot_keys=small_working_sets(2_000))
    pages = small if are_small else ROW_PAGES
    merged = 0
    for seed in seeds(2):
        chance = random.Random(seed)
        inputs = [
            [
                at(150 * number + chance.randrange(-160, 150), chance.choice("abcd"), chance.randrange(1000))
                for _ in range(chance.choice([0, 5, 30, 60]))
            ]
            for number in range(10)
        ]
        build = in_order(chance.choice([3, 8, 20]), lateness)
        ran = run(build, inputs, column_form, crash_at=seed % 5, tuning=replace(StateTuning(), row_pages=pages))
        assert by_key(ran.engine.results) == by_key(ran.expected[0])
        assert ran.engine.counted["late_records_dropped"] == ran.dropped
        merged += sum(result[-1] > 8 for result in ran.expected[0])
    assert merged > 2
