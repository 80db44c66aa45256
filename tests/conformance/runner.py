"""Runs cases of every kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.conformance.cases import Case, CaseError, load
from tests.conformance.compare import Differences
from tests.conformance.engines import Engine
from tests.conformance.merging_cases import run_merging_window_set
from tests.conformance.operator_cases import OperatorCase, compare_operator, read_operator
from tests.conformance.skips import NO_SKIPS, Skips
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

__all__ = ["PARTS", "Outcome", "Running", "report", "run_cases", "run_files"]

# The kinds that need no engine: they look at the public parts alone.
PARTS: Mapping[str, Callable[[Case, Differences], None]] = {
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
        skipped: Why it was not run; None: it was.
    """

    file: str
    name: str
    differences: tuple[str, ...]
    skipped: str | None = None

    @property
    def passed(self) -> bool:
        return not self.differences and self.skipped is None


def run_cases(cases: Sequence[Case], engine: Engine, skips: Skips = NO_SKIPS) -> list[Outcome]:
    """Run cases. Whatever goes wrong is the outcome of a case, never an error of the runner.

    The engine gets all pipelines at once, so that it may run some of them together.
    """
    running: list[tuple[Running, OperatorCase]] = []
    outcomes: list[Running] = []
    for case in cases:
        outcome = Running(case, skips.reason(case))
        outcomes.append(outcome)
        if outcome.skipped is not None:
            continue
        with outcome.faults_noted():
            if case.kind == "operator":
                running.append((outcome, read_operator(case, note_calls=engine.tells_calls)))
            elif case.kind in PARTS:
                PARTS[case.kind](case, outcome.differences)
            else:
                raise CaseError(f"unknown kind {case.kind!r}")
    told = engine.run([case.script for _, case in running]) if running else ()
    for (outcome, read), of_case in zip(running, told, strict=True):
        with outcome.faults_noted():
            compare_operator(read, of_case, outcome.differences)
    return [outcome.done() for outcome in outcomes]


class Running:
    """A case that is being run; ``skipped`` says why it is not."""

    def __init__(self, case: Case, skipped: str | None) -> None:
        self.skipped = skipped
        self.differences = Differences()
        self._case = case

    @contextmanager
    def faults_noted(self) -> Iterator[None]:
        """Whatever is raised in this block is noted as a difference."""
        try:
            yield
        except CaseError as error:
            self.differences.lines.append(f"  not understood: {error}")
        except Exception as error:
            lines = str(error).splitlines() or [""]
            self.differences.lines.append(f"  {type(error).__name__}: {lines[0]}")
            self.differences.lines.extend(f"  {line}" for line in lines[1:])

    def done(self) -> Outcome:
        return Outcome(self._case.file, self._case.name, tuple(self.differences.lines), self.skipped)


def run_files(paths: Sequence[str], run: Callable[[Sequence[Case]], list[Outcome]]) -> list[Outcome]:
    """Run the cases of files by ``run``. A file that cannot be read is one failure."""
    unreadable: list[Outcome] = []
    cases: list[Case] = []
    for path in paths:
        try:
            cases += load(path)
        except CaseError as error:
            unreadable.append(Outcome(path, "the file itself", (f"  {error}",)))
    return unreadable + run(cases)


def report(outcomes: Sequence[Outcome]) -> int:
    """Print what failed and why, what was skipped and why, and how many cases there are of each.

    Returns:
        1 if a case failed, else 0.
    """
    failed = [outcome for outcome in outcomes if outcome.differences]
    skipped: Counter[str] = Counter()
    for outcome in failed:
        print(f"FAILED {outcome.file}: {outcome.name}", *outcome.differences, "", sep="\n")
    for outcome in outcomes:
        if outcome.skipped is not None:
            skipped[outcome.skipped] += 1
    for reason, count in skipped.items():
        print(f"skipped {count}: {reason}")
    passed = sum(outcome.passed for outcome in outcomes)
    print(f"{passed} passed, {len(failed)} failed, {skipped.total()} skipped")
    return 1 if failed else 0
