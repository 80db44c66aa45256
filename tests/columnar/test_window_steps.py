"""Windows on columns give what the general operator gives, over random batches, small pages and batches run twice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from tests.budget import seeded
from tests.columnar.engine import FEW, MANY, Element, Keyed, at, batches, by_key, millis, run
from tests.columnar.planning import column_form
from tests.columnar.window_steps import (
    ALIGNED,
    BY_HUNDREDS,
    BY_NIGHT,
    CLOCK,
    IN_TIME,
    OF_ELEMENTS,
    PLANS,
    TIMED,
    TINY,
    TO_END,
    UNORDERED,
    WHOLE_WINDOW,
    Build,
    Plan,
    agree,
    counted,
    planned,
    sessions,
    sliding,
    step,
    tumbling,
    tumbling_clock,
)
from windrow import DataStream
from windrow import aggregates as agg
from windrow.errors import AggregateOverflowError, CheckpointError, UnsupportedOperationError
from windrow.panes import TimestampCombiner
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    Trigger,
    after_any,
    after_count,
    after_processing_time,
    after_watermark,
    always,
    repeatedly,
)
from windrow.triggers.composable import AfterCount
from windrow.windows.spec import UNFIRED
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.state import RowContents, dump_rows
from windrow_spark.columnar.step_operator import StateRows, Times
from windrow_spark.columnar.windows.column_operator import Fired
from windrow_spark.columnar.windows.counted import CountOperator
from windrow_spark.columnar.windows.panes import PanedOperator
from windrow_spark.columnar.windows.timed import TimedOperator
from windrow_spark.storage.tuning import PortionTuning, StateTuning

# Any in this module: results of every type, and pyarrow has no types.


@pytest.mark.parametrize(("name", "seed"), [case for case in seeded(PLANS) if case[0] not in BY_NIGHT])
def test_columns_give_what_the_general_operator_gives(name: str, seed: int) -> None:
    plan = PLANS[name]
    inputs = [*batches(random.Random(seed), plan.batches), *[[]] * 12]
    ran = run(plan.build, inputs, column_form, crash_at=seed, late=plan.late, tuning=TINY)
    agree(ran, plan, exactly=name.startswith("elements"))
    assert len(ran.expected[0]) > plan.least
    assert (set(ran.engine.records.values()) != {None}) == plan.stays
    assert (ran.engine.counted[UNFIRED] > 0) == plan.waits
    assert plan.folds in {None, ran.engine.folded}
    if name in IN_TIME and plan.late:
        assert len(ran.engine.late) > 5


@pytest.mark.parametrize("aggregate", [UNORDERED, OF_ELEMENTS], ids=["unordered", "of elements"])
@pytest.mark.parametrize("lateness", [0, 25])
def test_windows_of_many_slices_that_follow_each_other_take_what_they_have_in_common(
    lateness: int, aggregate: Any
) -> None:
    many = planned(sliding(200, 6), aggregate, lateness=lateness)
    inputs = [batch[::8] for batch in batches(random.Random(4), MANY)]
    ran = run(many.build, inputs, column_form, crash_at=2, tuning=TINY)
    agree(ran, many)
    assert len(ran.expected[0]) > 1_000
    assert set(ran.engine.records.values()) == {None}


YEAR = 365 * 24 * 3_600_000
OF_ANY_SHAPE = ("tumbling", "tumbling with lateness and late output", "sliding", "sessions", "sessions with lateness")
MANY_FIRINGS = ("count of one", "count that slides by one", "all so far at each")
AT_INTERVALS = ("intervals", "intervals, purged", "late intervals", "all time at intervals", "sliding intervals")
INPUTS: dict[str, tuple[tuple[str, ...], list[list[Element]]]] = {
    "empty batches": (OF_ANY_SHAPE, [[], [at(5)], [], []]),
    "a batch that is all late": (OF_ANY_SHAPE, [[at(1_000)], [at(1_000)], [at(3), at(4)], [at(5)]]),
    "one hot key": (OF_ANY_SHAPE, [[*map(at, range(0, 3_000, 2))], [*map(at, range(3_000, 4_000))]]),
    "years apart": (OF_ANY_SHAPE, [[at(-40 * YEAR), at(0), at(1)], [at(3 * YEAR), at(1)], [at(80 * YEAR)]]),
    "years apart in one batch": (OF_ANY_SHAPE, [[at(number * YEAR, str(number % 7)) for number in range(50)]]),
    "64 bits": (OF_ANY_SHAPE, [[at(1, number=2**62), at(2, number=2**62 - 1), at(3, number=-(2**63))]]),
    "nothing but None": (OF_ANY_SHAPE, [[at(1, number=None), at(2, number=None)]]),
    "many firings": (
        MANY_FIRINGS,
        [[at(moment, number=moment) for moment in range(start, start + 700)] for start in (0, 700)],
    ),
    "firings behind the watermark": (
        AT_INTERVALS,
        [[at(150)], [at(10_000)], [at(9_950), at(9_990), at(9_905, "other")], [at(10_001)], [at(10_060)], []],
    ),
}


@pytest.mark.parametrize(("case", "name"), [(case, name) for case, (names, _) in INPUTS.items() for name in names])
def test_odd_input_gives_what_the_general_operator_gives(case: str, name: str) -> None:
    plan = PLANS[name]
    ran = run(plan.build, INPUTS[case][1], column_form, late=plan.late)
    agree(ran, plan)
    assert ran.expected[0]
    assert plan.stays or set(ran.engine.records.values()) == {None}


BY_CLOCK = [name for name in TIMED if "clock" in name]


@pytest.mark.parametrize("name", BY_CLOCK)
def test_elements_that_wait_for_the_clock_when_the_stream_ends_are_counted(name: str) -> None:
    inputs = [*batches(random.Random(1), PLANS[name].batches)]
    ran = run(PLANS[name].build, inputs, column_form, crash_at=2, tuning=TINY)
    agree(ran, PLANS[name])
    # Firings at short intervals have output all.
    assert ran.engine.counted[UNFIRED] > 0 or any(word in name for word in ("intervals", "all time", "last", "purged"))


@pytest.mark.parametrize(
    "name", ["count that slides", "clock", "sessions by the clock", "all time by the clock", "counted on the clock"]
)
def test_elements_need_no_timestamps(name: str) -> None:
    inputs = [*batches(random.Random(6), PLANS[name].batches)]
    ran = run(PLANS[name].build, inputs, column_form, crash_at=2, stamped=False)
    agree(ran, PLANS[name])
    assert len(ran.expected[0]) > 30


BY_THREES = replace(TINY, portions=PortionTuning(elements=3, large_elements=3, pane_rows=3))
IN_PORTIONS: dict[StateTuning, list[str]] = {
    StateTuning(portions=PortionTuning(elements=3, runs=5)): [
        *("count of seven", "count that slides", "all so far", "counted in windows that slide")
    ],
    StateTuning(portions=PortionTuning(firings=7)): [
        *("intervals", "intervals of one", "sliding intervals", "all time at intervals", "intervals of the clock")
    ],
    BY_THREES: [
        *("early count, retracting", "late each, retracting", "both clocks, retracting", "sliding panes"),
        *("late lost, retracting", "panes of all time, retracting"),
    ],
}


@pytest.mark.parametrize(
    ("name", "tuning"), [pytest.param(name, each, id=name) for each, names in IN_PORTIONS.items() for name in names]
)
def test_elements_and_firings_are_taken_some_at_a_time(name: str, tuning: StateTuning) -> None:
    inputs = [*batches(random.Random(4), FEW), *[[]] * 12][:: 4 if tuning.portions.firings == 7 else 1]
    agree(run(PLANS[name].build, inputs, column_form, late=PLANS[name].late, tuning=tuning), PLANS[name])


def test_firings_at_intervals_copy_few_large_states_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    build = step(tumbling(100), agg.collect_list(lambda e: e.number), ContinuousEventTimeTrigger.of(millis(2)))
    sizes: list[int] = []
    make = TimedOperator._firings

    def measured(*given: Any) -> Iterator[Fired]:
        for fired in make(*given):
            sizes.append(len(fired))
            yield fired

    monkeypatch.setattr(TimedOperator, "_firings", measured)
    tuning = StateTuning(portions=PortionTuning(large_elements=7))
    engine, (wanted,), _ = run(build, [[at(5), at(6)], [at(500)], []], column_form, tuning=tuning)
    assert engine.results == wanted
    assert len(sizes) > 6
    assert max(sizes) <= 8


def test_results_are_in_the_order_of_the_elements_that_fire() -> None:
    def build(keyed: Keyed) -> DataStream[Any]:
        return keyed.count_window(2).aggregate(agg.combine(agg.key(), agg.last(lambda e: e.number)))

    chance = random.Random(4)
    inputs = [[at(1, chance.choice("abcdefgh"), number) for number in range(50)] for _ in range(4)]
    engine, (wanted,), _ = run(build, inputs, column_form)
    assert len(wanted) > 90
    # Those of one key group and batch; groups follow each other.
    in_order = sum(one[1] < other[1] for one, other in pairwise(engine.results))
    assert in_order >= len(engine.results) - 2 * len(inputs)
    assert by_key(engine.results) == by_key(wanted)


def test_windows_before_1970_that_are_kept_for_ever_close_in_order_of_their_ends() -> None:
    # The first late element of each window is the pane on time; the second one waits for the closing pane.
    inputs = [[at(500)], [at(-50), at(-50), at(-350), at(-350), at(450), at(450)]]
    trigger = after_watermark(late=after_count(3))
    build = step(BY_HUNDREDS, WHOLE_WINDOW, trigger, mode="accumulating", lateness=timedelta.max)
    engine, (wanted, *_), _ = run(build, inputs, column_form)
    assert engine.results == wanted
    assert [found[2] for found in wanted] == [-7, -307, 493, 593, -307, -7]


def test_a_pane_comes_when_a_timer_of_the_other_condition_fires_that_was_set_in_the_batch_before() -> None:
    # Both early conditions wait for 25 ms. At 30 ms the late one of the second window has a timer at 20 ms, the time
    # at which it was set; that of the first window has fired at 20 ms, when nothing was ready.
    trigger = after_watermark(early=ALIGNED, late=after_processing_time(millis(0)))
    build = step(BY_HUNDREDS, TO_END, trigger, mode="accumulating")
    engine, (wanted, *_), _ = run(build, [[], [at(10)], [at(150)], [], []], column_form)
    assert engine.results == wanted
    assert [found[1] for found in wanted] == [193, 93, 93, 193]


TWO_LARGE = [[at(1, number=2**62), at(2, number=2**62)]]
LATE_SUM = step(sessions(10), agg.sum(lambda e: e.number), lateness=90)
OVERFLOWS: dict[str, tuple[Build, list[list[Element]]]] = {
    "tumbling": (PLANS["tumbling"].build, TWO_LARGE),
    "sliding": (PLANS["sliding"].build, TWO_LARGE),
    "sessions": (PLANS["sessions"].build, TWO_LARGE),
    "counted": (counted(2).build, TWO_LARGE),
    "late": (LATE_SUM, [[at(5, number=2**62), at(131, "clock")], [at(9, number=2**62)]]),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_sum_beyond_64_bits_is_an_error_that_names_the_step(name: str) -> None:
    with pytest.raises(AggregateOverflowError, match=r"does not fit into 64 bits") as caught:
        run(*OVERFLOWS[name], column_form, alone=True)
    assert "window_steps.py:" in str(caught.value.where)


def test_timestamps_beyond_the_reach_of_columns_are_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"too far away for columns(.|\n)*give timestamps in millisec"):
        run(PLANS["tumbling"].build, [[at(2**62)]], column_form, alone=True)


PANE = {"key": "k", "start": 93, "number": 0, "phase": 0, "fresh": 1, "count": 0, "due": 5, "asked": 5, "since": 1}
PANE_STATE = {"s0": 1, "s1": 1, "s2": 0, "s3": 7, "s4": 0.5, "shown": (1, 6, 0.5), "has_shown": 1}
# Any: values of all columns of a row.
ROWS: dict[str, tuple[Plan, type[Any], dict[str, Any], list[dict[str, Any]]]] = {
    "counted": (
        counted(4),
        CountOperator,
        {"key": "k", "start": 0, "until": 3},
        [{"until": until} for until in (0, -1, 2**63 - 1, None)],
    ),
    "timed": (
        PLANS["intervals"],
        TimedOperator,
        {"key": "k", "start": 0, "next": 7, "filled": 1, "number": 0},
        [
            *({"next": None}, {"filled": 2}, {"filled": -1}, {"next": -(2**63)}, {"next": 100}, {"start": None}),
            {"number": None},
        ],
    ),
    "paned": (
        PLANS["late each, retracting"],
        PanedOperator,
        PANE | PANE_STATE,
        [
            *({"phase": 4}, {"phase": -1}, {"fresh": 2}, {"count": -1}, {"start": None}, {"due": None}),
            *({"number": -1}, {"since": 2**63 - 1}, {"has_shown": None}, {"has_shown": 7}),
        ],
    ),
}


@pytest.mark.parametrize(
    ("kind", "damage"),
    [pytest.param(kind, each, id=f"{kind}, {each}") for kind, (*_, damages) in ROWS.items() for each in damages],
)
def test_damaged_rows_are_refused(kind: str, damage: dict[str, Any]) -> None:
    plan, of, row, _ = ROWS[kind]
    form = run(plan.build, [], column_form).engine.form
    assert isinstance(form, ColumnarForm)
    assert isinstance(form.operator, of)
    contents = RowContents(form.operator.schema, lambda rows: (0, None), form.operator.check)
    loaded = contents.load(dump_rows(pa.RecordBatch.from_pylist([row], form.operator.schema)))
    if isinstance(form.operator, PanedOperator):
        (fired,) = form.operator.advance(StateRows(loaded.rows), 0, Times(500, 1))
        assert isinstance(fired, Fired)
        assert fired.results.to_pylist() == [{"_1": 1, "_2": 6, "_3": 0.5}, {"_1": 1, "_2": 7, "_3": 0.5}]
    with pytest.raises(CheckpointError, match="stored state"):
        contents.load(dump_rows(pa.RecordBatch.from_pylist([row | damage], form.operator.schema)))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("early count", "each element may fire a pane"),
        ("early clock, ordered", "the result depends on the order of arrival"),
        ("sliding panes by the clock, each late", "late for some of their windows"),
        ("late clock", "closing panes come in the order in which windows began"),
    ],
)
def test_why_elements_are_not_folded(name: str, reason: str) -> None:
    form = run(PLANS[name].build, [], column_form).engine.form
    assert isinstance(form, ColumnarForm)
    assert reason in str(form.describe())


class Own(AfterCount):
    """May do anything."""


def earliest(keyed: Keyed) -> DataStream[Any]:
    # Any: the stages of windows that fire panes.
    windows: Any = keyed.window(BY_HUNDREDS).trigger(after_watermark(early=after_count(2))).accumulating()
    found: DataStream[Any] = windows.timestamp_combiner(TimestampCombiner.EARLIEST).aggregate(agg.count())
    return found


def fired_by(trigger: Trigger[Any, Any]) -> Build:
    return step(BY_HUNDREDS, WHOLE_WINDOW, trigger, mode="accumulating")


DISTINCT: Any = agg.combine(agg.key(), agg.count_distinct(lambda e: e.number))
TWICE, THRICE = after_watermark(early=after_count(2)), repeatedly(after_count(3))
AT_EACH = "is asked at each element"
DECLINED: dict[str, tuple[Build, str]] = {
    "sessions": (step(sessions(20), WHOLE_WINDOW, TWICE, mode="accumulating"), "may merge at each element"),
    "any trigger": (fired_by(repeatedly(after_any(after_count(3), CLOCK))), AT_EACH),
    "always, which the end of a window asks as well": (fired_by(always()), AT_EACH),
    "a class of the user's": (fired_by(repeatedly(Own(3))), AT_EACH),
    "a class of the user's among parts": (fired_by(after_watermark(early=Own(3))), AT_EACH),
    "once": (fired_by(after_count(3)), AT_EACH),
    "timestamps of elements": (earliest, "the timestamps of results are those of elements"),
    "panes of a state that outgrows its result": (
        step(BY_HUNDREDS, DISTINCT, TWICE, mode="accumulating"),
        "would copy all values",
    ),
    "counts of a state that outgrows its result": (
        step(tumbling(100), agg.count_distinct(lambda e: e.number), CountTrigger.of(1)),
        "copy all values that its window holds",
    ),
    "the clock's windows": (
        step(tumbling_clock(50, 0), WHOLE_WINDOW, THRICE, mode="accumulating"),
        "windows in processing time",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_columns_cannot_follow_is_declined(name: str) -> None:
    build, reason = DECLINED[name]
    with pytest.raises(DeclinedError, match=reason):
        run(build, [], column_form)
