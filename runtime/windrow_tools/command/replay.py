"""Runs the batches of a checkpoint again by the interpreter, and compares their results with those of the run.

The batches run under the same times, so results are equal unless an engine is wrong, or a function returns something
else at each call. Only the last 100 batches have notes, so the run may have at most 100 batches; its sources are
collections and files of mounted file systems, which still exist. The exit code is 1 if something differs.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from windrow_tools.command.failures import ExitCode
from windrow_tools.command.user_file import add_pipeline, chosen_pipeline


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the folder of the checkpoint of a run on Spark")
    add_pipeline(parser)


def prepare(options: Namespace) -> Callable[[], int]:
    """Imports the pipeline; returns what replays the batches and prints the differences."""
    # Only these subcommands need PySpark to read a checkpoint; the error says so where it is missing.
    from windrow_spark import check_installed

    check_installed()
    from windrow_spark.upgrade import stored_run
    from windrow_tools.replay import replay

    stored_run(options.checkpoint)  # refuses a folder without a checkpoint
    pipeline = chosen_pipeline(options)

    def compare() -> int:
        replayed = replay(options.checkpoint, pipeline)
        print(f"batches 0 to {replayed.batches - 1} of {options.checkpoint}")
        print(f"compared: counters, {', '.join(replayed.compared) or 'no sink'}")
        if replayed.left_out:
            print(f"not compared: {', '.join(replayed.left_out)}")
        print(*(replayed.differences or ["all is equal"]), sep="\n")
        return ExitCode.FAILED if replayed.differences else ExitCode.OK

    return compare
