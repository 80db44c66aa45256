"""Runs that go on where an earlier one stopped, and checkpoints that are refused."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.comparison import Event, Outputs, Seen, millis
from tests.spark.streams import files_of, keyed, stamped
from tests.spark.versions import records
from tests.support.files import put
from windrow import KeyedStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.errors import IncompatibleStateError, UserFunctionError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import CollectionSource, JsonFileSource
from windrow.state import ReducingStateDescriptor, ValueStateDescriptor
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows, WindowStagger
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

late = OutputTag("late", Event)


class Silence(KeyedProcessFunction[str, Event, tuple[str, int, int]]):
    """Tells how many elements a key had when it fell silent."""

    count = ReducingStateDescriptor[int]("count", lambda a, b: a + b)

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[tuple[str, int, int]]:
        context.get_state(self.count).add(1)
        context.timer_service.register_event_time_timer(value.at + 150)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[tuple[str, int, int]]:
        return [(context.key, timestamp, context.get_state(self.count).get() or 0)]


def write(folder: Path, numbers: Iterable[int]) -> None:
    """The files of these numbers: each 100 ms on from the one before, the last two elements out of order."""
    for number in numbers:
        events = [
            Event("abc"[(number + place) % 3], number * 100 + at, number * 10 + place)
            for place, at in enumerate([0, 30, 60, 90, -40, -250])
        ]
        put(folder, number, events, second=number)


def build(folder: Path, size: int = 250, name: str = "windows", *, moved: bool = False) -> tuple[Outputs, Pipeline]:
    """The pipeline; where it is moved, every step has another number and another pipeline's name."""
    outputs = Outputs()
    events = files_of(folder, Event)
    by_key = keyed(events.filter(lambda event: True) if moved else events, 50)
    tumbling_ = by_key.window(TumblingEventTimeWindows.of(millis(size)))
    windows = tumbling_.side_output_late_data(late).process(Seen(), name=name)
    outputs.add("windows", windows)
    outputs.add("late", windows.get_side_output(late))
    outputs.add("sessions", by_key.window(EventTimeSessionWindows.with_gap(millis(120))).process(Seen()))
    outputs.add("rolling", by_key.sum(lambda event: event.value))
    outputs.add("silence", by_key.process(Silence()))
    outputs.add(
        "windows of windows",
        windows.key_by(lambda seen: seen[0]).window(TumblingEventTimeWindows.of(millis(1_000))).process(Seen()),
    )
    return outputs, outputs.pipeline("moved" if moved else "restart")


Found = dict[str, dict[Any, list[Any]]]


def joined(runs: Iterable[Found]) -> Found:
    whole: Found = {}
    for run in runs:
        for name, elements in run.items():
            for key, values in elements.items():
                whole.setdefault(name, {}).setdefault(key, []).extend(values)
    return whole


def test_runs_one_after_another_give_what_one_run_gives(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, range(5))
    outputs, pipeline = build(folder)
    expected, _ = outputs.expected(pipeline)
    for file in folder.iterdir():
        if file.stem > "1":
            file.unlink()

    checkpoint = tmp_path / "checkpoint"
    runs: list[Found] = []

    def run(*, drain: bool) -> None:
        outputs, pipeline = build(folder)
        runs.append(outputs.of(SparkRunner(spark, checkpoint=checkpoint).run(pipeline, drain=drain)))

    run(drain=False)
    assert runs[0]["rolling"]
    # Everything anew, as in another process, with a step more.
    outputs, pipeline = build(folder, moved=True)
    running = SparkRunner(spark, checkpoint=checkpoint).start(pipeline, interval_seconds=0.05)
    try:
        running.process_available()
        write(folder, range(2, 4))
        running.process_available()
        assert running.is_active
    finally:
        runs.append(outputs.of(running.stop()))
    assert not running.is_active
    assert running.await_termination(5)
    assert sum(map(len, runs[1]["rolling"].values())) == 12
    for changed, what in (
        (build(folder, size=300), r"size=250(.|\n)*size=300"),
        (build(folder, name="other"), r"other, \S*test_runner_restart.py:\d+ is new; windows \(Tumbling.*\) is gone"),
    ):
        with pytest.raises(IncompatibleStateError, match=rf"another plan(.|\n)*{what}"):
            SparkRunner(spark, checkpoint=checkpoint).run(changed[1])
    write(folder, [4])
    run(drain=True)
    assert joined(runs) == expected

    outputs, pipeline = build(folder)
    runner = SparkRunner(spark, checkpoint=checkpoint)
    for again in (runner.run, runner.start):
        with pytest.raises(IncompatibleStateError, match="was drained"):
            again(pipeline)


def test_staggered_windows_stay_where_they_are(spark: SparkSession, tmp_path: Path) -> None:
    # clock    1030                    2100
    # run      1                       2
    # windows  [-220, 30) [30, 280) [280, 530) ...
    folder = tmp_path / "in"

    def staggered() -> tuple[Outputs, Pipeline]:
        outputs = Outputs()
        assigner = TumblingEventTimeWindows.of(millis(250), stagger=WindowStagger.NATURAL)
        outputs.add("windows", keyed(files_of(folder, Event), 50).window(assigner).process(Seen()))
        return outputs, outputs.pipeline("staggered")

    write(folder, range(2))
    outputs, pipeline = staggered()
    expected = outputs.of(LocalRunner(clock=lambda: 1_030).run(pipeline))
    (folder / "1.json").unlink()
    runs: list[Found] = []
    for clock, drain in ((lambda: 1_030, False), (lambda: 2_100, True)):
        outputs, pipeline = staggered()
        runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", clock=clock)
        runs.append(outputs.of(runner.run(pipeline, drain=drain)))
        write(folder, [1])
    assert joined(runs) == expected
    assert all(runs[0].values())
    assert {window.start % 250 for found in expected["windows"].values() for _, window, *_ in found} == {30}


@pytest.mark.classic(reason="the function shares a list with the test")
def test_a_run_that_failed_at_the_end_of_the_stream_can_be_finished(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, [0])
    checkpoint = tmp_path / "checkpoint"
    down = [True]
    taken: list[Event] = []

    def store(batch: int, elements: Iterable[Event]) -> None:
        if down[0]:
            raise ConnectionError("the database is down")
        taken.extend(elements)

    windows = (
        from_source(JsonFileSource(folder, Event, files_per_batch=1))
        .assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks(), timestamp=lambda event: event.at)
        .key_by(lambda event: event.key)
        .window(TumblingEventTimeWindows.of(millis(250)))
        .reduce(lambda a, b: Event(a.key, a.at, a.value + b.value))
    )
    pipeline = Pipeline("at the end", windows.sink_to(FunctionSink(store)))
    with pytest.raises(UserFunctionError, match="the database is down"):
        SparkRunner(spark, checkpoint=checkpoint).run(pipeline)
    down[0] = False
    with pytest.raises(IncompatibleStateError, match=r"at the end of its stream(.|\n)*run\(pipeline\)"):
        SparkRunner(spark, checkpoint=checkpoint).run(pipeline, drain=False)
    SparkRunner(spark, checkpoint=checkpoint).run(pipeline)
    found, taken = taken, []
    LocalRunner().run(pipeline)
    assert sorted(found, key=repr) == sorted(taken, key=repr)
    assert found


@pytest.mark.thorough(reason="test_exhausted_sources.py has a draining run that fails before the end of a source")
def test_a_run_that_failed_before_the_end_of_the_stream_leaves_it_open(spark: SparkSession, tmp_path: Path) -> None:
    folder, mended = tmp_path / "in", tmp_path / "mended"
    write(folder, range(2))

    def checked(event: Event) -> Event:
        if not mended.exists():
            raise ValueError("a mistake")
        return event

    def summed() -> tuple[Pipeline, CollectSink[tuple[int, int]]]:
        # Two sources, so that one of them may be read in several batches.
        first = from_source(JsonFileSource(folder, Event)).map(checked).returns(Event)
        second = from_source(
            CollectionSource([Event("abc"[number % 3], 30, 0) for number in range(6)], Event, batch_size=3)
        )
        sink = CollectSink[tuple[int, int]]()
        windows = stamped(first.union(second), 300).window_all(TumblingEventTimeWindows.of(millis(1_000)))
        sizes = windows.apply(lambda window, events: [(window.end, len(list(events)))])
        return Pipeline("mended", sizes.sink_to(sink)), sink

    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(UserFunctionError, match="a mistake"):
        SparkRunner(spark, checkpoint=checkpoint).run(summed()[0])
    mended.touch()
    write(folder, [2])
    pipeline, sink = summed()
    assert not SparkRunner(spark, checkpoint=checkpoint).run(pipeline, drain=False).collected(sink)
    write(folder, [30])
    pipeline, sink = summed()
    result = SparkRunner(spark, checkpoint=checkpoint).run(pipeline)
    assert sorted(result.collected(sink)) == [(0, 4), (1_000, 20), (3_000, 2), (4_000, 4)]
    assert not any("late_records_dropped" in counts for counts in result.counters.values())


def test_the_end_of_the_stream_is_the_newest_line_by_any_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 60)  # that of the file system is behind
    checkpoint = Checkpoint.at(tmp_path)
    checkpoint.control_folder.mkdir()
    checkpoint.end_stream(3)
    lines = sorted(Path(checkpoint.control_folder).iterdir(), key=lambda line: line.stat().st_mtime)
    assert [line.read_text().strip() for line in lines] == ["wake", "wake", "wake", "end"]


def test_a_copy_of_a_checkpoint_reads_a_collection_in_its_order(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint, mended = tmp_path / "checkpoint", tmp_path / "mended"

    def checked(number: int) -> int:
        if not mended.exists():
            raise ValueError("a mistake")
        return number

    sink = CollectSink[int]()
    numbers = from_source(CollectionSource(range(4), int, batch_size=2)).map(checked).returns(int)
    timed = stamped(numbers, at=lambda number: number * 1_000)
    sums = timed.key_by(lambda _: 0).window(TumblingEventTimeWindows.of(millis(2_000))).sum(lambda number: number)
    pipeline = Pipeline("copied", sums.sink_to(sink))
    with pytest.raises(UserFunctionError, match="a mistake"):
        SparkRunner(spark, checkpoint=checkpoint).run(pipeline)
    mended.touch()
    for age, file in enumerate(sorted((checkpoint / "sources").rglob("batch-*"))):
        os.utime(file, (2_000_000_000 - age,) * 2)
    result = SparkRunner(spark, checkpoint=checkpoint).run(pipeline)
    assert result.collected(sink) == [1, 5]
    assert not any("late_records_dropped" in counts for counts in result.counters.values())


def measuring(folder: Path, version: int) -> tuple[Outputs, Pipeline]:
    """Windows and process state that hold records, in one of two versions of these."""
    measured, highest = records(version)

    class Peak(KeyedProcessFunction[str, Any, tuple[Any, ...]]):
        peak = ValueStateDescriptor("peak", highest)

        def process_element(self, value: Any, context: KeyedProcessContext[str]) -> Iterable[tuple[Any, ...]]:
            peak = context.get_state(self.peak)
            known = peak.value()
            if known is not None:
                yield (context.key, *known)
            if known is None or known.value < value.value:
                unit = {"unit": value.unit} if version == 2 else {}
                peak.update(highest(at=value.at, value=value.value, **unit))

    outputs = Outputs()
    by_key: KeyedStream[Any, str] = stamped(from_source(JsonFileSource(folder, measured))).key_by(lambda r: r.key, str)
    window = by_key.window(TumblingEventTimeWindows.of(millis(100)))
    outputs.add("all", window.apply(lambda key, _, found: [(key, *map(repr, found))]))
    outputs.add("lowest", window.reduce(lambda a, b: a if a.value <= b.value else b))
    outputs.add("peaks", by_key.process(Peak()))
    return outputs, outputs.pipeline("measuring")


@pytest.mark.thorough(
    reason="tests/command/test_check_upgrade.py runs with a new field, test_stored_records.py has its default"
)
def test_stored_records_get_the_default_of_a_new_field(spark: SparkSession, tmp_path: Path) -> None:
    # records    10: 7.0    20: 9.0   |   30: 8.0 F
    # version    1                    |   2, with units
    folder = tmp_path / "in"
    found = []
    for version, lines in (
        (1, [{"key": "a", "at": 10, "value": 7.0}, {"key": "a", "at": 20, "value": 9.0}]),
        (2, [{"key": "a", "at": 30, "value": 8.0, "unit": "F"}]),
    ):
        put(folder, version, lines)
        outputs, pipeline = measuring(folder, version)
        runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
        found.append(outputs.of(runner.run(pipeline, drain=version == 2)))
    assert found[0] == {"all": {}, "lowest": {}, "peaks": {"a": [("a", 10, 7.0)]}}
    everything = (
        "a",
        *(
            f"Measured(key='a', {rest})"
            for rest in ("at=10, unit='C', value=7.0", "at=20, unit='C', value=9.0", "at=30, unit='F', value=8.0")
        ),
    )
    assert found[1]["all"] == {"a": [everything]}
    assert list(map(repr, found[1]["lowest"]["a"])) == [everything[1]]
    assert found[1]["peaks"] == {"a": [("a", 20, "C", 9.0)]}
