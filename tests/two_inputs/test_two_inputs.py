"""Every case of the files beside this one: on the harness, in batches of the interpreter, and a handful on Spark.

All of them on Spark, by hand: ``python -m tests.two_inputs --engine spark FILE...``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.budget import for_a_night
from tests.conformance.batch_engine import BatchEngine
from tests.conformance.cases import Case, load
from tests.conformance.local_engine import LocalEngine
from tests.two_inputs.cases import run_cases
from windrow_runtime.local import LocalRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = [case for path in sorted(Path(__file__).parent.glob("*.json")) for case in load(str(path))]


@pytest.mark.parametrize("explains", [False, True], ids=["", "with journals"])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case, explains: bool) -> None:
    (outcome,) = run_cases([case], LocalEngine(explains=explains))
    assert outcome.passed, "\n".join((outcome.name, *outcome.differences))


# The interpreter has no checkpoint: it begins anew, and what it gave before it gives again. Cases are keys.
@pytest.mark.parametrize("shuffled", for_a_night([None, 5], [5]))
def test_all_cases_in_batches_of_the_interpreter(shuffled: int | None) -> None:
    outcomes = run_cases(CASES, BatchEngine(lambda _, clock: LocalRunner(clock=clock, shuffles_keys=shuffled)))
    assert [outcome for outcome in outcomes if outcome.differences] == []
    assert sum(outcome.passed for outcome in outcomes) == 134


def test_some_cases_on_spark(spark: SparkSession) -> None:
    """Two queries run them all: one without a clock, and one by the clock that restores a snapshot."""
    from tests.conformance.spark_engine import spark_engine

    # A query has as many batches as the longest of its cases has steps.
    names = {
        "wj_session_touching",
        "cg_late_opens_window",
        "ij_late_right_output_only",
        "cp_event_timers",
        "cp_snapshot_restore",
        "cp_side_output",
        "bc_apply_clears_state",
    }
    longer = {
        "wj_lateness_refires_all_pairs",
        "cg_lateness_purging",
        "ij_late_side_outputs",
        "cp_event_timer_with_state",
        "cp_processing_timer_already_due",
        "bc_rule_replaced_and_removed",
        "bc_timer_sees_rules_at_firing",
        "wj_tumbling_itcase",
        "ij_mirror_a_left_first",
    }
    names |= for_a_night(longer, set[str]())
    cases = [case for case in CASES if case.name in names]
    outcomes = run_cases(cases, spark_engine(spark))
    assert [(outcome.name, outcome.differences) for outcome in outcomes if not outcome.passed] == []
    assert len(outcomes) == len(names)
