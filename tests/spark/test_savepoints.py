"""Savepoints: a run that goes on from one, on other partitions, gives what an undisturbed run gives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.spark.checkpoints.archives import COLLECTED, KEPT, archives, kept_of, plain, unpack
from tests.spark.test_columns import write
from tests.spark.test_columns_go_on import RECORDS, Plan
from tests.support.thorough import thorough
from windrow.errors import (
    CheckpointError,
    IncompatibleStateError,
    InvalidArgumentError,
    SinkError,
    UnsupportedOperationError,
)
from windrow_runtime.local import LocalRunner
from windrow_runtime.savepoint import read, rescale, take
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.savepoint.description import SavepointFolder
from windrow_spark.savepoint.log_files import fit_logs
from windrow_spark.savepoint.restoring import RestoredFrom, check_restored, clear_written, restored_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.classic(reason="savepoints are refused over Spark Connect")

# Any in this module: rows of every type.


def partitions_of(checkpoint: Path) -> int:
    """The number of partitions that a checkpoint has stored."""
    description = Checkpoint(checkpoint).description()
    assert description is not None
    return description.partitions


@pytest.mark.parametrize("archive", archives(), ids=lambda archive: archive.name.partition("-")[0])
def test_state_of_every_kind_goes_on_with_other_partitions(
    spark: SparkSession, tmp_path: Path, archive: Path, request: pytest.FixtureRequest
) -> None:
    """Elements and timers of objects, chunks, pages and segments of columns, working sets, long lists, watermarks."""
    kept, checkpoint = kept_of(archive), tmp_path / "checkpoint"
    servers: str = request.getfixturevalue("kafka") if kept.needs_broker else ""
    unpack(archive, checkpoint, servers)
    plan, outputs = kept.whole(checkpoint, servers)
    before = json.loads((checkpoint / COLLECTED).read_text())
    saved = rescale(checkpoint, plan, partitions=3, spark=spark)
    expected, _ = outputs.expected(plan)
    after = plain(outputs.of(SparkRunner(spark, checkpoint=checkpoint).run(plan)))
    whole = {
        name: {key: before[name].get(key, []) + after[name].get(key, []) for key in {*before[name], *after[name]}}
        for name in expected
    }
    assert whole == plain(expected)
    assert all(before.values())
    assert all(after.values())
    assert partitions_of(checkpoint) == 3
    local = LocalRunner(savepoint=saved)
    if kept is KEPT["joined"]:
        with pytest.raises(IncompatibleStateError, match="its state cannot leave its columns"):
            local.run(plan)
    elif kept is not KEPT["paged"]:  # the files of its archive were read in another folder
        assert plain(outputs.of(local.run(plan))) == after


def rows_in(out: Path) -> dict[str, list[Any]]:
    """The rows of the files of a :class:`Plan`, by the name of the branch."""
    tables = {name: pq.read_table(out / name).to_pylist() for name in RECORDS}
    return {
        name: sorted((RECORDS[name](*(row[field] for field in RECORDS[name]._fields)) for row in rows), key=repr)
        for name, rows in tables.items()
    }


def test_a_checkpoint_is_rescaled_twice_in_its_place_and_files_have_each_row_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """partitions   2        5        3

    file           0        1        2, 3
    """
    folder, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    results = []
    plan = Plan(folder, out=out)
    for files, partitions in ((range(1), 2), (range(1, 2), 5), (range(2, 4), 3)):
        write(folder, files)
        if checkpoint.exists():
            saved = rescale(checkpoint, plan.pipeline, partitions=partitions, spark=spark)
            assert saved == tmp_path / "checkpoint.rescaled"
            with pytest.raises(InvalidArgumentError, match="of an earlier call is still there"):
                rescale(checkpoint, plan.pipeline, partitions=9, spark=spark)
            saved.rename(tmp_path / f"{partitions}")
        runner = SparkRunner(spark, checkpoint=checkpoint, partitions=partitions)
        results.append(runner.run(plan.pipeline, drain=partitions == 3))
    assert partitions_of(checkpoint) == 3
    whole = Plan(folder, out=None)
    assert plan.of(*results) | rows_in(out) == whole.of(LocalRunner().run(whole.pipeline))


def test_a_rescale_that_was_interrupted_is_finished_before_a_run_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write(folder, range(2))
    plan = Plan(folder, out=None)
    first = SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(plan.pipeline, drain=False)
    # As if an earlier process had died while it wrote the savepoint.
    (tmp_path / "checkpoint.rescaled" / "state" / "#window-1").mkdir(parents=True)
    saved = rescale(checkpoint, plan.pipeline, partitions=2, spark=spark)
    # As if the process had died when the state was there and the logs were not.
    marker = restored_file(Checkpoint(checkpoint))
    noted = marker.read()
    assert noted is not None
    marker.write(RestoredFrom(noted.savepoint, is_whole=False))
    (checkpoint / "plan").unlink()
    with pytest.raises(CheckpointError, match="was interrupted while it began the checkpoint from a savepoint"):
        SparkRunner(spark, checkpoint=checkpoint).run(plan.pipeline)
    assert rescale(checkpoint, plan.pipeline, partitions=2, spark=spark) == saved
    write(folder, range(2, 3))
    second = SparkRunner(spark, checkpoint=checkpoint, partitions=2).run(plan.pipeline)
    assert plan.of(first, second) == plan.of(LocalRunner().run(plan.pipeline))


@pytest.mark.parametrize(
    "place",
    [
        thorough("checkpoint.rescaled/state", reason="the test above in test_savepoints.py has what this kill leaves"),
        "checkpoint/seed",
    ],
)
def test_a_rescale_that_was_killed_is_done_again(spark: SparkSession, tmp_path: Path, place: str) -> None:
    """The process dies while it writes the savepoint, or while it stores the state anew."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write(folder, range(2))
    plan = Plan(folder, out=None)
    first = SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(plan.pipeline, drain=False)
    command = [sys.executable, "-m", "tests.spark.killed_restore", str(tmp_path), "2"]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL) as dying:
        deadline = time.monotonic() + 240
        while not (tmp_path / place).exists():
            assert dying.poll() is None, "it has ended"
            assert time.monotonic() < deadline
            threading.Event().wait(0.01)
        os.killpg(dying.pid, signal.SIGKILL)
    assert partitions_stored(checkpoint) in (1, None)
    rescale(checkpoint, plan.pipeline, partitions=2, spark=spark)
    write(folder, range(2, 3))
    second = SparkRunner(spark, checkpoint=checkpoint, partitions=2).run(plan.pipeline)
    assert plan.of(first, second) == plan.of(LocalRunner().run(plan.pipeline))


def partitions_stored(checkpoint: Path) -> int | None:
    """The number of partitions in the stored plan of a checkpoint; None: it has no plan."""
    description = Checkpoint(checkpoint).plan.read()
    return None if description is None else description.partitions


def test_a_savepoint_of_a_run_that_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """The run, and one that begins from the savepoint, both give the rest; they may not share their files."""
    folder, out = tmp_path / "in", tmp_path / "out"
    write(folder, range(1))
    plan = Plan(folder, out=out)
    runner = SparkRunner(spark, checkpoint=tmp_path / "old", partitions=1)
    with runner.start(plan.pipeline) as running:
        running.process_available()
        saved = running.savepoint(tmp_path / "saved")
        assert saved.is_live
        before = running.stop()
    again = SparkRunner(spark, checkpoint=tmp_path / "new", savepoint=tmp_path / "saved", partitions=2)
    with pytest.raises(SinkError, match="another run"):
        again.run(plan.pipeline)
    write(folder, range(1, 3))
    after = runner.run(plan.pipeline)
    whole = Plan(folder, out=None)
    expected = whole.of(LocalRunner().run(whole.pipeline))
    assert plan.of(before, after) | rows_in(out) == expected
    elsewhere = Plan(folder, out=tmp_path / "elsewhere")
    first, rest = plan.of(before), elsewhere.of(again.run(elsewhere.pipeline))
    assert {name: sorted(first[name] + rest[name], key=repr) for name in rest} == {
        name: expected[name] for name in ("ordered", "sessions")
    }


def test_keys_hold_the_same_on_columns_and_on_objects(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, range(2))
    plan = Plan(folder, out=None)
    tables: list[dict[str, Any]] = []
    for columnar in (True, False):
        checkpoint, saved = tmp_path / f"{columnar}", tmp_path / f"saved {columnar}"
        runner = SparkRunner(spark, checkpoint=checkpoint, partitions=1, columnar=columnar)
        runner.run(plan.pipeline, drain=False)
        take(checkpoint, plan.pipeline, saved, spark=spark)
        savepoint = read(saved, plan.pipeline)
        assert {savepoint.form(step) for step in savepoint} == ({"columns"} if columnar else {"objects"})
        tables.append({step: savepoint[step].sort_by("key").to_pylist() for step in savepoint if "window" in step})
        if not columnar:
            assert read(saved)["#interval_join-1"].num_rows
            continue
        with pytest.raises(UnsupportedOperationError, match="both sides of a join"):
            savepoint["#interval_join-1"]
        with pytest.raises(InvalidArgumentError, match="whose meaning only its pipeline knows"):
            read(saved)["#window-1"]
        assert savepoint.columns("#window-1").column_names[:2] == ["key", "slice"]
    on_columns, on_objects = tables
    assert on_columns.keys() == on_objects.keys() == {"#window-1", "#window-2", "#window-3"}
    for step in on_columns:
        assert list(map(without_order(step), on_columns[step])) == list(map(without_order(step), on_objects[step]))


def without_order(step: str) -> Any:
    """Makes a function that leaves out of a row the order of windows, and the bits that rounding decides."""

    def plain_row(row: dict[str, Any]) -> dict[str, Any]:
        windows = sorted(row["windows"], key=lambda window: (window["start"], window["end"]))
        for window in windows:
            if step != "#window-2":
                window["contents"] = rounded(json.loads(window["contents"]))
        return row | {"windows": windows}

    return plain_row


def rounded(value: Any) -> Any:
    """A count, and the mean's total with its rounding error, which depends on the order of addition."""
    if isinstance(value, list) and len(value) == 3 and isinstance(value[2], float):
        return [value[0], round(value[1] + value[2], 6)]
    return list(map(rounded, value)) if isinstance(value, list) else value


def test_what_is_no_savepoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder, old, saved = tmp_path / "in", tmp_path / "old", tmp_path / "saved"
    write(folder, range(1))
    plan = Plan(folder, out=None)
    with pytest.raises(InvalidArgumentError, match="there is no checkpoint"):
        take(old, plan.pipeline, saved, spark=spark)
    runner = SparkRunner(spark, checkpoint=old, partitions=1)
    runner.run(plan.pipeline, drain=False)
    with pytest.raises(IncompatibleStateError, match="the columns of its state were"):
        take(old, Plan(folder, out=None, celsius_of_left=True).pipeline, saved, spark=spark)
    assert not saved.exists()
    with pytest.raises(InvalidArgumentError, match="there is no savepoint"):
        SparkRunner(spark, checkpoint=tmp_path / "new", savepoint=saved).run(plan.pipeline)
    take(old, plan.pipeline, saved, spark=spark)
    with pytest.raises(IncompatibleStateError, match="did not begin from this savepoint"):
        SparkRunner(spark, checkpoint=old, savepoint=saved).run(plan.pipeline)
    part = min((saved / "state" / "#window-1").iterdir())
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="bytes, and"):
        SparkRunner(spark, checkpoint=tmp_path / "new", savepoint=saved).run(plan.pipeline)
    part.unlink()
    with pytest.raises(CheckpointError, match="it is gone"):
        read(saved)
    # A batch that has begun may have written some results, and other partitions would write others.
    Checkpoint(old).newest_batch.note(99)
    (old / "spark" / "commits" / f"{Checkpoint(old).last_planned()}").unlink()
    with pytest.raises(IncompatibleStateError, match="a batch was interrupted"):
        take(old, plan.pipeline, tmp_path / "again", spark=spark)


def test_a_savepoint_needs_a_checkpoint() -> None:
    with pytest.raises(InvalidArgumentError, match="only a new checkpoint begins from a savepoint"):
        SparkRunner(savepoint="saved")
    with pytest.raises(InvalidArgumentError, match="mounted"):
        SparkRunner(checkpoint="new", savepoint="s3a://bucket/saved")


def test_files_of_others_in_the_folder_of_a_checkpoint_stay(tmp_path: Path) -> None:
    checkpoint, other = Checkpoint.at(tmp_path), tmp_path / "holiday.jpg"
    other.touch()
    with pytest.raises(InvalidArgumentError, match="in a folder of its own"):
        check_restored(checkpoint, SavepointFolder.at(tmp_path / "saved"))
    (tmp_path / "spark" / "state").mkdir(parents=True)
    (tmp_path / "plan").touch()
    clear_written(checkpoint)
    assert [*tmp_path.iterdir()] == [other]


def test_logs_name_absolute_paths_where_checkpoints_have_relative_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint, log = Checkpoint.at("a folder/../new"), tmp_path / "new" / "spark" / "sources" / "0" / "0"
    log.parent.mkdir(parents=True)
    log.write_text(f"file://{tmp_path}/old/sources/1/batch-000000.parquet")
    fit_logs(checkpoint, "old", 2)
    assert log.read_text() == f"file://{tmp_path}/new/sources/1/batch-000000.parquet"


def test_groups_of_a_new_parallelism_are_balanced() -> None:
    from windrow_spark.key_groups import KeyGroups, spark_partition

    for partitions, each in ((7, 2), (3, 5)):
        groups = KeyGroups.balanced(partitions, each)
        shares = Counter(spark_partition(label, partitions) for label in groups.labels)
        assert [*shares.values()] == [each] * partitions
