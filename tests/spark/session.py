"""The Spark session that tests share: embedded, two cores, nothing left behind."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.support.fork_server import ADDRESS_VARIABLE, forked_python
from windrow_runtime.spark.daemon import DAEMON_MODULE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["embedded_session"]

_ROOT = Path(__file__).parents[2]


@contextmanager
def embedded_session(warehouse: Path, *, connect: bool = False, jars: Sequence[Path] = ()) -> Iterator[SparkSession]:
    """Start a session, and stop it at the end.

    Args:
        warehouse: An empty folder for Spark's own use.
        connect: Whether it is the session of a Spark Connect server, which is started and stopped with it.
        jars: What the session has besides Spark's own, such as a connector.
    """
    from pyspark.sql import SparkSession

    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        TemporaryDirectory() as folder,  # with a short name, as addresses of sockets must be
        forked_python(Path(folder)) as (python, server),
    ):
        # Spark starts its workers with the `python3` of PATH unless it is told otherwise.
        patch.setenv("PYSPARK_PYTHON", python)
        # Functions of test modules are pickled by name, so workers must be able to import `tests`.
        patch.setenv("PYTHONPATH", str(_ROOT), prepend=os.pathsep)
        builder = SparkSession.builder
        if connect:
            # The server has the settings of its start, and warns of each when it is told them again.
            warnings.filterwarnings("ignore", "Failed to set", UserWarning)
        builder = (
            (builder.remote("local[2]") if connect else builder.master("local[2]"))
            .appName("windrow tests")
            .config("spark.driver.memory", "2g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config(
                "spark.sql.streaming.stateStore.providerClass",
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            )
            .config("spark.sql.warehouse.dir", str(warehouse))
            .config(f"spark.executorEnv.{ADDRESS_VARIABLE}", server)
        )
        if jars:
            builder = builder.config("spark.jars", ",".join(map(str, jars)))
        if not connect:
            # As the session that a runner starts; the workers of the server are Spark's own.
            builder = builder.config("spark.python.daemon.module", DAEMON_MODULE)
            builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
        session = builder.getOrCreate()
        if not connect:
            session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
