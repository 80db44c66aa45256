"""Windows that fire panes: on columns they give what the general operator gives, one element after the other."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import cycle
from typing import Any

import pyarrow as pa
import pytest

from tests.budget import for_a_night, seeded
from tests.columnar.engine import FEW, LATE, Keyed, at, batches, by_key, millis, run, told
from tests.columnar.planning import column_form
from tests.columnar.test_counted import some, with_window
from tests.columnar.test_steps import TINY
from windrow import DataStream
from windrow import aggregates as agg
from windrow.errors import CheckpointError
from windrow.functions import with_pane
from windrow.panes import ClosingBehavior, OnTimeBehavior, TimestampCombiner, WindowResult
from windrow.triggers import (
    Trigger,
    after_any,
    after_count,
    after_processing_time,
    after_watermark,
    always,
    default,
    never,
    repeatedly,
)
from windrow.triggers.composable import AfterCount
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from windrow_runtime.operators.changes import kind_of, value_of
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.windows.pane_operator import CLOSED
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.state import RowContents, dump_rows
from windrow_spark.columnar.step_operator import StateRows, Times
from windrow_spark.columnar.windows.column_operator import Fired
from windrow_spark.columnar.windows.panes import PanedOperator
from windrow_spark.storage.tuning import PortionTuning

# Any in this module: results of every type, and pyarrow has no types.

Build = Callable[[Keyed], DataStream[Any]]

TUMBLING = TumblingEventTimeWindows.of(millis(100), millis(-7))
SLIDING = SlidingEventTimeWindows.of(millis(90), millis(30), millis(3))
CLOCK = after_processing_time(millis(15))
ALIGNED = after_processing_time(millis(3), aligned_to=millis(25))
AT_ONCE = after_processing_time(aligned_to=millis(20))


def plain() -> Any:
    return agg.combine(
        agg.key(), agg.window_end(), agg.count(), agg.sum(lambda e: e.number), agg.min(lambda e: e.level)
    )


def paned(
    assigner: Any,
    trigger: Trigger[Any, Any],
    lateness: int = 0,
    aggregate: Callable[[], Any] = some,
    on_time: OnTimeBehavior | None = None,
    closing: ClosingBehavior | None = None,
    behind: Callable[[Any], DataStream[Any]] | None = None,
) -> Callable[[str], Build]:
    """A step whose windows fire panes, by its mode."""

    def build(mode: str, keyed: Keyed) -> DataStream[Any]:
        windows: Any = keyed.window(assigner).trigger(trigger, may_lose_data=True)
        windows = getattr(windows, mode)()
        if lateness:
            windows = windows.allowed_lateness(millis(lateness)).side_output_late_data(LATE)
        if on_time is not None:
            windows = windows.on_time_behavior(on_time)
        if closing is not None:
            windows = windows.closing_behavior(closing)
        found: DataStream[Any]
        if behind is not None:
            found = behind(windows)
            return found.changelog(lambda kind, result: (kind.value, result)) if mode == "retracting" else found
        found = windows.aggregate(aggregate())
        return found.changelog(lambda kind, result: (*result, kind.value)) if mode == "retracting" else found

    return lambda mode: partial(build, mode)


FILLED = OnTimeBehavior.FIRE_IF_NON_EMPTY
CLOSES = ClosingBehavior.FIRE_ALWAYS

PLANS: dict[str, Callable[[str], Build]] = {
    "early count": paned(TUMBLING, after_watermark(early=after_count(3)), aggregate=with_window),
    "early count, discarding": paned(TUMBLING, after_watermark(early=after_count(3))),
    "early count, discarding, only filled": paned(TUMBLING, after_watermark(early=after_count(2)), on_time=FILLED),
    "each element": paned(TUMBLING, after_watermark(early=always())),
    "early clock": paned(TUMBLING, after_watermark(early=CLOCK), aggregate=plain),
    "early clock, ordered": paned(TUMBLING, after_watermark(early=CLOCK)),
    "early clock, discarding": paned(TUMBLING, after_watermark(early=CLOCK), aggregate=plain),
    "early clock, aligned": paned(TUMBLING, after_watermark(early=ALIGNED), aggregate=plain),
    "early clock, at once": paned(TUMBLING, after_watermark(early=AT_ONCE), aggregate=plain),
    "late count": paned(TUMBLING, after_watermark(late=after_count(2)), lateness=70),
    "late count, filled when it closes": paned(
        TUMBLING, after_watermark(early=after_count(5), late=after_count(3)), 100, closing=CLOSES
    ),
    "late clock": paned(TUMBLING, after_watermark(late=CLOCK), lateness=120, aggregate=plain),
    "late each": paned(TUMBLING, after_watermark(early=CLOCK, late=after_count(1)), lateness=100, aggregate=plain),
    "late each, discarding": paned(TUMBLING, after_watermark(early=CLOCK, late=after_count(1)), 100, plain),
    "both clocks": paned(TUMBLING, after_watermark(early=CLOCK, late=ALIGNED), lateness=130, aggregate=plain),
    "both clocks, late first": paned(
        TUMBLING, after_watermark(early=ALIGNED, late=after_processing_time(millis(2))), lateness=130
    ),
    "both clocks, sliding": paned(SLIDING, after_watermark(early=ALIGNED, late=CLOCK), lateness=60, aggregate=plain),
    "late never": paned(TUMBLING, after_watermark(early=after_count(4), late=never()), lateness=100),
    "late lost": paned(TUMBLING, after_watermark(early=after_count(4)), lateness=100),
    "late lost, closing": paned(TUMBLING, after_watermark(early=CLOCK), lateness=100, aggregate=plain, closing=CLOSES),
    "never": paned(TUMBLING, never(), 50),
    "default": paned(TUMBLING, default(), lateness=70, closing=CLOSES),
    "repeatedly at the end": paned(TUMBLING, repeatedly(after_watermark()), lateness=70, closing=CLOSES),
    "repeatedly count": paned(TUMBLING, repeatedly(after_count(3)), lateness=70),
    "repeatedly count, discarding": paned(TUMBLING, repeatedly(after_count(3)), 100),
    "repeatedly clock": paned(TUMBLING, repeatedly(CLOCK), lateness=70, aggregate=plain),
    "repeatedly clock, no lateness": paned(TUMBLING, repeatedly(ALIGNED), aggregate=plain),
    "sliding": paned(SLIDING, after_watermark(early=after_count(4), late=after_count(2)), lateness=60),
    "sliding, discarding": paned(SLIDING, after_watermark(early=after_count(4), late=always()), 60),
    "sliding clock": paned(SLIDING, after_watermark(early=CLOCK), aggregate=plain),
    "sliding clock, each late": paned(
        SLIDING, after_watermark(early=CLOCK, late=always()), lateness=60, aggregate=plain
    ),
    "all time": paned(GlobalWindows.create(), repeatedly(after_count(7))),
    "all time, discarding": paned(GlobalWindows.create(), repeatedly(after_count(7))),
    "all time by the clock": paned(GlobalWindows.create(), repeatedly(CLOCK)),
    "all time at the end": paned(GlobalWindows.create(), after_watermark(early=after_count(9))),
}


def with_panes(windows: Any) -> DataStream[Any]:
    """All that is known of each pane; the aggregate makes records in Python, or stays a column."""
    found: DataStream[Any] = windows.aggregate(agg.combine(agg.count(), agg.sum(lambda e: e.number)), with_pane())
    return found


PANES = {
    "early and late count": paned(
        TUMBLING, after_watermark(early=after_count(3), late=after_count(2)), 70, behind=with_panes
    ),
    "early clock, late each": paned(
        TUMBLING, after_watermark(early=CLOCK, late=after_count(1)), 100, closing=CLOSES, behind=with_panes
    ),
    "late lost": paned(TUMBLING, after_watermark(early=after_count(4)), 100, behind=with_panes),
    "late clock": paned(TUMBLING, after_watermark(late=ALIGNED), 120, closing=CLOSES, behind=with_panes),
    "at the end": paned(TUMBLING, default(), 70, closing=CLOSES, behind=with_panes),
    "repeatedly": paned(SLIDING, repeatedly(after_count(3)), 60, closing=CLOSES, behind=with_panes),
    "only filled": paned(SLIDING, after_watermark(early=CLOCK), on_time=FILLED, behind=with_panes),
    "repeatedly, late": paned(TUMBLING, repeatedly(after_count(2)), 120, behind=with_panes),
    "repeatedly by the clock": paned(TUMBLING, repeatedly(ALIGNED), 120, closing=CLOSES, behind=with_panes),
    "only filled, late": paned(
        TUMBLING, after_watermark(early=CLOCK, late=after_count(1)), 120, on_time=FILLED, behind=with_panes
    ),
    "all time": paned(GlobalWindows.create(), after_watermark(early=after_count(7)), behind=with_panes),
}


MODES = ("accumulating", "discarding", "retracting")


@pytest.mark.parametrize(
    ("mode", "name", "seed"),
    for_a_night(
        [(mode, name, seed) for mode in MODES for name, seed in seeded(PANES)],
        [(mode, name, seed) for mode, (name, seed) in zip(cycle(MODES), seeded(PANES), strict=False)],
    ),
)
def test_panes_are_counted_as_the_general_operator_counts_them(mode: str, name: str, seed: int) -> None:
    inputs = [*batches(random.Random(seed), FEW), *[[]] * 12]
    engine, (wanted, *_), _ = run(PANES[name](mode), inputs, column_form, crash_at=seed, tuning=TINY)
    results = with_kinds(engine.results) if mode == "retracting" else engine.results
    assert len(wanted) > 60
    assert by_key(map(as_tuple, results)) == by_key(map(as_tuple, wanted))


def as_tuple(result: Any) -> tuple[Any, ...]:
    """A result with its pane, and its kind if it has one, as a tuple that begins with its key."""
    kind, found = (None, result) if isinstance(result, WindowResult) else result
    return found.key, found.window, found.pane, found.value, kind


NEVER_ENDS = [name for name in PLANS if name.startswith("all time")]
AGGREGATED = {name for name in PLANS if "clock" in name or name.startswith("late each")} - {
    "early clock, ordered",
    "early clock, at once",  # with a delay of none each element may fire a pane
    "late clock",
    "both clocks",
    "both clocks, late first",
    "both clocks, sliding",
    "late lost, closing",
    "repeatedly clock",
    "sliding clock, each late",
    "all time by the clock",
}
RETRACTED = [name for name in PLANS if "discarding" not in name]


def with_kinds(results: list[Any]) -> list[Any]:
    """Changes with their kinds, as the changelog has them."""
    if any(isinstance(value_of(result), WindowResult) for result in results):
        return [(kind_of(result).value, value_of(result)) for result in results]
    return [(*value_of(result), kind_of(result).value) for result in results]


@pytest.mark.parametrize(
    ("name", "retracts", "seed"),
    [(name, retracts, seed) for retracts in (False, True) for name, seed in seeded(RETRACTED if retracts else PLANS)],
)
def test_columns_give_what_the_general_operator_gives(name: str, retracts: bool, seed: int) -> None:
    mode = "retracting" if retracts else "discarding" if "discarding" in name else "accumulating"
    inputs = [*batches(random.Random(seed), FEW), *[[]] * 12]
    has_late = "late" in name and not retracts
    engine, wanted, dropped = run(PLANS[name](mode), inputs, column_form, crash_at=seed, tuning=TINY, late=has_late)
    assert isinstance(engine.form, ColumnarForm)
    assert len(wanted[0]) > 60
    results = with_kinds(engine.results) if retracts else engine.results
    assert by_key(results) == by_key(wanted[0])
    assert engine.counted["late_records_dropped"] == dropped
    assert engine.counted[CLOSED] == engine.wanted_counts[CLOSED]
    assert engine.folded == (name in AGGREGATED)
    if has_late:
        assert told(engine.late) == told(wanted[1])
    if name not in NEVER_ENDS:
        assert set(engine.records.values()) == {None}


def kept_for_ever(keyed: Keyed) -> DataStream[Any]:
    windows = keyed.window(TUMBLING).trigger(after_watermark(late=after_count(3)), may_lose_data=True)
    found: DataStream[Any] = windows.allowed_lateness(timedelta.max).aggregate(with_window())
    return found


def test_windows_before_1970_that_are_kept_for_ever_close_in_order_of_their_ends() -> None:
    # The first late element of each window is the pane on time; the second one waits for the closing pane.
    inputs = [[at(500)], [at(-50), at(-50), at(-350), at(-350), at(450), at(450)]]
    engine, (wanted, *_), _ = run(kept_for_ever, inputs, column_form)
    assert engine.results == wanted
    assert [found[2] for found in wanted] == [-7, -307, 493, 593, -307, -7]


def test_a_pane_comes_when_a_timer_of_the_other_condition_fires_that_was_set_in_the_batch_before() -> None:
    # Both early conditions wait for 25 ms. At 30 ms the late one of the second window has a timer at 20 ms, the time
    # at which it was set; that of the first window has fired at 20 ms, when nothing was ready.
    trigger = after_watermark(early=ALIGNED, late=after_processing_time(millis(0)))
    build = paned(TUMBLING, trigger, aggregate=plain)("accumulating")
    engine, (wanted, *_), _ = run(build, [[], [at(10)], [at(150)], [], []], column_form)
    assert engine.results == wanted
    assert [found[1] for found in wanted] == [193, 93, 93, 193]


def earliest(windows: Any) -> DataStream[Any]:
    found: DataStream[Any] = windows.timestamp_combiner(TimestampCombiner.EARLIEST).aggregate(agg.count())
    return found


def distinct() -> Any:
    return agg.combine(agg.key(), agg.count_distinct(lambda e: e.number))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("early count", "each element may fire a pane"),
        ("early clock, ordered", "the result depends on the order of arrival"),
        ("sliding clock, each late", "late for some of their windows"),
        ("late clock", "closing panes come in the order in which windows began"),
    ],
)
def test_why_elements_are_not_folded(name: str, reason: str) -> None:
    form = run(PLANS[name]("accumulating"), [], column_form).engine.form
    assert isinstance(form, ColumnarForm)
    assert reason in str(form.describe())


@pytest.mark.parametrize("name", ["early count", "late each", "both clocks", "sliding", "late lost", "all time"])
def test_elements_are_taken_some_at_a_time(name: str) -> None:
    tuning = replace(TINY, portions=PortionTuning(elements=3, large_elements=3, pane_rows=3))
    mode = "accumulating" if name == "sliding" else "retracting"
    inputs = [*batches(random.Random(4), FEW), *[[]] * 12]
    engine, (wanted, *_), _ = run(PLANS[name](mode), inputs, column_form, tuning=tuning)
    results = with_kinds(engine.results) if mode == "retracting" else engine.results
    assert by_key(results) == by_key(wanted)


class Own(AfterCount):
    """May do anything."""


DECLINED: dict[str, tuple[Build, str]] = {
    "sessions": (
        paned(EventTimeSessionWindows.with_gap(millis(20)), after_watermark(early=after_count(2)))("accumulating"),
        "may merge at each element",
    ),
    "any trigger": (
        paned(TUMBLING, repeatedly(after_any(after_count(3), CLOCK)))("accumulating"),
        "is asked at each element",
    ),
    "always, which the end of a window asks as well": (
        paned(TUMBLING, always())("accumulating"),
        "is asked at each element",
    ),
    "a class of the user's": (paned(TUMBLING, repeatedly(Own(3)))("accumulating"), "is asked at each element"),
    "a class of the user's among parts": (
        paned(TUMBLING, after_watermark(early=Own(3)))("accumulating"),
        "is asked at each element",
    ),
    "timestamps of elements": (
        paned(TUMBLING, after_watermark(early=after_count(2)), behind=earliest)("accumulating"),
        "the timestamps of results are those of elements",
    ),
    "a state that outgrows its result": (
        paned(TUMBLING, after_watermark(early=after_count(2)), aggregate=distinct)("accumulating"),
        "would copy all values",
    ),
    "once": (paned(TUMBLING, after_count(3))("accumulating"), "is asked at each element"),
    "the clock's windows": (
        paned(TumblingProcessingTimeWindows.of(millis(50)), repeatedly(after_count(3)))("accumulating"),
        "windows in processing time",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_columns_cannot_follow_is_declined(name: str) -> None:
    build, reason = DECLINED[name]
    with pytest.raises(DeclinedError, match=reason):
        run(build, [], column_form)


DAMAGES: list[dict[str, Any]] = [
    {"phase": 4},
    {"phase": -1},
    {"fresh": 2},
    {"count": -1},
    {"start": None},
    {"due": None},
    {"number": -1},
    {"since": 2**63 - 1},
    {"has_shown": None},
    {"has_shown": 7},
]


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_rows_that_contradict_themselves_are_refused(damage: dict[str, Any]) -> None:
    engine, _, _ = run(PLANS["late each"]("retracting"), [], column_form)
    assert isinstance(engine.form, ColumnarForm)
    schema = engine.form.operator.schema
    row: dict[str, Any] = {
        "key": "k",
        "start": 93,
        "number": 0,
        "phase": 0,
        "fresh": 1,
        "count": 0,
        "due": 5,
        "asked": 5,
        "since": 1,
    }
    row |= {"s0": 1, "s1": 1, "s2": 0, "s3": 7, "s4": 0.5, "shown": (1, 6, 0.5), "has_shown": 1}
    operator = engine.form.operator
    assert isinstance(operator, PanedOperator)
    contents = RowContents(schema, lambda rows: (0, None), operator.check)
    stored = pa.RecordBatch.from_pylist([row], schema)
    (fired,) = operator.advance(StateRows(contents.load(dump_rows(stored)).rows), 0, Times(500, 1))
    assert isinstance(fired, Fired)
    assert fired.results.to_pylist() == [{"_1": 1, "_2": 6, "_3": 0.5}, {"_1": 1, "_2": 7, "_3": 0.5}]
    with pytest.raises(CheckpointError, match="stored state"):
        contents.load(dump_rows(pa.RecordBatch.from_pylist([row | damage], schema)))
