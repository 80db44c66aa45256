"""The fixtures that pytest finds where windrow is installed, in pytests of their own."""

from __future__ import annotations

import shutil
from importlib.metadata import entry_points
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "pageviews"
HARNESS = """
from windrow import from_source
from windrow_runtime.pictures import timeline
from windrow_runtime.testing import PushSource
from windrow.windows import TumblingEventTimeWindows
from datetime import timedelta

numbers = PushSource(int)
windows = from_source(numbers).key_by(lambda number: "all").window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
sums = windows.reduce(lambda a, b: a + b)
"""


@pytest.fixture(autouse=True)
def is_installed() -> None:
    """Skip where the installed windrow is older than the entry point, as in a checkout beside another one."""
    if not any(each.value == "windrow_tools.pytest_plugin" for each in entry_points(group="pytest11")):
        pytest.skip("windrow is installed without its plugin; make venv installs it anew")


@pytest.mark.program
def test_the_example_passes_and_is_compared_with_spark(pytester: pytest.Pytester) -> None:
    """So is a test whose functions are of a module that pytest imports by its path."""
    # The folder from which pytest runs is not that of the project.
    pytester.makefile(".ini", **{"project/pytest": "[pytest]\naddopts = --import-mode=importlib\npythonpath = ."})
    shutil.copytree(EXAMPLE, pytester.path / "project", dirs_exist_ok=True)
    pytester.makepyfile(
        **{
            "project/checks/test_numbers": """
                from windrow import from_collection

                def twice(number: int) -> int:
                    return 2 * number

                def test_twice_on_spark(assert_same_on_spark):
                    assert_same_on_spark(from_collection([1, 2]).map(twice))
            """
        }
    )
    result = pytester.runpytest_subprocess("project", "--windrow-require-spark", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=6)


def test_harnesses_are_closed_when_the_test_ends(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HARNESS
        + """
from windrow.functions import MapFunction

closed = []

class Double(MapFunction[int, int]):
    def map(self, value: int) -> int:
        return 2 * value

    def close(self) -> None:
        closed.append("Double")

def test_first(stream_harness):
    harness = stream_harness(from_source(numbers).map(Double()), numbers, isolates_functions=False)
    harness.process_element(1, timestamp=0)
    assert harness.take_values() == [2]
    assert closed == []

def test_second():
    assert closed == ["Double"]
"""
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=2)


ORDERED = """
from windrow import Pipeline, from_collection
from windrow.sinks import CollectSink

keyed = from_source(numbers).key_by(lambda number: number)

def test_a_harness(stream_harness):
    harness = stream_harness(keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=1))).reduce(max), numbers)
    for number in (1, 2):
        harness.process_element(number, timestamp=0)
    harness.process_watermark(999)
    assert harness.take_values() == [1, 2]

def collected(runner):
    sink = CollectSink()
    stream = from_collection([1, 2]).key_by(lambda number: number).reduce(max)
    return runner.run(Pipeline("ordered", stream.sink_to(sink))).collected(sink)

def test_a_runner(local_runner):
    assert collected(local_runner()) == [1, 2]

def test_a_seed_of_its_own(local_runner):
    assert collected(local_runner(shuffles_keys=None)) == [1, 2]
    assert collected(local_runner(shuffles_keys=3)) == [2, 1]
"""


def test_tests_that_lean_on_the_order_of_keys_fail_with_a_seed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(HARNESS + ORDERED)
    pytester.runpytest_inprocess().assert_outcomes(passed=3)
    result = pytester.runpytest_inprocess("--windrow-shuffles-keys=7")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["windrow: keys in the order of --windrow-shuffles-keys=7"])
    pytester.makeini("[pytest]\nwindrow_shuffles_keys = 0\n")
    pytester.runpytest_inprocess().assert_outcomes(passed=1, failed=2)
    result = pytester.runpytest_inprocess("--windrow-shuffles-keys=x")
    result.stderr.fnmatch_lines(["*take an int, and not 'x'"])


def test_a_time_line_is_kept_compared_and_drawn_anew(pytester: pytest.Pytester) -> None:
    program = (
        HARNESS
        + """
def test_sums(stream_harness, timeline_snapshot):
    harness = stream_harness(sums, numbers, record=True)
    harness.process_element(VALUE, timestamp=0)
    harness.process_watermark(999)
    timeline_snapshot(timeline(harness.recording, values=str), "after one")
"""
    )
    file = pytester.makepyfile(test_kept=program.replace("VALUE", "1"))
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*no picture is kept as __timelines__/test_kept.test_sums.after one.svg*"])

    pytester.runpytest_inprocess("--windrow-update").assert_outcomes(passed=1)
    pytester.runpytest_inprocess().assert_outcomes(passed=1)

    file.write_text(program.replace("VALUE", "20"))
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the new one is __timelines__/test_kept.test_sums.after one.new.svg*"])
    assert (pytester.path / "__timelines__" / "test_kept.test_sums.after one.new.svg").read_text().startswith("<svg")
    pytester.runpytest_inprocess("--windrow-update").assert_outcomes(passed=1)
    assert [each.name for each in (pytester.path / "__timelines__").iterdir()] == ["test_kept.test_sums.after one.svg"]


def test_tests_of_one_name_in_two_classes_have_a_time_line_each(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_two=HARNESS
        + """
class TestOne:
    value = 1

    def test_sums(self, stream_harness, timeline_snapshot):
        harness = stream_harness(sums, numbers, record=True)
        harness.process_element(self.value, timestamp=0)
        timeline_snapshot(timeline(harness.recording, values=str))

class TestTwo(TestOne):
    value = 20
"""
    )
    pytester.runpytest_inprocess("--windrow-update").assert_outcomes(passed=2)
    pytester.runpytest_inprocess().assert_outcomes(passed=2)
    kept = sorted(each.name for each in (pytester.path / "__timelines__").iterdir())
    assert kept == ["test_two.TestOne.test_sums.svg", "test_two.TestTwo.test_sums.svg"]


def test_names_that_differ_in_their_signs_have_a_time_line_each(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_signs=HARNESS
        + """
import pytest

@pytest.mark.parametrize("name", ["a/b", "a-b", "a:b", "a%2fb"])
def test_sums(name, stream_harness, timeline_snapshot):
    harness = stream_harness(sums, numbers, record=True)
    harness.process_element(len(name) * ord(name[1]), timestamp=0)
    for each in (name, name + "."):
        timeline_snapshot(timeline(harness.recording, values=str), each)
"""
    )
    pytester.runpytest_inprocess("--windrow-update").assert_outcomes(passed=4)
    pytester.runpytest_inprocess().assert_outcomes(passed=4)
    kept = sorted(each.name for each in (pytester.path / "__timelines__").iterdir())
    assert len(kept) == 8
    assert kept[-2:] == ["test_signs.test_sums[a-b].a-b%2e.svg", "test_signs.test_sums[a-b].a-b.svg"]


def test_the_plugin_imports_nothing_of_windrow_by_itself(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import sys

def test_imports():
    assert "windrow_tools.pytest_plugin" in sys.modules
    assert "windrow" not in sys.modules
    assert "pyspark" not in sys.modules
"""
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
