"""Runs cases of every kind."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tests.conformance.cases import Case, CaseError, load
from tests.conformance.compare import Differences
from tests.conformance.engines import Engine, EngineUnavailableError
from tests.conformance.merging_cases import run_merging_window_set
from tests.conformance.operator_cases import CompareStep, RunCase, compare_run, compare_window_step, read_operator
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

AnyEngine = TypeVar("AnyEngine")

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


_A_PART = "it tests a part of the language or of the operator, without an engine; --engine local runs it"


@dataclass(frozen=True)
class Outcome:
    """How a case went."""

    file: str
    name: str
    differences: tuple[str, ...]  # a line each
    skipped: str | None = None  # why it was not run

    @property
    def passed(self) -> bool:
        return not self.differences and self.skipped is None


@dataclass(frozen=True)
class Language:
    """The kinds of cases that a folder has."""

    parts: Mapping[str, Callable[[Case, Differences], None]]  # the kinds that need no engine, each with what runs it
    runs: Collection[str]  # the kinds that an engine runs
    read: Callable[[Case, bool], RunCase]  # the flag says whether the engine tells the calls of triggers
    compare: CompareStep  # for a step of a case that an engine runs
    why_not_in_batches: Callable[[Case], str | None]  # why an engine that runs cases in batches leaves a case out
    missing_timestamp: str | None = None  # the error by which cases name a missing timestamp, if there is one


WINDOWS = Language(
    PARTS,
    ("operator",),
    lambda case, note_calls: read_operator(case, note_calls=note_calls),
    compare_window_step,
    lambda case: _A_PART if case.kind in PARTS else None,
)


def run_cases(cases: Sequence[Case], engine: Engine, language: Language = WINDOWS) -> list[Outcome]:
    """Run cases. Whatever goes wrong is the outcome of a case, never an error of the runner.

    The engine gets all pipelines at once, so that it may run some of them together.
    """
    running: list[tuple[_Running, RunCase]] = []
    outcomes: list[_Running] = []
    for case in cases:
        outcome = _Running(case, None if engine.tells_calls else language.why_not_in_batches(case))
        outcomes.append(outcome)
        if outcome.skipped is not None:
            continue
        with outcome.faults_noted():
            if case.kind in language.runs:
                running.append((outcome, language.read(case, engine.tells_calls)))
            elif case.kind in language.parts:
                language.parts[case.kind](case, outcome.differences)
            else:
                raise CaseError(f"unknown kind {case.kind!r}")
    told = engine.run([case.script for _, case in running]) if running else ()
    for (outcome, read), of_case in zip(running, told, strict=True):
        with outcome.faults_noted():
            compare_run(read, of_case, outcome.differences, language.compare, language.missing_timestamp)
    return [outcome.done() for outcome in outcomes]


class _Running:
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


def main(
    program: str,
    description: str,
    arguments: Sequence[str] | None,
    engines: Mapping[str, Callable[[], AbstractContextManager[AnyEngine]]],
    run: Callable[[AnyEngine, Sequence[str]], list[Outcome]],
) -> int:
    """Run files of cases as a command does: 0 if no case failed, 1 if one did, 2 if the engine is not to be had."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    parser.add_argument("--engine", choices=sorted(engines), default="local", help="what runs the pipelines")
    parser.add_argument("files", metavar="FILE", nargs="+", help="a file of cases")
    options = parser.parse_args(arguments)
    try:
        with engines[options.engine]() as engine:
            outcomes = run(engine, options.files)
    except EngineUnavailableError as error:
        print(error, file=sys.stderr)
        return 2
    return _report(outcomes)


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


def _report(outcomes: Sequence[Outcome]) -> int:
    """Print what failed and why, what was skipped and why, and how many cases there are; 1 if a case failed."""
    failed = [outcome for outcome in outcomes if outcome.differences]
    skipped = Counter(outcome.skipped for outcome in outcomes if outcome.skipped is not None)
    for outcome in failed:
        print(f"FAILED {outcome.file}: {outcome.name}", *outcome.differences, "", sep="\n")
    for reason, count in skipped.items():
        print(f"skipped {count}: {reason}")
    passed = sum(outcome.passed for outcome in outcomes)
    print(f"{passed} passed, {len(failed)} failed, {skipped.total()} skipped")
    return 1 if failed else 0
