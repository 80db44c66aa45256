"""Elements that a sink cannot write are put aside on Spark as in the interpreter, also over a restart."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from windrow import OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import UserFunctionError
from windrow.failures import Failed
from windrow.functions import FlatMapFunction
from windrow.sinks import DatabaseSink, DeltaSink, FunctionSink, JsonFileSink, ParquetFileSink
from windrow.sources import JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

# Any: elements that are not of the type that the plan says.


@dataclass(frozen=True)
class Reading:
    sensor: str
    at: int
    celsius: float


@dataclass(frozen=True)
class Mean:
    sensor: str
    celsius: float


class Spoilt(FlatMapFunction[Reading, Reading]):
    """Makes some readings such that no sink can write them, or a database alone cannot."""

    def flat_map(self, value: Reading) -> Iterator[Reading]:
        wrong: Any = "warm"
        if value.at % 10 == 3:
            value = Reading(value.sensor, value.at, wrong)
        elif value.at % 10 == 6:
            value = Reading("\ud800", value.at, value.celsius)
        elif value.at % 10 == 9:
            value = Reading(value.sensor, value.at, float("nan"))
        yield value


TAG = OutputTag[Failed[Reading]]("failed")


def write_input(folder: Path, part: int) -> None:
    folder.mkdir(exist_ok=True)
    readings = [Reading("abc"[at % 3], at, at / 2) for at in range(part * 100, part * 100 + 100)]
    lines = [json.dumps(vars(reading)) + "\n" for reading in readings]
    (folder / f"{part}.json").write_text("".join(lines))


def letter(failed: Failed[Reading]) -> tuple[int, str, str, str]:
    return (failed.element.at, failed.step, failed.error, f"{failed.origin}".rsplit("/", 1)[-1])


def plan(source: Path, out: Path, fails: bool = False) -> Pipeline:
    out.mkdir(exist_ok=True)
    read = from_source(JsonFileSource(source, Reading))
    spoilt = read.flat_map(Spoilt())
    written = [
        spoilt.sink_to(JsonFileSink(out / "json"), on_error=TAG, name="json"),
        spoilt.sink_to(ParquetFileSink(out / "parquet", partition_by="sensor"), on_error=TAG, name="parquet"),
        spoilt.sink_to(DatabaseSink(f"sqlite:///{out}/rows.db", "rows"), on_error=TAG, name="database"),
        spoilt.sink_to(DeltaSink(out / "delta"), on_error=TAG, name="delta"),
    ]
    # What failed has a value that no column takes, so its time alone is written.
    letters = [
        each.get_side_output(TAG).map(letter).sink_to(JsonFileSink(out / f"letters of {each.node.name}"))
        for each in written
    ]
    strategy = WatermarkStrategy[Reading].for_monotonous_timestamps()
    stamped = read.assign_timestamps_and_watermarks(strategy, lambda reading: reading.at)
    windows = stamped.key_by(lambda reading: reading.sensor).window(
        TumblingEventTimeWindows.of(timedelta(milliseconds=50))
    )
    means = windows.aggregate(agg.into(Mean, agg.key(), agg.mean(lambda reading: reading.celsius)))

    def fail(batch: int, elements: Sequence[Reading]) -> None:
        if fails:
            raise OSError("not now")

    return Pipeline(
        "sinks",
        *written,
        *letters,
        spoilt.sink_to(JsonFileSink(out / "dropping"), on_error="drop", name="dropping"),
        means.sink_to(ParquetFileSink(out / "means"), on_error="drop", name="means"),
        read.sink_to(FunctionSink(fail)),
    )


def contents(out: Path) -> dict[str, Counter[str]]:
    """What each sink wrote: its rows, however they lie in files."""
    found: dict[str, Counter[str]] = {}
    for name in ["json", "dropping", *[f"letters of {each}" for each in ("json", "parquet", "database", "delta")]]:
        lines = [line for file in (out / name).glob("batch-*") for line in file.read_text().splitlines()]
        found[name] = Counter(lines)
    for name in ("parquet", "means"):
        rows = [
            (file.parent.name if name == "parquet" else "", row)
            for file in (out / name).rglob("batch-*.parquet")
            for row in pq.ParquetFile(file).read().to_pylist()
        ]
        found[name] = Counter(map(str, rows))
    with closing(sqlite3.connect(out / "rows.db")) as connection:
        found["database"] = Counter(map(str, connection.execute("SELECT * FROM rows")))
    found["delta"] = Counter(map(str, DeltaTable(out / "delta").to_pyarrow_table().to_pylist()))
    return found


def dropped(result: PipelineResult) -> int:
    return result.counter("failed_records_dropped")


def test_sinks_put_elements_aside_as_in_the_interpreter(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    for part in range(2):
        write_input(source, part)
    expected_result = LocalRunner().run(plan(source, tmp_path / "local"))
    expected = contents(tmp_path / "local")
    assert all(expected.values())
    assert {name: sum(rows.values()) for name, rows in expected.items() if name.startswith("letters")} == {
        "letters of json": 40,
        "letters of parquet": 40,
        "letters of database": 60,
        "letters of delta": 40,
    }
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    text = plan(source, tmp_path / "spark").explain(runner)
    assert re.search(r"means.*on error: drop\n(.*\n)*?.*one by one", text), text
    # The last sink fails after others have written the batch, which a run from the checkpoint finishes.
    with pytest.raises(UserFunctionError, match="not now"):
        runner.run(plan(source, tmp_path / "spark", fails=True), drain=False)
    result = runner.run(plan(source, tmp_path / "spark"))
    assert contents(tmp_path / "spark") == expected
    assert dropped(result) == dropped(expected_result) == 40
