"""`windrow doctor` finds what would keep Spark from running, and says how to mend it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.command.conftest import Command
from windrow.distribution import DISTRIBUTION, install_hint
from windrow.errors import UnsupportedOperationError
from windrow_spark.java import check_java
from windrow_tools.command.doctor import (
    extra_findings,
    host_finding,
    job_finding,
    package_finding,
    python_finding,
    requirements,
    s3_findings,
    worker_finding,
)

REQUIRES = [
    "typing-extensions<5,>=4.13",
    "pyspark<5,>=4.2; extra == 'spark'",
    'msgspec<1,>=0.21; extra == "spark"',
    'msgspec<1,>=0.21; extra == "kafka"',
    "windrow-streams[spark]; extra == 'connect'",
    "confluent-kafka<3,>=2.16.1; (python_version < '3.15') and extra == 'kafka'",
]


def test_the_setting_for_checkpoints_on_s3_is_looked_at() -> None:
    name = "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled"
    assert list(s3_findings(["", "--packages org.apache.kafka:kafka-clients:3.9.2 pyspark-shell"])) == []
    (client,) = s3_findings(["", "--packages org.apache.hadoop:hadoop-aws:3.5.0 pyspark-shell"])
    (off,) = s3_findings([f"{name}  false\n"])
    assert client.mend is off.mend is None
    for text in (f"{name}   true\n", f"--conf {name}=true pyspark-shell"):
        (on,) = s3_findings([text])
        assert "cannot be uploaded" in on.text
        assert on.mend == "leave it out, or set it to false"


def test_requirements_are_those_of_the_language_and_of_spark() -> None:
    assert requirements(REQUIRES) == [
        Requirement("typing-extensions<5,>=4.13"),
        Requirement("pyspark<5,>=4.2; extra == 'spark'"),
        Requirement("msgspec<1,>=0.21; extra == 'spark'"),
    ]


def test_extras_are_told() -> None:
    texts = [*REQUIRES, "polars<3,>=2; extra == 'polars'", "obstore<0.13,>=0.11.1; extra == 's3'"]
    installed = {"pyspark": "4.3.0", "msgspec": "0.22.0", "polars": "1.9.0"}
    old, absent = extra_findings(texts, {"kafka", "polars", "s3", "connect"}, installed.get)
    assert old.text == "polars 1.9.0: the extra polars needs <3,>=2"
    assert absent.text == f"extras that are not installed: kafka, s3; with all: {install_hint('kafka,s3')}"
    assert old.mend is absent.mend is None


def test_packages_and_python() -> None:
    pandas = Requirement("pandas<3,>=2.2")
    assert package_finding(pandas, "2.3.1").mend is None
    wrong = package_finding(pandas, "3.0.1")
    assert wrong.text == "pandas 3.0.1: windrow needs <3,>=2.2"
    assert wrong.mend == "pip install 'pandas<3,>=2.2'"
    assert install_hint("spark") in str(package_finding(pandas, None).mend)
    assert package_finding(Requirement("pandas"), "3.0.1rc1").mend is None
    assert python_finding(SpecifierSet(">=3.11"), "3.15.0rc1").mend is None
    assert python_finding(SpecifierSet(">=3.11"), "3.10.9").mend is not None


@pytest.mark.parametrize(("mode", "shown"), [(0o755, "Unable to locate a Java Runtime."), (0o644, "Permission denied")])
def test_a_java_that_cannot_be_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, shown: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho Unable to locate a Java Runtime. >&2\nexit 1\n")
    java.chmod(mode)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnsupportedOperationError, match=r"this one cannot be run\n +given: ") as caught:
        check_java()
    assert str(caught.value.given).startswith(f"{java}: ")
    assert shown in str(caught.value.given)


def test_a_java_that_says_no_text_or_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = program(tmp_path, "printf '\\377 version \"17.0.1\"\\n' >&2", "bin/java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java() == f"Java 17, {java}"
    program(tmp_path, "exec sleep 100", "bin/java")
    monkeypatch.setattr("windrow_spark.java._SECONDS", 0.1)
    with pytest.raises(UnsupportedOperationError, match="timed out"):
        check_java()


def test_hosts() -> None:
    assert host_finding("127.0.0.1", "any").mend is None
    foreign = host_finding("192.0.2.1", "any")  # an address for documentation, which no machine has
    assert "SPARK_LOCAL_IP=192.0.2.1: Spark cannot listen at 192.0.2.1" in foreign.text
    assert str(foreign.mend).startswith("unset SPARK_LOCAL_IP")
    unknown = host_finding(None, "no such host.invalid")
    assert "does not resolve" in unknown.text
    assert "export SPARK_LOCAL_IP=127.0.0.1" in str(unknown.mend)
    assert "SPARK_LOCAL_IP=a..b: does not resolve" in host_finding("a..b", "any").text


def program(tmp_path: Path, text: str, name: str = "program") -> Path:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def test_the_python_of_workers(tmp_path: Path) -> None:
    assert worker_finding(sys.executable).mend is None
    assert "cannot be run" in worker_finding(str(tmp_path / "absent")).text
    assert "cannot be run" in worker_finding(str(program(tmp_path, "exit 3"))).text
    older = worker_finding(str(program(tmp_path, 'echo "[[3, 5], []]"')))
    assert "is Python 3.5, and this one 3." in older.text
    assert f"set it to {sys.executable}" in str(older.mend)
    bare = worker_finding(str(program(tmp_path, f'exec {sys.executable} -S "$@"')))
    assert "cannot import " in bare.text
    assert "pandas: ModuleNotFoundError" in bare.text


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ('openjdk version "17.0.9" 2023-10-17', "ok     Java 17, "),
        ('java version "1.8.0_202"', "wrong  Java: Spark needs a newer Java (Java 1.8.0_202)"),
        ('openjdk version "11.0.2" 2019-01-15', "wrong  Java: Spark needs a newer Java (Java 11.0.2)"),
        (None, "wrong  Java: Spark needs Java, and there is none (JAVA_HOME="),
    ],
)
def test_java(
    version: str | None, expected: str, windrow: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version is not None:
        program(tmp_path, f"echo '{version}' >&2", "bin/java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    done = windrow("doctor", "--no-spark")
    (line,) = (line for line in done.out.splitlines() if "Java" in line and "mend" not in line)
    assert line.startswith(expected)
    assert done.code == (0 if expected.startswith("ok") else 1)
    # Nothing is started if something is wrong already.
    if done.code:
        assert "wrong  job on Spark: not tried\n       mend: mend what is above first" in windrow("doctor").out


def test_windrow_that_is_not_installed(windrow: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = metadata.distribution

    def distribution(name: str) -> metadata.Distribution:
        if name == DISTRIBUTION:
            raise metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    out = windrow("doctor", "--no-spark").out
    assert "not installed: the bounds of versions are not known" in out
    assert "\nok     pyspark 4." in out


def test_what_the_job_counts() -> None:
    assert job_finding([100] * 10, 2.0).mend is None
    assert job_finding([100] * 9, 2.0).mend is not None


@pytest.mark.program
def test_a_machine_that_has_all_there_is(tmp_path: Path) -> None:
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-m", "windrow_runtime.command", "doctor"],
        cwd=tmp_path,
        env={name: value for name, value in environment.items() if name != "PYSPARK_PYTHON"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    # Java's own line is the only one beside those that say what the command waits for.
    assert [line for line in done.stderr.splitlines() if not line.startswith("WARNING: Using incubator")] == [
        "windrow: waiting for the Python of workers to import windrow and Arrow",
        "windrow: waiting for Spark to start and to run a small job, which takes some 20 seconds",
    ]
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("ok     ")] == []
    assert lines[-1].startswith("ok     job on Spark: 1,000 elements in windows")
