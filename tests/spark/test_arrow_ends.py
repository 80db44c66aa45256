"""Sources and sinks that exchange Arrow data, on Spark: on columns from end to end, and as in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from tests.arrow_connectors import Reading, Readings, Tables, reading, rows_of
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_arrow, from_source
from windrow import aggregates as agg
from windrow.errors import MalformedRecordError, UserFunctionError
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import MalformedRecord
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: pyarrow has no types.

MALFORMED = OutputTag("malformed", MalformedRecord)


class Mean(NamedTuple):
    sensor: str
    end: int
    value: float


def means(stream: DataStream[Reading]) -> DataStream[Mean]:
    timed = stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(hours=1)), timestamp=lambda each: each.time
    )
    windows = timed.key_by(lambda each: each.sensor).window(TumblingEventTimeWindows.of(timedelta(minutes=1)))
    return windows.aggregate(agg.into(Mean, agg.key(), agg.window_end(), agg.mean(lambda each: each.value)))


def written(run: Any, source: Readings, folder: Path, *, workers: bool) -> list[dict[str, Any]]:
    folder.mkdir()
    run(Pipeline("means", means(from_source(source)).sink_to(Tables(folder, workers=workers))))
    return sorted(rows_of(folder), key=repr)


@pytest.mark.parametrize("workers", [False, True])
def test_columns_from_the_source_to_the_sink(spark: SparkSession, tmp_path: Path, workers: bool) -> None:
    source = Readings(2_000, rows=70, per_batch=300)
    expected = written(LocalRunner().run, source, tmp_path / "local", workers=workers)
    assert len(expected) == 238
    runner = SparkRunner(spark)
    plan = Pipeline("means", means(from_source(source)).sink_to(Tables(tmp_path, workers=workers))).explain(runner)
    assert plan.count("runs as columns") == 1, plan
    assert written(runner.run, source, tmp_path / "run", workers=workers) == expected
    assert written(runner.run_batch, source, tmp_path / "batch", workers=workers) == expected


def test_elements_that_python_functions_make_become_a_table(spark: SparkSession, tmp_path: Path) -> None:
    stream = from_source(Readings(100)).map(lambda each: each._replace(sensor=each.sensor.join("<>"))).returns(Reading)
    SparkRunner(spark).run(Pipeline("p", stream.sink_to(Tables(tmp_path))))
    assert sorted(rows_of(tmp_path), key=repr) == sorted(
        ({**reading(number)._asdict(), "sensor": f"<s{number % 7}>"} for number in range(100)), key=repr
    )


@pytest.mark.parametrize("batch", [False, True])
def test_malformed_records_of_columns(spark: SparkSession, batch: bool) -> None:
    stream = from_source(Readings(100, malformed=MALFORMED, bad=42))
    results, malformed = CollectSink[Mean](), CollectSink[MalformedRecord]()
    pipeline = Pipeline("p", means(stream).sink_to(results), stream.get_side_output(MALFORMED).sink_to(malformed))
    runner = SparkRunner(spark)
    result = runner.run_batch(pipeline) if batch else runner.run(pipeline)
    assert result.collected(malformed) == [MalformedRecord("42", "is bad", "even:42")]
    assert result.counter("records_malformed") == 1
    assert sorted(result.collected(results)) == sorted(LocalRunner().run(pipeline).collected(results))
    with pytest.raises(MalformedRecordError, match=r"is bad(.|\n)*even:42"):
        runner.run(Pipeline("p", means(from_source(Readings(100, bad=42))).sink_to(CollectSink[Mean]())))


@pytest.mark.parametrize("workers", [False, True])
def test_a_run_that_failed_goes_on_and_writes_each_row_once(spark: SparkSession, tmp_path: Path, workers: bool) -> None:
    checkpoint, folder = tmp_path / "checkpoint", tmp_path / "tables"
    folder.mkdir()

    def pipeline(source: Readings) -> Pipeline:
        return Pipeline("p", from_source(source, name="readings").sink_to(Tables(folder, workers=workers)))

    runner = SparkRunner(spark, checkpoint=checkpoint)
    with pytest.raises(UserFunctionError, match=r"the service is away(.|\n)*read_arrow\((.|\n)*where: +p\.1\.readings"):
        runner.run(pipeline(Readings(1_000, per_batch=100, fails_from=500)))
    first = len(rows_of(folder))
    assert 0 < first <= 500
    runner.run(pipeline(Readings(1_000, per_batch=100)))
    rows = rows_of(folder)
    assert len(rows) == 1_000
    assert {row["time"] for row in rows} == {number * 1_000 for number in range(1_000)}


TABLE = pa.Table.from_pylist([reading(number)._asdict() for number in range(1_000)])


@pytest.mark.parametrize("size", [None, 300])
def test_the_rows_of_a_table(spark: SparkSession, size: int | None) -> None:
    sink = CollectSink[Mean]()
    pipeline = Pipeline("p", means(from_arrow(TABLE, Reading, batch_size=size)).sink_to(sink))
    runner = SparkRunner(spark)
    expected = LocalRunner().run(pipeline).to_arrow(sink).sort_by([("sensor", "ascending"), ("end", "ascending")])
    for result in (runner.run(pipeline), runner.run_batch(pipeline)):
        assert result.to_arrow(sink).sort_by([("sensor", "ascending"), ("end", "ascending")]) == expected
    assert pipeline.explain(runner).count("runs as columns") == 1


def test_a_stopped_run_of_a_table_goes_on_behind_the_batches_that_it_took(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[Sequence[Reading]] = []

    def once(batch: int, rows: Sequence[Reading]) -> None:
        if batch == 2 and not seen[2:]:
            seen.append(rows)
            raise ConnectionError("away")
        seen.append(rows)

    pipeline = Pipeline("p", from_arrow(TABLE, Reading, batch_size=300).sink_to(FunctionSink(once)))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    with pytest.raises(UserFunctionError, match="away"):
        runner.run(pipeline)
    runner.run(pipeline)
    assert [len(rows) for rows in seen if rows] == [300, 300, 300, 300, 100]
    assert seen[2] == seen[3]
