"""Plans whose watermark is more than Spark can follow: windrow computes it, and the interpreter agrees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.budget import for_a_night
from tests.spark.comparison import Event, Outputs, Seen, millis
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.errors import IncompatibleStateError, UnsupportedOperationError, UserFunctionError
from windrow.functions import CoProcessFunction, ProcessContext
from windrow.sinks import FunctionSink, WriterSink
from windrow.sources import CollectionSource, CsvFileSource
from windrow.watermarks import WatermarkGenerator, WatermarkOutput
from windrow.windows import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

late = OutputTag("late", Event)
BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(millis(50))


class UnderBoth(CoProcessFunction[Event, Event, tuple[str, int, int]]):
    """Shows the watermark under which each element of two streams comes."""

    def process_element1(self, value: Event, context: ProcessContext) -> Iterable[tuple[str, int, int]]:
        return [(value.key, value.value, context.timer_service.current_watermark)]

    def process_element2(self, value: Event, context: ProcessContext) -> Iterable[tuple[str, int, int]]:
        return [(value.key, -value.value, context.timer_service.current_watermark)]


class Third(WatermarkGenerator[Event]):
    """A watermark at every third element of all: needs its memory from batch to batch."""

    __slots__ = ("highest", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self.highest = -(2**60)

    def on_event(self, element: Event, timestamp: int, output: WatermarkOutput) -> None:
        self.seen += 1
        self.highest = max(self.highest, timestamp)
        if self.seen % 3 == 0:
            output.emit_watermark(self.highest - 100)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emits from on_event alone."""


def events(start: int, step: int, count: int) -> list[Event]:
    """Every fifth one is 400 ms too old."""
    return [Event("abc"[n % 3], start + n * step - (400 if n % 5 == 4 else 0), start + n) for n in range(count)]


def source(elements: list[Event], batch_size: int = 14, name: str | None = None) -> DataStream[Event]:
    return from_source(CollectionSource(elements, batch_size=batch_size), name=name)


def stamped(
    stream: DataStream[Event], strategy: WatermarkStrategy[Event] | WatermarkStrategy[object] = BOUNDED
) -> DataStream[Event]:
    return stream.assign_timestamps_and_watermarks(strategy, timestamp=lambda event: event.at)


def short_windows(stream: DataStream[Event]) -> DataStream[tuple[Any, ...]]:
    return (
        stream.key_by(lambda event: event.key)
        .window(TumblingEventTimeWindows.of(millis(200)))
        .side_output_late_data(late)
        .process(Seen())
    )


def add_windows(
    outputs: Outputs, name: str, stream: DataStream[Event], *, with_late: bool = True
) -> DataStream[tuple[Any, ...]]:
    windows = short_windows(stream)
    outputs.add(f"{name} windows", windows)
    if with_late:
        outputs.add(f"{name} late", windows.get_side_output(late))
    return windows


def two_sources() -> DataStream[Event]:
    # One stream is far behind the other, and holds it back.
    fast = stamped(source(events(0, 60, 40), name="fast"))
    slow = stamped(source(events(10, 25, 40), name="slow"), WatermarkStrategy.for_monotonous_timestamps())
    return fast.union(slow)


def add_ended(outputs: Outputs, name: str, slow: DataStream[Event]) -> None:
    """A source that has ended holds nothing back."""
    fast = stamped(source(events(0, 60, 42), batch_size=9))
    add_windows(outputs, name, fast.union(slow))
    add_windows(outputs, f"{name}, alone", slow, with_late=False)
    behind = fast.union(short_windows(slow).map(lambda seen: seen[3][0]).returns(Event))
    add_windows(outputs, f"{name}, behind windows", behind)


def test_every_watermark_is_that_of_the_interpreter(spark: SparkSession, tmp_path: Path) -> None:
    outputs = Outputs()
    add_windows(outputs, "several steps that assign timestamps", two_sources())

    few = events(10, 25, 12)
    lines = [f"{event.key},{event.at},{event.value}" for event in few]
    (tmp_path / "few.csv").write_text("\n".join(["key,at,value", *lines, ""]))
    ended = {"ended files": stamped(from_source(CsvFileSource(str(tmp_path), Event)))}
    ended |= for_a_night({"an ended collection": stamped(source(few))}, {})
    for name, stream in ended.items():
        add_ended(outputs, name, stream)

    read = source(events(0, 60, 40))
    even = stamped(read.filter(lambda event: event.value % 2 == 0))
    odd = stamped(read.filter(lambda event: event.value % 2 == 1), WatermarkStrategy.for_monotonous_timestamps())
    add_windows(outputs, "two behind one source", even.union(odd))

    first = add_windows(outputs, "in front of timestamps", stamped(read))
    # What the window gives is stamped anew, from the oldest element in it.
    again = first.map(lambda seen: Event(seen[0], seen[3][0].at, len(seen[3]))).returns(Event)
    in_order = stamped(again, WatermarkStrategy.for_monotonous_timestamps())
    add_windows(outputs, "timestamps behind a window", in_order, with_late=False)

    both = stamped(source(events(0, 60, 20))).connect(stamped(source(events(10, 25, 20))))
    outputs.add("connected without keys", both.process(UnderBoth()), key=None)

    # batch      1      2      3
    # elements   7      7      6    -> watermarks at elements 3, 6, 9, 12, ...
    strategy = WatermarkStrategy.for_generator(Third)
    add_windows(outputs, "a generator", stamped(source(events(0, 60, 20), batch_size=7), strategy))

    expected, _ = outputs.expected(outputs.pipeline("own"))
    for name in ended:
        ends = [seen[2] for seen in expected[f"{name} windows"]["a"]]
        assert sum(watermark < 2**60 for watermark in ends) > len(ends) // 2
    outputs.check(SparkRunner(spark, partitions=1, key_groups_per_partition=3).run)


def ticking(start: int, step: int) -> Iterator[int]:
    while True:
        yield start
        start += step


@pytest.mark.classic(reason="a clock over a generator cannot be sent to the server")
def test_a_clock_of_ones_own_and_idleness(spark: SparkSession) -> None:
    # clock    1000   1100   1200   1300 ...
    # fast     x      x      x      x
    # slow     x      -      -      -       idle from 1200 on: it holds back the fast one no longer
    outputs = Outputs()
    fast = stamped(source(events(0, 60, 28), batch_size=9, name="fast"))
    # Its source goes on, so it is silent, and not at its end.
    few = source(events(0, 10, 28), batch_size=9, name="slow").filter(lambda event: event.value < 3)
    slow = stamped(few, BOUNDED.with_idleness(millis(200)))
    stream = fast.union(slow)
    add_windows(outputs, "event time", stream)
    outputs.add(
        "processing time",
        stream.key_by(lambda event: event.key).window(TumblingProcessingTimeWindows.of(millis(200))).process(Seen()),
    )
    pipeline = outputs.pipeline("own clock")
    expected = outputs.of(LocalRunner(clock=ticking(1000, 100).__next__).run(pipeline))
    runner = SparkRunner(spark, partitions=1, clock=ticking(1000, 100).__next__)
    found = outputs.of(runner.run(pipeline))
    # How many batches without elements follow is not ours to say, and the clock goes on in them.
    closed = found.pop("processing time")
    for key, windows in expected.pop("processing time").items():
        assert [seen[1:2] + seen[3:] for seen in closed[key]][: len(windows)] == [
            seen[1:2] + seen[3:] for seen in windows
        ]
    assert found == expected


@pytest.mark.classic(reason="the function shares a list with the test")
def test_a_run_that_failed_at_the_end_of_the_stream_is_finished(spark: SparkSession, tmp_path: Path) -> None:
    # batch     ...   e               e + 1                          | e + 1           e + 2
    #           ...   reads the end   what is left fires, and fails  | writes it then  nothing more to wait for
    written: dict[int, list[int]] = {}
    failures = [True]

    def write(batch: int, ends: Sequence[int]) -> None:
        if max(ends) > 1000 and failures:
            failures.clear()
            raise OSError("no")
        written[batch] = list(ends)

    fast = stamped(source([Event("a", n * 60, n) for n in range(20)], batch_size=20, name="fast"))
    slow = stamped(source([Event("b", n * 25, n) for n in range(20)], batch_size=20, name="slow"))
    windows = (
        fast.union(slow)
        .key_by(lambda event: event.key)
        .window(TumblingEventTimeWindows.of(millis(200)))
        .apply(lambda key, window, elements: [window.end])
        .returns(int)
    )
    pipeline = Pipeline("end", windows.sink_to(FunctionSink(write)))
    with pytest.raises(UserFunctionError, match="no"):
        SparkRunner(spark, checkpoint=tmp_path, partitions=1).run(pipeline)
    SparkRunner(spark, checkpoint=tmp_path, partitions=1).run(pipeline)
    assert sorted(end for ends in written.values() for end in ends) == sorted(
        [*range(200, 1201, 200), *range(200, 601, 200)]
    )
    with pytest.raises(IncompatibleStateError, match="was drained"):
        SparkRunner(spark, checkpoint=tmp_path, partitions=1).run(pipeline)


def test_a_writer_sink_cannot_tell_when_a_batch_ends(spark: SparkSession, tmp_path: Path) -> None:
    windows = short_windows(two_sources()).map(lambda seen: seen[0]).returns(str)
    sink = WriterSink[str](lambda frame: frame.writeStream.format("console"))
    with pytest.raises(UnsupportedOperationError, match="computed after each batch") as caught:
        SparkRunner(spark, checkpoint=tmp_path).run(Pipeline("writer", windows.sink_to(sink)))
    assert "test_own_watermarks.py:" in str(caught.value.where)
    keyed = source(events(0, 1, 1)).key_by(lambda event: event.key)
    counted = Pipeline(
        "counted", keyed.count_window(2).process(Seen()).map(lambda seen: seen[0]).returns(str).sink_to(sink)
    )
    runner = SparkRunner(spark, checkpoint=tmp_path / "other", clock=lambda: 0)
    with pytest.raises(UnsupportedOperationError, match="computed after each batch"):
        runner.run(counted)
