"""The interpreter goes on from a savepoint that is written here by hand; tests of savepoints do so from those of Spark.

::

    files   0 1              | 2 3
    run     the interpreter  | another one, from the savepoint
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import windrow
from tests.spark.test_changed_sources import counted, readings, timed, write
from windrow import DataStream, Pipeline
from windrow.errors import IncompatibleStateError, InvalidArgumentError, UnsupportedOperationError, WindrowWarning
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.local.execution import Execution
from windrow_runtime.operators.topology import topology_of
from windrow_spark.checkpoint.stored_plan import Parallelism, resume
from windrow_spark.clock import encode_watermark
from windrow_spark.lowering import physical_plan
from windrow_spark.savepoint.description import (
    FORMAT,
    OBJECTS,
    SavedFile,
    SavedStep,
    SavepointDescription,
    SavepointFolder,
)
from windrow_spark.savepoint.step_parts import ObjectPart
from windrow_spark.shipping import known_classes
from windrow_spark.sources.scanner import scanner_of

# Any in this module: results of every type.

WATERMARK = 12_999


class Plan:
    """Counts in windows of what is in a folder."""

    def __init__(self, folder: Path, **more: DataStream[Any]) -> None:
        streams = {"counts": counted(timed(readings(folder, "a"), "times"), "counts"), **more}
        self.sinks = {name: CollectSink[Any]() for name in streams}
        self.pipeline = Pipeline("plan", *(stream.sink_to(self.sinks[name]) for name, stream in streams.items()))

    def of(self, runner: LocalRunner) -> Mapping[str, list[Any]]:
        result = runner.run(self.pipeline)
        return {name: result.collected(sink) for name, sink in self.sinks.items()}


def stopped(folder: Path, saved: Path) -> list[Any]:
    """What a run over the first two files gives, whose state becomes a savepoint."""
    write(folder, 0, [1, 2, 6])
    write(folder, 1, [7, 8, 13])
    plan = Plan(folder)
    topology = topology_of(plan.pipeline)
    execution = Execution(topology)
    results: dict[int, list[Any]] = {id(plan.sinks["counts"]): []}
    execution.open()
    for watermark, batch in enumerate(["0", "1", ""]):
        (step,) = topology.sources
        batches = {step.id: scanner_of(step).replayed([f"{folder}/{batch}.json"])} if batch else {}
        times = {each.id: (-1, 5_999, WATERMARK)[watermark] for each in topology.keyed}
        execution.round(execution.inputs_of(batches), watermark=times, processing_time=0)
        execution.write_sinks(topology.sinks, watermark, results, {})
    execution.close()
    _write_savepoint(saved, folder, plan.pipeline, execution)
    write(folder, 2, [14, 16])
    write(folder, 3, [3, 22])  # the first is late
    return results[id(plan.sinks["counts"])]


def _write_savepoint(path: Path, source: Path, pipeline: Pipeline, execution: Execution) -> None:
    folder = SavepointFolder(path)
    plan = physical_plan(topology_of(pipeline), columnar=False)
    spark = Path(folder.checkpoint.spark_path)
    for name in ("offsets", "commits", "sources/0"):
        (spark / name).mkdir(parents=True)
    resume(folder.checkpoint, plan, "event time", Parallelism(1, 1, 1))
    watermark = encode_watermark(WATERMARK)
    settings = json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": 0, "conf": {}})
    (spark / "offsets" / "1").write_text(f'v1\n{settings}\n{{"logOffset":1}}\n-')
    (spark / "commits" / "1").write_text(f"v1\n{json.dumps({'nextBatchWatermarkMs': watermark})}")
    for number in range(2):
        entry = {"path": f"file://{source}/{number}.json", "timestamp": 1, "batchId": number}
        (spark / "sources" / "0" / f"{number}").write_text(f"v1\n{json.dumps(entry)}")
    (step,) = plan.topology.keyed
    rows = ObjectPart(step, known_classes(plan.topology.steps), False).rows_of(execution.operators[step.id].state)
    file = folder.folder_of("counts") / "group.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_batches([rows]), file, write_page_checksum=True)
    files = [SavedFile(file.name, rows.num_rows, file.stat().st_size)]
    steps = {"counts": SavedStep(OBJECTS, WATERMARK, 0, 0, "", files)}
    logs = folder.checksums()
    version, old = windrow.__version__, f"{path}-of"
    folder.file.write(SavepointDescription(FORMAT, version, uuid.uuid4().hex, 1, False, old, WATERMARK, 0, steps, logs))


def test_the_interpreter_goes_on_from_a_savepoint(tmp_path: Path) -> None:
    before = stopped(tmp_path / "a", tmp_path / "saved")
    assert before == [("a", 0, 2), ("a", 5000, 3)]
    runner = LocalRunner(savepoint=tmp_path / "saved")
    assert repr(runner) == f"LocalRunner(savepoint='{tmp_path}/saved')"
    first, after = (Plan(tmp_path / "a").of(runner)["counts"] for _ in range(2))
    assert first == after == [("a", 10000, 2), ("a", 15000, 1), ("a", 20000, 1)]  # each run begins there
    assert before + after == Plan(tmp_path / "a").of(LocalRunner())["counts"]
    assert runner.run(Plan(tmp_path / "a").pipeline).counters["plan.4.counts"]["late_records_dropped"] == 1


def test_a_changed_plan_goes_on_and_what_is_new_begins_at_its_beginning(tmp_path: Path) -> None:
    stopped(tmp_path / "a", tmp_path / "saved")
    write(tmp_path / "b", 0, [1, 9])
    new = counted(timed(readings(tmp_path / "b", "b"), "others"), "fresh")
    plan = Plan(tmp_path / "a", fresh=new)
    with pytest.warns(WindrowWarning, match="the plan has changed since the savepoint") as caught:
        results = plan.of(LocalRunner(savepoint=tmp_path / "saved"))
    assert "its state becomes" not in str(caught[0].message)
    assert results["counts"] == [("a", 10000, 2), ("a", 15000, 1), ("a", 20000, 1)]
    assert results["fresh"] == [("b", 0, 1), ("b", 5000, 1)]


def test_changes_of_streams_are_accepted_by_name(tmp_path: Path) -> None:
    stopped(tmp_path / "a", tmp_path / "saved")
    sink = CollectSink[Any]()
    pipeline = Pipeline(
        "plan",
        counted(timed(readings(tmp_path / "a", "a"), "times"), "counts", lambda r: r.sensor.lower()).sink_to(sink),
    )
    with pytest.raises(IncompatibleStateError, match=r"another plan(.|\n)*accept_changes="):
        LocalRunner(savepoint=tmp_path / "saved").run(pipeline)
    runner = LocalRunner(savepoint=tmp_path / "saved", accept_changes=["counts"])
    assert repr(runner) == f"LocalRunner(savepoint='{tmp_path}/saved', accept_changes=['counts'])"
    assert len(runner.run(pipeline).collected(sink)) == 3
    unknown = LocalRunner(savepoint=tmp_path / "saved", accept_changes=["nothing"])
    with pytest.raises(InvalidArgumentError, match="accept_changes names no step"):
        unknown.run(pipeline)
    for wrong in ({"accept_changes": ["counts"]}, {"accept_changes": "counts", "savepoint": tmp_path}):
        with pytest.raises(InvalidArgumentError, match="accept"):
            LocalRunner(**wrong)


def test_what_cannot_go_on_is_refused(tmp_path: Path) -> None:
    stopped(tmp_path / "a", tmp_path / "saved")
    runner = LocalRunner(savepoint=tmp_path / "saved")
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    with pytest.raises(UnsupportedOperationError, match=r"reads from elsewhere(.|\n)*plan\.1\.a"):
        runner.run(Plan(tmp_path / "elsewhere").pipeline)
    (tmp_path / "elsewhere").rename(tmp_path / "a")
    keyed = timed(readings(tmp_path / "a", "a"), "times").key_by(lambda r: r.second)
    other = Pipeline("plan", keyed.max(lambda r: r.second, name="counts").sink_to(CollectSink[Any]()))
    with pytest.raises(IncompatibleStateError, match="counts"):
        runner.run(other)
    with pytest.raises(InvalidArgumentError, match="there is no savepoint"):
        LocalRunner(savepoint=tmp_path / "nothing").run(Plan(tmp_path / "a").pipeline)
    with pytest.raises(InvalidArgumentError, match="steps are renamed between a savepoint and a plan"):
        LocalRunner(renamed={"a": "b"})
