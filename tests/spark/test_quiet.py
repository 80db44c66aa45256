"""What a program that starts its own session finds on stderr, and what stays out of it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from windrow import Pipeline, from_collection
from windrow.errors import UserFunctionError
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_spark.faults import MarkedError, engine_failure
from windrow_spark.quiet import _log4j_named, quiet_session

PROGRAM = """
import logging, sys
from typing import NamedTuple
from windrow import Pipeline, from_collection
from windrow.errors import WindrowError
from windrow.sinks import CollectSink, ConsoleSink, JsonFileSink
from windrow_runtime.spark import SparkRunner

class Row(NamedTuple):
    number: int

def shown(number):
    print("in a worker", number, getattr(sys, "site_of_mine", None))
    return number

def inverse(number):
    return 2 // number

logging.basicConfig(format="%(message)s")
logging.getLogger("mine").warning("of the driver")
totals = CollectSink()
numbers = from_collection([1, 2, 3]).map(shown).key_by(lambda number: number % 2).sum(lambda number: number)
runner = SparkRunner(partitions=1)
result = runner.run(Pipeline("three", numbers.sink_to(totals), numbers.sink_to(ConsoleSink("console "))))
print("collected", len(result.collected(totals)))
print("it is refused now", file=sys.stderr, flush=True)
try:
    wrong = from_collection([1]).map(lambda number: Row(str(number))).returns(Row)
    runner.run(Pipeline("refused", wrong.sink_to(JsonFileSink("refused"))))
except WindrowError as error:
    print(error.message)
logs = runner.spark._jvm.org.apache.logging.log4j.LogManager
scheduler = logs.getLogger("org.apache.spark.scheduler.DAGScheduler")
scheduler.error("Failed to update accumulator 0 (org.apache.spark.api.python.PythonAccumulatorV2) for task 0")
scheduler.error("this is news")
print("it fails now", file=sys.stderr, flush=True)
failing = from_collection([1, 0]).map(lambda number: inverse(number)).returns(int)
runner.run(Pipeline("failing", failing.key_by(lambda number: number).sum(int).sink_to(CollectSink())))
"""
USERS = {"in a worker 1 True", "in a worker 2 True", "in a worker 3 True", "of the driver"}


@pytest.mark.program
@pytest.mark.classic(reason="starts a session of its own")
def test_a_program_has_stderr_to_itself(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(PROGRAM)
    # Python imports one module of that name alone, and that of the user's is not to be lost.
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.site_of_mine = True\n")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    run = subprocess.run(
        [sys.executable, tmp_path / "main.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    running, _, behind = run.stderr.partition("it is refused now\n")
    refused, _, failing = behind.partition("it fails now\n")
    assert [line.rpartition(": ")[2] for line in refused.splitlines()] == ["this is news"], refused
    assert set(running.splitlines()) >= USERS, run.stderr
    assert len(running.splitlines()) - len(USERS) <= 2, running
    assert run.stdout.count("console ") == 3
    assert run.stdout.endswith("collected 3\na value does not fit its type: '1' is a str\n")
    assert len(failing.splitlines()) <= 23, failing
    assert "in inverse\n    return 2 // number" in failing
    assert "windrow.errors.UserFunctionError: a function of the step raised ZeroDivisionError" in failing
    assert "windrow-failure:" not in failing


def test_ctrl_c_while_a_session_starts_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (None, "py4j.clientserver"):
        monkeypatch.setattr(logging.getLogger(name), "filters", [])

    def start() -> SparkSession:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            logging.exception("KeyboardInterrupt while sending command.")
            raise

    with pytest.raises(KeyboardInterrupt):
        quiet_session(start)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, True),
        ({"SPARK_SUBMIT_OPTS": "-Xss4m"}, True),
        ({"SPARK_SUBMIT_OPTS": "-Dlog4j2.configurationFile=/mine.xml"}, False),
        ({"PYSPARK_SUBMIT_ARGS": "--driver-java-options -Dlog4j.configurationFile=x pyspark-shell"}, False),
        ({"LOG4J_CONFIGURATION_FILE": "/mine.xml"}, False),
        ({"SPARK_CONF_DIR": "log4j2.xml"}, False),
        ({"SPARK_CONF_DIR": "spark-defaults.conf"}, False),
        ({"SPARK_CONF_DIR": "hive-site.xml"}, True),
    ],
)
def test_a_log_that_the_user_configures_is_left_alone(
    given: dict[str, str], told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        if name == "SPARK_CONF_DIR":
            (tmp_path / value).write_text("spark.driver.extraJavaOptions -Dlog4j2.configurationFile=/mine.xml")
        monkeypatch.setenv(name, str(tmp_path) if name == "SPARK_CONF_DIR" else value)
    before = os.environ.get("SPARK_SUBMIT_OPTS")
    with _log4j_named():
        options = os.environ.get("SPARK_SUBMIT_OPTS") or ""
        assert options.startswith(before or "")
        assert ("windrow_spark/quiet/log4j2.properties" in options) is told
    assert os.environ.get("SPARK_SUBMIT_OPTS") == before


def test_an_error_of_the_interpreter_has_no_lines_of_the_engine() -> None:
    failing = from_collection([1, 0]).map(lambda number: 2 // number).key_by(int).sum(int)
    with pytest.raises(UserFunctionError) as caught:
        LocalRunner().run(Pipeline("failing", failing.sink_to(CollectSink())))
    shown = "".join(traceback.format_exception(caught.value))
    engine = [line for line in shown.splitlines() if f"windrow_runtime{os.sep}" in line]
    assert len(engine) == 1
    assert "2 // number" in shown


def test_the_whole_text_of_spark_is_kept_beside_its_gist() -> None:
    error = UserFunctionError("a function raised", given="element 0")
    failure = engine_failure(RuntimeError(f"Traceback of Spark's\n{MarkedError(error)}"), None)
    assert "Traceback of Spark's" in (failure.details or "")
    assert "windrow-failure" not in (failure.details or "")
    assert str(failure) == str(error)
