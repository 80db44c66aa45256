"""Columnar steps on Spark: the interpreter, which knows no columns, says what is right."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.comparison import millis
from tests.spark.timed import timed
from tests.support.thorough import thorough
from windrow import DataStream, KeyedStream, OutputTag, Pipeline, from_source
from windrow import aggregates as agg
from windrow.errors import AggregateOverflowError
from windrow.sinks import CollectSink
from windrow.sources import CsvFileSource, MalformedRecord, ParquetFileSource
from windrow.triggers import ContinuousEventTimeTrigger, CountTrigger, PurgingTrigger
from windrow.windows import EventTimeSessionWindows, GlobalWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: results of every type.


class Reading(NamedTuple):
    sensor: str | None
    at: int
    celsius: float
    number: int | None


class Summary(NamedTuple):
    sensor: str | None
    start: int
    readings: int
    mean: float | None
    total: int | None


LATE = OutputTag("late", Reading)
BAD = OutputTag("bad", MalformedRecord)


def write(folder: Path, numbers: Iterable[int], *, bad: bool = False) -> None:
    """The files of these numbers: 100 readings each, 100 ms on from the file before, with disorder."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        chance = random.Random(number)
        ats = [number * 100 + chance.randrange(-60, 100) for _ in range(100)]
        table = {
            "sensor": pa.array([chance.choice(["a", "b", "c", None]) for _ in ats], pa.string()),
            "at": pa.array([None if bad and place % 40 == 7 else at for place, at in enumerate(ats)], pa.int64()),
            "celsius": pa.array([chance.randrange(1000) / 8 for _ in ats]),
            "number": pa.array([chance.choice([None, chance.randrange(2**40)]) for _ in ats], pa.int64()),
        }
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table(table), file)
        os.utime(file, (1_600_000_000 + number,) * 2)


def as_csv(folder: Path) -> None:
    """Turns the files into CSV, of which some rows span lines, and some are broken."""
    for file in sorted(folder.glob("*.parquet")):
        rows = ["celsius;number;at;note;sensor"]
        for place, row in enumerate(pq.read_table(file).to_pylist()):
            cells = ["" if row[name] is None else str(row[name]) for name in ("celsius", "number", "at")]
            rows.append(";".join([*cells, '"a\n""b""; c"' if place % 30 == 11 else "ä", row["sensor"] or ""]))
        rows[50:50] = ['1.5;2;3;";a', '"7.5";;+4;;', "1;2;3;4", '1;2;3;5";a', ""]
        text = file.with_suffix(".csv")
        text.write_text("\n".join(rows), encoding="utf-8")
        os.utime(text, (file.stat().st_mtime,) * 2)
        file.unlink()


def readings(folder: Path, on_malformed: Any = "fail") -> DataStream[Reading]:
    if any(folder.glob("*.csv")):
        text = CsvFileSource(folder, Reading, delimiter=";", files_per_batch=1, on_malformed=on_malformed)
        return from_source(text)
    source = ParquetFileSource(str(folder), Reading, files_per_batch=1, on_malformed=on_malformed)
    return from_source(source)


def stamped(stream: DataStream[Reading]) -> DataStream[Reading]:
    return timed(stream, 20)


def summary() -> Any:
    return agg.into(
        Summary,
        sensor=agg.key(),
        start=agg.window_start(),
        readings=agg.count(),
        mean=agg.mean(lambda r: r.celsius),
        total=agg.sum(lambda r: r.number),
    )


def counted() -> Any:
    return agg.combine(agg.key(), agg.count(), agg.sum(lambda r: r.number), agg.last(lambda r: r.at))


class Everything:
    """All columnar forms behind one source, a step of Python objects beside them, late and malformed records."""

    def __init__(self, folder: Path) -> None:
        found = readings(folder, BAD)
        keyed = stamped(found).filter(lambda r: r.celsius > 3.5).key_by(lambda r: r.sensor)
        tumbling = (
            keyed.window(TumblingEventTimeWindows.of(millis(50)))
            .allowed_lateness(millis(10))
            .side_output_late_data(LATE)
            .aggregate(summary())
        )
        streams: dict[str, DataStream[Any]] = {
            "bad": found.get_side_output(BAD),
            "late": tumbling.get_side_output(LATE),
            "tumbling": tumbling,
            "elements": keyed.window(TumblingEventTimeWindows.of(millis(50)))
            .allowed_lateness(millis(20))
            .aggregate(agg.combine(agg.first(), agg.top_k(2, lambda r: r.celsius))),
            "sliding": sliding(keyed),
            "sliding_in_order": in_order(keyed),
            "sessions": keyed.window(EventTimeSessionWindows.with_gap(millis(3))).aggregate(summary()),
            "late_sessions": late_sessions(keyed),
            # No timestamps are on its way.
            "counted": found.key_by(lambda r: r.sensor).count_window(7, 3).aggregate(counted()),
            "counted_in_time": keyed.window(TumblingEventTimeWindows.of(millis(50)))
            .trigger(CountTrigger.of(4))
            .aggregate(summary()),
            "intervals": keyed.window(GlobalWindows.create())
            .trigger(PurgingTrigger.of(ContinuousEventTimeTrigger.of(millis(30))))
            .aggregate(counted()),
            "python": keyed.window(TumblingEventTimeWindows.of(millis(100))).apply(
                lambda key, window, elements: [(key, window.start, len(elements))]
            ),
            "python_counted": found.key_by(lambda r: r.sensor)
            .count_window(4)
            .apply(lambda key, window, elements: [(key, [r.number for r in elements])]),
        }
        self.sinks = {name: CollectSink[Any]() for name in streams}
        self.pipeline = Pipeline("everything", *(streams[name].sink_to(sink) for name, sink in self.sinks.items()))

    def run(self, runner: Any, **options: bool) -> dict[str, list[Any]]:
        result = runner.run(self.pipeline, **options)
        return {name: sorted(result.collected(sink), key=repr) for name, sink in self.sinks.items()}


@pytest.mark.parametrize(
    "form",
    [None, thorough(as_csv, reason="one of two sources of test_joined_columns.py is of CSV")],
    ids=["parquet", "csv"],
)
def test_columns_give_what_the_interpreter_gives(
    spark: SparkSession, tmp_path: Path, form: Callable[[Path], None] | None
) -> None:
    write(tmp_path / "in", range(3), bad=True)
    if form is not None:
        form(tmp_path / "in")
    everything = Everything(tmp_path / "in")
    runner = SparkRunner(spark, partitions=1)
    forms = everything.pipeline.explain(runner)
    assert forms.count("runs as columns") == 10
    assert forms.count("elements cross the exchange as columns") == 1
    expected = everything.run(LocalRunner())
    assert all(expected.values())
    assert everything.run(runner) == expected


def late_sessions(keyed: KeyedStream[Reading, str | None]) -> DataStream[Summary]:
    """Sessions that are kept for elements behind the watermark, of which there are some in each file."""
    windows = keyed.window(EventTimeSessionWindows.with_gap(millis(3))).allowed_lateness(millis(30))
    return windows.aggregate(summary())


def in_order(keyed: KeyedStream[Reading, str | None]) -> DataStream[Any]:
    """Windows that share slices, which do not come in the order in which their elements do."""
    windows = keyed.window(SlidingEventTimeWindows.of(millis(70), millis(20)))
    return windows.aggregate(
        agg.combine(agg.key(), agg.first(), agg.last(lambda r: r.at), agg.top_k(2, lambda r: r.celsius > 60))
    )


def sliding(keyed: KeyedStream[Reading, str | None]) -> DataStream[Summary]:
    return keyed.window(SlidingEventTimeWindows.of(millis(90), millis(30))).aggregate(summary())


def pipeline(folder: Path, sink: Any) -> Pipeline:
    return Pipeline("columns", sliding(stamped(readings(folder)).key_by(lambda r: r.sensor)).sink_to(sink))


@pytest.mark.thorough(reason="test_stored_plan.py has it go on as it began; objects go on in test_runner_restart.py")
def test_a_checkpoint_begun_without_columns_goes_on_without(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", range(2))
    checkpoint, sink = tmp_path / "checkpoint", CollectSink[Summary]()
    plan = pipeline(tmp_path / "in", sink)
    before = SparkRunner(spark, checkpoint=checkpoint, columnar=False).run(plan, drain=False).collected(sink)
    write(tmp_path / "in", range(2, 3))
    after = SparkRunner(spark, checkpoint=checkpoint).run(plan).collected(sink)
    expected = LocalRunner().run(plan).collected(sink)
    assert sorted([*before, *after], key=repr) == sorted(expected, key=repr)


def put(folder: Path, number: int, below: str) -> None:
    """The file of a number, in a folder below, where a query that runs sees it whole."""
    aside = folder.parent / "aside"
    write(aside, [number])
    (folder / below).mkdir(parents=True)
    os.replace(aside / f"{number}.parquet", folder / below / "0.parquet")


def test_errors_name_the_step(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    columns = {"sensor": ["a", "a"], "at": [1, 2], "celsius": [1.0, 2.0], "number": [2**62, 2**62]}
    pq.write_table(pa.table(columns), folder / "0.parquet")
    with pytest.raises(AggregateOverflowError, match=r"does not fit into 64 bits") as caught:
        SparkRunner(spark).run_batch(pipeline(folder, CollectSink()))
    assert "test_columns.py:" in str(caught.value)
