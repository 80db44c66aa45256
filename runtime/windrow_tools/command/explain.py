"""Shows the plan of a pipeline as text, a line a step, or in another format, with the forms in which an engine runs it.

Spark itself is not started.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import get_args

from windrow.plan import Engine
from windrow.plan.explained.step_view import PlanFormat
from windrow_runtime.local import LocalRunner
from windrow_tools.command.failures import ExitCode
from windrow_tools.command.user_file import add_pipeline, chosen_pipeline


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    add_pipeline(parser)
    parser.add_argument(
        "--engine", choices=("local", "spark"), help="the engine whose forms are shown; by default none"
    )
    parser.add_argument("--format", choices=get_args(PlanFormat), default="text", help="by default text, a line a step")


def prepare(options: Namespace) -> Callable[[], int]:
    """Imports the pipeline; returns what shows its plan."""
    pipeline = chosen_pipeline(options)

    def explain() -> int:
        engine: Engine | None = LocalRunner() if options.engine == "local" else None
        if options.engine == "spark":
            # Spark only where it is asked for: the other engine runs without it.
            from windrow_spark import SparkRunner

            engine = SparkRunner()
        print(pipeline.explain(engine, format=options.format))
        return ExitCode.OK

    return explain
