"""Gives a checkpoint that no run uses another number of partitions, so that other cores can work on its state.

A savepoint is written beside the checkpoint, with .rescaled behind its name, and the checkpoint begins anew from that.
Results, positions of sources and numbers of batches go on. If the command is interrupted, run it again: until it has
finished, no run goes on with the checkpoint. Delete the savepoint when you do not need it any more.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from windrow_tools.command.failures import ExitCode
from windrow_tools.command.user_file import add_partitions, add_pipeline, chosen_pipeline


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the folder of the checkpoint of a run on Spark")
    add_pipeline(parser)
    add_partitions(parser)


def prepare(options: Namespace) -> Callable[[], int]:
    """Imports the pipeline; returns what moves the state."""
    from windrow_spark import check_installed

    check_installed()
    from windrow_spark.savepoint.stopped import checkpoint_at, rescale

    checkpoint_at(options.checkpoint)  # refuses a path without one
    pipeline = chosen_pipeline(options)

    def move() -> int:
        groups = options.key_groups_per_partition
        folder = rescale(options.checkpoint, pipeline, partitions=options.partitions, key_groups_per_partition=groups)
        print(f"{options.checkpoint} begins anew from the savepoint {folder}")
        return ExitCode.OK

    return move
