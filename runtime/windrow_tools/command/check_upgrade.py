"""Says whether a pipeline may go on from a checkpoint, and what becomes of the state of each step.

It compares what a run compares when it starts, and neither starts one nor changes the checkpoint. Code of functions is
not compared: the new one computes from the next batch on.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from windrow_tools.command.failures import ExitCode
from windrow_tools.command.user_file import add_accepted, add_pipeline, chosen_pipeline


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the folder of the checkpoint of a run on Spark")
    add_pipeline(parser)
    add_accepted(parser)


def prepare(options: Namespace) -> Callable[[], int]:
    """Opens the checkpoint and imports the pipeline; returns the check."""
    # Only this subcommand needs PySpark to read a checkpoint; the error says so where it is missing.
    from windrow_spark import check_installed

    check_installed()
    from windrow_spark.checkpoint.stored_streams import check_accepted
    from windrow_spark.upgrade import stored_run

    stored = stored_run(options.checkpoint)
    pipeline = chosen_pipeline(options)
    check_accepted(pipeline.steps, options.accept_changes)

    def check() -> int:
        description = stored.description
        batches = "no batch" if not stored.batches else f"batches 0 to {stored.batches - 1}"
        print(f"{options.checkpoint}: {batches}, begun by windrow {description.windrow}, on", end=" ")
        print(f"{description.partitions} partitions with {description.groups} key groups each")
        if not stored.batches:
            print("no batch was planned: a run begins anew, with any plan")
            return ExitCode.OK
        upgrade = stored.upgrade(pipeline, options.accept_changes)
        for where, changes in upgrade.kept.items():
            print(f"goes on: {where}")
            print(*(f"  {change}\n" for change in changes), sep="", end="")
        for line in upgrade.begun:
            print(f"begins: {line}")
        for line in upgrade.unreadable:
            print(f"refused: {line}")
        for line in upgrade.moved:
            print(f"refused unless accepted: {line}")
        for line in upgrade.alike:
            print(f"not compared: {line}")
        if not upgrade.unreadable and not upgrade.moved:
            print(f"{pipeline.name} may go on from this checkpoint")
            return ExitCode.OK
        print(f"{pipeline.name} may not go on from this checkpoint\n  hint:     {upgrade.hint}")
        return ExitCode.FAILED

    return check
