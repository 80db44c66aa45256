"""The sensor pipeline: its data, its result in the interpreter, and the same result on Spark."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from examples import generate_readings, sensor_min
from windrow import from_source
from windrow.sources import JsonFileSource
from windrow_runtime.local import LocalRunner, PipelineResult

T = TypeVar("T")


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    """The shipped readings in a folder of the test's own, dated in the order of their names."""
    folder = tmp_path / "readings"
    shutil.copytree(sensor_min.READINGS, folder)
    sensor_min.arrive_by_name(folder)
    return folder


class Results(NamedTuple):
    coldest: list[sensor_min.Reading]
    with_start: list[sensor_min.Coldest]
    late: list[sensor_min.Reading]
    dropped: int
    coldest_files: list[sensor_min.Coldest]
    late_files: list[sensor_min.Reading]


def results(sensors: sensor_min.SensorPipeline, result: PipelineResult, output: Path) -> Results:
    """All that a run left, in an order that does not depend on the engine."""
    return Results(
        coldest=sorted(result.collected(sensors.coldest), key=by_time),
        with_start=sorted(result.collected(sensors.with_start), key=lambda row: by_time(row.reading)),
        late=sorted(result.collected(sensors.late), key=by_time),
        dropped=result.counter("late_records_dropped"),
        coldest_files=sorted(read_back(output / "coldest", sensor_min.Coldest), key=lambda row: by_time(row.reading)),
        late_files=sorted(read_back(output / "late", sensor_min.Reading), key=by_time),
    )


def by_time(reading: sensor_min.Reading) -> tuple[str, datetime]:
    return reading.sensor, reading.at


def read_back(output: Path, record_type: type[T]) -> list[T]:
    """The records in the files of a sink, whose folder has a folder for each batch."""
    return from_source(JsonFileSource(output / "*.json", record_type)).collect()


def test_the_generator_writes_the_shipped_readings_byte_for_byte(tmp_path: Path) -> None:
    generate_readings.write_readings(tmp_path)
    written = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    shipped = {file.name: file.read_bytes() for file in sensor_min.READINGS.iterdir()}
    assert written == shipped


def test_the_readings_are_what_the_example_says() -> None:
    arrivals = sorted(generate_readings.arrivals())
    assert len(arrivals) == 10_000
    assert len({arrival.sensor for arrival in arrivals}) == 10
    taken = [arrival.taken for arrival in arrivals]
    assert taken != sorted(taken)
    delays = [arrival.arrives - arrival.taken for arrival in arrivals]
    late = [delay for delay in delays if delay >= generate_readings.DISORDER_MILLIS]
    assert 50 < len(late) < 200
    assert all(delay >= 60_000 for delay in late)


def test_the_interpreter_gives_the_minimum_of_the_readings_that_are_in_time(readings: Path, tmp_path: Path) -> None:
    sensors = sensor_min.build(readings, tmp_path / "output")
    found = results(sensors, LocalRunner().run(sensors.pipeline), tmp_path / "output")
    assert found.late
    assert found.dropped == len(found.late)
    assert found.coldest_files == found.with_start
    assert found.late_files == found.late

    # The same by hand: a reading is late if its window ended at or before the watermark of the files before its own.
    windows: defaultdict[tuple[str, int], list[sensor_min.Reading]] = defaultdict(list)
    late: list[sensor_min.Reading] = []
    watermark = newest = -(2**63)
    for file in sorted(readings.iterdir()):
        for line in file.read_text().splitlines():
            record = json.loads(line)
            at = datetime.fromisoformat(record["at"])
            reading = sensor_min.Reading(record["sensor"], at, record["celsius"])
            millis = round(at.timestamp() * 1000)
            newest = max(newest, millis)
            start = millis - millis % 5_000
            if start + 4_999 <= watermark:
                late.append(reading)
            else:
                windows[reading.sensor, start].append(reading)
        watermark = newest - 3_001
    assert found.late == sorted(late, key=by_time)
    coldest = {key: min(contents, key=lambda reading: reading.celsius) for key, contents in windows.items()}
    assert found.coldest == sorted(coldest.values(), key=by_time)
    starts = {(row.sensor, round(row.window_start.timestamp() * 1000)): row.reading for row in found.with_start}
    assert starts == coldest
    assert len(found.with_start) == len(coldest)


def test_main_shows_the_results(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, readings: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sensor_min, "READINGS", readings)
    sensor_min.main(["--local"])
    shown = capsys.readouterr().out
    assert "The coldest, by reduce: 2,000 rows, beginning with\n  sensor-3  06:00:00  19.86 °C\n" in shown
    assert "window function: 2,000 rows, beginning with\n  sensor-0  06:00:00  23.11 °C\n" in shown
    assert "Late readings: 83 went to the side output." in shown
    assert f"Output files: {tmp_path}/demo-output/coldest and {tmp_path}/demo-output/late" in shown
    assert "TumblingEventTimeWindows(size=5 s), trigger EventTimeTrigger, late to 'late'" in shown
    assert (tmp_path / "demo-output" / "late").is_dir()


@pytest.mark.spark
def test_spark_gives_what_the_interpreter_gives(readings: Path, tmp_path: Path) -> None:
    from windrow_runtime.spark import SparkRunner

    local = sensor_min.build(readings, tmp_path / "local")
    spark = sensor_min.build(readings, tmp_path / "spark")
    expected = results(local, LocalRunner().run(local.pipeline), tmp_path / "local")
    assert results(spark, SparkRunner().run(spark.pipeline), tmp_path / "spark") == expected
