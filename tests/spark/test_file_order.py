"""The elements of several files come in the order of the files, whatever their sizes and names are."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.budget import for_a_night
from tests.support.thorough import thorough
from windrow import DataStreamSink, Pipeline, WatermarkStrategy, from_dataframe, from_source, joins
from windrow.aggregates import collect_list, first, into, last
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, TimeDomain
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import CsvFileSource, FilesInOrder, FileSource, JsonFileSource, ParquetFileSource
from windrow.state import StateTtlConfig, ValueStateDescriptor
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_spark.run_limits import RunLimits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: elements of every type.


class Row(NamedTuple):
    key: str
    number: int
    time: int


class Found(NamedTuple):
    first: int
    last: int
    all: list[int]


class Both(NamedTuple):
    left: int
    right: int


class FirstOfAMinute(KeyedProcessFunction[str, Row, Row]):
    """Drops an element if one of its key came less than a minute of event time before."""

    def __init__(self) -> None:
        ttl = StateTtlConfig(timedelta(minutes=1), time_domain=TimeDomain.EVENT_TIME)
        self.seen = ValueStateDescriptor("seen", bool, ttl=ttl)

    def process_element(self, value: Row, context: KeyedProcessContext[str]) -> Iterator[Row]:
        seen = context.get_state(self.seen)
        if seen.value() is None:
            seen.update(True)
            yield value


# The names of the files, in the order of their times, and how many rows they have.
FILES = {"m": 2, "a/z": 90, "k": 1, "b": 300, "a/c": 5, "y": 40}


def rows(seed: int) -> Iterator[tuple[str, list[Row]]]:
    rng, number = random.Random(seed), 0
    for name, count in FILES.items():
        found = []
        for _ in range(count):
            number += 1
            found.append(Row(rng.choice("abcde"), number, number * 1000 + rng.randrange(-90_000, 90_000)))
        yield name, found


def write_json(file: Path, found: list[Row]) -> None:
    file.write_text("".join(json.dumps(row._asdict()) + "\n" for row in found))


def write_csv(file: Path, found: list[Row]) -> None:
    file.write_text("key,number,time\n" + "".join(f"{row.key},{row.number},{row.time}\n" for row in found))


def write_parquet(file: Path, found: list[Row]) -> None:
    pq.write_table(pa.Table.from_pylist([row._asdict() for row in found]), file, row_group_size=16)


def fill(folder: Path, write: Callable[[Path, list[Row]], None], seconds: Iterable[int] = range(len(FILES))) -> None:
    (folder / "a").mkdir(parents=True)
    for second, (name, found) in zip(seconds, rows(3), strict=True):
        write(folder / name, found)
        os.utime(folder / name, (10**9 + second, 10**9 + second))


def results(run: Callable[[Pipeline], Any], *sources: FileSource[Row]) -> list[list[list[Any]]]:
    """What three steps give for each source, all of them in one pipeline."""
    number = lambda row: row.number  # noqa: E731
    sinks: list[list[CollectSink[Any]]] = []
    ends: list[DataStreamSink] = []
    for source in sources:
        stream = from_source(source).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(hours=1)), timestamp=lambda row: row.time
        )
        keyed = stream.key_by(lambda row: row.key)
        windows = keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=50)))
        columns = windows.aggregate(into(Found, first=first(number), last=last(number), all=collect_list(number)))
        kept, counted = keyed.process(FirstOfAMinute()), keyed.count_window(7).reduce(lambda one, other: one)
        sinks.append([CollectSink(), CollectSink(), CollectSink()])
        ends += [each.sink_to(sink) for each, sink in zip((kept, columns, counted), sinks[-1], strict=True)]
    result = run(Pipeline("order", *ends))
    return [[sorted(result.collected(sink)) for sink in of_source] for of_source in sinks]


FORMATS: dict[type[FileSource[Row]], Callable[[Path, list[Row]], None]] = {
    JsonFileSource: write_json,
    CsvFileSource: write_csv,
    ParquetFileSource: write_parquet,
}


class PartsRunner(SparkRunner):
    """Reads in parts each file that is not tiny."""

    _limits = RunLimits(large_file_bytes=2000)


@pytest.mark.parametrize(
    "runner", [thorough(SparkRunner, reason="the other reads tiny files whole; a test below has it, too"), PartsRunner]
)
def test_both_engines_read_files_in_the_same_order(
    spark: SparkSession, tmp_path: Path, runner: type[SparkRunner]
) -> None:
    """The files of each format in each order; no watermark passes the elements, so batches make no difference."""
    for kind, write in FORMATS.items():
        fill(tmp_path / kind.__name__, write, random.Random(5).sample(range(99), len(FILES)))

    def backwards(path: str) -> tuple[int, str]:
        return -len(path), path[::-1]

    orders: list[FilesInOrder] = ["time", "name", backwards]

    cases = list(product(orders, FORMATS))

    def sources(some: list[tuple[FilesInOrder, type[FileSource[Row]]]], *sizes: int | None) -> list[FileSource[Row]]:
        return [
            kind(tmp_path / kind.__name__, Row, files_in_order=order, files_per_batch=size)
            for (order, kind), size in zip(some, cycle(sizes), strict=False)
        ]

    wanted = results(LocalRunner().run, *sources(cases, None))
    assert all(all(of_source) for of_source in wanted)
    by_time = wanted[: len(FORMATS)]
    assert all(one != other for one, other in zip(wanted[len(FORMATS) :], by_time * 2, strict=True))
    # Each format and each order is one of three.
    step = for_a_night(1, 4)
    assert results(runner(spark).run_batch, *sources(cases[::step], None)) == wanted[::step]
    assert results(runner(spark, partitions=1).run, *sources(cases[::step], None, 4)) == wanted[::step]


def test_a_batch_job_takes_the_order_of_a_dataframe(spark: SparkSession) -> None:
    frame = spark.range(3000).selectExpr("'a' AS key", "id * 7919 % 3000 AS number", "id AS time").orderBy("number")
    sink = CollectSink[Row]()
    counted = from_dataframe(frame, Row).key_by(lambda row: row.key).count_window(1000).reduce(lambda one, other: other)
    found = SparkRunner(spark).run_batch(Pipeline("frame", counted.sink_to(sink))).collected(sink)
    assert [row.number for row in found] == [999, 1999, 2999]


def test_files_of_one_millisecond_come_by_name(spark: SparkSession, tmp_path: Path) -> None:
    for number, (name, count) in enumerate({"x": 9, "a b": 1, "a!b": 30, "é": 2}.items()):
        file = tmp_path / name
        write_json(file, [Row("a", 100 * number + one, one) for one in range(count)])
        os.utime(file, ns=(10**18 + number, 10**18 + number))
    wanted = results(LocalRunner().run, JsonFileSource(tmp_path, Row))
    assert results(SparkRunner(spark).run, JsonFileSource(tmp_path, Row)) == wanted
    assert results(SparkRunner(spark).run_batch, JsonFileSource(tmp_path, Row)) == wanted


@pytest.mark.parametrize("into_files", [True, False])
def test_names_of_files_cross_an_exchange_for_a_join_only_where_a_sink_sees_the_order(
    spark: SparkSession, tmp_path: Path, into_files: bool
) -> None:
    """The exchange of names costs each batch a job that samples them, and a stage: a fifth of the time of a join."""
    source = tmp_path / "rows"
    fill(source, write_json)
    stream = from_source(JsonFileSource(source, Row)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(hours=1)), timestamp=lambda row: row.time
    )
    keyed = stream.key_by(lambda row: row.number)
    pairs = keyed.interval_join(keyed).between(timedelta(0), timedelta(0))
    results = pairs.apply(
        joins.into(Both, left=joins.left(lambda row: row.number), right=joins.right(lambda row: row.number))
    )
    sink: CollectSink[Both] | ParquetFileSink[Both] = ParquetFileSink(tmp_path / "out") if into_files else CollectSink()
    pipeline = Pipeline("pairs", results.sink_to(sink))
    with SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(pipeline) as running:
        running.process_available()
        (query,) = spark.streams.active
        # Any: a query of the JVM, whose plan PySpark prints only.
        plan = str(cast(Any, query)._jsq.explainInternal(True))
    analyzed = plan.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized")[0]
    assert "__file" in analyzed
    assert ("RepartitionByExpression" not in analyzed) == into_files
