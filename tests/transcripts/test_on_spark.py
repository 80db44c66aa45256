"""A handful of transcripts on Spark. All of them, by hand: ``python -m tests.transcripts --engine spark FILE...``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.transcripts.engine import Clock, Input, NotStatedError, Operation, Watermark
from tests.transcripts.local import local_engine
from tests.transcripts.running import run_transcript
from tests.transcripts.spark import spark_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

import pytest


# Any: what JSON holds.
def case_of(name: str) -> dict[str, Any]:
    cases = json.loads((Path(__file__).parent / "trigger_transcripts.json").read_text("utf-8"))["cases"]
    (found,) = [case for case in cases if case["name"] == name]
    return dict(found)


def test_sessions_with_early_and_late_panes(spark: SparkSession) -> None:
    run_transcript(case_of("early_late_sessions"), spark_engine(spark))


@pytest.mark.thorough(reason="tests/spark/test_replay.py compares runs by the clock with those of the interpreter")
def test_sessions_that_retract_by_the_clock(spark: SparkSession) -> None:
    # clock      30         60   61            120
    # elements   1  30      |    10  20        |
    # panes                 *                  * and again at watermark 100
    period = {"type": "repeatedly", "of": {"type": "at_period", "aligned_minutes": 0.001}}
    case = {
        "window_fn": {"kind": "sessions", "gap": 10},
        "trigger": {"type": "or_finally", "main": period, "until": {"type": "after_watermark"}},
        "accumulation_mode": "retracting",
        "allowed_lateness": 0,
    }
    operations: list[Operation] = [Clock(30), Input(((1, 1), (30, 2))), Clock(60), Clock(61), Input(((10, 4), (20, 8)))]
    operations += [Clock(120), Watermark(100), Input(((200, 16),)), Watermark("inf")]
    found = spark_engine(spark)(case, operations)
    assert [[(pane.kind, pane.values) for pane in panes] for panes in found] == [
        *([], [], [("+I", [1]), ("+I", [2])], [], []),
        [("-D", [1]), ("-D", [2]), ("+I", [1, 2, 4, 8])],
        [("-U", [1, 2, 4, 8]), ("+U", [1, 2, 4, 8])],
        *([("+I", [16])], [("-U", [16]), ("+U", [16])]),
    ]
    assert found == local_engine(case, operations)


def test_what_no_batch_states_is_not_run(spark: SparkSession) -> None:
    with pytest.raises(NotStatedError, match="behind each element"):
        run_transcript({**case_of("fixed_default"), "firing": "per_step"}, spark_engine(spark))
