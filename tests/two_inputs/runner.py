"""Runs cases of two inputs."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance import runner
from tests.conformance.cases import Case
from tests.conformance.engines import Engine
from tests.two_inputs.cases import compare, read
from tests.two_inputs.invalid import run_invalid
from tests.two_inputs.pipelines import KINDS

__all__ = ["run_cases"]

_PART = "it tests what can be built, which is the same for all engines; --engine local runs it"
_CLOCK = (
    "an input falls silent there when the clock goes on without it, and the case sets the clock itself; "
    "--engine local runs it"
)
_TWO_INPUTS = runner.Language({"invalid": run_invalid}, KINDS, lambda case, _: read(case), compare, "missing_timestamp")


def run_cases(cases: Sequence[Case], engine: Engine) -> list[runner.Outcome]:
    """Run cases as :func:`tests.conformance.runner.run_cases` does."""
    return runner.run_cases(cases, engine, _never if engine.tells_calls else _why_not_in_batches, _TWO_INPUTS)


def _never(case: Case) -> None:
    return None


def _why_not_in_batches(case: Case) -> str | None:
    if case.kind == "invalid":
        return _PART
    steps = case.body.items("steps", [])
    ops = {step.get("op") for step in steps if isinstance(step, dict)}
    return _CLOCK if "processing_time" in ops and ops & {"idle1", "idle2"} else None
