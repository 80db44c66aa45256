"""`windrow doctor --cluster` finds what differs on the executors of a cluster, and says how to mend it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.command.conftest import Command
from tests.spark_home import home_to_write_in
from windrow_spark.daemon import DAEMON_MODULE
from windrow_tools.command.cluster import (
    Executor,
    clock_finding,
    cluster_findings,
    daemon_finding,
    executors_finding,
    folder_finding,
    found,
    import_finding,
    package_findings,
)
from windrow_tools.command.findings import Finding

ONE = Executor("one", "3.11.2", {"windrow": "1.0", "pyarrow": "26.0.1"}, connectors=9, ahead=(-0.2, 0.3))
TWO = replace(ONE, host="two")


def test_executors_and_packages() -> None:
    assert executors_finding([ONE, TWO, TWO]) == Finding("executors: 3 on one, two, Python 3.11.2")
    own = {"windrow": "1.0", "pyarrow": "26.0.1"}
    assert [*package_findings([ONE, TWO], own)] == [Finding("packages as on the driver: windrow 1.0, pyarrow 26.0.1")]
    old, none = (replace(TWO, versions={**ONE.versions, "pyarrow": version}) for version in ("24.0.0", None))
    wrong, right = package_findings([ONE, old, replace(none, host="three")], own)
    assert wrong.text == "pyarrow: 26.0.1 on the driver, 24.0.0 on two, not installed on three"
    assert str(wrong.mend).startswith("pip install 'pyarrow==26.0.1' in the Python of these workers")
    assert right.text == "packages as on the driver: windrow 1.0"


def test_imports_and_the_daemon() -> None:
    assert import_finding([ONE, TWO], 9).mend is None
    assert "on two find fewer" in import_finding([ONE, replace(TWO, connectors=3)], 9).text
    broken = replace(TWO, failed=["msgspec: ModuleNotFoundError: No module named 'msgspec'"])
    assert "cannot import msgspec: ModuleNotFoundError" in import_finding([ONE, broken], 9).text
    assert daemon_finding([ONE], DAEMON_MODULE).mend is None
    assert daemon_finding([ONE, replace(TWO, began_imported=False)], DAEMON_MODULE).mend is not None
    unset = daemon_finding([replace(ONE, began_imported=False)], None)
    assert unset.mend is None
    assert f"not set; with {DAEMON_MODULE}" in unset.text


def test_clocks() -> None:
    assert clock_finding([ONE, TWO]) == Finding("clocks: as that of the driver, measured to 0.2 s")
    off = clock_finding([replace(ONE, ahead=(2.9, 3.1)), replace(TWO, ahead=(-1.6, -1.4))])
    assert off == Finding("clocks: one 3.0 s ahead, two 1.5 s behind, measured to 0.1 s")
    assert clock_finding([ONE, replace(TWO, ahead=(-3600.0, -3599.0))]).mend is not None


def test_the_folder_of_a_checkpoint() -> None:
    assert folder_finding("checkpoint /c", [ONE, TWO], []).mend is None
    failed = folder_finding("checkpoint /c", [ONE, replace(TWO, folder="[Errno 2] No such file")], [])
    assert failed.text == "checkpoint /c: tasks cannot use it, two: [Errno 2] No such file"
    assert "does not see what tasks wrote on two" in folder_finding("checkpoint /c", [ONE, TWO], ["two"]).text


def test_arguments(windrow: Command) -> None:
    assert windrow("doctor", "--cluster", "--no-spark").code == 2
    done = windrow("doctor", "--checkpoint", "/c")
    assert done.code == 2
    assert "--cluster with --checkpoint" in done.err


@pytest.mark.spark
@pytest.mark.classic(reason="the session says how many cores it has")
def test_tasks_find_what_the_driver_has(spark: SparkSession, tmp_path: Path) -> None:
    called: list[tuple[int, str | None]] = []

    def job(partitions: int, folder: str | None) -> Finding:
        called.append((partitions, folder))
        assert (tmp_path / "checkpoint").is_dir()
        return Finding("job")

    findings = [*cluster_findings(spark, str(tmp_path / "checkpoint"), job)]
    assert [finding for finding in findings if finding.mend is not None] == []
    assert findings[0].text.startswith("executors: ")
    assert findings[-1] == Finding("job")
    ((_, folder),) = called
    assert folder is not None
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.spark
def test_a_folder_that_tasks_do_not_find(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused, *_, last = cluster_findings(spark, str(tmp_path / "file" / "checkpoint"), lambda *_: Finding("job"))
    assert "the driver cannot write there" in refused.text
    assert last == Finding("job")
    assert all("No such file" in str(each.folder) for each in found(spark, str(tmp_path / "absent")))


@pytest.mark.thorough(
    reason="the tests above in test_doctor_cluster.py have the findings, tests/command/test_doctor.py the program"
)
@pytest.mark.program
def test_a_cluster_of_two_executors(tmp_path: Path) -> None:
    command = ["doctor", "--cluster", "local-cluster[2,1,1024]", "--checkpoint", str(tmp_path / "checkpoint")]
    done = subprocess.run(
        [sys.executable, "-m", "windrow_runtime.command", *command],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": home_to_write_in(tmp_path / "spark"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("ok     executors: 2 on ") for line in lines)
    assert any("the driver and all executors read and write it" in line for line in lines)
    assert lines[-1].startswith("ok     job on Spark: 1,000 elements in windows")
    assert not (tmp_path / "checkpoint").exists()
