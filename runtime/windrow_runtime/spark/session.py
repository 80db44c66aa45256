"""Finds or starts the Spark session of a runner, with the settings that its queries need."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windrow.errors import UnsupportedOperationError
from windrow_runtime.spark.daemon import DAEMON_MODULE
from windrow_runtime.spark.quiet import quiet_paths, quiet_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_STORE: Final = {
    # The only provider that stateful processing works with.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
"""The settings that a query with state needs."""

JOB_SETTINGS: Final = {
    # Fewer, larger Arrow batches: the stages loop over a batch, and each has a fixed cost.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # Times are UTC whatever the machine's zone.
    "spark.sql.session.timeZone": "UTC",
}
"""The settings of each job of a runner."""

# Python workers give large arrays back to the system after each batch, and take them again, page by page, in the next
# one, unless settings prevent that. Measured: the scan of a million rows in columns took 0.18 s instead of 0.65 s.
_WORKERS = {
    # Spark sets this for all workers but those of stateful steps, and keeps workers of different environments apart:
    # there would be two daemons, and twice as many workers.
    "SPARK_SIMPLIFIED_TRACEBACK": "1",
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
_FOLDER_BYTES = 50
_begun: set[str] = set()
# These are set if spark-submit or the pyspark shell started this program, or if a Spark Connect server is named.
_LAUNCHED = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_ARCHIVES = frozenset({".zip", ".egg", ".jar"})
_INSTALL = "Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17"


def local_session(partitions: int, *, verbose: bool = False) -> SparkSession:
    """Returns the active session, that of ``spark-submit``, or a new one on this machine.

    Args:
        partitions: How many cores and shuffle partitions a new one has.
        verbose: Whether a new one logs all messages of Spark.

    Raises:
        UnsupportedOperationError: If Java is missing; the error names what to install.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        pass  # there is none yet
    if any(name in os.environ for name in _LAUNCHED):
        # Its master and its settings were given to the launcher, and must not be overridden.
        return SparkSession.builder.getOrCreate()
    _check_java()
    # Spark starts its workers with the `python3` of PATH unless this is set.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Windrow's folders come first: its ``sitecustomize`` imports the user's module of that name.
    paths = [*([] if verbose else quiet_paths()), *_own_paths()]
    builder = (
        SparkSession.builder.master(f"local[{partitions}]")
        .appName("windrow")
        .config("spark.sql.shuffle.partitions", str(partitions))
        # Workers need the paths to import modules that lie beside the main program.
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(paths))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.python.daemon.module", DAEMON_MODULE)
        # Sockets between Spark and its Python workers: a batch of little data takes 0.52 s instead of 0.59 s.
        .config("spark.python.unix.domain.socket.enabled", str(_has_short_paths()).lower())
    )
    for name, value in {**STATE_STORE, **JOB_SETTINGS}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate() if verbose else quiet_session(builder)


def _has_short_paths() -> bool:
    """Returns whether paths are short enough for Unix sockets: some hundred bytes, half of them Spark's."""
    # Java uses /tmp on Linux, whatever TMPDIR is.
    return sys.platform == "linux" or (os.name == "posix" and len(tempfile.gettempdir()) <= _FOLDER_BYTES)


def is_connect(spark: SparkSession) -> bool:
    """Returns whether the session is that of a Spark Connect server, in whose process callbacks run."""
    # The module is compared by name: it imports packages that a classic session does not need.
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _own_paths() -> list[str]:
    """Returns the folders in which this program finds modules, besides the library and the packages of its Python."""
    library = sysconfig.get_path("stdlib")
    return [
        os.path.abspath(path)
        for path in sys.path
        if not path.startswith(library) and not path.endswith(("site-packages", "dist-packages", ".zip"))
    ]


def prepare_workers(spark: SparkSession) -> None:
    """Prepare the Python workers of a session. Its settings stay as they are."""
    _set_environment(spark)
    _start_daemon(spark)


def _set_environment(spark: SparkSession) -> None:
    """Set the environment of Python workers, and the paths of the worker beside the driver.

    The worker beside the driver can then import the files that ``--py-files`` and ``addPyFile`` ship.

    Spark starts it to learn a stateful step's state, and gives the shipped files to all workers but this one. On
    other machines the folder does not exist, and does no harm.
    """
    # A Spark Connect session has no context; its server looks after its files.
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return
    for name, value in _WORKERS.items():
        # The user's values take precedence.
        context.environment.setdefault(name, os.environ.get(name, value))
    from pyspark import SparkFiles

    folder = Path(SparkFiles.getRootDirectory())
    archives = sorted(str(file) for file in folder.glob("*") if file.suffix.lower() in _ARCHIVES)
    if archives or any(folder.glob("*.py")):
        known = str(context.environment.get("PYTHONPATH", "")).split(os.pathsep)
        paths = dict.fromkeys([*known, str(folder), *archives])
        context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def _start_daemon(spark: SparkSession) -> None:
    """Make the daemon of a session on this machine import the workers' modules while Spark plans the query.

    Measured on the demo, two cores: its first batch took 5.4 s instead of 7.8 s.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None or not context.master.startswith("local") or context.applicationId in _begun:
        return
    if context.getConf().get("spark.python.daemon.module") != DAEMON_MODULE:
        return
    _begun.add(context.applicationId)

    def run() -> None:
        # If this fails, the query fails as well, with the error.
        with contextlib.suppress(Exception):
            spark.range(0, 1, numPartitions=1).mapInArrow(_nothing, "id long").collect()

    threading.Thread(target=run, name="windrow starts workers", daemon=True).start()


# Any: pyarrow has no types.
def _nothing(batches: Iterable[Any]) -> Iterator[Any]:
    return iter(batches)


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        raise UnsupportedOperationError(
            "Spark needs Java, and there is none", expected="Java 17 or newer", hint=_INSTALL
        )
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = printed.split('version "')[1].split(".")[0].split('"')[0] if 'version "' in printed else "0"
    if version.isdigit() and int(version) < 17:
        raise UnsupportedOperationError(
            "Spark needs a newer Java", given=f"Java {version}", expected="Java 17 or newer", hint=_INSTALL
        )
