"""Runs on Spark that are watched: as they are measured, in a terminal, by a page."""

from __future__ import annotations

import http.client
import json
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple, cast

import pytest

from tests.support.files import put
from tests.terminals import seen_of
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import UnsupportedOperationError, UserFunctionError
from windrow.sinks import CollectSink, WriterSink
from windrow.sources import JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner
from windrow_runtime.view import RunHistory, dashboard, watch
from windrow_spark.run.measures import has_own_bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Click(NamedTuple):
    page: str
    at: int
    weight: int = 1


def counted(folder: Path) -> Pipeline:
    clicks = from_source(JsonFileSource(folder, Click, files_per_batch=1)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)), timestamp=lambda click: click.at
    )
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


def test_the_reports_of_a_bounded_run_fill_a_history(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", "1", [Click("a", 1_000), Click("a", 122_000)])
    put(tmp_path / "in", "2", [Click("a", 2_000)])
    pipeline = counted(tmp_path / "in")
    history = RunHistory(pipeline)
    SparkRunner(spark, partitions=1, on_progress=history.add).run(pipeline)
    snapshot = history.snapshot()
    assert (snapshot.rows, snapshot.is_drained, snapshot.watermark) == (3, True, None)
    assert (snapshot.late, snapshot.dropped) == (1, 1)


@pytest.mark.classic(reason="a WriterSink's stream is Spark's own")
def test_a_pipeline_without_reports_cannot_be_watched(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", "1", [Click("a", 1_000)])
    source = from_source(JsonFileSource(tmp_path / "in", Click))
    sink = WriterSink[Click](lambda frame: frame.writeStream.format("noop"))
    running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(Pipeline("p", source.sink_to(sink)))
    try:
        with pytest.raises(UnsupportedOperationError, match="Spark writes the batches of this sink by itself"):
            watch(running)
        assert running._repr_html_().endswith("no batch is done yet")
    finally:
        running.stop(graceful=False)


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
