"""Shows the plan of a pipeline: a line a step, and below keyed steps the form in which an engine runs them.

Spark itself is not started.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from windrow_runtime.command.failures import ExitCode
from windrow_runtime.command.user_file import add_pipeline, named_pipeline
from windrow_runtime.local import LocalRunner


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    add_pipeline(parser)
    parser.add_argument(
        "--engine", choices=("local", "spark"), help="the engine whose forms are shown; by default none"
    )


def prepare(options: Namespace) -> Callable[[], int]:
    """Imports the pipeline; returns what shows its plan."""
    pipeline = named_pipeline(options.pipeline)

    def explain() -> int:
        if options.engine is None:
            print(pipeline.explain())
        elif options.engine == "local":
            print(pipeline.explain(LocalRunner()))
        else:
            # Spark only where it is asked for: the other engine runs without it.
            from windrow_runtime.spark import SparkRunner

            print(pipeline.explain(SparkRunner()))
        return ExitCode.OK

    return explain
