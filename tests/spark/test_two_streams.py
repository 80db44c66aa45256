"""Joins by window, by interval and as of a time, groups and connected streams: Spark gives what the interpreter gives.

Batches have elements of both streams, in no order among them: what the outputs show does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.comparison import Event, Outputs, millis
from tests.spark.streams import files_of, stamped
from tests.support.files import put
from windrow import DataStream, OutputTag, Pipeline
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError
from windrow.evictors import Evictor, EvictorContext, TimestampedValue
from windrow.functions import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    OnTimerContext,
    ProcessContext,
    ProcessJoinContext,
    ProcessJoinFunction,
)
from windrow.state import ReducingStateDescriptor
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows, Window
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Pair = tuple[str, int | None, int | None]
Found = dict[str, list[Any]]
BIG = OutputTag("big", int)
LATE_LEFT, LATE_RIGHT, FAR = OutputTag("late left", Event), OutputTag("late right", Event), OutputTag("far", int)


def key_of(event: Event) -> str:
    return event.key


def pair(left: Event | None, right: Event | None) -> Pair:
    key = left.key if left else right.key if right else ""
    return key, left.value if left else None, right.value if right else None


class Delays(ProcessJoinFunction[Event, Event, Pair]):
    def process_element(self, left: Event, right: Event, context: ProcessJoinContext) -> Iterable[Pair]:
        if abs(context.right_timestamp - context.left_timestamp) > 60:
            context.output(FAR, context.timestamp)
        yield left.key, left.value, right.value


class Sums(KeyedCoProcessFunction[str, Event, Event, tuple[str, int, int]]):
    """Adds up both streams in one state, and tells the sum every 200 ms."""

    _SUM = ReducingStateDescriptor[int]("sum", lambda a, b: a + b)

    def process_element1(self, value: Event, context: KeyedProcessContext[str]) -> None:
        context.get_state(self._SUM).add(value.value)
        context.timer_service.register_event_time_timer(value.at - value.at % 200 + 200)

    def process_element2(self, value: Event, context: KeyedProcessContext[str]) -> None:
        context.get_state(self._SUM).add(-2 * value.value)

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[tuple[str, int, int]]:
        yield context.key, timestamp, context.get_state(self._SUM).get() or 0


class Apart(CoProcessFunction[Event, Event, tuple[str, int | None]]):
    """Emits left values below 20, and each right one twice; left values from 20 on go to a side output."""

    def process_element1(self, value: Event, context: ProcessContext) -> Iterable[tuple[str, int | None]] | None:
        if value.value >= 20:
            context.output(BIG, value.value)
            return None
        return [(f"left {value.value}", context.timestamp)]

    def process_element2(self, value: Event, context: ProcessContext) -> Iterable[tuple[str, int | None]]:
        yield from [(f"right {value.value}", context.timestamp)] * 2


@dataclass(frozen=True)
class Odd(Evictor[Event, Window]):
    """Removes elements of both streams whose values leave a rest; it reaches workers as a copy."""

    divisor: int

    def evict_before(
        self, elements: Sequence[TimestampedValue[Event]], size: int, window: Window, context: EvictorContext
    ) -> Sequence[int]:
        return [place for place, each in enumerate(elements) if each.value.value % self.divisor]

    def evict_after(
        self, elements: Sequence[TimestampedValue[Event]], size: int, window: Window, context: EvictorContext
    ) -> Sequence[int]:
        return ()


def write(folder: Path, numbers: Iterable[int]) -> None:
    """The files of these numbers, of both streams: each 100 ms on from the one before, the last two out of order."""
    for side, shift in (("left", 0), ("right", 7)):
        for number in numbers:
            events = [
                Event("abc"[(number + place) % 3], number * 100 + at + shift, number * 10 + place)
                for place, at in enumerate([0, 30, 60, 90, -40, -250])
            ]
            put(folder / side, number, events, second=number)


def sides(folder: Path) -> tuple[DataStream[Event], DataStream[Event]]:
    left, right = (stamped(files_of(folder / side, Event), 50) for side in ("left", "right"))
    return left, right


def add_pairs(
    outputs: Outputs, left: DataStream[Event], right: DataStream[Event], upper: int = 150, *, as_of: bool = False
) -> None:
    """The step ``pairs`` and the one that waits for late elements; ``as_of`` makes it another kind of join."""
    keyed, versions = left.key_by(key_of), right.key_by(key_of)
    between = keyed.interval_join(versions).between(millis(-40), millis(upper))
    if as_of:
        outputs.add("pairs", keyed.as_of_join(versions).apply(pair, name="pairs"), key=None)
    else:
        pairs = between.process(Delays(), name="pairs")
        outputs.add("pairs", pairs, key=None)
        outputs.add("far", pairs.get_side_output(FAR), key=None)
    outputs.add("pairs, late", between.allowed_lateness(millis(400)).apply(pair, name="pairs, late"), key=None)


def build(folder: Path) -> tuple[Outputs, Pipeline]:
    outputs = Outputs()
    left, right = sides(folder)
    tumbling = TumblingEventTimeWindows.of(millis(250))
    inner = left.join(right).where(key_of).equal_to(key_of)
    outer = left.left_join(right).where(key_of).equal_to(key_of)
    right_outer = left.right_join(right).where(key_of).equal_to(key_of)
    full = left.full_join(right).where(key_of).equal_to(key_of)
    grouped = left.co_group(right).where(key_of).equal_to(key_of)
    joined = inner.window(tumbling).side_output_left_late_data(LATE_LEFT).side_output_right_late_data(LATE_RIGHT)
    windows = joined.apply(pair, name="windows")
    outputs.add("windows", windows, key=None)
    outputs.add("late left", windows.get_side_output(LATE_LEFT), key=None)
    outputs.add("late right", windows.get_side_output(LATE_RIGHT), key=None)
    sessions = outer.window(EventTimeSessionWindows.with_dynamic_gap(lambda event: millis(20 + event.value % 3)))
    outputs.add("sessions", sessions.apply(pair), key=None)
    outputs.add("right", right_outer.window(tumbling).apply(pair), key=None)
    outputs.add("evicted", full.window(tumbling).evictor(Odd(4)).apply(pair), key=None)
    outputs.add(
        "grouped",
        grouped.window(tumbling).apply(
            lambda one, other: [(sorted(each.value for each in one), sorted(each.value for each in other))]
        ),
        key=None,
    )
    add_pairs(outputs, left, right)
    keyed, versions = left.key_by(key_of), right.key_by(key_of)
    outputs.add("as of", keyed.left_as_of_join(versions).apply(pair, name="as of"), key=None)
    late = keyed.as_of_join(versions).allowed_lateness(millis(120)).apply(pair, name="as of, late")
    outputs.add("as of, late", late, key=None)
    fresh = keyed.left_as_of_join(versions).retention(millis(90)).apply(pair, name="as of, fresh")
    outputs.add("as of, fresh", fresh, key=None)
    outputs.add("sums", keyed.connect(versions).process(Sums(), name="sums"), key=None)
    outputs.add("mapped", left.connect(right).map(lambda event: event.value, lambda event: event.key), key=None)
    apart = left.connect(right).process(Apart(), name="apart")
    outputs.add("apart", apart, key=None)
    outputs.add("big", apart.get_side_output(BIG), key=None)
    # Behind it there may be keys, and windows by the lower watermark.
    counted = apart.key_by(lambda found: found[0][:4]).window(tumbling)
    outputs.add("counted", counted.aggregate(agg.combine(agg.key(), agg.count())), key=None)
    return outputs, outputs.pipeline("two streams")


def together(runs: Iterable[dict[str, dict[Any, list[Any]]]]) -> Found:
    whole: Found = {}
    for run in runs:
        for name, elements in run.items():
            whole.setdefault(name, []).extend(each for values in elements.values() for each in values)
    return {name: sorted(values, key=repr) for name, values in whole.items()}


def test_runs_one_after_another_give_what_the_interpreter_gives(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write(folder, range(4))
    outputs, pipeline = build(folder)
    expected, _ = outputs.expected(pipeline)
    for file in folder.glob("*/[23].json"):
        file.unlink()
    runs = []
    for drain in (False, True):
        outputs, pipeline = build(folder)
        runs.append(outputs.of(SparkRunner(spark, checkpoint=checkpoint).run(pipeline, drain=drain)))
        write(folder, range(2, 4))
    assert runs[0]["pairs"]
    assert len(together(runs)["pairs, late"]) > len(together(runs)["pairs"]) > 50
    lost = [sum(version is None for *_, version in together(runs)[name]) for name in ("as of", "as of, fresh")]
    assert lost[0] < lost[1] < len(together(runs)["as of"]), "only the newer versions are retained"
    assert len(together(runs)["as of"]) == len(together(runs)["mapped"]) // 2, "an outer join loses no left element"
    assert together(runs) == together([expected])


@pytest.mark.thorough(reason="test_stored_streams.py refuses other bounds and joins, and takes what is said on purpose")
def test_bounds_change_on_purpose_and_kinds_do_not(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"

    def pairs(upper: int, *, as_of: bool = False) -> tuple[Outputs, Pipeline]:
        outputs = Outputs()
        add_pairs(outputs, *sides(folder), upper, as_of=as_of)
        return outputs, outputs.pipeline("pairs")

    write(folder, range(2))
    SparkRunner(spark, checkpoint=checkpoint).run(pairs(150)[1], drain=False)
    write(folder, range(2, 3))
    outputs, pipeline = pairs(60)
    with pytest.raises(IncompatibleStateError, match=r"pairs(.|\n)*the bounds was -40 to 150 ms and is -40 to 60 ms"):
        SparkRunner(spark, checkpoint=checkpoint).run(pipeline, drain=False)
    runner = SparkRunner(spark, checkpoint=checkpoint, accept_changes=["pairs", "pairs, late"])
    joined = outputs.of(runner.run(pipeline, drain=False))
    assert joined["pairs"]
    assert not joined["far"]
    with pytest.raises(IncompatibleStateError, match=r"another plan(.|\n)*pairs(.|\n)*interval_join(.|\n)*as_of_join"):
        SparkRunner(spark, checkpoint=checkpoint).run(pairs(60, as_of=True)[1])
