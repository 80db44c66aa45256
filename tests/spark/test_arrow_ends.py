"""Sources and sinks that exchange Arrow data, on Spark: on columns from end to end, and as in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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


def means_of(source: Readings, folder: Path) -> Pipeline:
    """The means, written by the driver and by the workers."""
    stream = means(from_source(source))
    for name in ("driver", "workers"):
        (folder / name).mkdir(parents=True)
    return Pipeline(
        "means", stream.sink_to(Tables(folder / "driver")), stream.sink_to(Tables(folder / "workers", workers=True))
    )


def test_columns_from_the_source_to_the_sink(spark: SparkSession, tmp_path: Path) -> None:
    source, runner = Readings(2_000, rows=70, per_batch=300), SparkRunner(spark)
    plan = means_of(source, tmp_path / "plan").explain(runner)
    assert plan.count("runs as columns") == 1, plan
    for name, run in (("local", LocalRunner().run), ("run", runner.run), ("batch", runner.run_batch)):
        run(means_of(source, tmp_path / name))
    expected = sorted(rows_of(tmp_path / "local" / "driver"), key=repr)
    assert len(expected) == 238
    for name in ("local", "run", "batch"):
        for writer in ("driver", "workers"):
            assert sorted(rows_of(tmp_path / name / writer), key=repr) == expected, (name, writer)


def test_elements_that_python_functions_make_become_a_table(spark: SparkSession, tmp_path: Path) -> None:
    stream = from_source(Readings(100)).map(lambda each: each._replace(sensor=each.sensor.join("<>"))).returns(Reading)
    SparkRunner(spark).run_batch(Pipeline("p", stream.sink_to(Tables(tmp_path))))
    assert sorted(rows_of(tmp_path), key=repr) == sorted(
        ({**reading(number)._asdict(), "sensor": f"<s{number % 7}>"} for number in range(100)), key=repr
    )


def test_malformed_records_of_columns(spark: SparkSession) -> None:
    stream = from_source(Readings(100, malformed=MALFORMED, bad=42))
    results, malformed = CollectSink[Mean](), CollectSink[MalformedRecord]()
    pipeline = Pipeline("p", means(stream).sink_to(results), stream.get_side_output(MALFORMED).sink_to(malformed))
    runner, expected = SparkRunner(spark), sorted(LocalRunner().run(pipeline).collected(results))
    for result in (runner.run_batch(pipeline), runner.run(pipeline)):
        assert result.collected(malformed) == [MalformedRecord("42", "is bad", "even:42")]
        assert result.counter("records_malformed") == 1
        assert sorted(result.collected(results)) == expected
    with pytest.raises(MalformedRecordError, match=r"is bad(.|\n)*even:42"):
        runner.run_batch(Pipeline("p", means(from_source(Readings(100, bad=42))).sink_to(CollectSink[Mean]())))


def test_a_run_that_failed_goes_on_and_writes_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    folders = tmp_path / "driver", tmp_path / "workers"
    for folder in folders:
        folder.mkdir()

    def pipeline(source: Readings) -> Pipeline:
        stream = from_source(source, name="readings")
        ends = [stream.sink_to(Tables(folder, workers=folder.name == "workers")) for folder in folders]
        return Pipeline("p", *ends)

    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    with pytest.raises(UserFunctionError, match=r"the service is away(.|\n)*read_arrow\((.|\n)*where: +p\.1\.readings"):
        runner.run(pipeline(Readings(1_000, per_batch=100, fails_from=500)))
    for folder in folders:
        assert 0 < len(rows_of(folder)) <= 500
    runner.run(pipeline(Readings(1_000, per_batch=100)))
    for folder in folders:
        assert sorted(row["time"] for row in rows_of(folder)) == [number * 1_000 for number in range(1_000)]


TABLE = pa.Table.from_pylist([reading(number)._asdict() for number in range(1_000)])


def test_the_rows_of_a_table(spark: SparkSession) -> None:
    sinks = {size: CollectSink[Mean]() for size in (None, 300)}
    ends = [means(from_arrow(TABLE, Reading, batch_size=size)).sink_to(sink) for size, sink in sinks.items()]
    pipeline, runner = Pipeline("p", *ends), SparkRunner(spark)
    local = LocalRunner().run(pipeline)
    for result in (runner.run(pipeline), runner.run_batch(pipeline)):
        for sink in sinks.values():
            found, expected = (
                each.to_arrow(sink).sort_by([("sensor", "ascending"), ("end", "ascending")]) for each in (result, local)
            )
            assert found == expected
    assert pipeline.explain(runner).count("runs as columns") == 2


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
