"""Short ways to see a stream: collect() and print()."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any, assert_type

import pytest

from windrow import DataStreamSink, OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.errors import InvalidArgumentError, PlanError, UnsupportedOperationError, UserFunctionError
from windrow.functions import ProcessContext, ProcessFunction
from windrow.sources import RateSource
from windrow.windows import TumblingProcessingTimeWindows
from windrow_runtime.local import LocalRunner, PipelineResult

NUMBERS = from_collection([3, 1, 2])


def test_a_stream_is_collected_by_the_interpreter() -> None:
    doubled = NUMBERS.map(lambda number: 2 * number)
    found = doubled.collect()
    assert_type(found, list[int])
    assert found == doubled.collect() == [6, 2, 4], "each call runs anew"
    assert NUMBERS.filter(lambda number: number > 5).collect() == []


def test_side_outputs_are_collected() -> None:
    odd = OutputTag("odd", int)

    class Divide(ProcessFunction[int, int]):
        def process_element(self, value: int, context: ProcessContext) -> list[int]:
            if value % 2:
                context.output(odd, value)
            return [value]

    assert NUMBERS.process(Divide()).get_side_output(odd).collect() == [3, 1]


def test_a_runner_may_be_given() -> None:
    class Watched(LocalRunner):
        def run(self, pipeline: Pipeline, *, drain: bool = True) -> PipelineResult:
            names.append(pipeline.name)
            return super().run(pipeline, drain=drain)

    names: list[str] = []
    runner = Watched()
    assert NUMBERS.collect(runner) == NUMBERS.collect(runner=runner, name="numbers") == [3, 1, 2]
    assert names == ["collect", "numbers"]


@pytest.mark.parametrize(
    ("given", "hint"),
    [(LocalRunner, "an instance, not the class: LocalRunner()"), ("spark", None), (NUMBERS, None)],
    ids=["class", "text", "stream"],
)
def test_what_is_no_runner_is_refused(given: Any, hint: str | None) -> None:
    with pytest.raises(InvalidArgumentError, match=r"(?s)a runner runs the pipeline\n.*test_collect\.py:\d+") as caught:
        NUMBERS.collect(given)
    assert caught.value.hint == hint


def test_errors_of_the_plan_and_of_the_run_name_the_line() -> None:
    with pytest.raises(PlanError, match=r"(?s)no timestamps.*collect\.2\.timestamps, .*test_collect\.py:\d+"):
        NUMBERS.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps()).collect()
    with pytest.raises(UserFunctionError, match=r"(?s)ZeroDivisionError.*look\.2\.map, .*test_collect\.py:\d+"):
        NUMBERS.map(lambda number: number // 0).collect(name="look")
    with pytest.raises(UnsupportedOperationError):
        from_source(RateSource(5)).collect()


def test_withdrawals_are_no_elements_to_collect_or_print() -> None:
    windows = NUMBERS.key_by(lambda number: 0).window(TumblingProcessingTimeWindows.of(timedelta(seconds=1)))
    retracting = windows.retracting().count()
    with pytest.raises(PlanError, match=r"1. collect would write withdrawals as results"):
        retracting.collect()
    with pytest.raises(PlanError, match=r"console would write withdrawals as results"):
        Pipeline("p", retracting.print())


def test_elements_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    doubled = NUMBERS.map(lambda number: 2 * number)
    printed = doubled.print("doubled: ", name="screen")
    assert_type(printed, DataStreamSink)
    LocalRunner().run(Pipeline("p", printed, NUMBERS.print()))
    assert sorted(capsys.readouterr().out.splitlines()) == ["1", "2", "3", "doubled: 2", "doubled: 4", "doubled: 6"]
    assert Pipeline("p", printed).explain().splitlines()[-1] == "  3 sink screen  <- 2     console"


def test_the_language_finds_the_interpreter_when_it_is_asked_for() -> None:
    program = "import sys, windrow; numbers = windrow.from_collection([1]).map(str)"
    program += '\nprint("windrow_runtime" in sys.modules, numbers.collect(), "windrow_runtime" in sys.modules,'
    program += ' "pyspark" in sys.modules, "pyarrow" in sys.modules)'
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False ['1'] True False False\n"
