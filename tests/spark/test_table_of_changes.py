"""The table "What may change" of the page on savepoints, row by row: what a run says of the change when it begins.

What becomes of the results is tested by runs, in test_upgrades, test_changed_savepoints and test_changed_sources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError, WindrowError
from windrow.failures import OnError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink, JsonFileSink
from windrow.sources import ParquetFileSource
from windrow.state import ValueStateDescriptor
from windrow.windows import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.operators.topology import topology_of
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_plan import Parallelism, resume
from windrow_spark.lowering import physical_plan
from windrow_spark.savepoint.fitting import FittedPlan, PlanChange
from windrow_spark.savepoint.in_place import time_here
from windrow_spark.savepoint.log_files import fit_logs
from windrow_spark.savepoint.writing import fitted_to
from windrow_spark.upgrade import stored_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: streams of every type.

PAGE = (Path(__file__).parents[2] / "docs" / "savepoints.md").read_text()
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
PARTITIONS: Final = Parallelism(2, 2, 2)


def rows() -> dict[str, tuple[str, str]]:
    """The rows of the table: what happens from a checkpoint and from a savepoint, by the change."""
    _, _, table = PAGE.partition("## What may change\n")
    head, _, *lines = ROW.findall(table.partition("\n\n{doc}")[0])
    assert head == ("change", "from a checkpoint", "from a savepoint")
    return {change: (checkpoint, savepoint) for change, checkpoint, savepoint in lines}


class Reading(NamedTuple):
    sensor: str
    second: int


class Seen(KeyedProcessFunction[str, Reading, int]):
    count = ValueStateDescriptor("count", int)

    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> Iterable[int]:
        yield value.second


class SeenTwice(Seen):
    """Another code under the name of the function."""

    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> Iterable[int]:
        yield value.second * 2


SeenTwice.__qualname__ = Seen.__qualname__
SeenTwice.__name__ = Seen.__name__

TUMBLING = TumblingEventTimeWindows.of(timedelta(seconds=5))


def source(name: str) -> DataStream[Reading]:
    return from_source(ParquetFileSource(f"/readings/{name}", Reading, files_per_batch=1), name=name)


def timed(stream: DataStream[Reading], name: str = "times") -> DataStream[Reading]:
    strategy = WatermarkStrategy[Reading].for_monotonous_timestamps()
    return stream.assign_timestamps_and_watermarks(strategy, timestamp=lambda r: r.second, name=name)


def counts(
    stream: DataStream[Reading], name: str = "counts", assigner: Any = TUMBLING, key: Any = lambda r: r.sensor
) -> Any:
    return stream.key_by(key).window(assigner).aggregate(agg.combine(agg.key(), agg.count()), name=name)


def more(stream: DataStream[Reading]) -> Any:
    combined: Any = agg.combine(agg.key(), agg.count(), agg.max(lambda r: r.second))
    return stream.key_by(lambda r: r.sensor).window(TUMBLING).aggregate(combined, name="counts")


def late(stream: DataStream[Reading]) -> Any:
    windows = stream.key_by(lambda r: r.sensor).window(TUMBLING).allowed_lateness(timedelta(seconds=1))
    return windows.aggregate(agg.combine(agg.key(), agg.count()), name="counts")


def seen(stream: DataStream[Reading], function: KeyedProcessFunction[Any, Any, int] | None = None) -> Any:
    return stream.key_by(lambda r: r.sensor).process(function or Seen(), name="seen")


def alike(stream: DataStream[Reading], on_error: OnError[Reading] = "fail") -> DataStream[Reading]:
    by_sensor = stream.key_by(lambda r: r.sensor)
    return by_sensor.distinct(lambda r: r.second, within=timedelta(seconds=5), on_error=on_error, name="alike")


def plan(*streams: DataStream[Any]) -> Pipeline:
    return Pipeline("job", *(stream.sink_to(CollectSink[Any]()) for stream in streams))


A: Final = timed(source("a"))
BOTH: Final = timed(source("a").union(source("b")))
OF_TWO: Final = plan(counts(BOTH))


@dataclass(frozen=True)
class Change:
    """A change of a plan, what is refused, and what the warning says."""

    before: Pipeline
    after: Pipeline
    checkpoint: bool
    savepoint: bool = True
    said: str = ""
    change: PlanChange = field(default_factory=PlanChange)
    time: str | None = None  # by which the query runs then


def into(stream: DataStream[Any], *folders: str) -> Pipeline:
    return Pipeline("job", *(stream.sink_to(JsonFileSink(f"/out/{name}"), name=f"into {name}") for name in folders))


CHANGES: Final[dict[str, list[Change]]] = {
    "a keyed step more": [
        Change(plan(counts(A)), plan(counts(A), seen(A)), checkpoint=True, said="is new, and begins empty"),
        Change(
            plan(counts(A)),
            plan(counts(A), A.key_by(lambda r: r.sensor).process(Seen())),
            checkpoint=False,
            said="is new, and begins",
        ),
    ],
    "a keyed step less": [
        Change(plan(counts(A), seen(A)), plan(counts(A)), checkpoint=False, said="seen is gone, and so is its state")
    ],
    "a keyed step with another name": [
        Change(
            plan(counts(A)),
            plan(counts(A, "totals")),
            checkpoint=False,
            change=PlanChange(renamed={"counts": "totals"}),
        )
    ],
    "one aggregate more in `into` or `combine`": [
        Change(plan(counts(A)), plan(more(A)), checkpoint=True, said="and aggregate 2 begins empty in them")
    ],
    "another size or slide of windows, another gap of sessions": [
        Change(
            plan(counts(A, assigner=assigner(5))),
            plan(counts(A, assigner=assigner(10))),
            checkpoint=False,
            said="windows that are open stay as",
        )
        for assigner in (
            lambda seconds: TumblingEventTimeWindows.of(timedelta(seconds=seconds)),
            lambda seconds: SlidingEventTimeWindows.of(timedelta(seconds=30), timedelta(seconds=seconds)),
            lambda seconds: EventTimeSessionWindows.with_gap(timedelta(seconds=seconds)),
        )
    ],
    "`columnar=False`, or `on_error=` of a step, for state in columns": [
        Change(
            plan(counts(A)),
            plan(counts(A)),
            checkpoint=False,
            said="its state becomes Python objects, since columns are turned off",
            change=PlanChange(columnar=False),
        ),
        Change(
            plan(alike(A)),
            plan(alike(A, "drop")),
            checkpoint=False,
            said="its state becomes Python objects, since a call that fails changes nothing",
        ),
    ],
    "a function's code": [Change(plan(seen(A)), plan(seen(A, SeenTwice())), checkpoint=True)],
    "another type of keys, another kind of window, trigger, lateness or function": [
        Change(plan(counts(A)), plan(after), checkpoint=False, savepoint=False)
        for after in (
            counts(A, key=lambda r: r.second),
            counts(A, assigner=EventTimeSessionWindows.with_gap(timedelta(seconds=5))),
            late(A),
            A.key_by(lambda r: r.sensor).max(lambda r: r.second, name="counts"),
        )
    ],
    "a source more": [
        Change(plan(counts(A)), OF_TWO, checkpoint=True, said="is new, and is read from its beginning"),
        Change(plan(counts(A)), plan(counts(A), from_collection([1])), checkpoint=True, said="is read from its begin"),
    ],
    "a source less": [Change(OF_TWO, plan(counts(A)), checkpoint=False, said="source b is gone, and so is its pos")],
    "sources in another order": [Change(plan(counts(A), source("b")), plan(source("b"), counts(A)), checkpoint=False)],
    "a second timestamp-assigning step, or another plan whose watermark Spark cannot keep": [
        Change(
            plan(counts(A), source("b")),
            plan(counts(A.union(timed(source("b"), "times of b")))),
            checkpoint=False,
            change=PlanChange(accepted=("counts",)),
            time="a watermark or clock that windrow keeps",
        )
    ],
    "the first keyed step": [Change(plan(A), plan(A, counts(A)), checkpoint=True, said="is new, and begins empty")],
    "no keyed step any more": [
        Change(plan(A, counts(A)), plan(A), checkpoint=False, said="counts is gone, and so is its state")
    ],
    "a sink more or less": [
        Change(into(counts(A), "x"), into(counts(A), "x", "y"), checkpoint=True, said="is a new sink, and gets what"),
        Change(into(counts(A), "x", "y"), into(counts(A), "x"), checkpoint=True, said="the sink into y is gone"),
    ],
    "another target of a sink": [
        Change(
            into(counts(A), "x"),
            Pipeline("job", counts(A).sink_to(JsonFileSink("/elsewhere"), name="into x")),
            checkpoint=True,
            said="into x, writes to another target than before",
        )
    ],
}
OF_FOLDERS = {"partitions, key groups", "another folder for the checkpoint"}


def began(folder: Path, pipeline: Pipeline) -> Checkpoint:
    """A checkpoint as a run leaves it after its first batch, but for the state."""
    checkpoint = Checkpoint(folder)
    (folder / "spark" / "state" / "0").mkdir(parents=True)
    plan = physical_plan(topology_of(pipeline))
    resume(checkpoint, plan, time_here(plan, checkpoint), PARTITIONS)
    sources = len(plan.topology.sources) + bool(plan.topology.keyed)
    settings = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {"spark.sql.shuffle.partitions": "2"}}
    for name, text in (
        ("metadata", json.dumps({"id": "5b3e3b6e-4f0a-4c3c-8a43-0c3f6a4d6a55"})),
        ("offsets/0", "\n".join(["v1", json.dumps(settings), *["-"] * sources])),
        ("commits/0", 'v1\n{"nextBatchWatermarkMs":0}'),
    ):
        file = folder / "spark" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return checkpoint


def fit(checkpoint: Checkpoint, change: Change) -> FittedPlan:
    description = checkpoint.description()
    assert description is not None
    return fitted_to(checkpoint, description, change.after, change.change)


def test_each_row_of_the_page_is_a_case() -> None:
    assert rows().keys() == CHANGES.keys() | OF_FOLDERS


@pytest.mark.parametrize(
    ("row", "change"),
    [
        pytest.param(row, change, id=f"{row} {number}")
        for row, changes in CHANGES.items()
        for number, change in enumerate(changes, start=1)
    ],
)
def test_a_row(tmp_path: Path, row: str, change: Change) -> None:
    checkpoint = began(tmp_path / "checkpoint", change.before)
    if not change.change.columnar:
        with pytest.raises(IncompatibleStateError, match="its state lies in columns"):
            resume(checkpoint, physical_plan(topology_of(change.after), columnar=False), "event time", PARTITIONS)
    else:
        upgrade = stored_run(str(checkpoint.path)).upgrade(change.after)
        is_taken = not (upgrade.unreadable or upgrade.moved)
        assert is_taken == change.checkpoint, upgrade
        if upgrade.begun:
            assert change.said in "; ".join(upgrade.begun)
    of_checkpoint, of_savepoint = rows()[row]
    if not change.checkpoint:
        assert "refused" in of_checkpoint
    if of_checkpoint == "refused":
        assert not change.checkpoint
    assert of_savepoint.startswith("refused") != change.savepoint
    if not change.savepoint:
        with pytest.raises(IncompatibleStateError, match="the savepoint belongs to another plan"):
            fit(checkpoint, change)
        return
    fitted = fit(checkpoint, change)
    changes = [*fitted.changes, *fitted.other_forms]
    assert change.said in "; ".join(changes)
    assert bool(change.said) == bool(changes)
    if change.time is not None:
        assert time_here(fitted.plan, checkpoint) == change.time


class Report(NamedTuple):
    sensor: str
    readings: int


class LongReport(NamedTuple):
    sensor: str
    readings: int
    last: int


class OpenReport(NamedTuple):
    sensor: str
    readings: int
    last: int | None


def reports(kind: type[Any], *more_of_it: Any) -> Pipeline:
    parts: Any = (agg.key(), agg.count(), *more_of_it)
    return plan(A.key_by(lambda r: r.sensor).window(TUMBLING).aggregate(agg.into(kind, *parts), name="reports"))


def test_an_aggregate_more_needs_a_field_that_takes_none_of_windows_that_are_open(tmp_path: Path) -> None:
    checkpoint = began(tmp_path / "checkpoint", reports(Report))
    run = stored_run(str(checkpoint.path))
    last: Any = agg.max(lambda r: r.second)
    refused = reports(LongReport, last)
    with pytest.raises(IncompatibleStateError, match="its field does not take None") as caught:
        run.upgrade(refused)
    assert "field last, which takes int, of max(.second)" in str(caught.value)
    with pytest.raises(IncompatibleStateError, match="its field does not take None"):
        fit(checkpoint, Change(reports(Report), refused, checkpoint=False)).check_filled()
    for accepted in (reports(OpenReport, last), reports(LongReport, agg.count())):
        assert run.upgrade(accepted).begun


def test_a_savepoint_takes_other_partitions_in_another_folder(tmp_path: Path) -> None:
    """The rows of partitions and of folders; tests of savepoints run them."""
    checkpoint = began(tmp_path / "new", plan(counts(A)))
    log = tmp_path / "new" / "spark" / "sources" / "0" / "0"
    log.parent.mkdir(parents=True)
    log.write_text(f'v1\n{{"path":"file://{tmp_path}/old/control/wake","timestamp":1,"batchId":0}}')
    with pytest.raises(IncompatibleStateError, match="the parallelism of a checkpoint cannot change"):
        resume(checkpoint, physical_plan(topology_of(plan(counts(A)))), "event time", Parallelism(5, None, 2))
    fit_logs(checkpoint, f"{tmp_path}/old", 5)
    settings = (tmp_path / "new" / "spark" / "offsets" / "0").read_text().splitlines()[1]
    assert json.loads(settings)["conf"] == {"spark.sql.shuffle.partitions": "5"}
    assert f"file://{tmp_path}/new/control/wake" in log.read_text()
    first, second = (rows()[row] for row in sorted(OF_FOLDERS, reverse=True))
    assert first[0] == "refused"
    assert second[0].startswith("refused")


@pytest.mark.classic(reason="Spark Connect has its checkpoints elsewhere")
def test_a_checkpoint_that_was_moved_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = from_collection([1, 2, 3]).key_by(lambda number: number % 2).reduce(lambda a, b: a + b)
    pipeline = Pipeline("moved", stream.sink_to(CollectSink[Any]()))
    SparkRunner(spark, checkpoint=tmp_path / "old", partitions=1).run(pipeline, drain=False)
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(WindrowError):
        SparkRunner(spark, checkpoint=tmp_path / "new").run(pipeline)
