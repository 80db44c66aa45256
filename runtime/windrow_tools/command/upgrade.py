"""Gives a checkpoint that no run uses another plan, which goes on with the state, the positions and the batches.

The former program is not needed. A savepoint is written beside the checkpoint, with .upgraded behind its name, and the
checkpoint begins anew from that; the former files of the checkpoint lie in the folder "former" of the savepoint. A
warning says what begins empty and what is gone. If the command is interrupted, run it again: until it has finished, no
run goes on with the checkpoint. Delete the savepoint when you do not need it any more.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from windrow_tools.command.failures import ExitCode
from windrow_tools.command.user_file import (
    add_accepted,
    add_partitions,
    add_pipeline,
    add_renamed,
    chosen_pipeline,
    renamed_in,
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the folder of the checkpoint of a run on Spark")
    add_pipeline(parser)
    add_renamed(parser)
    add_accepted(parser)
    add_partitions(parser)


def prepare(options: Namespace) -> Callable[[], int]:
    """Imports the pipeline; returns what moves the state."""
    from windrow_spark import check_installed

    check_installed()
    from windrow_spark.savepoint.stopped import checkpoint_at, upgrade

    checkpoint_at(options.checkpoint)  # refuses a path without one
    renamed = renamed_in(options)
    pipeline = chosen_pipeline(options)

    def move() -> int:
        folder = upgrade(
            options.checkpoint,
            pipeline,
            renamed=renamed,
            accept_changes=options.accept_changes,
            partitions=options.partitions,
            key_groups_per_partition=options.key_groups_per_partition,
        )
        print(f"{options.checkpoint} begins anew from the savepoint {folder}")
        return ExitCode.OK

    return move
