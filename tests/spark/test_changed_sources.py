"""Sources and sinks that come and go between a savepoint and the run that goes on from it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.errors import WindrowWarning
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import topology_of
from windrow_runtime.savepoint import take
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import StoredSource
from windrow_spark.checkpoint.stored_streams import StoredStreams, streams_of
from windrow_spark.lowering import physical_plan
from windrow_spark.savepoint.log_files import QuerySources
from windrow_spark.savepoint.source_places import PlacedSources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: results of every type.


class Reading(NamedTuple):
    sensor: str
    second: int


def write(folder: Path, number: int, seconds: Sequence[int]) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / f"{number}.json"
    file.write_text("".join(json.dumps({"sensor": folder.name, "second": second}) + "\n" for second in seconds))
    os.utime(file, (1_600_000_000 + number,) * 2)


def readings(folder: Path, name: str | None = None) -> DataStream[Reading]:
    return from_source(JsonFileSource(folder, Reading, files_per_batch=1), name=name)


def timed(stream: DataStream[Reading], name: str) -> DataStream[Reading]:
    strategy = WatermarkStrategy[Reading].for_monotonous_timestamps()
    return stream.assign_timestamps_and_watermarks(strategy, timestamp=lambda r: r.second * 1000, name=name)


def counted(stream: DataStream[Reading], name: str, key: Callable[[Reading], str] = lambda r: r.sensor) -> Any:
    count: Any = agg.combine(agg.key(), agg.window_start(), agg.count())
    windows = stream.key_by(key).window(TumblingEventTimeWindows.of(timedelta(seconds=5)))
    return windows.aggregate(count, name=name)


class Plan:
    """A pipeline of some streams, which go into files if ``out`` names them."""

    def __init__(self, streams: Mapping[str, DataStream[Any]], out: Path | None = None) -> None:
        self.collected = {name: CollectSink[Any]() for name in streams if name != "copy"}
        files = {} if out is None else {"copy": ParquetFileSink[Any](out)}
        sinks: dict[str, Any] = {**self.collected, **files}
        ends = [stream.sink_to(sinks[name], name=f"into {name}") for name, stream in streams.items()]
        self.pipeline = Pipeline("plan", *ends)


class Life:
    """A job that is stopped again and again, and goes on with another plan: from a savepoint, or as its plan grows."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder, self._number = spark, folder, 0
        self.results: dict[str, list[Any]] = {}
        self.late = 0
        self._checkpoint = folder
        self._before: Plan | None = None

    def go_on(self, plan: Plan, *, drain: bool = False, said: Sequence[str] = (), grows: bool = False) -> None:
        if grows:
            runner = SparkRunner(self._spark, checkpoint=self._checkpoint)
        else:
            more: dict[str, Any] = {}
            if self._before is not None:
                more["savepoint"] = self._folder / f"saved-{self._number}"
                take(self._checkpoint, self._before.pipeline, more["savepoint"], spark=self._spark)
            self._checkpoint = self._folder / f"checkpoint-{self._number}"
            runner = SparkRunner(self._spark, checkpoint=self._checkpoint, partitions=1 + self._number % 2, **more)
        if said:
            since = "run before" if grows else "savepoint"
            with pytest.warns(WindrowWarning, match=f"the plan has changed since the {since}") as caught:
                result = runner.run(plan.pipeline, drain=drain)
            for text in said:
                assert any(text in str(warning.message) for warning in caught), [str(each.message) for each in caught]
        else:
            result = runner.run(plan.pipeline, drain=drain)
        for name, sink in plan.collected.items():
            self.results.setdefault(name, []).extend(result.collected(sink))
        self.late += sum(counts.get("late_records_dropped", 0) for counts in result.counters.values())
        self._before = plan
        self._number += 1


def undisturbed(stream: DataStream[Any]) -> list[Any]:
    sink = CollectSink[Any]()
    return sorted(LocalRunner().run(Pipeline("whole", stream.sink_to(sink))).collected(sink))


@pytest.mark.classic(reason="savepoints are refused over Spark Connect")
def test_a_job_grows_a_keyed_step_a_source_and_a_watermark_and_loses_them(spark: SparkSession, tmp_path: Path) -> None:
    """files    a 0       a 1           a 2, b 0 1        b 2
    plan     copy      copy, a       copy, a, b        copy, b
    time     Spark's   Spark's       windrow's         windrow's
    """
    a, b, out = tmp_path / "a", tmp_path / "b", tmp_path / "out"
    life = Life(spark, tmp_path)
    write(a, 0, [1, 2, 6])
    life.go_on(Plan({"copy": timed(readings(a, "a"), "times of a")}, out))
    write(a, 1, [7, 8, 13])
    stream = timed(readings(a, "a"), "times of a")
    life.go_on(
        Plan({"copy": stream, "a": counted(stream, "count of a")}, out),
        said=[".count of a, ", "is new, and begins empty"],
        grows=True,
    )
    write(b, 0, [1, 2, 8])
    write(b, 1, [9, 14])
    write(a, 2, [14, 16])

    def both() -> tuple[DataStream[Reading], DataStream[Reading]]:
        return timed(readings(b, "b"), "times of b"), timed(readings(a, "a"), "times of a")

    # The new source comes first, so that the others get other numbers in Spark's logs.
    of_b, of_a = both()
    life.go_on(
        Plan({"b": counted(of_b, "count of b"), "copy": of_a, "a": counted(of_a, "count of a")}, out),
        said=[".b, ", "is new, and is read from its beginning", ".count of b, "],
        grows=True,
    )
    write(b, 2, [21, 22])
    of_b, _ = both()
    life.go_on(
        Plan({"b": counted(of_b, "count of b")}),
        drain=True,
        said=["source a is gone", "count of a is gone, and so is its state", "the sink into copy is gone"],
    )
    # The keyed step has what came when it was there. What it held when it went is lost, as the warning says.
    assert life.results["a"] == [("a", 5000, 2), ("a", 10000, 2)]
    assert sorted(life.results["b"]) == undisturbed(counted(both()[0], "count of b"))
    assert sorted(row["second"] for row in pq.read_table(out).to_pylist()) == [1, 2, 6, 7, 8, 13, 14, 16]
    assert life.late == 0


@pytest.mark.classic(reason="savepoints are refused over Spark Connect")
def test_a_source_joins_others_at_a_keyed_step_that_keeps_its_watermark(spark: SparkSession, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    life = Life(spark, tmp_path)
    write(a, 0, [1, 2, 9])  # fires what begins at 0

    def plan(*names: str) -> Plan:
        first, *others = (timed(readings(tmp_path / name, name), f"times of {name}") for name in names)
        return Plan({"counts": counted(first.union(*others) if others else first, "counts")})

    life.go_on(plan("a"))
    write(a, 1, [11, 21])
    write(b, 0, [3, 7])  # the first is late: its window has fired
    life.go_on(plan("a", "b"), said=[".b, ", "is new, and is read from its beginning"])
    # The new source holds the watermark of the step where it was, and nothing fires before its time.
    assert life.results["counts"] == [("a", 0, 2)]
    assert life.late == 1
    write(b, 1, [12, 26])
    life.go_on(plan("b", "a"))
    assert sorted(life.results["counts"][1:]) == [("a", 5000, 1), ("a", 10000, 1), ("b", 5000, 1), ("b", 10000, 1)]
    write(b, 2, [31])
    life.go_on(plan("b"), drain=True, said=["source a is gone, and so is its position"])
    rest = [("a", 20000, 1), ("b", 25000, 1), ("b", 30000, 1)]
    assert sorted(life.results["counts"][5:]) == rest
    assert life.late == 1


def places(before: Sequence[DataStream[Any]], now: Sequence[DataStream[Any]]) -> tuple[list[int | None], list[str]]:
    """Where the sources of a plan were in another one, and what is refused."""

    def streams(sources: Sequence[DataStream[Any]]) -> tuple[Any, StoredStreams]:
        pipeline = Pipeline("plan", *(source.sink_to(CollectSink()) for source in sources))
        plan = physical_plan(topology_of(pipeline))
        return plan.topology.sources, streams_of(plan)

    (steps, stored), (steps_now, streams_now) = streams(before), streams(now)
    kinds = [StoredSource(type(step.node.source).__name__, f"{step.index}") for step in steps]
    origins = {step.name: step.name for step in steps_now if step.name is not None}
    placed = PlacedSources(steps_now, kinds, stored.sources, streams_now.sources, origins)
    found = placed.found()
    folders = [source.folder for source in found.stored]
    assert len({*folders}) == len(folders)
    return [*found.places], placed.refused


def test_new_steps_are_under_the_watermark_of_all_that_they_read(spark: SparkSession, tmp_path: Path) -> None:
    def plan(*, is_grown: bool) -> Plan:
        a, b, c = (timed(readings(tmp_path / name, name), f"times {name}") for name in "abc")
        both = {"both": counted(a.union(b), "both")}
        # Its union comes first, and has the id that the other one had.
        fresh = {"fresh": counted(a.union(c), "fresh")} if is_grown else {}
        return Plan(fresh | both | ({"after": counted(a.union(b), "after")} if is_grown else {}))

    write(tmp_path / "a", 0, [1, 100])
    write(tmp_path / "b", 0, [2, 90])
    before = plan(is_grown=False)
    SparkRunner(spark, checkpoint=tmp_path / "old", partitions=1).run(before.pipeline, drain=False)
    take(tmp_path / "old", before.pipeline, tmp_path / "saved", spark=spark)
    write(tmp_path / "b", 1, [3, 95])
    write(tmp_path / "c", 0, [4, 110])
    runners = (
        LocalRunner(savepoint=tmp_path / "saved"),
        SparkRunner(spark, checkpoint=tmp_path / "new", savepoint=tmp_path / "saved", partitions=1),
    )
    for runner in runners:
        grown = plan(is_grown=True)
        with pytest.warns(WindrowWarning, match="is new, and begins empty"):
            result = runner.run(grown.pipeline)
        assert sorted(result.collected(grown.collected["fresh"])) == [("c", 0, 1), ("c", 110_000, 1)]
        assert sorted(result.collected(grown.collected["after"])) == [("b", 95_000, 1)]


def test_sources_are_found_by_name_by_what_they_read_and_by_their_order(tmp_path: Path) -> None:
    def files(folder: str, name: str | None = None) -> DataStream[Reading]:
        return readings(tmp_path / folder, name)

    numbers = from_collection([1, 2])
    for before, now, expected in (
        ([files("a"), files("b")], [files("b")], [1]),
        ([files("a"), files("b")], [files("b"), files("a")], [1, 0]),
        ([files("a")], [files("b"), files("a")], [None, 0]),
        ([files("a", "x"), files("b", "y")], [files("b", "y"), files("c", "z"), files("d", "x")], [1, None, 0]),
        ([files("a", "x")], [files("a", "y")], [None]),
        ([files("a"), files("b")], [files("a"), files("moved")], [0, 1]),  # read from elsewhere by now
        ([files("a"), files("a")], [files("a"), files("a")], [0, 1]),
        ([files("a")], [files("a"), numbers], [0, None]),
        ([numbers, files("a")], [files("a")], [1]),
    ):
        found, refused = places(before, now)
        assert (found, refused) == (expected, [])


def test_a_source_that_may_be_new_or_one_of_before_is_refused(tmp_path: Path) -> None:
    a, b, c = (readings(tmp_path / name) for name in "abc")
    again = readings(tmp_path / "a")
    for before, now, number in (([a, b], [b, c], 1), ([a], [b, c], 2), ([a, again], [a], 1)):
        _, refused = places(before, now)
        assert len(refused) == number
        assert all("nobody can say whether it is a new source" in line for line in refused)
    _, refused = places([readings(tmp_path / "a", "x")], [from_collection([1], name="x")])
    assert refused[0].endswith("the source was JsonFileSource and is CollectionSource")


def test_lines_of_sources_in_logs() -> None:
    assert QuerySources([1, None], True, 2, True).wanted == [1, None, 2]
    assert QuerySources([0], True, 1, False).wanted == [0, None]
    assert QuerySources([0], False, 1, True).wanted == [0]
    assert not QuerySources([0, 1], True, 2, True).are_others
    assert QuerySources([0, 1], True, 2, False).are_others
