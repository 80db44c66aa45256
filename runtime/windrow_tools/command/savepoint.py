"""Takes a savepoint of a checkpoint that no run uses: its state in files of Parquet, apart from Spark's partitions.

The checkpoint stays as it is. SparkRunner(checkpoint=NEW, savepoint=SAVEPOINT) begins from the savepoint, on as many
partitions as are given there.
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
    parser.add_argument("savepoint", metavar="SAVEPOINT", help="the folder to write: a new one, or an empty one")


def prepare(options: Namespace) -> Callable[[], int]:
    """Imports the pipeline; returns what writes the savepoint."""
    from windrow_spark import check_installed

    check_installed()
    from windrow_spark.savepoint.stopped import take
    from windrow_spark.upgrade import stored_run

    stored_run(options.checkpoint)  # refuses a folder without a checkpoint
    pipeline = chosen_pipeline(options)

    def write() -> int:
        saved = take(options.checkpoint, pipeline, options.savepoint)
        print(f"{options.savepoint}: the state after batch {saved.batch} of {options.checkpoint}")
        for name, step in saved.steps.items():
            what = "keys" if step.form == "objects" else "rows"
            print(f"  {name}: {step.rows:,} {what}, {step.size:,} bytes, in {step.form}")
        return ExitCode.OK

    return write
