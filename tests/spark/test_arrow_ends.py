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


TABLE = pa.Table.from_pylist([reading(number)._asdict() for number in range(1_000)])


class Means:
    """Means of records in columns, of malformed ones, and of the rows of a table in one batch and in several."""

    def __init__(self, folder: Path) -> None:
        source = means(from_source(Readings(2_000, rows=70, per_batch=1_000)))
        faulty = from_source(Readings(100, malformed=MALFORMED, bad=42))
        tables = {f"table {size}": means(from_arrow(TABLE, Reading, batch_size=size)) for size in (None, 500)}
        for name in ("driver", "workers"):
            (folder / name).mkdir(parents=True)
        self.sinks = {name: CollectSink[Mean]() for name in ("faulty", *tables)}
        self.malformed = CollectSink[MalformedRecord]()
        self.pipeline = Pipeline(
            "means",
            source.sink_to(Tables(folder / "driver")),
            source.sink_to(Tables(folder / "workers", workers=True)),
            faulty.get_side_output(MALFORMED).sink_to(self.malformed),
            *(stream.sink_to(self.sinks[name]) for name, stream in {"faulty": means(faulty), **tables}.items()),
        )


def test_columns_from_the_source_to_the_sink(spark: SparkSession, tmp_path: Path) -> None:
    runner = SparkRunner(spark, partitions=1)
    assert Means(tmp_path / "plan").pipeline.explain(runner).count("runs as columns") == 4
    found, order = {}, [("sensor", "ascending"), ("end", "ascending")]
    for name, run in (("local", LocalRunner().run), ("run", runner.run), ("batch", runner.run_batch)):
        plan = Means(tmp_path / name)
        result = run(plan.pipeline)
        assert result.collected(plan.malformed) == [MalformedRecord("42", "is bad", "even:42")]
        assert result.counter("records_malformed") == 1
        rows = [sorted(rows_of(tmp_path / name / writer), key=repr) for writer in ("driver", "workers")]
        assert rows[0] == rows[1]
        found[name] = [rows[0], *(result.to_arrow(sink).sort_by(order) for sink in plan.sinks.values())]
    assert len(found["local"][0]) == 238
    assert found["run"] == found["batch"] == found["local"]


def test_elements_that_python_functions_make_become_a_table(spark: SparkSession, tmp_path: Path) -> None:
    stream = from_source(Readings(100)).map(lambda each: each._replace(sensor=each.sensor.join("<>"))).returns(Reading)
    SparkRunner(spark).run_batch(Pipeline("p", stream.sink_to(Tables(tmp_path))))
    assert sorted(rows_of(tmp_path), key=repr) == sorted(
        ({**reading(number)._asdict(), "sensor": f"<s{number % 7}>"} for number in range(100)), key=repr
    )


def test_a_malformed_record_fails_a_run_that_keeps_none(spark: SparkSession) -> None:
    with pytest.raises(MalformedRecordError, match=r"is bad(.|\n)*even:42"):
        SparkRunner(spark).run_batch(Pipeline("p", means(from_source(Readings(100, bad=42))).sink_to(CollectSink())))


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
        runner.run(pipeline(Readings(1_000, per_batch=250, fails_from=500)))
    for folder in folders:
        assert 0 < len(rows_of(folder)) <= 500
    runner.run(pipeline(Readings(1_000, per_batch=250)))
    for folder in folders:
        assert sorted(row["time"] for row in rows_of(folder)) == [number * 1_000 for number in range(1_000)]


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
