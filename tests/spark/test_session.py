"""Which session a runner takes, and that workers find the code of the program."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.test_lifecycle import wait_for
from tests.support.thorough import thorough
from windrow_spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Number:
    key: str
    value: int

def double(number):
    return Number(number.key, 2 * number.value)
"""
PROGRAM = """
import os, socket, sys
from numbers_of_mine import Number, double
from windrow import Pipeline, from_collection
from windrow.sinks import CollectSink
from windrow_runtime.spark import SparkRunner

if "renamed" in sys.argv:
    socket.sethostname("does-not-resolve.invalid")
sums = CollectSink()
doubled = from_collection([Number("a", 1), Number("a", 2)]).map(double).returns(Number)
windows = doubled.key_by(lambda number: number.key).count_window(2)
added = windows.reduce(lambda a, b: Number(a.key, a.value + b.value))
print(SparkRunner(verbose=True).run(Pipeline("beside", added.sink_to(sums))).collected(sums))
print("SPARK_LOCAL_IP" in os.environ)
"""


def may_rename_machine() -> bool:
    try:
        return subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.classic(reason="a session of a server has no context")
def test_a_session_is_found_from_another_thread_and_left_as_it_is(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(local_session, 7).result()
    assert found.sparkContext is spark.sparkContext
    assert found.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.program
@pytest.mark.classic(reason="starts a session of its own")
@pytest.mark.parametrize(
    "renamed",
    [
        thorough(False, reason="the other case finds the module by the same paths"),
        pytest.param(True, marks=pytest.mark.skipif(not may_rename_machine(), reason="only root may name a machine")),
    ],
)
def test_workers_find_a_module_beside_the_program_on_a_machine_whose_name_does_not_resolve(
    tmp_path: Path, renamed: bool
) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (program / "numbers_of_mine.py").write_text(MODULE)
    (program / "main.py").write_text(PROGRAM)
    command: list[str | Path] = [sys.executable, program / "main.py"]
    if renamed:  # the name is that of the program's namespace alone
        command = ["unshare", "--uts", *command, "renamed"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stdout.splitlines()[-2:] == ["[Number(key='a', value=6)]", "False"], run.stderr[-2000:]
    # A runner that is not verbose keeps it off stderr, see test_quiet.py.
    assert 'Setting default log level to "WARN".' in run.stderr


def children_of(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.program
@pytest.mark.classic(reason="starts a session of its own")
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_ctrl_c_while_java_starts_leaves_no_process() -> None:
    """PySpark waits for a file with Java's port; Java, which finds its folder gone, would wait for a call for ever."""
    program = "from windrow_runtime.spark import SparkRunner; print('begins', flush=True); SparkRunner().spark"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"begins\n"
        wait_for(lambda: any(b"SparkSubmit" in command_of(child) for child in children_of(running.pid)))
        (java,) = children_of(running.pid)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)  # Java, too, has its ends of the pipes
    assert running.returncode == -signal.SIGINT
    wait_for(lambda: not Path(f"/proc/{java}").exists())


def command_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""  # it has ended
