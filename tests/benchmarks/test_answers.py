"""The right answers of the benchmarks, and that nothing else passes for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks import data
from benchmarks.answers import Answer, answer
from benchmarks.check import Outcome, check
from benchmarks.contenders import joining, windrow_declared, windrow_panes, windrow_python
from benchmarks.contenders.windrow_run import Build, Join, Sinks
from benchmarks.data import Dataset, DatasetSpec, Shape, prepare
from benchmarks.errors import WrongResultError
from benchmarks.problems import BOUND_MS, Problem
from benchmarks.readings import Reading
from windrow import DataStream, DataStreamSink, Pipeline, WatermarkStrategy, from_source
from windrow.sinks import FunctionSink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner

# Any in this module: Arrow tables and records of any kind; pyarrow ships no types.

# A batch is half a minute: windows of a minute fire, sessions end, readings are too late.
KEYS, ROWS, BATCHES, ROWS_PER_SECOND = 20, 600, 5, 20


def joined(join: Join) -> Build:
    """A plan that makes two streams of one."""

    def build(readings: DataStream[Reading], sinks: Sinks) -> Sequence[DataStreamSink]:
        cold, warm = readings.filter(lambda r: r.celsius < 20.0), readings.filter(lambda r: r.celsius >= 20.0)
        return [join(cold.key_by(lambda r: r.sensor), warm.key_by(lambda r: r.sensor)).sink_to(sinks.results)]

    return build


SHAPES: dict[Problem, Shape] = {"sessions": "turns", "lateness": "late", "panes": "late", "count": "skewed"}
BUILDS: dict[Problem, list[Build]] = {
    "tumbling": [windrow_declared.tumbling, windrow_python.tumbling, partial(windrow_python.tumbling, general=True)],
    "sliding": [windrow_declared.sliding, windrow_python.sliding, partial(windrow_python.sliding, general=True)],
    "sessions": [windrow_declared.sessions, windrow_python.sessions, partial(windrow_python.sessions, general=True)],
    "lateness": [windrow_declared.lateness, windrow_python.lateness, partial(windrow_python.lateness, general=True)],
    "panes": [windrow_panes.on_time, windrow_panes.by_clock, windrow_panes.by_count],
    "intervals": [windrow_declared.intervals],
    "count": [windrow_declared.count, windrow_python.count],
    "top": [windrow_declared.top, windrow_python.top],
    "join": [joined(joining.declared), joined(joining.python)],
    "chained": [windrow_declared.chained, windrow_python.chained, partial(windrow_python.chained, general=True)],
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "ROOT", tmp_path)


def dataset(problem: Problem) -> Dataset:
    shape = SHAPES.get(problem, "steady")
    return prepare(DatasetSpec(KEYS, ROWS, BATCHES, rows_per_second=ROWS_PER_SECOND, shape=shape))


def interpreted(build: Build, given: Dataset) -> Outcome:
    """What the interpreter gives for the batches of a dataset."""
    files = [file for batch in range(BATCHES + 1) for file in given.files(batch)]
    table = pa.concat_tables([pq.read_table(file) for file in files])
    elements = [Reading(**row) for row in table.to_pylist()]
    readings = from_source(CollectionSource(elements, Reading, batch_size=ROWS))
    stamped = readings.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=BOUND_MS)), timestamp=lambda r: r.at
    )
    results: list[Any] = []
    late: list[Reading] = []
    sinks = Sinks(
        FunctionSink(lambda _, found: results.extend(found)), FunctionSink(lambda _, found: late.extend(found))
    )
    ends = build(stamped, sinks)
    LocalRunner().run(Pipeline("test", *ends))
    found = pa.Table.from_pylist([result._asdict() for result in results])
    return Outcome(found, len(late) if len(ends) > 1 else None)


@pytest.mark.parametrize("problem", BUILDS)
def test_plans_of_windrow_give_the_answers(problem: Problem) -> None:
    given = dataset(problem)
    right = answer(problem, given)
    assert right.windows > KEYS // 2
    for build in BUILDS[problem]:
        check(interpreted(build, given), right)


def test_late_readings_are_there_and_some_are_too_late() -> None:
    right = answer("lateness", dataset("lateness"))
    # One percent, from the third of five batches on.
    assert right.late == pytest.approx(0.01 * 3 * ROWS, rel=0.5)


def as_outcome(right: Answer) -> Outcome:
    columns = {**right.columns, "sensor": right.sensors.take(pa.array(right.columns["sensor"]))}
    return Outcome(pa.table(columns), right.late)


def without_one(table: Any) -> Any:
    return table.slice(1)


def with_one_twice(table: Any) -> Any:
    return pa.concat_tables([table.slice(1), table.slice(1, 1)])


def with_a_little_more(table: Any) -> Any:
    place = table.column_names.index("mean")
    return table.set_column(place, "mean", pc.multiply(table["mean"], 1 + 1e-8))


def with_nan(table: Any) -> Any:
    place = table.column_names.index("mean")
    return table.set_column(place, "mean", pc.multiply(table["mean"], float("nan")))


def with_another_end(table: Any) -> Any:
    place = table.column_names.index("window_end")
    return table.set_column(place, "window_end", pc.add(table["window_end"], 1))


@pytest.mark.parametrize("spoil", [without_one, with_one_twice, with_a_little_more, with_nan, with_another_end])
def test_what_is_wrong_is_told(spoil: Callable[[Any], Any]) -> None:
    right = answer("tumbling", dataset("tumbling"))
    good = as_outcome(right)
    check(good, right)
    with pytest.raises(WrongResultError):
        check(Outcome(spoil(good.results)), right)


def test_a_late_reading_that_is_lost_is_told() -> None:
    right = answer("lateness", dataset("lateness"))
    assert right.late is not None
    with pytest.raises(WrongResultError, match="readings were too late"):
        check(Outcome(as_outcome(right).results, right.late - 1), right)


def test_of_slices_the_last_counts() -> None:
    right = answer("lateness", dataset("lateness"))
    results = as_outcome(right).results
    earlier = results.set_column(results.column_names.index("n"), "n", pc.subtract(results["n"], 1)).set_column(
        results.column_names.index("mean"), "mean", pc.add(results["mean"], 1.0)
    )
    check(Outcome(pa.concat_tables([results, earlier])), right)


def test_input_is_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = dataset("lateness")
    monkeypatch.setattr(data, "ROOT", tmp_path / "again")
    second = dataset("lateness")
    assert first.path != second.path
    for batch in range(BATCHES + 1):
        for one, other in zip(first.files(batch), second.files(batch), strict=True):
            assert pq.read_table(one).equals(pq.read_table(other))


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_input_is_the_same_in_each_format(format_: data.Format) -> None:
    spec = DatasetSpec(KEYS, ROWS, 1, rows_per_second=ROWS_PER_SECOND)
    given, text = prepare(spec), prepare(replace(spec, format=format_))
    for batch in range(2):
        assert text.files(batch)
        assert text.tables(batch) == given.tables(batch)
