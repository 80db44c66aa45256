"""The Spark session that the contenders share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from windrow_spark.quiet import quiet_paths

__all__ = ["CORES", "spark_session"]

CORES = 2
_ROOT = Path(__file__).parent.parent


@contextmanager
def spark_session(settings: Mapping[str, str] | None = None, *, cores: int = CORES) -> Iterator[SparkSession]:
    """The one session of a benchmark: embedded, two cores, RocksDB for state.

    A session that the program runs already, such as that of tests, is taken as it is, unless settings are asked for.

    Args:
        settings: More settings of Spark's, or others in place of these.
        cores: How many cores, and shuffle partitions. Spark and its Python workers are confined to them where the
            system can do that; a session with fewer cores would otherwise still use the rest of the machine, since
            a worker and the task that feeds it run side by side.
    """
    running = None if settings else SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # With it workers would compile every module anew, which takes longer than to import it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Functions of the contenders are pickled by name, so workers must be able to import `benchmarks`.
    # What the runner puts in front, in a session that it makes, comes first: with it the process that Spark starts
    # beside the driver, at each start of a query with a Python state, does not compile pyspark anew.
    paths = [*quiet_paths(), str(_ROOT), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("windrow benchmarks")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.session.timeZone", "UTC")
        # What windrow advises, for all contenders.
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.python.daemon.module", "windrow_runtime.spark.daemon")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
    )
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
