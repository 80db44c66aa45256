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
import zipimport
from collections.abc import Callable

from windrow_spark.quiet.sitecustomize import pass_over_archive

DAEMON_MODULE = "windrow_runtime.spark.daemon"
"""The name by which sessions choose this daemon."""

_MODULES = (
    "pyspark.worker",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pandas",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "windrow_spark.sources.stage",
    "windrow_spark.exchange.column_sender",
    "windrow_spark.columnar.rows.columns",
    "windrow_spark.keyed.level_calls",
    "windrow_spark.keyed.column_step",
    "windrow_spark.sinks.batch_writer",
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
    forget_archives()
    # The garbage collector of each worker ignores frozen objects, so that their memory pages stay shared.
    gc.collect()
    gc.freeze()


def forget_archives() -> None:
    """Forgets the finders of Spark's archives, whose files each worker would list again before its first task.

    PySpark has all finders read their folders and archives anew then, which took 0.1 s of each worker. If an import
    needs an archive, Python makes another finder from the list of files that it keeps.
    """
    home = os.path.join(os.environ.get("SPARK_HOME", ""), "")
    if os.path.isabs(home):
        for path, finder in list(sys.path_importer_cache.items()):
            if isinstance(finder, zipimport.zipimporter) and path.startswith(home):
                del sys.path_importer_cache[path]


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


def run() -> None:
    """Imports the modules that workers need, and serves Spark until it ends the daemon."""
    preload()
    from pyspark import daemon

    # The daemon looks up the function that runs a worker by this name.
    setattr(daemon, "worker", silent_when_closed(daemon.worker))  # noqa: B010
    daemon.manager()
