"""Runs cases of every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.conformance.cases import Case, CaseError, load
from tests.conformance.compare import Differences
from tests.conformance.engines import Engine
from tests.conformance.merging_cases import run_merging_window_set
from tests.conformance.operator_cases import run_operator
from tests.conformance.trigger_cases import run_trigger
from tests.conformance.window_cases import (
    run_assign,
    run_intersects,
    run_invalid,
    run_merge,
    run_properties,
    run_stagger,
    run_window_start,
)

__all__ = ["Outcome", "run_case", "run_file"]

# The kinds that need no engine: they look at the public parts alone.
_PARTS: Mapping[str, Callable[[Case, Differences], None]] = {
    "assign": run_assign,
    "intersects": run_intersects,
    "invalid": run_invalid,
    "merge": run_merge,
    "merging_window_set": run_merging_window_set,
    "properties": run_properties,
    "stagger": run_stagger,
    "trigger": run_trigger,
    "window_start": run_window_start,
}


@dataclass(frozen=True)
class Outcome:
    """How a case went.

    Attributes:
        file: The file.
        name: The name of the case.
        differences: What differed, a line each; none where the case passed.
    """

    file: str
    name: str
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.differences


def run_case(case: Case, engine: Engine) -> Outcome:
    """Run one case. Whatever goes wrong is its outcome, never an error of the runner."""
    differences = Differences()
    try:
        if case.kind == "operator":
            run_operator(case, engine, differences)
        elif case.kind in _PARTS:
            _PARTS[case.kind](case, differences)
        else:
            raise CaseError(f"unknown kind {case.kind!r}")
    except CaseError as error:
        differences.lines.append(f"  not understood: {error}")
    except Exception as error:
        lines = str(error).splitlines() or [""]
        differences.lines.append(f"  {type(error).__name__}: {lines[0]}")
        differences.lines.extend(f"  {line}" for line in lines[1:])
    return Outcome(case.file, case.name, tuple(differences.lines))


def run_file(path: str, engine: Engine) -> list[Outcome]:
    """Run the cases of a file. A file that cannot be read is one failure."""
    try:
        cases = load(path)
    except CaseError as error:
        return [Outcome(path, "the file itself", (f"  {error}",))]
    return [run_case(case, engine) for case in cases]
