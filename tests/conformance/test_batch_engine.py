"""Cases in batches: all of them in the interpreter, and a handful on Spark.

All of them on Spark, by hand: ``python -m tests.conformance --engine spark FILE...``.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.batch_engine import BatchEngine
from tests.conformance.batch_queries import Placed, queries_of
from tests.conformance.cases import Case, Fields, load
from tests.conformance.elements import Element
from tests.conformance.engines import ClockStep, ElementStep, RestoreStep, Script, Step, WatermarkStep
from tests.conformance.operator_cases import read_operator
from tests.conformance.runner import run_cases
from windrow_runtime.local import LocalRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES = sorted(Path(__file__).parent.glob("*.json"))
_LATENESS = "late firings go on after a restore"


# The interpreter has no checkpoint: it begins anew, and what it gave before it gives again.
IN_BATCHES = BatchEngine(lambda _, clock: LocalRunner(clock=clock))


# Any in this module: cases as JSON, to be changed at will.
def body_of(name: str) -> dict[str, Any]:
    bodies = [body for file in _FILES for body in json.loads(file.read_text(encoding="utf-8"))["cases"]]
    (found,) = [body for body in bodies if body["name"] == name]
    assert isinstance(found, dict)
    return found


def case_of(body: dict[str, Any]) -> Case:
    return Case.of("file.json", 1, Fields(body, "case"))


def wrong_lateness() -> dict[str, Any]:
    body = copy.deepcopy(body_of(_LATENESS))
    body["steps"][1]["expect_watermark"] = 1000
    body["steps"][4]["expect"]["emits"][0]["value"] = 4
    body["steps"][7]["expect"] = {"dropped": 1}
    return body


WRONG = [
    "  step 2, watermark at 999: watermark downstream: expected 1000, got 999",
    '  step 5, element at 200: emits: expected [{"key": "key1", "ts": 999, "value": 4, "window": [0, 1000]}], '
    'got [{"key": "key1", "ts": 999, "value": 3, "window": [0, 1000]}]',
    '  step 8, element at 300: late: expected [], got [{"key": "key1", "ts": 300, "value": 4}]',
    "  dropped in all steps: expected 1, got 0",
]


def titles(differences: tuple[str, ...]) -> list[str]:
    return [line for line in differences if not line.startswith("    ")]


def test_all_cases_in_batches_of_the_interpreter() -> None:
    cases = [case for file in _FILES for case in load(str(file))]
    outcomes = run_cases(cases, IN_BATCHES)
    assert [outcome for outcome in outcomes if outcome.differences] == []
    assert sum(outcome.passed for outcome in outcomes) == 102


def test_a_wrong_expectation_fails() -> None:
    body = wrong_lateness()
    body["steps"].append({"op": "watermark", "ts": 5, "expect": {"error": "invalid_argument"}})
    (outcome,) = run_cases([case_of(body)], IN_BATCHES)
    error = "  step 9, watermark at 5: error: expected invalid_argument, got none"
    assert titles(outcome.differences) == [*WRONG[:3], error, WRONG[3]]


def test_the_step_that_fails_is_told_and_the_other_cases_go_on() -> None:
    body = body_of("per-window state is refused with merging windows")
    step = body["steps"][0]
    body["steps"] = [{**step, "trigger": {"result": "continue"}, "expect": {}}, {**step, "expect": {}}]
    outcomes = run_cases([case_of(body), case_of(body_of(_LATENESS))], IN_BATCHES)
    assert [outcome.passed for outcome in outcomes] == [False, True]
    (line, *_) = outcomes[0].differences
    assert line.startswith("  step 2, element at 0: error: expected none, got unsupported_operation: ")


def test_some_cases_on_spark(spark: SparkSession) -> None:
    """One query runs them all: they neither set the clock nor restore a snapshot."""
    from tests.conformance.spark_engine import spark_engine

    offset = body_of("tumbling with offset, aggregate mean")
    bodies = [
        offset,
        body_of("cleanup of reduced contents, session"),
        body_of("sessions that touch end to start merge"),
        body_of("a session that already fired is gone when lateness is zero"),
        body_of("the watermark may stay or repeat"),
        body_of("time evictor keeps what is younger than the cut"),
        body_of("non-keyed stream: one group"),
    ]
    wrong = copy.deepcopy(offset)
    wrong["steps"][3]["expect_watermark"] = 250
    wrong["steps"][4]["expect"]["emits"] = []
    outcomes = run_cases([case_of(body) for body in (*bodies, wrong)], spark_engine(spark))
    differences = [titles(outcome.differences) for outcome in outcomes]
    assert differences[:-1] == [[]] * len(bodies)
    assert [line.partition(": expected")[0] for line in differences[-1]] == [
        "  step 4, watermark at 249: watermark downstream",
        "  step 5, watermark at 1249: emits",
    ]


ELEMENT = ElementStep(Element.of("k", 1), 5)
ADVANCE = WatermarkStep(9)
RESTORE = RestoreStep()


@pytest.mark.parametrize(
    ("scripts", "together"),
    [
        ([[ELEMENT], [ADVANCE, ELEMENT], [ELEMENT, ADVANCE]], [{0, 1, 2}]),
        ([[ELEMENT, RESTORE], [RESTORE, ELEMENT], [ELEMENT]], [{0, 1}, {2}]),
        ([[RESTORE, RESTORE], [RESTORE]], [{0}, {1}]),
        ([[ClockStep(1), ELEMENT, ClockStep(2)], [ClockStep(1), ELEMENT, ELEMENT]], [{0}, {1}]),
        ([[ClockStep(1), ELEMENT, ClockStep(2)], [ClockStep(1), ADVANCE], [ELEMENT, ELEMENT]], [{0, 1}, {2}]),
        ([[ClockStep(1), RESTORE], [ClockStep(1), ELEMENT]], [{0}, {1}]),
    ],
)
def test_scripts_that_do_not_disturb_each_other_run_together(
    scripts: list[list[Step]], together: list[set[int]]
) -> None:
    queries = queries_of([Placed(script(steps), place) for place, steps in enumerate(scripts)])
    found = [{placed.place for placed in query} for query in queries]
    assert sorted(found, key=min) == together
    for query in queries:
        assert len({tuple(placed.restores()) for placed in query}) == 1


def test_a_script_that_may_fail_runs_alone() -> None:
    queries = queries_of([Placed(script([ELEMENT]), 0), Placed(script([ELEMENT], may_fail=True), 1)])
    assert sorted(len(query) for query in queries) == [1, 1]


def script(steps: list[Step], *, may_fail: bool = False) -> Script:
    read = read_operator(case_of(body_of(_LATENESS)), note_calls=False)
    return Script(read.script.pipeline, tuple(steps), may_fail)
