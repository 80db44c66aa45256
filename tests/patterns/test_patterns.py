"""Every case of the files beside this one: on the harness, in batches of the interpreter, and a handful on Spark.

All of them on Spark, by hand: ``python -m tests.patterns --engine spark FILE...``. Two thousand random patterns:
``python -m tests.patterns.drawn``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.budget import for_a_night
from tests.conformance.batch_engine import BatchEngine
from tests.conformance.cases import Case, load
from tests.conformance.local_engine import LocalEngine
from tests.patterns import drawn
from tests.patterns.cases import run_cases
from windrow_runtime.local import LocalRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = sorted(Path(__file__).parent.glob("*.json"))
CASES = [case for path in FILES for case in load(str(path))]


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_cases_of_a_file(file: Path) -> None:
    outcomes = run_cases(load(str(file)), LocalEngine())
    assert [(outcome.name, outcome.differences) for outcome in outcomes if not outcome.passed] == []


def restarts_and_drops(case: Case) -> bool:
    """Whether a case counts late elements, and restores: the interpreter begins anew there, and counts them again."""
    steps = case.body.items("steps", [])
    ops = [(step.get("op"), "dropped" in str(step.get("expect"))) for step in steps if isinstance(step, dict)]
    return ("snapshot_restore", False) in ops and any(drops for _, drops in ops)


# The interpreter has no checkpoint: it begins anew, and what it gave before it gives again. Cases are keys.
def test_cases_in_batches_of_the_interpreter_with_keys_in_another_order() -> None:
    names = ("own", "tests_operator", "random_skip", "random_mixed")
    cases = [case for case in CASES if Path(case.file).stem in names and not restarts_and_drops(case)]
    outcomes = run_cases(cases, BatchEngine(lambda _, clock: LocalRunner(clock=clock, shuffles_keys=5)))
    assert [(outcome.name, outcome.differences) for outcome in outcomes if outcome.differences] == []
    assert sum(outcome.passed for outcome in outcomes) == 113


def test_some_cases_on_spark(spark: SparkSession) -> None:
    """Queries run them together: those that restore a snapshot, and the others."""
    from tests.conformance.spark_engine import spark_engine

    names = {
        "restore_timers",
        "iterative_last_of",
        "timed_out_loop_rest",
        "group_until_inside_a_round",
        "tie_skip_past_last",
        "late_at_the_watermark",
    }
    # A query has as many batches as the longest of its cases has steps: these two have more than all others.
    names |= for_a_night({"skip_three_keys_and_restore", "not_followed_by_at_the_end"}, set[str]())
    cases = [case for case in CASES if case.name in names]
    outcomes = run_cases(cases, spark_engine(spark))
    assert [(outcome.name, outcome.differences) for outcome in outcomes if not outcome.passed] == []
    assert len(outcomes) == len(names)


def test_a_wrong_expectation_fails() -> None:
    (body,) = [case for case in CASES if case.name == "timed_out_at_its_time"]
    steps = body.body.data["steps"]
    assert isinstance(steps, list)
    wrong = [{**step, "expect": {}} if isinstance(step, dict) and "expect" in step else step for step in steps]
    case = Case.of("file.json", 1, type(body.body)({**body.body.data, "steps": wrong}, "case"))
    (outcome,) = run_cases([case], LocalEngine())
    assert any("timed out: expected []" in line for line in outcome.differences)


@pytest.mark.parametrize("seed", for_a_night([11, 12], [11]))
def test_random_patterns_give_what_a_search_of_every_way_gives(seed: int) -> None:
    outcomes, matches, _ = drawn.run(150, seed, LocalEngine())
    assert [(outcome.name, outcome.differences) for outcome in outcomes if not outcome.passed] == []
    assert matches > 200
