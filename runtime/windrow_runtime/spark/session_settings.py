"""Gives queries the settings of Spark that they need, without a change to the user's session."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from windrow_runtime.spark.session import JOB_SETTINGS, STATE_STORE, is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_DEFAULT_PARTITIONS: Final = 200

STATE: Final[dict[str, str]] = {
    **STATE_STORE,
    # Due timers fire in the batch behind the one that moved the watermark, which may have nothing to read.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
"""The settings that each query with state needs."""

QUERY: Final[dict[str, str]] = {**STATE, **JOB_SETTINGS}
"""The settings of each query that a runner starts itself."""

# Measured on batches of little data, two cores: 0.73 s a batch became 0.64 s by the first, and 0.58 s by both.
QUERY_SETTINGS: Final = {
    # A batch writes the changes of the state alone; snapshots are made beside it.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Checkpoints lie on a mounted file system. Hadoop's other way to rename a file there starts four processes for it,
    # some forty in a batch, and renames it no differently.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""The further settings of such a query, unless the session has other values for them."""

_lock: Final = threading.RLock()


@contextmanager
def settings_during(
    spark: SparkSession, settings: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Give a session other settings for a moment, such as while a query starts: the query keeps them.

    A query that started in a session of its own would be missing in the session's list of queries, and its listeners
    would not get its events. One thread at a time can change the session so.

    Args:
        spark: The session.
        settings: The settings.
        defaults: Settings for those that the session does not have.
    """
    with _lock:
        unset = {name: value for name, value in (defaults or {}).items() if _get(spark, name) is None}
        wanted = {**settings, **unset}
        before = {name: _get(spark, name) for name in wanted}
        changed = [name for name, value in wanted.items() if before[name] != value]
        try:
            for name in changed:
                spark.conf.set(name, wanted[name])
            yield
        finally:
            for name in changed:
                _put_back(spark, name, wanted[name], before[name])


def _put_back(spark: SparkSession, name: str, set_to: str, before: str | None) -> None:
    if _get(spark, name) != set_to:
        return  # the user has set it meanwhile
    if before is None:
        spark.conf.unset(name)
    else:
        spark.conf.set(name, before)


def own_partitions(spark: SparkSession) -> int:
    """Returns the number of shuffle partitions that the user gave a session."""
    with _lock:
        return int(_get(spark, SHUFFLE_PARTITIONS) or _DEFAULT_PARTITIONS)


def session_with(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Returns a session with certain settings: the given one if it has them, else a copy of it."""
    with _lock:
        # No default is passed, so an unset name has Spark's default.
        if all(spark.conf.get(name) == value for name, value in settings.items()):
            return spark
        copy = _copy(spark)
    for name, value in settings.items():
        copy.conf.set(name, value)
    return copy


def _copy(spark: SparkSession) -> SparkSession:
    """Makes a session with the settings, temporary views and functions of another."""
    # Any: the Connect session's own method, and the JVM's, which types do not know.
    if is_connect(spark):
        copied: SparkSession = spark.cloneSession()  # type: ignore[attr-defined]
        return copied
    return type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())


def moved_to(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """Moves a DataFrame to a copy of its session; Spark then runs it with the settings of the copy."""
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


def _get(spark: SparkSession, name: str) -> str | None:
    value: str | None = spark.conf.get(name, None)
    return value
