"""Runs cases of two inputs."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.cases import Case, CaseError
from tests.conformance.runner import Outcome, Running
from tests.two_inputs.cases import RunCase, compare, read
from tests.two_inputs.engines import Engine
from tests.two_inputs.invalid import run_invalid
from tests.two_inputs.pipelines import KINDS

__all__ = ["run_cases"]


def run_cases(cases: Sequence[Case], engine: Engine) -> list[Outcome]:
    """Run cases. Whatever goes wrong is the outcome of a case, never an error of the runner.

    The engine gets all pipelines at once, so that it may run some of them together.
    """
    running: list[tuple[Running, RunCase]] = []
    outcomes: list[Running] = []
    for case in cases:
        outcome = Running(case, engine.why_skipped(case))
        outcomes.append(outcome)
        if outcome.skipped is not None:
            continue
        with outcome.faults_noted():
            if case.kind in KINDS:
                running.append((outcome, read(case)))
            elif case.kind == "invalid":
                run_invalid(case, outcome.differences)
            else:
                raise CaseError(f"unknown kind {case.kind!r}")
    told = engine.run([case.script for _, case in running]) if running else ()
    for (outcome, found), of_case in zip(running, told, strict=True):
        with outcome.faults_noted():
            compare(found, of_case, outcome.differences)
    return [outcome.done() for outcome in outcomes]
