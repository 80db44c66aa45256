"""Runs Spark's daemon of Python workers, and imports the modules that they need before it forks them.

Spark starts the daemon once, and each worker is a copy of it. Its own daemon imports next to nothing, so each of the
first workers imports pandas, pyarrow and windrow for itself, all at the same time. ``local_session`` names this module
as ``spark.python.daemon.module``. A session of the user's may do so too, where windrow is installed on all machines.

A process that forks should have no threads. pyarrow's allocator has one, which it looks after itself; numpy's library
for matrices makes more unless a variable turns them off, and windrow has no use for them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys

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
    "windrow_runtime.spark.sources.column_scan",
    "windrow_runtime.columnar.joins.interval",
    "windrow_runtime.columnar.joins.windowed",
    "windrow_runtime.spark.keyed.level_calls",
    "windrow_runtime.spark.keyed.join_step",
    "windrow_runtime.spark.keyed.window_step",
    "windrow_runtime.spark.sinks.batch_writer",
)


def preload() -> None:
    """Import the modules that workers need. A module that fails here fails again, with an error, in the worker."""
    pass_over_archive()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Standard output belongs to the daemon, which prints its address there for Spark.
    with contextlib.redirect_stdout(sys.stderr):
        for module in _MODULES:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
    # The garbage collector of each worker passes over these objects, so their memory pages stay shared.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    preload()
    from pyspark.daemon import manager

    manager()
