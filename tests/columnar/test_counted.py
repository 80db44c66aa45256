"""Windows that fire at every so many elements: on columns they give what the general operator gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from tests.budget import seeded
from tests.columnar.engine import FEW, LATE, Keyed, at, batches, by_key, millis, run, told
from tests.columnar.planning import column_form
from tests.columnar.test_steps import TINY
from windrow import DataStream
from windrow import aggregates as agg
from windrow.errors import AggregateOverflowError, CheckpointError
from windrow.evictors import CountEvictor
from windrow.triggers import CountTrigger, PurgingTrigger
from windrow.windows import GlobalWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow.windows.spec import UNFIRED
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.state import RowContents, dump_rows
from windrow_spark.columnar.windows.counted import CountOperator
from windrow_spark.storage.tuning import PortionTuning, StateTuning

# Any in this module: results of every type, and pyarrow has no types.


def some() -> Any:
    """Aggregates that ask for the order of elements, and some that do not."""
    return agg.combine(
        agg.key(),
        agg.count(),
        agg.sum(lambda e: e.number),
        agg.mean(lambda e: e.level),
        agg.max(lambda e: e.text),
        agg.first(lambda e: e.number),
        agg.collect_list(lambda e: e.number),
    )


def with_window() -> Any:
    return agg.combine(agg.key(), agg.window_start(), agg.window_end(), agg.last(), agg.collect_list(lambda e: e.text))


Build = Callable[[Keyed], DataStream[Any]]


def counted(size: int, slide: int | None = None) -> Build:
    return lambda keyed: keyed.count_window(size, slide).aggregate(some())


def of_all_time(trigger: Any, evictor: CountEvictor | None = None) -> Build:
    def build(keyed: Keyed) -> DataStream[Any]:
        windows = keyed.window(GlobalWindows.create()).trigger(trigger)
        if evictor is not None:
            windows = windows.evictor(evictor)
        return windows.aggregate(some())

    return build


def in_time(assigner: Any, trigger: Any, lateness: int | timedelta = 0, evictor: CountEvictor | None = None) -> Build:
    def build(keyed: Keyed) -> DataStream[Any]:
        # Any: windows of every assigner.
        windows: Any = keyed.window(assigner).trigger(trigger)
        if evictor is not None:
            windows = windows.evictor(evictor)
        windows = windows.allowed_lateness(lateness if isinstance(lateness, timedelta) else millis(lateness))
        found: DataStream[Any] = windows.side_output_late_data(LATE).aggregate(with_window())
        return found

    return build


def purging(count: int) -> Any:
    return PurgingTrigger.of(CountTrigger.of(count))


TUMBLING = TumblingEventTimeWindows.of(millis(200), millis(-7))
SLIDING = SlidingEventTimeWindows.of(millis(300), millis(70))

PLANS: dict[str, Build] = {
    "each": counted(1),
    "seven": counted(7),
    "hundreds": counted(100),
    "sliding": counted(6, 4),
    "sliding by one": counted(5, 1),
    "sliding by its size": counted(3, 3),
    "the last of many": counted(2, 9),
    "nearly all": counted(1000, 3),
    "all so far": of_all_time(CountTrigger.of(5)),
    "all so far at each": of_all_time(CountTrigger.of(1)),
    "purged and evicted": of_all_time(purging(6), CountEvictor.of(4)),
    "purged, less than allowed": of_all_time(purging(3), CountEvictor.of(5)),
    "evicted behind": of_all_time(CountTrigger.of(4), CountEvictor.of(3, do_evict_after=True)),
    "all evicted behind": of_all_time(CountTrigger.of(4), CountEvictor.of(0, do_evict_after=True)),
    "purged and evicted behind": of_all_time(purging(4), CountEvictor.of(3, do_evict_after=True)),
    "tumbling": in_time(TUMBLING, CountTrigger.of(3)),
    "tumbling, purged": in_time(TUMBLING, purging(2), 90),
    "tumbling for ever": in_time(TUMBLING, purging(4), timedelta.max),
    "tumbling, evicted": in_time(TUMBLING, CountTrigger.of(2), 40, CountEvictor.of(3)),
    "sliding in time": in_time(SLIDING, CountTrigger.of(2), 30),
    "sliding in time, purged": in_time(SLIDING, purging(3)),
    "sliding in time, evicted": in_time(SLIDING, purging(3), 20, CountEvictor.of(2)),
}


@pytest.mark.parametrize(("name", "seed"), seeded(PLANS))
def test_columns_give_what_the_general_operator_gives(name: str, seed: int) -> None:
    in_time = name.startswith(("tumbling", "sliding in time"))
    inputs = [*batches(random.Random(seed), 70 if name == "hundreds" else FEW), []]
    engine, wanted, dropped = run(PLANS[name], inputs, column_form, crash_at=seed, late=in_time, tuning=TINY)
    assert len(wanted[0]) > 5
    assert by_key(engine.results) == by_key(wanted[0])
    assert engine.counted["late_records_dropped"] == dropped == 0
    if in_time:
        assert engine.counted[UNFIRED] == engine.wanted_counts[UNFIRED] > 0
        assert told(engine.late) == told(wanted[1])
        assert (set(engine.records.values()) == {None}) == (name != "tumbling for ever")


@pytest.mark.parametrize("name", ["seven", "sliding", "all so far", "sliding in time"])
def test_elements_are_taken_some_at_a_time(name: str) -> None:
    tuning = StateTuning(portions=PortionTuning(elements=3, runs=5))
    engine, wanted, _ = run(PLANS[name], [*batches(random.Random(3))], column_form, late=True, tuning=tuning)
    assert by_key(engine.results) == by_key(wanted[0])


def test_results_are_in_the_order_of_the_elements_that_fire() -> None:
    def build(keyed: Keyed) -> DataStream[Any]:
        return keyed.count_window(2).aggregate(agg.combine(agg.key(), agg.last(lambda e: e.number)))

    chance = random.Random(4)
    inputs = [[at(1, chance.choice("abcdefgh"), number) for number in range(50)] for _ in range(4)]
    engine, (wanted,), _ = run(build, inputs, column_form)
    assert len(wanted) > 90
    # Those of one key group and batch; groups follow each other.
    found = engine.results
    in_order = sum(one[1] < other[1] for one, other in pairwise(found))
    assert in_order >= len(found) - 2 * len(inputs)
    assert by_key(found) == by_key(wanted)


def test_one_key_with_many_firings() -> None:
    inputs = [[at(moment, number=moment) for moment in range(start, start + 700)] for start in (0, 700)]
    for name in ("each", "sliding by one", "all so far"):
        engine, (wanted,), _ = run(PLANS[name], inputs, column_form)
        assert by_key(engine.results) == by_key(wanted)


def test_elements_need_no_timestamps() -> None:
    inputs = [*batches(random.Random(6))]
    engine, (wanted,), _ = run(PLANS["sliding"], inputs, column_form, crash_at=2, stamped=False)
    assert len(wanted) > 60
    assert by_key(engine.results) == by_key(wanted)


def test_a_refused_result_names_its_key() -> None:
    with pytest.raises(AggregateOverflowError, match=r"does not fit into 64 bits") as caught:
        run(counted(2), [[at(1, number=2**62), at(2, number=2**62)]], column_form, alone=True)
    assert "test_counted.py:" in str(caught.value.where)


@pytest.mark.parametrize("until", [0, -1, 2**63 - 1, None])
def test_damaged_numbers_of_elements_are_refused(until: int | None) -> None:
    engine, _, _ = run(counted(4), [[at(1)]], column_form)
    assert isinstance(engine.form, ColumnarForm)
    operator = engine.form.operator
    assert isinstance(operator, CountOperator)
    rows = pa.RecordBatch.from_pylist([{"key": "k", "start": 0, "until": until}], operator.schema)
    contents = RowContents(operator.schema, lambda rows: (0, None), operator.check)
    with pytest.raises(CheckpointError, match="stored state is damaged"):
        contents.load(dump_rows(rows))


@pytest.mark.parametrize(
    "name", ["seven", "hundreds", "sliding", "all so far", "purged and evicted", "tumbling for ever"]
)
def test_elements_that_wait_when_the_stream_ends_are_counted(name: str) -> None:
    inputs = [*batches(random.Random(2)), []]
    engine, _, _ = run(PLANS[name], inputs, column_form, crash_at=2, late=name == "tumbling for ever", tuning=TINY)
    assert engine.counted[UNFIRED] == engine.wanted_counts[UNFIRED] > 0
