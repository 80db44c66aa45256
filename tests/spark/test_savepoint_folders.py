"""Folders of savepoints: what lies in another one, what was removed or changed, odd names, and a run that goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.spark.test_columns import write
from tests.spark.test_columns_go_on import Plan
from windrow.errors import CheckpointError, EngineError, InvalidArgumentError
from windrow_runtime.savepoint import rescale, take
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.savepoint.description import SavepointFolder
from windrow_spark.savepoint.log_files import copy_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.classic(reason="savepoints are refused over Spark Connect")

# Any in this module: what Spark's session is asked for, and paths.


def test_no_restore_removes_files_of_others(spark: SparkSession, tmp_path: Path) -> None:
    incoming, old, saved = tmp_path / "in", tmp_path / "old", tmp_path / "saved"
    write(incoming, range(1))
    plan = Plan(incoming, out=None).pipeline
    SparkRunner(spark, checkpoint=old, partitions=1).run(plan, drain=False)
    with pytest.raises(InvalidArgumentError, match="have folders of their own"):
        take(old, plan, old / "saved", spark=spark)
    with pytest.raises(InvalidArgumentError, match="a folder that a source reads"):
        take(old, plan, incoming, spark=spark)
    take(old, plan, saved, spark=spark)
    whole = contents(saved)
    for checkpoint in (saved, saved / "new", tmp_path):
        with pytest.raises(InvalidArgumentError, match=r"folders? of (their|its) own|source reads"):
            SparkRunner(spark, checkpoint=checkpoint, savepoint=saved).run(plan)
    assert {path: data for path, data in contents(saved).items() if "in-use" not in path} == whole
    mine = tmp_path / "mine"
    (mine / "results").mkdir(parents=True)
    (mine / "results" / "2024.csv").write_text("1")
    with pytest.raises(InvalidArgumentError, match="in a folder of its own"):
        SparkRunner(spark, checkpoint=mine, savepoint=saved).run(plan)
    (old / "notes").write_text("1")
    rescaled = tmp_path / "old.rescaled"
    (rescaled / "state").mkdir(parents=True)  # as of a call that was interrupted, but for the other file
    (rescaled / "report.csv").write_text("1")
    with pytest.raises(InvalidArgumentError, match=r"needs a folder that has other files(.|\n)*report\.csv"):
        rescale(old, plan, partitions=2, spark=spark)
    (rescaled / "report.csv").unlink()
    rescale(old, plan, partitions=2, spark=spark)
    assert (mine / "results" / "2024.csv").read_text() == (old / "notes").read_text() == "1"


def contents(folder: Path) -> dict[str, bytes]:
    return {f"{file.relative_to(folder)}": file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def remove(file: Path) -> None:
    file.unlink()


def append(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\n")


@pytest.mark.parametrize("damage", [remove, append])
def test_logs_that_are_gone_or_changed_are_refused(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], None], savepoint: Path
) -> None:
    logs = SavepointFolder.at(savepoint).description().logs
    assert {"plan", "streams", "newest-batch"} < logs.keys()
    for name in logs:
        copy = tmp_path / "copy"
        shutil.copytree(savepoint, copy)
        damage(copy / "checkpoint" / name)
        with pytest.raises(CheckpointError):
            SavepointFolder.at(copy).description()
        shutil.rmtree(copy)


@pytest.fixture
def savepoint(spark: SparkSession, tmp_path: Path) -> Path:
    """A savepoint of two partitions."""
    write(tmp_path / "in", range(1))
    plan = Plan(tmp_path / "in", out=None).pipeline
    SparkRunner(spark, checkpoint=tmp_path / "old", partitions=1).run(plan, drain=False)
    take(tmp_path / "old", plan, tmp_path / "saved", spark=spark)
    return tmp_path / "saved"


def test_a_changed_byte_of_state_is_refused(spark: SparkSession, tmp_path: Path, savepoint: Path) -> None:
    part = min((savepoint / "state" / "#window-1").iterdir())
    data = bytearray(part.read_bytes())
    column: Any = pq.read_metadata(part).row_group(0).column(0)
    first = column.dictionary_page_offset or column.data_page_offset
    data[first + column.total_compressed_size // 2] ^= 1
    part.write_bytes(data)
    runner = SparkRunner(spark, checkpoint=tmp_path / "new", savepoint=savepoint)
    with pytest.raises(EngineError, match="CRC checksum"):
        runner.run(Plan(tmp_path / "in", out=None).pipeline)


@pytest.mark.parametrize("name", [".", "..", "шаг" * 50, "a" * 300, "x" * 201])
def test_each_name_of_a_step_has_a_folder_in_the_savepoint(tmp_path: Path, name: str) -> None:
    folder = SavepointFolder.at(tmp_path).folder_of(name)
    assert folder.parent == tmp_path / "state"
    folder.mkdir(parents=True)
    assert folder.resolve() == folder
    assert folder != SavepointFolder.at(tmp_path).folder_of(f"{name}x")


def test_a_run_that_goes_on_while_its_logs_are_copied_leaves_its_batches_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch 1 is done when the savepoint begins; batch 2 is planned, done, and followed by another, meanwhile."""
    source, target = Checkpoint(tmp_path / "source"), Checkpoint(tmp_path / "target")
    spark = tmp_path / "source" / "spark"
    for name in ("offsets", "commits", "sources/0"):
        (spark / name).mkdir(parents=True)
    # In the order of a run: what the batch reads, its offsets, and that it is done.
    steps = [spark / name / f"{batch}" for batch in range(4) for name in ("sources/0", "offsets", "commits")]

    def run(number: int) -> None:
        for file in steps[:number]:
            steps.remove(file)
            file.write_text("")

    copies = shutil.copyfile

    def copy(file: Path, to: Path) -> None:
        run(2)
        copies(file, to)

    run(6)
    monkeypatch.setattr(shutil, "copyfile", copy)
    copy_logs(source, target, 1)
    copied = tmp_path / "target" / "spark"
    assert sorted(file.name for file in (copied / "commits").iterdir()) == ["0", "1"]
    offsets = {file.name for file in (copied / "offsets").iterdir()}
    assert {"0", "1"} <= offsets <= {file.name for file in (copied / "sources" / "0").iterdir()}
