"""Checkpoints, sources and file sinks on S3 and HDFS: what comes of them is what comes of local folders."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.crash.elsewhere import Elsewhere
from tests.elsewhere.stopped import BY
from tests.spark.stopped_moves import ROWS
from tests.spark_home import home_to_write_in
from tests.support.thorough import thorough

ROOT = Path(__file__).parents[2]

ORDERED = [["c3", "c9"], ["c10"], ["a1", "a20"], ["b2", "b4"], ["b5", "b6"], ["b30"], ["d1"]]
"""The files of each batch; those of one folder arrive at once."""

ALIGNED = [["a0", "b0"], ["a100", "b10"], ["b20"], ["b60"], ["a200"], ["b120"], ["b160"], ["b300"]]
"""What each batch reads of two logs, of which one waits for the other."""

# Any in this module: what a program prints.


def outcome(
    folder: str, submit_arguments: str, program: str = "program", *more: str, **variables: str
) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.elsewhere.{program}", folder, *more],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": submit_arguments, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.timeout(900)  # each starts Spark several times
@pytest.mark.program
@pytest.mark.parametrize(
    ("system", "what"),
    [
        pytest.param("s3", ["replaced", "features"], id="s3"),
        thorough(
            "s3",
            ["locked", "more"],
            reason="tests/spark/test_checkpoint_elsewhere.py has these pipelines, test_storage.py there the lock",
            id="more",
        ),
        thorough("hdfs", ["locked"], reason="tests/crash/test_crash.py kills a run on HDFS", id="hdfs"),
    ],
)
def test_a_run_elsewhere_gives_what_one_here_does(system: str, what: list[str], request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(system)  # skips where there is none
    with Elsewhere.opened(system, f"run-{uuid4().hex[:8]}") as elsewhere:
        found = outcome(elsewhere.url, elsewhere.submit_arguments, "program", *what)
        files = elsewhere.files("out") | elsewhere.files("by-key")
        days = elsewhere.files("features/spark/csv")
    expected = sorted([f"k{key}", sum(range(key, 90, 3))] for key in range(3) for _ in range(4))
    for name in ("out", "by-key"):
        assert found[name] == expected
    assert found["ordered"] == ORDERED
    if "replaced" in what:
        assert found["replaced"] > 10
    if "features" in what:
        check_features(found["features"], days)
    if "more" in what:
        assert found["by-spark"] == expected
        assert found["aligned"] == ALIGNED
        assert found["numbers"] == list(range(7))
    for said in (found[place] for place in ("here", "there") if place in found):
        assert "another run uses the checkpoint" in said
        assert f"process {found['process']} on " in said
    assert "was drained" in found["after"]
    batches = {path.split("=")[-1].split("/")[0] for path in files if path.endswith(".parquet")}
    for name in ("out", "by-key"):
        marks = {path.rpartition("batch-")[2] for path in files if path.startswith(f"{name}/_windrow/batch-")}
        assert marks == batches


def check_features(found: dict[str, Any], days: dict[str, str]) -> None:
    """Files have all their features on both engines."""
    for name, (local, spark) in found["read"].items():
        assert local == spark if name.startswith("by") else sorted(local) == sorted(spark), name
        assert local, name
    values = [re.findall(r"value=(\d+)", row)[0] for row in found["read"]["by name"][0]]
    assert values == ["3", "30", "2", "20", "1", "10", "5"]
    assert len(found["read"]["in parts"][0]) == 400_000
    for name, (local, spark) in found["wrote"].items():
        assert local == spark, name
        assert [re.findall(r"value=(\d+)", row)[0] for row in local] == ["3", "2", "0", "4", "1"], name
    assert {file.split("/")[3] for file in days if "windrow_batch=0" in file} == {
        "day=a b",
        "day=ü%2Fx",
        "day=100%25",
        "day=__HIVE_DEFAULT_PARTITION__",
    }
    assert found["read by spark"] == [0, 1, 2, 3, 4]
    assert found["hybrid"] == [1, 2, 3, 5, 8, 10, 20, 30]
    assert found["stream"]["0"] == found["stream"]["1"] == ["b\n", "c\n"]
    assert found["stream"]["2"] == ["b\n", "c\n", "a\n"]  # its name comes before those that were read
    assert "holds the batches of another run" in found["stream"]["refused"]
    timed = found["by time"]
    assert timed["windrow-windrow"] == [["b %20\n", "a\n"], 1]
    assert timed["Spark-windrow"] == [["b %20\n", "a\n"], 0]  # Spark knows what it has read
    assert timed["windrow-Spark"] == [["b %20\n"], 1]
    assert "Spark would read all files of this file system again" in timed["refused"]


@pytest.mark.thorough(reason="tests/spark/test_partitions.py has it on a file system of Hadoop's that needs no server")
@pytest.mark.timeout(900)  # each starts Spark
@pytest.mark.program
@pytest.mark.parametrize(("system", "moves"), [("s3", 1), ("hdfs", 0)])
def test_a_run_that_was_stopped_between_two_moves_goes_on_elsewhere(
    system: str, moves: int, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(system)  # skips where there is none
    with Elsewhere.opened(system, f"stopped-{uuid4().hex[:8]}") as elsewhere:
        found = outcome(elsewhere.url, elsewhere.submit_arguments, "stopped", str(moves))
    for name in BY:
        before, after = found[f"before-{name}"], found[f"after-{name}"]
        # A batch of the flat sink is one move: of its only file, or of its folder on HDFS.
        if name == "by-key" or not moves:
            assert "the machine is gone" in found[f"error-{name}"]
            assert sum("windrow_batch=1" in file for file in before) == moves
        assert before.items() <= after.items()
        assert {file.partition("windrow_batch=")[2].partition("/")[0] for file in after} == {"0", "1", "3"}
        assert found[f"rows-{name}"] == [event.at for event in ROWS]
        assert found[f"hidden-{name}"] == ["batch-0", "batch-1", "batch-3"]


@pytest.mark.thorough(reason="the test of a whole run has a checkpoint on S3, in a session that the runner starts")
@pytest.mark.timeout(900)  # it starts Spark
@pytest.mark.program
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])  # an executor opens the bucket for itself
@pytest.mark.usefixtures("s3")
def test_a_users_session_needs_no_setting_for_a_checkpoint_on_s3(master: str, tmp_path: Path) -> None:
    home = home_to_write_in(tmp_path / "spark")
    with Elsewhere.opened("s3", f"users-{uuid4().hex[:8]}") as elsewhere:
        found = outcome(elsewhere.url, elsewhere.submit_arguments, "users", master, SPARK_HOME=home)
    assert found["last"] == sorted(sum(range(key, 90, 3)) for key in range(3))
    assert found["setting"] is None  # the session is left as it was
    # A bucket that was opened before keeps its settings.
    (warning,) = found["warnings"]
    assert "has opened the file system of the checkpoint before" in warning
    assert "s3a://of-the-users" in warning
    assert "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled=false" in warning
