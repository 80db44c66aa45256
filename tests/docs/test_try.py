"""What the page "Try it" answers for a program, without a browser."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).parents[2] / "docs" / "_static" / "try" / "run.py"
PROGRAM = """
from datetime import timedelta
from windrow import Pipeline, WatermarkStrategy, from_collection
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows

numbers = from_collection([1, 2_500, 2], batch_size=1).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda number: number
)
windows = numbers.key_by(lambda number: "all").window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
counts = CollectSink()
pipeline = Pipeline("counts", windows.count().sink_to(counts))
"""


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a program; its module is forgotten at the end of the test."""
    monkeypatch.setitem(sys.modules, "program", sys.modules[__name__])
    run = runpy.run_path(str(RUN))["run_program"]
    return lambda program: json.loads(run(program))


def test_counters_are_numbers_with_their_steps(answered: Any) -> None:
    answer = answered(PROGRAM)
    assert answer["error"] is None
    (run,) = answer["runs"]
    assert run["collected"] == [{"name": "counts", "values": ["1", "1"], "more": 0}]
    assert run["counters"] == {"counts.4.window: late_records_dropped": 1}


def test_an_error_begins_at_the_program(answered: Any) -> None:
    answer = answered("print('so far')\n1 / 0\n")
    assert answer["printed"] == "so far\n"
    assert answer["error"].splitlines()[1].startswith('  File "program.py", line 2')


def test_what_is_long_is_cut(answered: Any) -> None:
    answer = answered("for _ in range(1_000):\n    print('x' * 500)\n")
    assert len(answer["printed"]) < 101_000
    assert answer["printed"].endswith("x\n… and more"), answer["printed"][-20:]
    answer = answered(PROGRAM.replace("windows.count()", "numbers.map(lambda number: 'y' * 1_000_000)"))
    (sink,) = answer["runs"][0]["collected"]
    assert [len(value) for value in sink["values"]] == [5_000] * 3


def test_a_program_may_close_its_streams_or_end_itself(answered: Any) -> None:
    answer = answered("import sys\nprint('so far')\nsys.stdout.close()\nsys.stderr.close()\n1 / 0\n")
    assert answer["printed"] == "so far\n"
    assert answer["error"].endswith("ZeroDivisionError: division by zero")
    assert answered("import sys\nsys.exit()\n")["error"] == "the program has ended itself"
    assert answered("import sys\nsys.exit(3)\n")["error"] == "3"
