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
