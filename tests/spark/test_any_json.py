"""Records with fields of any JSON, whose values need not be JSON between source and sink, on both engines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.budget import for_a_night
from tests.spark.timed import timed
from tests.support.records import millis
from windrow import DataStream, Pipeline, from_source
from windrow import aggregates as agg
from windrow.formats import JsonValue, RawJson
from windrow.sinks import CollectSink, JsonFileSink, ParquetFileSink
from windrow.sources import CollectionSource, JsonFileSource, ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
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


OTHERS = [
    Note(number, "ab"[number % 2], "text", RawJson("{"), (datetime(2026, 1, 1, tzinfo=UTC), {1, 2}))
    for number in range(6)
]
"""Between source and sink a value is what Python likes."""


def test_windows_over_them_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Counts, largest elements and kept elements of windows, and the elements behind a filter."""
    elements = from_source(CollectionSource(NOTES, Note))
    write = Pipeline(
        "write",
        elements.sink_to(JsonFileSink(tmp_path / "json")),
        elements.sink_to(ParquetFileSink(tmp_path / "parquet")),
    )
    SparkRunner(spark).run_batch(write)
    streams: dict[str, DataStream[Any]] = {}
    sources: list[Any] = [
        CollectionSource(NOTES, Note),
        CollectionSource(OTHERS, Note),
        JsonFileSource(tmp_path / "json", Note),
        ParquetFileSource(tmp_path / "parquet", Note),
    ]
    for number, source in enumerate(sources):
        notes = timed(from_source(source))
        windows = notes.key_by(lambda note: note.key).window(TumblingEventTimeWindows.of(millis(4)))
        streams[f"{number}, counts"] = windows.count()
        streams[f"{number}, largest"] = windows.aggregate(agg.max_by(lambda note: note.at))
        streams[f"{number}, all"] = windows.aggregate(agg.collect_list(lambda note: note))
        streams[f"{number}, kept"] = notes.filter(lambda note: note.at > 1)
    sinks = {name: CollectSink[Any](name) for name in streams}
    pipeline = Pipeline("notes", *(stream.sink_to(sinks[name]) for name, stream in streams.items()))
    runner = SparkRunner(spark)
    # A stream makes them of the same records, in batches.
    on_spark = for_a_night((runner.run, runner.run_batch), (runner.run_batch,))
    local, *results = (run(pipeline) for run in (LocalRunner().run, *on_spark))
    for name, sink in sinks.items():
        wanted = sorted(map(repr, local.collected(sink)))
        assert wanted, name
        for result in results:
            assert sorted(map(repr, result.collected(sink))) == wanted, name
