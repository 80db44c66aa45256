"""Runs Spark's daemon of Python workers, and imports the modules that they need before it forks them.

Spark starts the daemon once, and each worker is a fork of it. Spark's own daemon imports next to nothing, so each of
the first workers imports pandas, pyarrow and windrow, all at the same time. ``local_session`` names this module as
``spark.python.daemon.module``. A user's session may do so too, if windrow is installed on all machines.

Spark closes the connection to a worker when it ends the task or the session, before it has read all that the worker
writes. Over Unix sockets, as such a session uses them, the worker would print a traceback that is of no use to the
user; so it ends silently.

A process that forks should have no threads. pyarrow's allocator has one, and handles forks itself; numpy's library for
matrices starts more unless a variable turns them off, and windrow does not use it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import sys
from collections.abc import Callable

from windrow_runtime.spark.quiet.sitecustomize import pass_over_archive

DAEMON_MODULE = "windrow_runtime.spark.daemon"

_MODULES = (
    "pyspark.worker",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pandas",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "windrow_runtime.spark.sources.stage",
    "windrow_runtime.spark.exchange.column_sender",
    "windrow_runtime.columnar.rows.columns",
    "windrow_runtime.spark.keyed.level_calls",
    "windrow_runtime.spark.keyed.column_step",
    "windrow_runtime.spark.sinks.batch_writer",
)


def preload() -> None:
    """Import the modules that workers need. If an import fails, it fails again in the worker, with an error."""
    pass_over_archive()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Modules must not print to standard output, on which the daemon tells Spark its address.
    with contextlib.redirect_stdout(sys.stderr):
        for module in _MODULES:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
    # The garbage collector of each worker ignores frozen objects, so that their memory pages stay shared.
    gc.collect()
    gc.freeze()


def silent_when_closed(work: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Makes the loop of a worker end without a traceback if Spark has closed its connection.

    Errors of users' functions are not affected: the loop sends them to Spark.
    """

    def call(connection: socket.socket, authenticated: bool) -> int:
        try:
            return work(connection, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            return 1  # Spark's daemon ends the worker

    return call


if __name__ == "__main__":
    preload()
    from pyspark import daemon

    # The daemon looks up the function that runs a worker by this name.
    setattr(daemon, "worker", silent_when_closed(daemon.worker))  # noqa: B010
    daemon.manager()
