"""Which session a runner takes, and that workers find the code of the program."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from windrow_runtime.spark.session import local_session

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
from numbers_of_mine import Number, double
from windrow import Pipeline, from_collection
from windrow.sinks import CollectSink
from windrow_runtime.spark import SparkRunner

sums = CollectSink()
doubled = from_collection([Number("a", 1), Number("a", 2)]).map(double).returns(Number)
windows = doubled.key_by(lambda number: number.key).count_window(2)
added = windows.reduce(lambda a, b: Number(a.key, a.value + b.value))
print(SparkRunner().run(Pipeline("beside", added.sink_to(sums))).collected(sums))
"""


@pytest.mark.classic(reason="a session of a server has no context")
def test_a_session_is_found_from_another_thread_and_left_as_it_is(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(local_session, 7).result()
    assert found.sparkContext is spark.sparkContext
    assert found.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.program
@pytest.mark.classic(reason="starts a session of its own")
def test_workers_find_a_module_beside_the_main_program(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (program / "numbers_of_mine.py").write_text(MODULE)
    (program / "main.py").write_text(PROGRAM)
    run = subprocess.run(
        [sys.executable, program / "main.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.stdout.splitlines()[-1:] == ["[Number(key='a', value=6)]"], run.stderr[-2000:]
