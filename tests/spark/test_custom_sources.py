"""A source of the user's own on Spark, through Spark's Python data sources."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.custom_sources import MALFORMED, Entry, Logs, counting
from tests.support.thorough import thorough
from windrow import Pipeline, from_source
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, UserFunctionError
from windrow.sinks import CollectSink
from windrow.sources import MalformedRecord
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_stream_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    logs, checkpoint = tmp_path / "logs", tmp_path / "checkpoint"
    logs.mkdir()
    (logs / "a.log").write_text("1\n2\n12\n")
    pipeline, counts = counting(Logs(logs, bounded=False, lines_per_batch=2))
    with pytest.raises(UnsupportedOperationError, match="a stream without an end cannot be drained"):
        SparkRunner(spark).run(pipeline)
    first = SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(pipeline, drain=False)
    assert first.collected(counts) == [("a", 2)]
    assert (logs / "a.committed").exists()

    # Another line, and another partition, whose only line fails the next run.
    (logs / "a.log").write_text("1\n2\n12\n13\n31\n")
    (logs / "b.log").write_text("14\n")
    failing, _ = counting(Logs(logs, bounded=False, lines_per_batch=2, fails_at="14"))
    told = (
        r"a method of the source raised ConnectionError: the log of 14 is away\n"
        r" +given: +read\('b', 0, 1\)\n +where: +counting\.1\.logs, \S*custom_sources.py:\d+(.|\n)*hint: "
    )
    with pytest.raises(UserFunctionError, match=told):
        SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(failing, drain=False)
    ending, counts = counting(Logs(logs))
    rest = SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(ending).collected(counts)
    assert sorted(rest) == [("a", 1), ("a", 2), ("b", 1)]


def test_malformed_records_and_a_batch_job(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("1\nx\n")
    (tmp_path / "b.log").write_text("2\n")
    stream = from_source(Logs(tmp_path, malformed=MALFORMED, lines_per_batch=1), name="logs")
    entries, malformed = CollectSink[Entry](), CollectSink[MalformedRecord]()
    pipeline = Pipeline("logs", stream.sink_to(entries), stream.get_side_output(MALFORMED).sink_to(malformed))
    for result in (
        LocalRunner().run(pipeline),
        SparkRunner(spark).run(pipeline),
        SparkRunner(spark).run_batch(pipeline),
    ):
        assert sorted(result.collected(entries), key=repr) == [Entry("a", 1), Entry("b", 2)]
        assert result.collected(malformed) == [MalformedRecord("x", "is no number", "a:2")]
        assert result.counters["logs.1.logs"]["records_malformed"] == 1


def test_an_empty_source(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, counts = counting(Logs(tmp_path))
    assert SparkRunner(spark).run_batch(pipeline).collected(counts) == []


class Stopping(Logs):
    """Stands still behind its first lines, short of its end."""

    def next_offset(self, partition: str, start: int, latest: int) -> int:
        return self.lines_per_batch


@pytest.mark.parametrize("first", [thorough(0, reason="the other one stands still later"), 2])
def test_a_source_that_stands_still_is_not_at_its_end(spark: SparkSession, tmp_path: Path, first: int) -> None:
    (tmp_path / "a.log").write_text("1\n2\n3\n")
    stream = from_source(Stopping(tmp_path, lines_per_batch=first), name="logs")
    pipeline = Pipeline("logs", stream.sink_to(CollectSink[Entry]()))
    message = rf"moves on towards its latest offset\n +given: +{first} from next_offset\('a'\)(.|\n)*where: +logs\.1"
    for run in (LocalRunner().run, SparkRunner(spark).run_batch if first else SparkRunner(spark).run):
        with pytest.raises(InvalidArgumentError, match=message):
            run(pipeline)


class Holding(Logs):
    """Holds what cannot be sent."""

    lock: Any = None  # a lock has no public type

    def latest_offset(self, partition: str) -> int:
        raise OSError("the service is away")


def test_what_fails_before_the_first_batch(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("1\n")
    source = Holding(tmp_path)
    pipeline, _ = counting(source)
    told = r"OSError: the service is away\n +given: +latest_offset\('a'\)\n +where: +counting\.1\.logs, "
    with pytest.raises(UserFunctionError, match=told):
        SparkRunner(spark).run(pipeline)
    object.__setattr__(source, "lock", threading.Lock())
    told = r"the source cannot be sent to Spark's workers\n +given: +`self.lock`, a _thread.lock(.|\n)*in read\(\)"
    with pytest.raises(UnsupportedOperationError, match=told):
        SparkRunner(spark).run(pipeline)
