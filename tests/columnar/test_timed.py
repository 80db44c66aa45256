"""Windows that fire at intervals, and windows of processing time: columns give what the general operator gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from tests.budget import seeded
from tests.columnar.engine import FEW, MANY, Keyed, at, batches, by_key, millis, run, told
from tests.columnar.planning import column_form
from tests.columnar.test_counted import in_time, purging, some, with_window
from tests.columnar.test_steps import TINY
from windrow import DataStream
from windrow import aggregates as agg
from windrow.errors import CheckpointError
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from windrow.windows.spec import UNFIRED
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.state import RowContents, dump_rows
from windrow_spark.columnar.windows.column_operator import Fired
from windrow_spark.columnar.windows.timed import TimedOperator
from windrow_spark.storage.tuning import PortionTuning, StateTuning

# Any in this module: results of every type, and pyarrow has no types.

Build = Callable[[Keyed], DataStream[Any]]


def fired(assigner: Any, trigger: Any = None, aggregate: Callable[[], Any] = with_window) -> Build:
    def build(keyed: Keyed) -> DataStream[Any]:
        # Any: windows of every assigner.
        windows: Any = keyed.window(assigner)
        if trigger is not None:
            windows = windows.trigger(trigger)
        found: DataStream[Any] = windows.aggregate(aggregate())
        return found

    return build


def unordered() -> Any:
    return agg.combine(agg.key(), agg.count(), agg.sum(lambda e: e.number), agg.min(lambda e: e.level))


AT_END = PurgingTrigger.of(EventTimeTrigger.create())
EVENTS = ContinuousEventTimeTrigger.of(millis(23))
CLOCK = ContinuousProcessingTimeTrigger.of(millis(7))
TUMBLING = TumblingEventTimeWindows.of(millis(100), millis(-7))
ON_CLOCK = TumblingProcessingTimeWindows.of(millis(50), millis(11))
ENDS_WITH_BATCHES = TumblingProcessingTimeWindows.of(millis(30), millis(1))
"""The last millisecond of some windows is the time of a batch."""
SLIDING = SlidingProcessingTimeWindows.of(millis(70), millis(30), millis(1))

PLANS: dict[str, Build] = {
    "intervals": fired(TUMBLING, EVENTS),
    "intervals, purged": fired(TUMBLING, PurgingTrigger.of(EVENTS)),
    "intervals that divide windows": fired(
        TumblingEventTimeWindows.of(millis(100)), ContinuousEventTimeTrigger.of(millis(20))
    ),
    "intervals longer than windows": fired(TUMBLING, ContinuousEventTimeTrigger.of(millis(1000))),
    "sliding intervals": fired(
        SlidingEventTimeWindows.of(millis(90), millis(30), millis(3)), ContinuousEventTimeTrigger.of(millis(20))
    ),
    "sliding intervals, purged": fired(
        SlidingEventTimeWindows.of(millis(75), millis(15), millis(-7)),
        PurgingTrigger.of(ContinuousEventTimeTrigger.of(millis(10))),
    ),
    "sliding intervals, short": fired(
        SlidingEventTimeWindows.of(millis(400), millis(50)), ContinuousEventTimeTrigger.of(millis(5)), unordered
    ),
    "sliding intervals of the clock": fired(
        SlidingProcessingTimeWindows.of(millis(70), millis(30), millis(2)),
        ContinuousProcessingTimeTrigger.of(millis(10)),
    ),
    "sliding intervals of the clock, purged": fired(
        SlidingProcessingTimeWindows.of(millis(40), millis(20), millis(3)),
        PurgingTrigger.of(ContinuousProcessingTimeTrigger.of(millis(5))),
    ),
    "intervals of one": fired(TUMBLING, ContinuousEventTimeTrigger.of(millis(1)), unordered),
    "late intervals": in_time(TUMBLING, EVENTS, 70),
    "late intervals, purged": in_time(TUMBLING, PurgingTrigger.of(EVENTS), 70),
    "late intervals, dropped": in_time(TUMBLING, EVENTS),
    "late intervals for ever": in_time(TUMBLING, EVENTS, timedelta.max),
    "all time at intervals": fired(GlobalWindows.create(), EVENTS, some),
    "all time at intervals, purged": fired(GlobalWindows.create(), PurgingTrigger.of(EVENTS), some),
    "purged at the end": fired(TUMBLING, AT_END),
    "purged at the end, sliding": fired(SlidingEventTimeWindows.of(millis(90), millis(20)), AT_END),
    "late, purged at the end": in_time(TUMBLING, AT_END, 70),
    "late, purged at the end, sliding": in_time(SlidingEventTimeWindows.of(millis(90), millis(20)), AT_END, 40),
    "late, purged at the end for ever": in_time(TUMBLING, AT_END, timedelta.max),
    "purged at the end, sessions": fired(EventTimeSessionWindows.with_gap(millis(12)), AT_END, unordered),
    "clock": fired(ON_CLOCK),
    "clock, purged": fired(ENDS_WITH_BATCHES, PurgingTrigger.of(ProcessingTimeTrigger.create())),
    "clock, last millisecond": fired(ENDS_WITH_BATCHES),
    "sliding clock": fired(SLIDING),
    "sliding clock, last millisecond": fired(SlidingProcessingTimeWindows.of(millis(40), millis(20), millis(1))),
    "intervals of the clock": fired(ON_CLOCK, CLOCK),
    "intervals of the clock, purged": fired(ON_CLOCK, PurgingTrigger.of(CLOCK)),
    "intervals of the clock, last millisecond": fired(ENDS_WITH_BATCHES, CLOCK),
    "all time by the clock": fired(GlobalWindows.create(), CLOCK, some),
    "all time by the clock, purged": fired(GlobalWindows.create(), PurgingTrigger.of(CLOCK), some),
    "sessions by the clock": fired(ProcessingTimeSessionWindows.with_gap(millis(25))),
    "sessions by the clock, purged": fired(
        ProcessingTimeSessionWindows.with_gap(millis(11)), PurgingTrigger.of(ProcessingTimeTrigger.create())
    ),
    "sessions by the clock, last millisecond": fired(ProcessingTimeSessionWindows.with_gap(millis(1))),
    "counted on the clock": fired(ON_CLOCK, CountTrigger.of(3)),
    "counted on the sliding clock": fired(SLIDING, purging(4)),
}
_STAY = ("all time at intervals", "all time by the clock", "late intervals for ever")


@pytest.mark.parametrize(("name", "seed"), seeded(PLANS))
def test_columns_give_what_the_general_operator_gives(name: str, seed: int) -> None:
    has_late = name.startswith("late")
    inputs = [*batches(random.Random(seed), MANY if "sessions" in name else FEW), *[[]] * 12]
    engine, wanted, dropped = run(PLANS[name], inputs, column_form, crash_at=seed, late=has_late, tuning=TINY)
    assert len(wanted[0]) > 60
    assert by_key(engine.results) == by_key(wanted[0])
    assert engine.counted["late_records_dropped"] == dropped
    if has_late:
        assert told(engine.late) == told(wanted[1])
    if not name.startswith(_STAY):
        assert set(engine.records.values()) == {None}


@pytest.mark.parametrize("name", ["clock", "sessions by the clock", "all time by the clock", "counted on the clock"])
def test_elements_need_no_timestamps(name: str) -> None:
    inputs = [*batches(random.Random(6), MANY if "sessions" in name else FEW)]
    engine, (wanted,), _ = run(PLANS[name], inputs, column_form, crash_at=2, stamped=False)
    assert len(wanted) > 60
    assert by_key(engine.results) == by_key(wanted)


def test_elements_behind_the_watermark_set_firings_behind_it() -> None:
    inputs = [[at(150)], [at(10_000)], [at(9_950), at(9_990), at(9_905, "other")], [at(10_001)], [at(10_060)], []]
    for name in ("intervals", "intervals, purged", "late intervals", "all time at intervals", "sliding intervals"):
        engine, (wanted, *_), _ = run(PLANS[name], inputs, column_form)
        assert by_key(engine.results) == by_key(wanted)


def test_many_firings_come_some_at_a_time() -> None:
    tuning = StateTuning(portions=PortionTuning(firings=7))
    inputs = [*batches(random.Random(3))]
    for name in (
        "intervals",
        "intervals of one",
        "sliding intervals",
        "all time at intervals",
        "intervals of the clock",
    ):
        engine, (wanted,), _ = run(PLANS[name], inputs[::4], column_form, tuning=tuning)
        assert by_key(engine.results) == by_key(wanted)


def test_firings_at_intervals_copy_few_large_states_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(keyed: Keyed) -> DataStream[Any]:
        windows = keyed.window(TumblingEventTimeWindows.of(millis(100)))
        return windows.trigger(ContinuousEventTimeTrigger.of(millis(2))).aggregate(agg.collect_list(lambda e: e.number))

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


@pytest.mark.parametrize(
    "damage",
    [
        {"next": None},
        {"filled": 2},
        {"filled": -1},
        {"next": -(2**63)},
        {"next": 100},
        {"start": None},
        {"number": None},
    ],
)
def test_damaged_rows_are_refused(damage: dict[str, int | None]) -> None:
    engine, _, _ = run(PLANS["intervals"], [[at(1)]], column_form)
    assert isinstance(engine.form, ColumnarForm)
    operator = engine.form.operator
    assert isinstance(operator, TimedOperator)
    row = {"key": "k", "start": 0, "next": 7, "filled": 1, "number": 0}
    contents = RowContents(operator.schema, lambda rows: (0, None), operator.check)
    contents.load(dump_rows(pa.RecordBatch.from_pylist([row], operator.schema)))
    with pytest.raises(CheckpointError, match="stored state is damaged"):
        contents.load(dump_rows(pa.RecordBatch.from_pylist([row | damage], operator.schema)))


@pytest.mark.parametrize("name", [name for name in PLANS if "clock" in name])
def test_elements_that_wait_for_the_clock_when_the_stream_ends_are_counted(name: str) -> None:
    inputs = [*batches(random.Random(1), MANY if "sessions" in name else FEW)]
    engine, wanted, _ = run(PLANS[name], inputs, column_form, crash_at=2, tuning=TINY)
    assert by_key(engine.results) == by_key(wanted[0])
    assert engine.counted[UNFIRED] == engine.wanted_counts[UNFIRED]
    # Firings at short intervals have output all.
    assert engine.counted[UNFIRED] > 0 or any(word in name for word in ("intervals", "all time", "last", "purged"))
