"""Which session a runner takes, the settings that its queries have, and the package that workers take."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyspark
import pytest

from tests.spark.comparison import millis
from tests.spark.streams import stamped, tumbling
from tests.spark.test_lifecycle import wait_for
from tests.spark_home import home_without_zip
from windrow import Pipeline, from_collection, from_dataframe, from_source
from windrow.errors import CheckpointError, InvalidArgumentError
from windrow.sinks import CollectSink, WriterSink
from windrow.sources import JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner
from windrow_spark.run import query
from windrow_spark.session import (
    FEW_ROWS_SETTINGS,
    MOUNTED_SETTINGS,
    QUERY_SETTINGS,
    SHUFFLE_PARTITIONS,
    check_temporary_state,
    local_session,
    settings_during,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@pytest.mark.classic(reason="a session of a server has no context")
def test_a_session_is_found_from_another_thread_and_left_as_it_is(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(local_session, 7).result()
    assert found.sparkContext is spark.sparkContext
    assert found.conf.get("spark.sql.shuffle.partitions") == "2"


def children_of(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.program
@pytest.mark.classic(reason="starts a session of its own")
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_ctrl_c_while_java_starts_leaves_no_process() -> None:
    """PySpark waits for a file with Java's port; Java, which finds its folder gone, would wait for a call for ever."""
    program = "from windrow_runtime.spark import SparkRunner; print('begins', flush=True); SparkRunner().spark"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"begins\n"
        wait_for(lambda: any(b"SparkSubmit" in command_of(child) for child in children_of(running.pid)))
        (java,) = children_of(running.pid)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)  # Java, too, has its ends of the pipes
    assert running.returncode == -signal.SIGINT
    wait_for(lambda: not Path(f"/proc/{java}").exists())


def command_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""  # it has ended


def test_it_links_to_what_starts_spark() -> None:
    home = home_without_zip()
    assert home is not None
    assert sorted(entry.name for entry in Path(home).iterdir()) == ["bin", "jars", "sbin"]
    assert Path(home, "bin", "spark-submit").samefile(Path(pyspark.__path__[0], "bin", "spark-submit"))


@pytest.mark.classic(reason="asks Spark's workers, and those of a server have an environment of their own")
def test_workers_take_the_installed_package(spark: SparkSession) -> None:
    from pyspark.sql import functions

    # A lambda, since Spark takes a function with annotations for one of pandas, and warns.
    origin = functions.udf(lambda _: import_module("pyspark").__path__[0], "string")
    (row,) = spark.range(1).select(origin("id")).collect()
    assert os.path.samefile(row[0], pyspark.__path__[0])


@pytest.mark.classic(reason="asks the session's Java")
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not tell what a process maps")
def test_java_maps_the_archive_of_classes(spark: SparkSession) -> None:
    options = os.environ["SPARK_SUBMIT_OPTS"]
    if "SharedArchiveFile" not in options:
        pytest.skip("no archive was made: `make classes` does")
    (archive,) = re.findall(r"SharedArchiveFile=(\S+)", options)
    assert spark._jvm is not None
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    assert archive in Path(f"/proc/{java}/maps").read_text()


CHANGES = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def state_files_of(spark: SparkSession, folder: Path) -> list[str]:
    """Runs a query; gives the kinds of files that its state has."""
    keyed = stamped(from_collection([1, 2, 30]), at=lambda number: number).key_by(lambda number: number % 2)
    windows = keyed.window(TumblingEventTimeWindows.of(millis(10)))
    pipeline = Pipeline("settings", windows.reduce(lambda a, b: a + b).sink_to(CollectSink[int]()))
    SparkRunner(spark, checkpoint=folder, partitions=3).run(pipeline, drain=False)
    return sorted({file.suffix for file in folder.glob("spark/state/0/*/*") if file.is_file()})


def test_a_batch_writes_what_changed_and_the_session_stays_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    before = {name: spark.conf.get(name, None) for name in (*QUERY_SETTINGS, *MOUNTED_SETTINGS, SHUFFLE_PARTITIONS)}
    assert ".changelog" in state_files_of(spark, tmp_path)
    assert {name: spark.conf.get(name, None) for name in before} == before
    assert before[CHANGES] is None


class Reading(NamedTuple):
    key: str
    at: datetime


# What a user may have, and windrow's queries must not.
OWN = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "77",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


@pytest.fixture
def own_settings(spark: SparkSession) -> Iterator[dict[str, str]]:
    before = {name: spark.conf.get(name, None) for name in OWN}
    for name, value in OWN.items():
        spark.conf.set(name, value)
    spark.conf.unset(CHANGES)
    yield dict(spark.conf.getAll)
    for name, earlier in before.items():
        if earlier is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, earlier)


def test_every_way_to_run_leaves_the_session_as_it_was(
    spark: SparkSession, tmp_path: Path, own_settings: dict[str, str]
) -> None:
    at = datetime(2024, 3, 10, 7, 30, tzinfo=UTC)  # an hour that New York's clocks have not
    # Spark's own clock stands still unless a batch without rows follows: the window of 7:30 is due behind 8:30.
    rows = [("a", at), ("a", at + timedelta(minutes=1)), ("b", at + timedelta(hours=1))]
    frame = spark.createDataFrame(rows, "key string, at timestamp")
    latest = tumbling(from_dataframe(frame, Reading), 600_000).reduce(lambda a, b: b)
    sink = CollectSink[Reading]()
    pipeline = Pipeline("own", latest.sink_to(sink))
    due, everything = [Reading(*rows[1])], [Reading(*rows[1]), Reading(*rows[2])]

    result = SparkRunner(spark, checkpoint=tmp_path / "run", partitions=3).run(pipeline, drain=False)
    assert result.collected(sink) == due
    assert len(list((tmp_path / "run/spark/state/0").glob("[0-9]*"))) == 3
    assert dict(spark.conf.getAll) == own_settings

    running = SparkRunner(spark, checkpoint=tmp_path / "start", partitions=3).start(pipeline)
    assert dict(spark.conf.getAll) == own_settings
    assert running.streaming_query.id in {query.id for query in spark.streams.active}
    running.stop()

    assert sorted(SparkRunner(spark, partitions=3).run_batch(pipeline).collected(sink)) == everything
    static = SparkRunner(spark, partitions=4).to_dataframe(latest, batch=True)
    assert sorted(Reading(row["key"], row["at"].astimezone(UTC)) for row in static.collect()) == everything
    assert dict(spark.conf.getAll) == own_settings

    folder = str(tmp_path / "frame")
    stream = SparkRunner(spark, checkpoint=folder, partitions=4).to_dataframe(latest)
    assert dict(spark.conf.getAll) == own_settings
    writer = stream.writeStream.format("parquet").option("checkpointLocation", folder)
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    found = [row["at"].astimezone(UTC) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert found == [rows[1][1]]
    assert len(list((tmp_path / "frame/state/0").glob("[0-9]*"))) == 4
    # The query was the user's, and Spark's part of its checkpoint is lost.
    (tmp_path / "frame/offsets/0").unlink()
    with pytest.raises(CheckpointError, match="the checkpoint is damaged"):
        SparkRunner(spark, checkpoint=folder).to_dataframe(latest)


class Number(NamedTuple):
    number: int


def written(frame: DataFrame) -> DataStreamWriter:
    return frame.writeStream.format("noop")


@pytest.mark.parametrize("case", ["workers read and write", "Spark reads", "Spark writes"])
def test_spark_makes_no_code_where_it_handles_no_record(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    given: list[dict[str, str]] = []

    def noted(
        session: SparkSession, settings: Mapping[str, str], defaults: Mapping[str, str]
    ) -> AbstractContextManager[None]:
        given.append(dict(defaults))
        return settings_during(session, settings, defaults)

    monkeypatch.setattr(query, "settings_during", noted)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "numbers.json").write_text('{"number": 1}\n')
    files = from_source(JsonFileSource(tmp_path / "in", Number))
    numbers = from_dataframe(spark.createDataFrame([(1,)], "number long"), Number) if case == "Spark reads" else files
    sink = WriterSink[Number](written) if case == "Spark writes" else CollectSink[Number]()
    SparkRunner(spark, checkpoint=tmp_path / "run").run(Pipeline("code", numbers.sink_to(sink)))
    assert [FEW_ROWS_SETTINGS.items() <= defaults.items() for defaults in given] == [case == "workers read and write"]
    assert [spark.conf.get(name, None) for name in FEW_ROWS_SETTINGS] == [None, None]


def test_threads_change_a_session_one_after_the_other(spark: SparkSession) -> None:
    #  first   sets 3 ---------------- puts 2 back
    #  second          waits                        sets 5 - puts 2 back
    inside, seen = threading.Event(), []

    def second() -> None:
        inside.wait(60)
        with settings_during(spark, {SHUFFLE_PARTITIONS: "5"}):
            seen.append(spark.conf.get(SHUFFLE_PARTITIONS))

    with ThreadPoolExecutor(1) as thread:
        with settings_during(spark, {SHUFFLE_PARTITIONS: "3"}):
            other = thread.submit(second)
            inside.set()
            assert wait([other], timeout=0.2).not_done
            assert spark.conf.get(SHUFFLE_PARTITIONS) == "3"
        other.result(60)
    assert (seen, spark.conf.get(SHUFFLE_PARTITIONS)) == (["5"], "2")


def test_what_the_user_sets_meanwhile_stays(spark: SparkSession) -> None:
    with settings_during(spark, {SHUFFLE_PARTITIONS: "3"}):
        spark.conf.set(SHUFFLE_PARTITIONS, "4")
    assert spark.conf.get(SHUFFLE_PARTITIONS) == "4"
    spark.conf.set(SHUFFLE_PARTITIONS, "2")


def test_what_the_session_says_counts(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: spark.conf.unset(CHANGES))
    spark.conf.set(CHANGES, "false")
    assert ".changelog" not in state_files_of(spark, tmp_path)
    assert spark.conf.get(CHANGES) == "false"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_state_on_several_machines_needs_a_checkpoint(master: str) -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    with pytest.raises(InvalidArgumentError, match="need a checkpoint that all of them see") as caught:
        check_temporary_state(session)
    assert caught.value.given == f"no checkpoint, on the master {master}"
    for local in ("local[4]", "local-cluster[2,1,1024]"):
        session.sparkContext.master = local
        check_temporary_state(session)
    check_temporary_state(SimpleNamespace())  # type: ignore[arg-type]  # Spark Connect's has no context
