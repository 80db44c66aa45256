"""Records with fields of any JSON, whose values need not be JSON between source and sink, on both engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.formats import JsonValue, RawJson
from windrow.sinks import CollectSink, JsonFileSink, ParquetFileSink
from windrow.sources import CollectionSource, JsonFileSource, ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner, PipelineResult
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: it is what a field says that holds any JSON.


@dataclass(frozen=True)
class Note:
    at: int
    key: str
    body: JsonValue
    raw: RawJson
    anything: Any = None


NOTES = [Note(number, "ab"[number % 2], {"n": [number]}, RawJson(f"{number}.0"), number) for number in range(6)]


def results(run: Callable[[Pipeline], PipelineResult], source: Any) -> list[str]:
    """Counts, largest elements and kept elements of windows, and the elements behind a filter."""
    notes = from_source(source).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda note: note.at
    )
    windows = notes.key_by(lambda note: note.key).window(TumblingEventTimeWindows.of(timedelta(milliseconds=4)))
    sinks = [CollectSink[Any](str(number)) for number in range(4)]
    pipeline = Pipeline(
        "notes",
        windows.count().sink_to(sinks[0]),
        windows.aggregate(agg.max_by(lambda note: note.at)).sink_to(sinks[1]),
        windows.aggregate(agg.collect_list(lambda note: note)).sink_to(sinks[2]),
        notes.filter(lambda note: note.at > 1).sink_to(sinks[3]),
    )
    result = run(pipeline)
    return [repr(sorted(result.collected(sink), key=repr)) for sink in sinks]


def test_windows_over_them_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    elements = from_source(CollectionSource(NOTES, Note))
    write = Pipeline(
        "write",
        elements.sink_to(JsonFileSink(tmp_path / "json")),
        elements.sink_to(ParquetFileSink(tmp_path / "parquet")),
    )
    SparkRunner(spark).run_batch(write)
    for source, run in (
        (CollectionSource(NOTES, Note), SparkRunner(spark).run_batch),
        (JsonFileSource(tmp_path / "json", Note), SparkRunner(spark).run),
        (ParquetFileSource(tmp_path / "parquet", Note), SparkRunner(spark).run_batch),
    ):
        assert results(run, source) == results(LocalRunner().run, source)


def test_between_source_and_sink_a_value_is_what_python_likes(spark: SparkSession) -> None:
    others = [
        Note(number, "ab"[number % 2], "text", RawJson("{"), (datetime(2026, 1, 1, tzinfo=UTC), {1, 2}))
        for number in range(6)
    ]
    source = CollectionSource(others, Note)
    assert results(SparkRunner(spark).run, source) == results(LocalRunner().run, source)
