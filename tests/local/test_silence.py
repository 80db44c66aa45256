"""Watermarks that follow the clock while a source is silent, in the interpreter and in the harness."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from random import Random
from typing import NamedTuple

import pytest

from tests.partitioned import Dealt, counted
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.connectors import CustomSource
from windrow.errors import InvalidArgumentError, PlanError
from windrow.sinks import CollectSink
from windrow.time import MIN_TIMESTAMP, now_millis
from windrow.watermarks import BoundedOutOfOrdernessWatermarks
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.testing import PushSource, StreamHarness

LATE = OutputTag("late", int)


def millis(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def silent(after: int, bound: int = 0) -> WatermarkStrategy[object]:
    return WatermarkStrategy.for_bounded_out_of_orderness(millis(bound)).with_silence(after=millis(after))


def stamped(stream: DataStream[int], strategy: WatermarkStrategy[object]) -> DataStream[int]:
    """Each element is its own timestamp; odd ones are dropped before."""
    kept = stream.filter(lambda element: element % 2 == 0)
    return kept.assign_timestamps_and_watermarks(strategy, timestamp=lambda element: element)


def windows(stream: DataStream[int], size: int = 10) -> DataStream[int]:
    of_all = stream.key_by(lambda element: 0).window(TumblingEventTimeWindows.of(millis(size)))
    return of_all.side_output_late_data(LATE).reduce(max)


def test_a_window_comes_by_the_clock_when_nothing_follows_its_element() -> None:
    # clock       100   104  105          109   110           112
    # elements    102                                          104
    # watermark    96    96   99          103   104           106: the window up to 105 has come
    source = PushSource(int)
    with StreamHarness(windows(stamped(from_source(source), silent(5, bound=5)), size=5), source) as harness:
        harness.set_processing_time(100)
        harness.process_element(102)
        assert harness.emit_watermarks() == 96
        reached = []
        for clock in (104, 105, 109, 110):
            harness.set_processing_time(clock)
            reached.append(harness.emit_watermarks())
        assert reached == [96, 99, 103, 104]
        assert harness.take_values() == [102]
        harness.set_processing_time(112)
        harness.process_element(104)
        assert [each.value for each in harness.take_side_output(LATE)] == [104]
        # What is late has arrived as well: the source is silent from then on again.
        assert [harness.emit_watermarks(), harness.emit_watermarks()] == [104, 104]
        harness.set_processing_time(117)
        assert harness.emit_watermarks() == 111


def test_a_source_that_is_behind_is_not_silent() -> None:
    """An hour of event time comes in half a minute, and some batches have only elements that are dropped before."""
    source = PushSource(int)
    with StreamHarness(windows(stamped(from_source(source), silent(10)), size=100), source) as harness:
        for number in range(300):
            harness.set_processing_time(10**9 + number * 100)
            harness.process_element(number * 100 + (0 if number % 30 == 0 else 1))
            assert harness.emit_watermarks() == number // 30 * 3000 - 1
        assert harness.take_side_output(LATE) == []


@pytest.mark.parametrize("seed", range(40))
def test_two_sources_are_silent_each_by_itself_and_stay_so_over_restarts(seed: int) -> None:
    random = Random(seed)
    pushed = PushSource(int), PushSource(int)
    after, bound = (random.randrange(1, 30) for _ in pushed), (random.randrange(10) for _ in pushed)
    settings = list(zip(after, bound, strict=True))
    timed = [stamped(from_source(source), silent(*setting)) for source, setting in zip(pushed, settings, strict=True)]
    clock, late = 1000, 0
    # Of each source: the highest timestamp, the clock at its last arrival, its watermark.
    highest: list[int | None] = [None, None]
    arrived: list[int | None] = [None, None]
    reached = [MIN_TIMESTAMP, MIN_TIMESTAMP]
    with StreamHarness(windows(timed[0].union(timed[1])), pushed[0]) as harness:
        fired: list[int] = []
        elements: list[int] = []
        for _ in range(60):
            clock += random.choice([0, 1, 3, 20])
            harness.set_processing_time(clock)
            new: set[int] = set()
            for place in random.choice([[], [], [0], [1], [0, 1]]):
                element = 2 * ((clock - random.randrange(20)) // 2)
                harness.process_element(element, source=pushed[place])
                new.add(place)
                highest[place] = max(element, highest[place] or 0)
                is_late = element // 10 * 10 + 9 <= min(reached)
                late += is_late
                elements += [] if is_late else [element]
            for place, (silence, delay) in enumerate(settings):
                stamp, last = highest[place], arrived[place]
                if stamp is not None:
                    reached[place] = max(reached[place], stamp - delay - 1)
                if place in new or last is None:
                    arrived[place] = clock
                elif clock - last >= silence:
                    reached[place] = max(reached[place], clock - delay - 1)
            assert harness.emit_watermarks() == min(reached)
            fired += harness.take_values()
            if random.random() < 0.2:
                harness.snapshot_restore()
        due = {element // 10 for element in elements if element // 10 * 10 + 9 <= min(reached)}
        assert fired == [max(each for each in elements if each // 10 == window) for window in sorted(due)]
        assert len(harness.take_side_output(LATE)) == late


def test_each_partition_is_silent_by_itself() -> None:
    # Each batch reads an element of each partition, and 100 ms pass; p1 is silent from its second batch on.
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)).with_silence(after=millis(250))
    source = Dealt((tuple(range(0, 60, 5)), (3, 8)), (1, 1), bounded=False)

    def ends(strategy: WatermarkStrategy[object], begin: int) -> list[int]:
        pipeline, outputs = counted(from_source(source), strategy)
        result = LocalRunner(clock=count(begin, 100).__next__).run(pipeline, drain=False)
        return [each.end for each in outputs.of(result)[0] if each.key == "p0"]

    assert ends(WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)), 0) == []
    # The clock is that of 1970 here, up to which p1 comes in its silence: a second less than nothing.
    assert ends(strategy, 0) == []
    assert ends(strategy, 41_000) == [10_000, 20_000, 30_000, 40_000]
    assert ends(strategy, 10**9) == [10_000, 20_000, 30_000, 40_000, 50_000]


def test_a_run_ends_although_the_clock_goes_on() -> None:
    sink = CollectSink[int]()
    stream = windows(stamped(from_collection([2, 4]), silent(1)))
    pipeline = Pipeline("ends", stream.sink_to(sink))
    # The last batches find nothing, and each brings the watermark further; the run ends when nothing is due by it.
    assert LocalRunner(clock=count(10**6, 50).__next__).run(pipeline, drain=False).collected(sink) == [4]
    patient = Pipeline("patient", windows(stamped(from_collection([2, 4]), silent(3_600_000))).sink_to(sink))
    assert LocalRunner().run(patient, drain=False).collected(sink) == []


def test_an_input_without_an_element_is_silent_from_the_first_batch_on() -> None:
    source, other = PushSource(int), PushSource(int)
    both = stamped(from_source(source), silent(10)).union(stamped(from_source(other), silent(50)))
    with StreamHarness(windows(both), source) as harness:
        for clock in (1000, 1040, 1049):
            harness.set_processing_time(clock)
            harness.process_element(clock // 2 * 2)
            assert harness.emit_watermarks() < 0
        harness.set_processing_time(1050)
        harness.process_element(1050)
        assert harness.emit_watermarks() == 1049


def test_ingestion_time_may_be_silent() -> None:
    source = PushSource(int)
    strategy = WatermarkStrategy.for_ingestion_time().with_silence(after=millis(5))
    with StreamHarness(windows(from_source(source).assign_timestamps_and_watermarks(strategy)), source) as harness:
        harness.set_processing_time(1001)
        harness.process_element(7)
        assert harness.emit_watermarks() == 1000
        harness.set_processing_time(1010)
        assert harness.emit_watermarks() == 1009
        assert harness.take_values() == [7]


def test_silence_has_to_have_a_meaning() -> None:
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(millis(5))
    with pytest.raises(InvalidArgumentError, match="the time of silence"):
        bounded.with_silence(after=millis(0))
    for strategy in (WatermarkStrategy.no_watermarks(), WatermarkStrategy.for_generator(_Own)):
        with pytest.raises(InvalidArgumentError, match="does not say how far behind the clock"):
            strategy.with_silence(after=millis(5))
    with pytest.raises(InvalidArgumentError, match="nobody knows whether it is silent"):
        bounded.with_silence(after=millis(5)).with_watermark_alignment("all", millis(5))
    with pytest.raises(InvalidArgumentError, match="nobody knows whether it is silent"):
        bounded.with_watermark_alignment("all", millis(5)).with_silence(after=millis(5))


class _Own(BoundedOutOfOrdernessWatermarks):
    def __init__(self) -> None:
        super().__init__(0)


def test_timestamps_downstream_of_a_window_know_no_silence() -> None:
    first = windows(stamped(from_collection([2]), silent(5)))
    again = windows(stamped(first, silent(5)))
    with pytest.raises(PlanError, match="the silence of a source says nothing about when a keyed step emits") as error:
        Pipeline("again", again.sink_to(CollectSink[int]()))
    assert "at the source" in str(error.value)
    Pipeline("once", first.sink_to(CollectSink[int]()))


def test_explain_shows_silence() -> None:
    plan = Pipeline("shown", windows(stamped(from_collection([2]), silent(5000))).sink_to(CollectSink[int]()))
    assert "follows the clock after 5 s of silence" in plan.explain()


def test_a_partition_that_has_more_than_a_batch_reads_is_not_silent() -> None:
    class OneAtATime(Dealt):
        """Reads p1 in every third batch alone."""

        def next_offset(self, partition: str, start: int, latest: int) -> int:
            asked[partition] = asked.get(partition, 0) + 1
            moves = partition == "p0" or asked[partition] % 3 == 0
            return super().next_offset(partition, start, latest) if moves else start

    asked: dict[str, int] = {}
    slow = OneAtATime((tuple(range(0, 60, 2)), (1, 2, 3, 4, 5, 6, 7, 30)), (1, 1), bounded=False)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_silence(after=millis(150))
    pipeline, outputs = counted(from_source(slow), strategy)
    counts, late = outputs.of(LocalRunner(clock=count(10**9, 100).__next__).run(pipeline, drain=False))
    assert late == [], "a silence of 200 ms between two reads would bring the watermark to the clock"
    assert ("p1", 10_000, 7) in counts


@pytest.mark.parametrize("is_by_machine", [True, False])
def test_on_the_machines_clock_a_run_has_asked_when_it_began(is_by_machine: bool) -> None:
    def slow(element: int) -> int:
        time.sleep(0.1)
        return element

    sink, at = CollectSink[int](), now_millis() // 2 * 2
    stream = windows(stamped(from_collection([at]).map(slow), silent(50)))
    runner = LocalRunner() if is_by_machine else LocalRunner(clock=now_millis)
    result = runner.run(Pipeline("slow", stream.sink_to(sink)), drain=False)
    assert result.collected(sink) == ([] if is_by_machine else [at])


class Stamped(NamedTuple):
    log: str
    at: int


class _Pair(NamedTuple):
    log: str
    number: int


@dataclass(frozen=True)
class Paced(CustomSource[Stamped, int]):
    """A partition with an element of this moment, and one with as many more as come until the first was silent long."""

    count: int

    def partitions(self) -> list[str]:
        return ["busy", "quiet"]

    def initial_offset(self, partition: str) -> int:
        return 0

    def latest_offset(self, partition: str) -> int:
        return self.count if partition == "busy" else 1

    def next_offset(self, partition: str, start: int, latest: int) -> int:
        return start + 1

    def read(self, partition: str, start: int, end: int) -> list[Stamped]:
        if partition == "busy":
            time.sleep(0.02)  # stands for a source whose elements come one by one
        return [Stamped(partition, now_millis())]


def test_by_a_clock_that_is_handed_in_a_silent_partition_holds_nothing() -> None:
    def windows_of(strategy: WatermarkStrategy[object]) -> list[_Pair]:
        sink, late = CollectSink[_Pair](), CollectSink[Stamped]()
        stream = from_source(Paced(20)).assign_timestamps_and_watermarks(strategy, timestamp=lambda each: each.at)
        windows = stream.key_by(lambda each: each.log).window(TumblingEventTimeWindows.of(millis(20)))
        tag = OutputTag("late", Stamped)
        counts = windows.side_output_late_data(tag).aggregate(agg.into(_Pair, agg.key(), agg.count()))
        plan = Pipeline("paced", counts.sink_to(sink), counts.get_side_output(tag).sink_to(late))
        result = LocalRunner(clock=now_millis).run(plan, drain=False)
        assert result.collected(late) == []
        return result.collected(sink)

    bounded = WatermarkStrategy.for_bounded_out_of_orderness(millis(50))
    assert windows_of(bounded) == []
    came = windows_of(bounded.with_silence(after=millis(60)))
    assert _Pair("quiet", 1) in came
    assert len(came) > 1
