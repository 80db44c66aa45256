"""The workloads in the interpreter, over growing input."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from benchmarks import interpreter
from benchmarks.interpreter import InterpreterFigure
from benchmarks.scale import Scale

__all__ = ["INTERPRETER_WORKLOADS", "InterpreterResult", "InterpreterWorkload", "run_interpreter_workload"]


class MeasureInterpreter(Protocol):
    """Measures one size of input."""

    def __call__(self, elements: int, rounds: int, *, fast: bool) -> InterpreterFigure:
        """The figure for so many elements, with faster forms or with the general operator."""
        ...


@dataclass(frozen=True, slots=True)
class InterpreterWorkload:
    """A computation in the interpreter, over growing input.

    Attributes:
        name: What ``--only`` and the tables call it.
        title: What it computes.
        measure: Measures one size.
    """

    name: str
    title: str
    measure: MeasureInterpreter


INTERPRETER_WORKLOADS = (
    InterpreterWorkload(
        "interpreter-tumbling-1k",
        "tumbling mean, 5 s, 1,000 sensors: some 50 elements a window",
        partial(interpreter.tumbling, keys=1_000),
    ),
    InterpreterWorkload(
        "interpreter-tumbling-100k",
        "tumbling mean, 5 s, 100,000 sensors: most windows hold one element",
        partial(interpreter.tumbling, keys=100_000),
    ),
    InterpreterWorkload(
        "interpreter-sessions",
        "sessions, gap of 2 s, count, 1,000 sensors: some 25 elements a session",
        interpreter.sessions,
    ),
)


@dataclass(frozen=True, slots=True)
class InterpreterResult:
    """All figures of a workload in the interpreter."""

    workload: InterpreterWorkload
    figures: list[InterpreterFigure]


def run_interpreter_workload(workload: InterpreterWorkload, scale: Scale) -> InterpreterResult:
    """Measure a workload for each size, with the forms that steps take by themselves and with the general operator.

    Raises:
        WrongResultError: If a result is wrong.
    """
    sizes = [20_000, 100_000] if scale.quick else [100_000, 1_000_000]
    if scale.full:
        sizes.append(10_000_000)
    figures: list[InterpreterFigure] = []
    for fast in (True, False):
        for size in sizes:
            # Large inputs take long enough to be steady.
            rounds = 1 if size > 1_000_000 else 3
            _say(f"{workload.name}: {size:,} elements, {'fast' if fast else 'general'}")
            figures.append(workload.measure(size, rounds, fast=fast))
    return InterpreterResult(workload, figures)


def _say(what: str) -> None:
    print(f"... {what}", file=sys.stderr, flush=True)
