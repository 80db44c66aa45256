"""Both engines give OpenTelemetry the same metrics of the same run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.metrics.collected import Collected, collecting
from tests.support.files import put
from windrow import Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.errors import UserFunctionError, WindrowError
from windrow.functions import (
    KeyedProcessContext,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
    RuntimeContext,
)
from windrow.sinks import CollectSink, JsonFileSink
from windrow.sources import JsonFileSource
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.metrics.instruments import ALL, Instrument, Kind
from windrow_runtime.metrics.telemetry import Telemetry
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Reading(NamedTuple):
    sensor: str
    at: int


ROWS: list[tuple[str, int] | str] = [
    ("roof", 1_000),
    ("wall", 2_000),
    ("roof", 12_000),
    "no reading",
    ("roof", 30_000),
    ("wall", 31_000),
    ("roof", 2_500),  # too late
    ("roof", 33_000),
]


class Checked(MapFunction[Reading, Reading]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.checked = runtime_context.metrics.counter("checked")
        self.newest = runtime_context.metrics.gauge("newest")
        self.times = runtime_context.metrics.histogram("times", [2_000, 20_000])

    def map(self, value: Reading) -> Reading:
        self.checked.inc()
        self.newest.set(value.at)
        self.times.record(value.at)
        return value


class Sizes(ProcessWindowFunction[Reading, int, str, TimeWindow]):
    """Clears state, which keeps its windows on objects, whose timers are counted."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Iterable[Reading]
    ) -> Iterable[int]:
        return [len(list(elements))]

    def clear(self, context: ProcessWindowContext[TimeWindow]) -> None:
        pass


class Passing(KeyedProcessFunction[int, int, int]):
    def process_element(self, value: int, context: KeyedProcessContext[int]) -> Iterable[int]:
        return [value]


def folder_of(folder: Path) -> Path:
    for number in range(2):
        rows = [row if isinstance(row, str) else Reading(*row) for row in ROWS[4 * number : 4 * number + 4]]
        put(folder, number, rows, second=number)
    return folder


def pipeline(folder: Path, output: Path) -> Pipeline:
    readings = (
        from_source(JsonFileSource(folder, Reading, on_malformed="drop", files_per_batch=1, files_in_order="name"))
        .map(Checked(), name="checked")
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)), timestamp=lambda r: r.at
        )
    )
    windows = readings.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    counts = windows.aggregate(agg.count(), name="counts").sink_to(CollectSink())
    sizes = windows.process(Sizes(), name="sizes").sink_to(JsonFileSink(output))
    return Pipeline("readings", counts, sizes)


@pytest.fixture
def collected() -> Iterator[Collected]:
    with collecting() as sdk:
        yield sdk


COUNTERS = [each.name for each in ALL if each.kind in {Kind.COUNTER, Kind.UP_DOWN_COUNTER}]


def sums(collected: Collected, engine: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All counters of a run that are above 0, without the name of the engine."""
    return {
        (name, labels - {("engine", engine)}): value
        for name, points in collected.metrics().items()
        if name in COUNTERS
        for labels, value in points.items()
        if value
    }


def test_counters_are_equal(spark: SparkSession, collected: Collected, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "in")
    LocalRunner().run(pipeline(folder, tmp_path / "local"))
    of_local = sums(collected, "local")
    with collecting() as other:
        SparkRunner(spark).run(pipeline(folder, tmp_path / "spark"))
        of_spark = sums(other, "spark")
    assert of_spark == of_local
    name = "windrow.step.records"
    assert collected.by(f"{name}.in", "step") == {
        "readings.1.source": 8,
        "readings.5.counts": 7,
        "readings.6.sink": 5,
        "readings.7.sizes": 7,
        "readings.8.sink": 5,
    }
    assert collected.value(f"{name}.out", step="readings.1.source") == 7
    assert collected.value(f"{name}.malformed") == 1
    assert collected.by(f"{name}.late", "step") == {
        step: float(step.endswith(("counts", "sizes"))) for step in collected.by(f"{name}.late", "step")
    }
    assert collected.value(f"{name}.dropped", reason="late_records_dropped") == 2
    assert collected.value("windrow.step.user.counter", name="checked") == 7
    buckets = collected.by("windrow.step.user.histogram.bucket", "le", name="times")
    assert buckets == {"2000": 2, "20000": 4, "+Inf": 7}
    assert collected.value("windrow.step.user.histogram.sum", name="times") == sum(
        row[1] for row in ROWS if not isinstance(row, str)
    )
    for each in (collected, other):
        assert each.value("windrow.step.user.gauge", name="newest") == 33_000
        parts = each.by("windrow.batch.part.duration", "part")
        assert {"compute", "write", "plan"} <= parts.keys()
        assert each.value("windrow.batch.duration") == parts["compute"]
        assert each.value("windrow.run.active") == 0


class Refused(MapFunction[int, int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.refused = runtime_context.metrics.counter("bids_dropped")

    def map(self, value: int) -> int:
        self.refused.inc()
        return value


def test_a_loss_of_a_step_without_a_report_is_a_counter_of_users(collected: Collected) -> None:
    numbers = from_collection([1, 2]).map(Refused())
    LocalRunner().run(Pipeline("refusing", numbers.sink_to(CollectSink[int]())))
    assert collected.by("windrow.step.user.counter", "name") == {"bids_dropped": 2}


def test_an_error_of_the_sdk_does_not_end_the_run(
    collected: Collected, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("the SDK is broken")

    monkeypatch.setattr(Telemetry, "_measure", refuse)
    results = CollectSink[int]()
    run = LocalRunner().run(Pipeline("broken", from_collection([1]).sink_to(results)))
    assert run.collected(results) == [1]
    assert "metrics or spans of pipeline broken are missing, which goes on" in caplog.text


def test_gauges_of_open_windows(spark: SparkSession, collected: Collected, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "in")
    runners: dict[str, Callable[[Pipeline], object]] = {
        "local": lambda each: LocalRunner(clock=lambda: 40_000).run(each, drain=False),
        "spark": lambda each: SparkRunner(spark, clock=lambda: 40_000).run(each, drain=False),
    }
    for engine, run in runners.items():
        run(pipeline(folder, tmp_path / engine))
        sizes = {"engine": engine, "step": "readings.7.sizes"}
        assert collected.value("windrow.step.windows.open", **sizes) == 2
        assert collected.value("windrow.step.timers", **sizes) == 2
        assert collected.value("windrow.step.watermark", **sizes) == 31.999
        assert collected.value("windrow.step.watermark.lag", **sizes) == pytest.approx(8.001)
        assert collected.value("windrow.batch.ended", engine=engine) == pytest.approx(time.time(), abs=100)
    assert collected.value("windrow.step.state.size", engine="spark", step="readings.7.sizes") > 0
    assert 0.5 <= collected.value("windrow.step.busiest_group", engine="spark", step="readings.7.sizes") <= 1


def test_a_hot_key_is_told_from_many_keys(spark: SparkSession, collected: Collected) -> None:
    def keys(name: str, key: Callable[[int], int]) -> float:
        numbers = from_collection(range(4_000)).key_by(key)
        sums = numbers.process(Passing(), name="sums")
        SparkRunner(spark, key_groups_per_partition=4).run(Pipeline(name, sums.sink_to(CollectSink[int]())))
        return collected.value("windrow.step.busiest_group", pipeline=name)

    assert keys("many", lambda n: n % 500) < 0.3  # of eight groups each should have an eighth
    assert keys("hot", lambda n: 7 if n % 20 else n) > 0.9


def test_a_running_pipeline_says_what_waits(spark: SparkSession, collected: Collected, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "in")
    with SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(pipeline(folder, tmp_path / "out")) as running:
        running.process_available()
        assert collected.value("windrow.run.active") == 1
        deadline = time.monotonic() + 30
        while not collected.metrics().get("windrow.source.backlog") and time.monotonic() < deadline:
            running.await_termination(0.1)
        assert collected.by("windrow.source.backlog", "step") == {"readings.1.source": 0}
        assert collected.by("windrow.source.backlog", "unit") == {"files": 0}
    assert collected.value("windrow.run.active") == 0


class Broken(MapFunction[Reading, Reading]):
    def map(self, value: Reading) -> Reading:
        if value.at > 20_000:
            raise ValueError("no such time")
        return value


def test_a_failure_is_counted(spark: SparkSession, collected: Collected, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "in")
    source = JsonFileSource(folder, Reading, on_malformed="drop", files_per_batch=1)
    broken = Pipeline("broken", from_source(source).map(Broken()).sink_to(CollectSink[Reading]()))
    runners: dict[str, LocalRunner | SparkRunner] = {"local": LocalRunner(), "spark": SparkRunner(spark)}
    for engine, runner in runners.items():
        with pytest.raises(UserFunctionError):
            runner.run(broken)
        assert collected.by("windrow.run.failures", "error.type", engine=engine) == {"UserFunctionError": 1}
        assert collected.value("windrow.run.active", engine=engine) == 0
    failed = [span for span in collected.spans() if not span.status.is_ok]
    assert [event.name for span in failed for event in span.events] == ["exception"] * 2


def test_a_batch_is_a_span_and_its_parts_are_spans_in_it(
    spark: SparkSession, collected: Collected, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path / "in")
    LocalRunner().run(pipeline(folder, tmp_path / "local"))
    SparkRunner(spark).run(pipeline(folder, tmp_path / "spark"))
    for engine in ("local", "spark"):
        of_engine = [span for span in collected.spans() if (span.attributes or {}).get("engine") == engine]
        assert [span.name for span in of_engine] == ["windrow.batch"] * len(of_engine)
        assert [(span.attributes or {})["batch"] for span in of_engine] == [*range(len(of_engine))]
        assert len(of_engine) == collected.value("windrow.batch.duration", engine=engine)
        for span in of_engine:
            assert span.context is not None
            parts = [part for part in collected.spans() if part.parent is not None and part.parent == span.context]
            assert {part.name for part in parts} >= {"windrow.batch.compute", "windrow.batch.write"}
            for part in parts:
                assert (span.start_time or 0) <= (part.start_time or 0) <= (part.end_time or 0)
                assert (part.end_time or 0) <= (span.end_time or 0) + 2_000_000  # parts are whole milliseconds


def test_every_metric_comes(spark: SparkSession, collected: Collected, tmp_path: Path) -> None:
    """The list of metrics has no name that no run gives, and a run gives no other."""
    folder = folder_of(tmp_path / "in")
    with SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(pipeline(folder, tmp_path / "out")) as running:
        running.process_available()
        (folder / "2.json").write_text('{"sensor": "roof", "at": 34000}\n')
        running.process_available()
        seen = set(collected.metrics())
    with pytest.raises(WindrowError):
        LocalRunner().run(Pipeline("broken", from_source(JsonFileSource(folder, Reading)).sink_to(CollectSink())))
    seen |= set(collected.metrics())
    assert seen == {each.name for each in ALL}


def test_without_an_sdk_nothing_is_measured(tmp_path: Path) -> None:
    """In a process of its own, since this one has had an SDK."""
    program = """
import sys
from windrow import Pipeline, from_collection
assert not [name for name in sys.modules if name.startswith("opentelemetry")], "import windrow is light"
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.metrics import telemetry
made = []
telemetry.PipelineProgress = telemetry._Instruments = lambda *arguments: made.append(arguments)
LocalRunner().run(Pipeline("p", from_collection([1]).sink_to(CollectSink[int]())))
assert not made
assert not [name for name in sys.modules if name.startswith("opentelemetry.sdk")]
sys.modules["opentelemetry"] = None  # as if it were not installed
telemetry._is_installed.cache_clear()
LocalRunner().run(Pipeline("p", from_collection([1]).sink_to(CollectSink[int]())))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_names_are_those_of_the_convention() -> None:
    def is_well_named(each: Instrument) -> bool:
        return each.name.startswith("windrow.") and each.name == each.name.lower() and "-" not in each.name

    assert [each.name for each in ALL if not is_well_named(each)] == []
    assert len({each.name for each in ALL}) == len(ALL)
