"""Finds or starts the Spark session of a runner, and sets the Spark settings that its queries need.

A user's session keeps its settings: a query copies those that the session has while the query starts.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import DataFrame, SparkSession

from windrow.errors import InvalidArgumentError, warn
from windrow_runtime.operators.errors import line_of_caller
from windrow_spark.checkpoint.storage import ELSEWHERE_SETTINGS
from windrow_spark.daemon import DAEMON_MODULE
from windrow_spark.java import check_java
from windrow_spark.quiet import quiet_paths, quiet_session, variable_set
from windrow_spark.run.background import uninterrupted

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_MOST_PARTITIONS_OF_A_CORE: Final = 16
DEFAULT_PARTITIONS: Final = 200

STATE: Final[dict[str, str]] = {
    # The only provider that stateful processing works with.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Due timers fire in the batch after the one that moved the watermark, even if there is nothing to read.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
"""The settings that each query with state needs."""

ONLY_WITH_DATA: Final[dict[str, str]] = {
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # With the usual 10 ms a query at interval 0 that has nothing to do takes a fifth of a core to ask its sources, for
    # which Spark reads Hadoop's settings anew.
    "spark.sql.streaming.pollingDelay": "250ms",
}
"""The settings of a query that begins batches without elements by lines in its control folder."""

JOB_SETTINGS: Final[dict[str, str]] = {
    # Arrow batches are larger than by default, since each has a fixed cost in the stages.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # Times are in UTC, whatever the machine's zone is.
    "spark.sql.session.timeZone": "UTC",
}
"""The settings of each job of a runner."""

QUERY: Final[dict[str, str]] = {**STATE, **JOB_SETTINGS}
"""The settings of each query that a runner starts itself."""

# Measured on batches of little data, two cores: 0.73 s a batch became 0.64 s by the first, and 0.58 s by both.
QUERY_SETTINGS: Final = {
    # A batch writes only the changes of the state; snapshots are written in the background.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"
}
"""The further settings of such a query, unless the session has other values for them."""

MOUNTED_SETTINGS: Final = {
    # Hadoop's other way to rename a file of a mounted file system starts four processes for it, some forty in a batch,
    # and renames it no differently.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
"""The further settings of a query whose checkpoint lies in a mounted file system, unless the session has others."""

# Spark generates code for rows of state, of timers and of the exchange when it plans a batch, and in each task, which
# takes longer for few rows than it saves.
FEW_ROWS_SETTINGS: Final = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Each optimizer rule that changes the plan below a stateful operator makes Spark recreate that operator.
    "spark.sql.codegen.wholeStage": "false",
}
"""The further defaults of a query whose records do not pass through Spark's expressions: workers read and write them,
and Spark handles names of files, and one row for all elements of a key group."""

# Python workers would return large arrays to the system after each batch, and page them in again in the next one, but
# for these settings. Measured: the scan of a million rows in columns took 0.18 s instead of 0.65 s.
_WORKERS: Final = {
    # Spark sets this for all workers but those of stateful steps, and keeps workers of different environments apart:
    # there would be two daemons, and twice as many workers.
    "SPARK_SIMPLIFIED_TRACEBACK": "1",
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
_FOLDER_BYTES: Final = 50
# Variables that are set if spark-submit or the pyspark shell started this program, or a Spark Connect server is named.
_LAUNCHED: Final = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_ARCHIVES: Final = frozenset({".zip", ".egg", ".jar"})
_LOCAL_IP: Final = "SPARK_LOCAL_IP"
# Variables that may bring packages into a session that is started here.
_OPTIONS: Final = ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS")
_begun: Final[set[str]] = set()
_lock: Final = threading.RLock()
_commands: Final = threading.Lock()

_LARGEST_COMMAND: Final = "spark.broadcast.UDFCompressionThreshold"
_UNLIMITED: Final = str(1 << 40)  # bytes


def session_there() -> SparkSession | None:
    """Returns the active session or that of ``spark-submit``; None: there is none, and a runner starts its own.

    Raises an error if a session would have to be started and Java is missing.
    """
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        pass  # there is no active session
    if any(name in os.environ for name in _LAUNCHED):
        # The launcher was given the master and settings, which must not be overridden.
        return SparkSession.builder.getOrCreate()
    check_java()
    return None


_of_run: ContextVar[SparkSession | None] = ContextVar("session", default=None)


def keep_session(spark: SparkSession) -> None:
    """Has :func:`session_of_run` return a session in this thread, and in those that a run starts from it."""
    _of_run.set(spark)


def session_of_run() -> SparkSession | None:
    """Returns the session of the last runner of this thread, else that of the thread or the process.

    A thread that a user has started has none of its own, and another session of the user's is active nowhere.
    """
    kept = _of_run.get()
    if kept is not None and (is_connect(kept) or kept._sc._jsc is not None):  # it may have been stopped
        return kept
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def configuration() -> list[str]:
    """Returns the texts that may bring settings and packages into a session that is started here."""
    folder = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf")
    files = [folder / "spark-defaults.conf", folder / "spark-env.sh"]
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()]
    return [*texts, *(os.environ.get(option, "") for option in _OPTIONS)]


def local_session(partitions: int, *, verbose: bool = False) -> SparkSession:
    """Returns the active session, that of ``spark-submit``, or a new one on this machine; refuses if Java is missing.

    A new one has as many cores as shuffle partitions, and logs all messages of Spark if it is ``verbose``.
    """
    existing = session_there()
    if existing is not None:
        return existing
    # Spark would start its workers with the `python3` of PATH if this were not set.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Windrow's folders come first, since its ``sitecustomize`` imports the user's module of that name.
    paths = [*([] if verbose else quiet_paths()), *_own_paths()]
    # Paths of Unix sockets have some hundred bytes, half of them Spark's. Java uses /tmp on Linux, whatever TMPDIR is.
    has_short_paths = sys.platform == "linux" or (os.name == "posix" and len(tempfile.gettempdir()) <= _FOLDER_BYTES)
    conf = SparkConf().setMaster(f"local[{partitions}]").setAppName("windrow")
    settings = {
        SHUFFLE_PARTITIONS: str(partitions),
        # Workers need the paths to import modules that lie beside the main program.
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(paths),
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.daemon.module": DAEMON_MODULE,
        # With Unix sockets between Spark and its Python workers a batch of little data takes 0.52 s instead of 0.59 s.
        "spark.python.unix.domain.socket.enabled": str(has_short_paths).lower(),
        **QUERY,
    }
    conf.setAll([*settings.items()])
    for name, value in ELSEWHERE_SETTINGS.items():
        conf.setIfMissing(f"spark.hadoop.{name}", value)

    def start() -> SparkSession:
        # A JVM whose launch is interrupted would run for ever, so the launch is not interrupted.
        uninterrupted(lambda: SparkContext._ensure_initialized(conf=conf))
        return SparkSession.builder.config(conf=conf).getOrCreate()

    # Spark would look up the name of the machine, and fails where that does not resolve, as on many laptops.
    with variable_set(_LOCAL_IP, os.environ.get(_LOCAL_IP, "127.0.0.1")):
        return start() if verbose else quiet_session(start)


def _own_paths() -> list[str]:
    """Returns the folders in which this program finds modules, besides the library and the packages of its Python."""
    library = sysconfig.get_path("stdlib")
    return [
        os.path.abspath(path)
        for path in sys.path
        if not path.startswith(library) and not path.endswith(("site-packages", "dist-packages", ".zip"))
    ]


def is_connect(spark: SparkSession) -> bool:
    """Returns whether the session is one of Spark Connect, whose server runs callbacks."""
    # The module is compared by name: it imports packages that a classic session does not need.
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def prepare_workers(spark: SparkSession) -> None:
    """Prepare the Python workers of a session: their environment, and their daemon. Its settings do not change."""
    # A Spark Connect session has no context; its server manages files.
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return
    for name, value in _WORKERS.items():
        # The user's values take precedence.
        context.environment.setdefault(name, os.environ.get(name, value))
    # Spark starts a worker beside the driver to learn a stateful step's state; only this worker lacks the files of
    # ``--py-files`` and ``addPyFile``, so their folder is added. On other machines it does not exist, and is harmless.
    folder = Path(SparkFiles.getRootDirectory())
    archives = sorted(str(file) for file in folder.glob("*") if file.suffix.lower() in _ARCHIVES)
    if archives or any(folder.glob("*.py")):
        earlier_paths = str(context.environment.get("PYTHONPATH", "")).split(os.pathsep)
        paths = dict.fromkeys([*earlier_paths, str(folder), *archives])
        context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    has_daemon = context.getConf().get("spark.python.daemon.module") == DAEMON_MODULE
    if has_daemon and context.master.startswith("local") and context.applicationId not in _begun:
        _begun.add(context.applicationId)
        threading.Thread(target=_start_daemon, args=(spark,), name="windrow starts workers", daemon=True).start()


def _start_daemon(spark: SparkSession) -> None:
    """Start the daemon of a session on this machine, which imports the workers' modules while Spark plans the query.

    Measured on the demo, two cores: its first batch took 5.4 s instead of 7.8 s.
    """
    # If this fails, the query fails as well, and shows the error.
    with suppress(Exception):
        spark.range(0, 1, numPartitions=1).mapInArrow(lambda batches: batches, "id long").collect()


@contextmanager
def with_whole_commands(spark: SparkSession) -> Iterator[None]:
    """Has Spark keep the functions of a stateful step in the plan, however large they are.

    PySpark makes a broadcast of functions that hold more than a megabyte, as of a table to look things up in. The
    worker that Spark starts beside the driver, to learn a stateful step's state, loads no broadcast, and fails.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:  # Spark Connect makes none
        yield
        return
    with _commands:
        # No API changes it: the copy that getConf returns is not the one that PySpark asks.
        conf = context._jsc.sc().conf()
        before = conf.get(_LARGEST_COMMAND, None)
        conf.set(_LARGEST_COMMAND, _UNLIMITED)
        try:
            yield
        finally:
            if before is None:
                conf.remove(_LARGEST_COMMAND)
            else:
                conf.set(_LARGEST_COMMAND, before)


@contextmanager
def settings_changed(spark: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Changes settings of a session within the block, in which the caller is the only one to do so.

    None unsets one.
    """
    before = {name: spark.conf.get(name, None) for name in settings}
    changed = [name for name, value in settings.items() if before[name] != value]
    try:
        for name in changed:
            _set(spark, name, settings[name])
        yield
    finally:
        for name in changed:
            if spark.conf.get(name, None) == settings[name]:  # or the user has set it meanwhile
                _set(spark, name, before[name])


def _set(spark: SparkSession, name: str, value: str | None) -> None:
    if value is None:
        spark.conf.unset(name)
    else:
        spark.conf.set(name, value)


@contextmanager
def settings_during(
    spark: SparkSession, settings: Mapping[str, str | None], defaults: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Change the settings of a session within the block, for example while a query starts, which keeps them.

    A query that started in a separate session would be missing in the session's list of queries, and its listeners
    would not get its events. One thread at a time can change the session so. ``defaults`` are set only if the session
    has no value for them.
    """
    with _lock:
        unset = {name: value for name, value in (defaults or {}).items() if spark.conf.get(name, None) is None}
        with settings_changed(spark, {**settings, **unset}):
            yield


def own_partitions(spark: SparkSession) -> int:
    """Returns the number of shuffle partitions that the user has set for a session, or Spark's default."""
    with _lock:
        return int(spark.conf.get(SHUFFLE_PARTITIONS, None) or DEFAULT_PARTITIONS)


def warn_of_partitions(spark: SparkSession, partitions: int) -> None:
    """Warn of too many shuffle partitions in a session on one machine: each costs every batch a task.

    Clusters are left out, as their cores come and go.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None or not context.master.startswith("local"):
        return
    cores = context.defaultParallelism
    if partitions > _MOST_PARTITIONS_OF_A_CORE * cores:
        location = line_of_caller()
        warn(
            "each batch starts a task and opens a state store for each shuffle partition, which takes seconds",
            given=f"{partitions} shuffle partitions on {cores} cores",
            where=location,
            hint=f"SparkRunner(partitions={cores}), or the setting {SHUFFLE_PARTITIONS} of the session; "
            "the first run of a checkpoint fixes it",
            location=location,
        )


def check_temporary_state(spark: SparkSession) -> None:
    """Refuse to keep state in a temporary folder of the driver's machine if tasks run on others.

    It would work while each partition stays on its machine, and fail, or lose the end of a stream, when one moves.
    """
    context = getattr(spark, "sparkContext", None)
    if context is not None and not context.master.startswith("local"):
        raise InvalidArgumentError(
            "tasks on several machines need a checkpoint that all of them see, and without one the run has a temporary "
            "folder of the driver's machine",
            given=f"no checkpoint, on the master {context.master}",
            expected="SparkRunner(checkpoint=folder), where all machines have mounted it, or s3a:// or hdfs://",
            hint="run_batch(pipeline) needs none",
        )


def session_with(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Returns the session if it has these settings, or else a copy of it that has them, and its views and functions."""
    with _lock:
        if all(_setting(spark, name) == value for name, value in settings.items()):
            return spark
        # Any: the Connect session's own method, and the JVM's, which types do not know.
        copy: SparkSession
        if is_connect(spark):
            copy = spark.cloneSession()  # type: ignore[attr-defined]
        else:
            copy = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, value in settings.items():
        copy.conf.set(name, value)
    return copy


def _setting(spark: SparkSession, name: str) -> str | None:
    """Returns a setting of a session, or Spark's default for it; Hadoop's settings have none here."""
    value = spark.conf.get(name, None)
    # Without a default argument, `get` returns Spark's default for an unset name.
    return spark.conf.get(name) if value is None and name.startswith("spark.") else value


def moved_to(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """Returns a DataFrame of a copy of the frame's session, which Spark runs with the settings of the copy."""
    if frame.sparkSession is spark:
        return frame
    if is_connect(spark):
        # A Connect session has plans, and no JVM.
        return type(frame)(frame._plan, spark)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    plan = frame._jdf.queryExecution().analyzed()
    moved = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return type(frame)(moved, spark)
