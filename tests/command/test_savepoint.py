"""`windrow savepoint`, `rescale` and `state`, on a checkpoint that is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.command.conftest import Command, Write
from tests.command.test_check_upgrade import KEPT
from tests.spark.checkpoints.archives import archives, unpack
from windrow_runtime.savepoint import read
from windrow_spark.checkpoint.folder import Checkpoint

pytestmark = pytest.mark.classic(reason="savepoints are refused over Spark Connect")


def test_a_savepoint_is_taken_shown_and_rescaled(
    spark: SparkSession, windrow: Command, write: Write, tmp_path: Path
) -> None:
    (kept,) = (archive for archive in archives() if archive.name.startswith("kept-"))
    checkpoint, saved = tmp_path / "checkpoint", tmp_path / "saved"
    unpack(kept, checkpoint)
    program = f"{write('program.py', KEPT)}:pipeline"
    done = windrow("savepoint", checkpoint, program, saved)
    assert done.code == 0, done.err
    head, *steps = done.out.splitlines()
    assert head == f"{saved}: the state after batch 6 of {checkpoint}"
    assert [line.split(":")[0] for line in steps] == ["  coldest", "  sessions", "  watch", "  sum", "  #window-1"]
    assert all("keys" in line and "in objects" in line for line in steps)
    listed = windrow("state", saved)
    assert listed.code == 0
    assert listed.out.splitlines()[-1] == "  #window-1: in objects"
    shown = windrow("state", saved, "--step", "watch", "--key", "a")
    assert shown.code == 0
    assert shown.out.startswith('key "a"\n')
    assert "state peak: " in shown.out
    assert "timer at " in shown.out
    assert windrow("state", saved, "--step", "watch", "--key", "nobody").code == 1
    wrong = windrow("state", saved, "--step", "wach")
    assert wrong.code == 2
    assert "the savepoint has no step of this name" in wrong.err
    for ignored in (("--key", "a"), ("--set", "size=1")):
        assert windrow("state", saved, *ignored).code == 2, ignored
    again = windrow("savepoint", checkpoint, program, saved)
    assert again.code == 1
    assert "a folder of its own" in again.err
    assert windrow("rescale", checkpoint, program).code == 1
    moved = windrow("rescale", checkpoint, program, "--partitions", 3)
    assert moved.code == 0, moved.err
    assert moved.out == f"{checkpoint} begins anew from the savepoint {checkpoint}.rescaled\n"
    description = Checkpoint(checkpoint).description()
    assert description is not None
    assert (description.partitions, description.groups) == (3, 2)
    for pair in ("watch", "watch=", "=watched"):
        assert windrow("upgrade", checkpoint, program, "--renamed", pair).code == 2, pair
    unknown = windrow("upgrade", checkpoint, program, "--renamed", "wach=watch")
    assert unknown.code == 1
    assert "renamed names a step that the savepoint does not have" in unknown.err
    upgraded = windrow("upgrade", checkpoint, program, "--partitions", 1)
    assert upgraded.code == 0, upgraded.err
    assert upgraded.out == f"{checkpoint} begins anew from the savepoint {checkpoint}.upgraded\n"
    assert Checkpoint(Path(f"{checkpoint}.upgraded", "former")).description() == description


COUNTS_SO_FAR = """
from pathlib import Path

from windrow import Pipeline, from_source
from windrow.sinks import CollectSink
from windrow.sources import JsonFileSource

numbers = from_source(JsonFileSource(Path(__file__).parent / "in", int))
counts = numbers.key_by(lambda number: number % 2).sum(lambda number: 1, name="NAME")
pipeline = Pipeline("counts", counts.sink_to(CollectSink()))
"""


def test_a_run_begins_from_a_savepoint(spark: SparkSession, windrow: Command, write: Write, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("1\n2\n3\n")
    program = write("counts.py", COUNTS_SO_FAR.replace("NAME", "counts"))
    options = ("--engine", "spark", "--available-now", "--checkpoint")
    assert windrow("run", program, *options, tmp_path / "old").code == 0
    assert windrow("savepoint", tmp_path / "old", program, tmp_path / "saved").code == 0
    assert read(tmp_path / "saved").steps == ("counts",)
    (tmp_path / "in" / "2.json").write_text("5\n")
    renamed = write("renamed.py", COUNTS_SO_FAR.replace("NAME", "parities"))
    begins = (*options, tmp_path / "new", "--savepoint", tmp_path / "saved")
    assert "renamed names a step that" in windrow("run", renamed, *begins, "--renamed", "sums=parities").err
    done = windrow("run", renamed, *begins, "--renamed", "counts=parities")
    assert (done.code, done.out) == (0, "(1, 3)\n"), done.err
