"""What a pipeline that runs says of its batches, counters and watermarks; a page and a terminal show it."""

from __future__ import annotations

import http.client
import json
import logging
import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple, cast
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.dsl.plan_formats import check_json, check_whole
from tests.spark.streams import files_of, stamped
from tests.support.files import put
from tests.terminals import seen_of
from windrow import OutputTag, Pipeline, from_collection, from_source
from windrow import aggregates as agg
from windrow.errors import UnsupportedOperationError, UserFunctionError
from windrow.functions import (
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessWindowContext,
    ProcessWindowFunction,
)
from windrow.sinks import CollectSink, ParquetFileSink, WriterSink
from windrow.sources import JsonFileSource, ParquetFileSource
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.windows import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.metrics.reports import StepProgress
from windrow_runtime.metrics.step_metrics import StepMetrics
from windrow_runtime.metrics.telemetry import PlainRun, Telemetry
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark import PipelineProgress, SparkRunner
from windrow_runtime.view import RunHistory, dashboard, watch
from windrow_spark import progress
from windrow_spark.clock import BatchClock, ClockFiles
from windrow_spark.exchange.facts import OPEN_WINDOWS, WATERMARK
from windrow_spark.progress import ProgressKeeper, Reporter, WatchedStep, WatermarkBounds
from windrow_spark.run.measures import has_own_bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Reading(NamedTuple):
    sensor: str
    at: int


LATE = OutputTag("late", Reading)
FILES: list[list[tuple[str, int] | str]] = [
    [("a", 1_000), ("b", 2_000), ("a", 3_000), ("c", 20_000)],
    # Nothing of "c" comes again, so nobody asks its group.
    [("a", 4_000), ("a", 21_000), "no reading", ("a", 22_000)],
    [("b", 40_000)],
]
TENS = TumblingEventTimeWindows.of(timedelta(seconds=10))


def reporter_of(pipeline: Pipeline) -> Reporter:
    telemetry = Telemetry(pipeline.name, "spark", PlainRun(active=True))
    return Reporter(pipeline.name, Topology(pipeline.steps), None, telemetry, StepMetrics)


class Alarm(KeyedProcessFunction[str, Reading, str]):
    """Sets a timer a second behind each element."""

    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> Iterable[str]:
        context.timer_service.register_event_time_timer(value.at + 1_000)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[str]:
        return [context.key]


class Sizes(ProcessWindowFunction[Reading, int, str, TimeWindow]):
    """Counts elements. That it clears state keeps its windows on objects, which set timers."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]
    ) -> Iterable[int]:
        return [len(elements)]

    def clear(self, context: ProcessWindowContext[TimeWindow]) -> None:
        """Clears nothing."""


def put_file(folder: Path, number: int) -> None:
    rows = [row if isinstance(row, str) else Reading(*row) for row in FILES[number]]
    put(folder, number, rows, second=number)


def watched(folder: Path) -> Pipeline:
    """Windows with late output, sessions that drop what is late, and timers."""
    source = from_source(JsonFileSource(folder, Reading, files_per_batch=1, on_malformed="drop"))
    keyed = stamped(source).key_by(lambda reading: reading.sensor)
    windows = keyed.window(TENS).side_output_late_data(LATE)
    sessions = keyed.window(EventTimeSessionWindows.with_gap(timedelta(seconds=5)))
    return Pipeline(
        "watched",
        windows.process(Sizes()).sink_to(CollectSink()),
        sessions.aggregate(agg.count()).sink_to(CollectSink()),
        keyed.process(Alarm()).sink_to(CollectSink()),
    )


def figures(progress: PipelineProgress, kind: str, *names: str) -> tuple[object, ...]:
    """Some figures of the one step of a kind."""
    (step,) = [step for name, step in progress.steps.items() if name.endswith(f".{kind}")]
    return tuple(getattr(step, name) for name in names)


COUNTS = ("records_in", "records_out", "late", "malformed")
HELD = ("open_windows", "timers")


def check(first: PipelineProgress, second: PipelineProgress) -> None:
    """The figures of the first two batches."""
    source, windows, sessions, process = "1.source", "4.window", "6.window", "8.process"
    assert figures(first, source, *COUNTS) == (4, 4, 0, 0)
    assert figures(second, source, *COUNTS, *HELD, "state_bytes") == (4, 3, 0, 1, None, None, None)
    # The second batch runs under the watermark of the first: the windows until 10 s fire, and ("a", 4) is late.
    assert figures(first, windows, *COUNTS, *HELD) == (4, 0, 0, 0, 3, 3)
    assert figures(second, windows, *COUNTS, *HELD) == (3, 2, 1, 0, 2, 2)
    # They run on columns, which set no timers.
    assert figures(second, sessions, *COUNTS, *HELD) == (3, 2, 1, 0, 2, None)
    assert figures(second, sessions, "dropped") == ({"late_records_dropped": 1},)
    assert figures(second, windows, "dropped") == ({},)  # it was put out
    assert figures(second, process, *COUNTS, *HELD) == (3, 3, 0, 0, None, 4)
    assert figures(second, "5.sink", *COUNTS) == (2, 0, 0, 0)
    assert figures(first, windows, "watermark", "lag_ms") == (19_999, first.ended_at - 19_999)
    (size,) = figures(second, windows, "state_bytes")
    assert isinstance(size, int)
    assert size > 0
    assert second.duration_ms > 0
    assert not second.ended


def test_a_pipeline_that_runs_tells_of_each_batch(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    put_file(folder, 0)
    put_file(folder, 1)
    reports: list[PipelineProgress] = []

    def take(progress: PipelineProgress) -> None:
        reports.append(progress)
        raise LookupError("of the user's")

    pipeline = watched(folder)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1, on_progress=take)
    with caplog.at_level(logging.INFO, "windrow"):
        running = runner.start(pipeline)
        running.process_available()
        counters, watermarks, progress = running.counters(), running.watermarks(), running.progress
        result = running.stop()
    # Live, and as they are at the end.
    assert counters == result.counters
    assert counters["watched.1.source"] == {"records_malformed": 1}
    taken = {step: sum(report.steps[step].records_in for report in reports) for step in result.written}
    assert result.written == taken
    assert [*taken] == [step.id for step in pipeline.steps if step.node.kind == "sink"]
    assert counters["watched.6.window"] == {"late_records_dropped": 1}
    assert set(watermarks) == {"watched.4.window", "watched.6.window", "watched.8.process"}
    assert set(watermarks.values()) == {21_999}
    assert progress in reports
    # What the last watermark makes due is the work of a batch without records.
    first, second = reports[:2]
    assert [report.batch for report in reports] == list(range(len(reports)))
    check(first, second)
    assert [*first.steps] == [step.id for step in pipeline.steps if step.id in first.steps]
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert len(lines) == sum(any(step.records_in for step in report.steps.values()) for report in reports)
    assert lines[1].startswith("pipeline watched, batch 1: 4 records read, 7 written, 2 late, 1 malformed, ")
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(failures) == len(reports)
    assert failures[0].exc_info is not None
    assert "LookupError: of the user's" in caplog.text

    # Another run knows what the groups hold that it does not touch, and says when the stream is at its end.
    put_file(folder, 2)
    reports.clear()
    running = runner.start(pipeline, on_progress=reports.append)
    assert running.progress is None
    assert set(running.watermarks().values()) == {None}
    running.process_available()
    assert figures(reports[0], "4.window", *HELD) == (3, 3)
    assert figures(reports[-1], "4.window", *HELD, "watermark") == (1, 1, 39_999)
    running.drain()
    assert reports[-1].ended
    assert figures(reports[-1], "4.window", *HELD, "state_bytes", "watermark") == (0, 0, 0, None)
    assert set(running.watermarks().values()) == {None}


@pytest.mark.classic(reason="a clock of the test's is called in this process")
def test_columns_and_a_clock_of_ones_own_are_reported_too(spark: SparkSession, tmp_path: Path) -> None:
    for number, rows in enumerate(FILES[:2]):
        columns = list(zip(*(row for row in rows if not isinstance(row, str)), strict=True))
        file = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"sensor": columns[0], "at": pa.array(columns[1], pa.int64())}), file)
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    source = from_source(ParquetFileSource(tmp_path, Reading, files_per_batch=1))
    keyed = stamped(source).key_by(lambda reading: reading.sensor)
    panes = keyed.window(TENS).aggregate(agg.count())
    sessions = keyed.window(EventTimeSessionWindows.with_gap(timedelta(seconds=5))).aggregate(agg.count())
    pipeline = Pipeline(
        "columns",
        panes.sink_to(CollectSink()),
        sessions.sink_to(ParquetFileSink(tmp_path.with_name("out"), overwrite=True)),
    )
    reports: list[PipelineProgress] = []
    runner = SparkRunner(spark, partitions=1, clock=lambda: 60_000, on_progress=reports.append)
    assert all("columns" in str(form) and "not on columns" not in str(form) for form in runner.forms(pipeline).values())
    check_whole(pipeline, runner)
    shown = check_json(pipeline.explain(runner, format="json"))
    result = runner.run(pipeline)
    assert result.written == LocalRunner().run(pipeline).written == {"columns.5.sink": 4, "columns.7.sink": 4}
    first, second = reports[:2]
    assert shown["runner"] == "SparkRunner"
    assert first.steps.keys() < {step["id"] for step in shown["steps"]}
    assert figures(first, "1.source", *COUNTS) == (4, 4, 0, 0)
    assert figures(first, "4.window", *COUNTS, *HELD) == (4, 0, 0, 0, None, None)
    assert figures(first, "6.window", *COUNTS, *HELD) == (4, 0, 0, 0, 3, None)
    assert figures(second, "4.window", *COUNTS, *HELD) == (3, 2, 1, 0, None, None)
    assert figures(second, "6.window", *COUNTS, *HELD) == (3, 2, 1, 0, 2, None)
    assert figures(second, "7.sink", "records_in") == (2,)
    assert figures(first, "4.window", "watermark", "lag_ms") == (19_999, 40_001)
    assert first.ended_at == 60_000
    assert reports[-1].ended
    assert figures(reports[-1], "6.window", *HELD, "state_bytes") == (0, None, 0)
    history = RunHistory(pipeline)
    for each in reports:
        history.add(each)
    snapshot = history.snapshot()
    assert (snapshot.rows, snapshot.is_drained, snapshot.watermark) == (7, True, None)
    assert (snapshot.late, snapshot.dropped) == (2, 2)
    reports.clear()
    SparkRunner(spark, on_progress=reports.append).run_batch(pipeline)
    (report,) = reports
    assert figures(report, "6.window", *COUNTS, *HELD) == (7, 4, 0, 0, 0, None)


@pytest.mark.classic(reason="a WriterSink's stream is Spark's own")
def test_a_sink_that_spark_writes_is_not_reported(spark: SparkSession, tmp_path: Path) -> None:
    written = from_collection([1, 2]).map(str)
    sink = WriterSink[str](lambda frame: frame.writeStream.format("noop"))
    pipeline = Pipeline("written", written.sink_to(sink))
    runner = SparkRunner(spark, checkpoint=tmp_path)
    with pytest.raises(UnsupportedOperationError, match="Spark writes the batches of this sink by itself"):
        runner.start(pipeline, on_progress=lambda progress: None)
    running = runner.start(pipeline)
    try:
        with pytest.raises(UnsupportedOperationError, match="Spark writes the batches of this sink by itself"):
            watch(running)
        assert running._repr_html_().endswith("no batch is done yet")
    finally:
        running.stop(graceful=False)


COUNTED = WatchedStep("p.2.window", "window", has_watermark=True, has_windows=True, has_timers=True)


def held(keeper: ProgressKeeper, batch: int, windows: int) -> tuple[int | None, int | None]:
    """What is said of windows and watermark behind a batch that opened some windows."""
    facts = [("p.2.window", OPEN_WINDOWS, windows), ("p.1.source", WATERMARK, 1_000 * batch)]
    step = keeper.end_batch(batch, facts, ended=False, parts={"compute": 0.1}).steps["p.2.window"]
    return step.open_windows, step.watermark


def test_a_batch_that_is_run_again_takes_the_place_of_what_it_said(tmp_path: Path) -> None:
    keeper = ProgressKeeper([COUNTED], tmp_path / "sums")
    assert held(keeper, 0, 5) == (5, 0)
    assert held(keeper, 1, 2) == (7, 1_000)
    again = ProgressKeeper([COUNTED], tmp_path / "sums")
    assert held(again, 1, 3) == (8, 1_000)
    assert held(again, 2, -8) == (0, 2_000)


@pytest.mark.parametrize("content", [None, "", "[]", '{"batch": 0, "before": {"window": [1]}}', "{\xff"])
def test_what_is_not_known_is_not_told(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "sums").write_text(content)
    keeper = ProgressKeeper([COUNTED], tmp_path / "sums")
    assert held(keeper, 3, 5) == (None, None)
    assert keeper.end_batch(4, [], ended=False, parts={}).steps["p.2.window"].state_bytes is None


def test_a_task_knows_a_bound_of_the_watermark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other one is above it: elements in windows behind it are partially aggregated before the exchange."""
    file = tmp_path / "sums"

    def bound(batch: int | None, clock: ClockFiles | None = None) -> int | None:
        monkeypatch.setattr(progress, "current_batch", lambda: batch)
        return WatermarkBounds(file, clock).read()("p.2.window")

    assert bound(0) == MIN_TIMESTAMP
    assert bound(1) is None, "there is no file"
    keeper = ProgressKeeper([COUNTED], file)
    held(keeper, 0, 1)
    held(keeper, 1, 1)
    # A batch that runs again comes under the watermark of the batches before it.
    assert [bound(1), bound(2), bound(3), bound(None)] == [0, 1_000, None, None]
    keeper.end_batch(2, [], ended=True, parts={})
    assert bound(3) == MAX_TIMESTAMP
    file.write_text("damaged")
    assert bound(3) is None
    times = ClockFiles(tmp_path / "clock")
    times.write(3, BatchClock({"p.2.window": 70}))
    assert bound(3, times) == 70
    assert WatermarkBounds(None, None).read()("p.2.window") == MIN_TIMESTAMP, "a batch job has no watermark"


LOSSES = ("late", "malformed", "dropped")


def test_a_report_is_one_line_and_a_table() -> None:
    busy = StepProgress(1_200, 3, late=2, dropped={"a": 2}, open_windows=0, state_bytes=5_000, lag_ms=443_000_000)
    report = PipelineProgress(12, 1_840, 9_000, False, {"p.1.<b>": StepProgress(records_in=9), "p.2.w": busy})
    assert repr(report) == "PipelineProgress(batch 12, 2 steps, watermark 5 d 3 h behind, in 1.8 s)"
    assert repr(busy) == (
        "StepProgress(records_in=1200, records_out=3, late=2, dropped={'a': 2}, open_windows=0, state_bytes=5000, "
        "lag_ms=443000000)"
    )
    assert eval(repr(busy)) == busy
    html = report._repr_html_()
    root = ElementTree.fromstring(f"<html>{html}</html>")
    assert "<b>" not in html
    assert [text.text for text in root.iter("p")] == [repr(report)]
    assert [[cell.text for cell in row] for row in root.iter("tr")] == [
        ["step", "records in", "records out", *LOSSES, "windows", "timers", "state", "watermark"],
        ["p.1.<b>", "9", "0", "0", "0", "0", None, None, None, None],
        ["p.2.w", "1,200", "3", "2", "0", "2", "0", None, "5,000 bytes", "5 d 3 h behind"],
    ]
    ended = PipelineProgress(1, 90, 9_000, True, {"p.1.source": StepProgress()})
    assert repr(ended) == "PipelineProgress(batch 1, 1 step, in 90 ms, ended)"


def test_a_runner_is_one_line_without_secrets() -> None:
    runner = SparkRunner(
        checkpoint="s3a://ann:s3cret@bucket/c", partitions=4, columnar=False, on_progress=print, accept_changes=["a"]
    )
    assert repr(runner) == (
        "SparkRunner(checkpoint='s3a://ann:*****@bucket/c', partitions=4, columnar=False, on_progress=print, "
        "accept_changes=['a'])"
    )
    assert repr(SparkRunner()) == "SparkRunner()"


def test_an_empty_batch_writes_no_line_at_the_level_info(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = Pipeline("p", from_collection([1]).sink_to(CollectSink[int]()))
    idle = {"p.1.source": StepProgress(lag_ms=3_120, open_windows=4), "p.2.sink": StepProgress()}
    fired = {"p.1.source": StepProgress(), "p.2.sink": StepProgress(records_in=1)}
    reports = [PipelineProgress(12, 5, 0, False, idle), PipelineProgress(13, 5, 0, False, fired)]
    reports += [PipelineProgress(14, 5, 0, True, idle)]
    reporter = reporter_of(pipeline)
    with caplog.at_level(logging.DEBUG, "windrow"):
        for each in reports:
            reporter.report(each)
    assert [record.levelname for record in caplog.records] == ["DEBUG", "INFO", "INFO"]


def test_the_log_has_lags_in_words(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = Pipeline("p", from_collection([1]).sink_to(CollectSink[int]()))
    steps = {"p.1.source": StepProgress(records_in=7, lag_ms=3_120), "p.2.sink": StepProgress(records_in=6)}
    with caplog.at_level(logging.INFO, "windrow"):
        reporter_of(pipeline).report(PipelineProgress(12, 61_000, 0, False, steps))
    assert caplog.messages == [
        "pipeline p, batch 12: 7 records read, 6 written, 0 late, 0 malformed, watermark 3.1 s behind, in 1 min 1 s"
    ]


class Click(NamedTuple):
    page: str
    at: int
    weight: int = 1


def counted(folder: Path) -> Pipeline:
    clicks = stamped(files_of(folder, Click), 1_000)
    weighed = clicks.filter(lambda click: 1 // click.weight > 0).key_by(lambda click: click.page)
    minutes = weighed.window(TumblingEventTimeWindows.of(timedelta(minutes=1)))
    return Pipeline("clicks", minutes.aggregate(agg.count(), name="minutes").sink_to(CollectSink()))


def told(port: int) -> dict[str, object]:
    """What a page is told, once."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/run.json")
    document: dict[str, object] = json.loads(connection.getresponse().read())
    connection.close()
    return document


def test_a_page_follows_a_run_to_its_failure(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", "1", [Click("a", 1_000), Click("b", 61_000), Click("a", 122_000)])
    put(tmp_path / "in", "2", [Click("a", 2_000), Click("c", 123_000)])
    pipeline = counted(tmp_path / "in")
    running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1).start(pipeline)
    with dashboard(running) as served:
        running.process_available()
        assert [report.batch for report in running.recent_progress][:2] == [0, 1]
        assert running.recent_progress[-1] == running.progress
        assert running.pipeline is pipeline
        window = next(step.id for step in pipeline.steps if step.node.kind == "window")
        assert str(running.forms(pipeline)[window]).startswith("Python, loop of tumbling windows; not on columns: ")
        assert "runs as Python, loop of tumbling windows" in pipeline.explain(running)
        shown = running._repr_html_()
        assert shown.startswith("<p>RunningPipeline('clicks', 6 steps, active)</p>\n<p>PipelineProgress(batch ")
        assert f"<td>{window}</td>" in shown
        served_history = _until(served.port, "rows", 5)
        (windows,) = cast("list[dict[str, object]]", served_history["windows"])
        assert (windows["watermark"], windows["newest"], windows["number"]) == (121_999, 123_000, 1)
        assert (served_history["late"], served_history["dropped"]) == (1, 1)
        put(tmp_path / "in", "3", [Click("a", 130_000, weight=0)])
        with pytest.raises(UserFunctionError):
            running.await_termination()
        failed = _until(served.port, "state", "failed")
    assert "ZeroDivisionError" in str(failed["error"])
    with pytest.raises(UserFunctionError):
        watch(running)


def _until(port: int, name: str, value: object) -> dict[str, object]:
    """What a page is told as soon as a field has a value; the time limit of the test ends a wait in vain."""
    while (shown := told(port))[name] != value:
        pass
    return shown


@pytest.mark.parametrize(("setting", "has_one"), [("true", True), ("false", False), (None, False)])
def test_spark_may_have_a_bar_of_its_own(setting: str | None, *, has_one: bool) -> None:
    settings = {} if setting is None else {"spark.ui.showConsoleProgress": setting}
    context = SimpleNamespace(getConf=lambda: settings)
    assert has_own_bar(cast("SparkSession", SimpleNamespace(sparkContext=context))) is has_one
    assert not has_own_bar(None)
    assert not has_own_bar(cast("SparkSession", SimpleNamespace()))  # one of Spark Connect


BARRED = dedent("""\
    import sys

    from windrow import Pipeline, from_source
    from windrow.sinks import CollectSink
    from windrow.sources import CollectionSource
    from windrow_runtime.spark import SparkRunner


    def shown(number: int) -> int:
        print("printed by a worker", number, file=sys.stderr, flush=True)
        return number


    numbers = from_source(CollectionSource([*range(80)], int, batch_size=10)).map(shown)
    runner = SparkRunner(partitions=1)
    print(len(runner.run(Pipeline("numbers", numbers.sink_to(CollectSink()))).pipeline.steps))
""")


@pytest.mark.program
@pytest.mark.thorough(reason="tests/bar has it below what is printed; the page and the reports are of runs on Spark")
def test_a_terminal_shows_a_bar_below_all_that_is_printed(tmp_path: Path) -> None:
    (tmp_path / "barred.py").write_text(BARRED)
    seen = seen_of(tmp_path, "barred.py")
    assert (seen.code, seen.output) == (0, "3\n")
    bars = [screen[-1] for screen in seen.screens if screen[-1].startswith("numbers  ")]
    assert bars[0].startswith("numbers  starting for ")
    assert any(" of 80 rows" in bar and " of 8" in bar for bar in bars)
    rows = {row for screen in seen.screens for row in screen[:-1]}
    assert {f"printed by a worker {number}" for number in range(80)} <= rows
    assert not any("numbers  " in row for row in rows)
    assert "numbers" not in "".join(seen.last)
