"""A sink of the user's own on Spark: on the driver and on the workers, each batch exactly once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.custom_sinks import Ledger, numbers_of
from tests.support.thorough import thorough
from windrow import Pipeline, from_collection
from windrow.errors import UnsupportedOperationError, UserFunctionError
from windrow.sinks import CollectSink
from windrow_runtime.spark import SparkRunner
from windrow_spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = list(range(30))


def pipeline_of(sink: Ledger, *, keyed: bool) -> Pipeline:
    """The numbers; behind a keyed step the last keyed level writes sinks of workers, else a stage of their own."""
    numbers = from_collection(NUMBERS)
    out = numbers.key_by(lambda number: number % 7).reduce(lambda _, number: number) if keyed else numbers
    return Pipeline("ledger", out.sink_to(sink))


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize(
    "keyed", [thorough(False, reason="test_arrow_ends.py goes on in sinks of workers without keys"), True]
)
def test_a_batch_that_failed_is_written_again_under_its_number(
    spark: SparkSession, tmp_path: Path, out: Path, *, keyed: bool
) -> None:
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    told = r"raised ConnectionError: no close\n +given: +close\(\) of Ledger\n +where: +ledger\.\d\.sink, "
    with pytest.raises(UserFunctionError, match=told):
        runner.run(pipeline_of(Ledger(out, workers=True, fails_in="close"), keyed=keyed))
    runner.run(pipeline_of(Ledger(out, workers=True), keyed=keyed))
    assert numbers_of(out) == NUMBERS
    assert {file.name.split("-")[0] for file in out.glob("*.jsonl")} == {"0"}
    assert all(file.name != "0-None.jsonl" for file in out.glob("*.jsonl"))
    assert calls(out).count("open") == calls(out).count("close")


@pytest.mark.parametrize("keyed", [False, True])
def test_a_task_that_fails_closes_its_sink(spark: SparkSession, tmp_path: Path, *, keyed: bool) -> None:
    with pytest.raises(UserFunctionError, match="raised ConnectionError: no write 0"):
        SparkRunner(spark).run_batch(pipeline_of(Ledger(tmp_path, workers=True, fails_in="write"), keyed=keyed))
    assert calls(tmp_path).count("close") >= 1


def test_a_sink_on_the_driver(spark: SparkSession, tmp_path: Path, out: Path) -> None:
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    told = r"raised ConnectionError: no write 0\n +given: +batch 0 of 30 elements, beginning with \d+\n +where: "
    with pytest.raises(UserFunctionError, match=told):
        runner.run(pipeline_of(Ledger(out, fails_in="write"), keyed=False))
    assert calls(out) == ["open", "write 0", "close"]
    runner.run(pipeline_of(Ledger(out), keyed=False))
    assert numbers_of(out) == NUMBERS
    # Over Spark Connect the sink is closed when Spark ends the server's process, which it does behind the run.
    assert calls(out)[3:] == ["open", "write 0", *([] if is_connect(spark) else ["close"])]


def test_a_batch_job(spark: SparkSession, tmp_path: Path) -> None:
    collected = CollectSink[int]()
    numbers = from_collection(NUMBERS)
    ends = []
    for name in ("driver", "workers"):
        (tmp_path / name).mkdir()
        ends.append(numbers.sink_to(Ledger(tmp_path / name, workers=name == "workers")))
    result = SparkRunner(spark).run_batch(Pipeline("ledger", numbers.sink_to(collected), *ends))
    assert sorted(result.collected(collected)) == NUMBERS
    for name in ("driver", "workers"):
        assert numbers_of(tmp_path / name) == NUMBERS
        assert calls(tmp_path / name)[-1] == "close"


class Holding(Ledger):
    """Holds what cannot be sent."""

    lock: Any = None  # a lock has no public type


def test_a_sink_that_cannot_be_sent(spark: SparkSession, tmp_path: Path) -> None:
    sink = Holding(tmp_path, workers=True)
    sink.lock = threading.Lock()
    told = r"the sink cannot be sent to Spark's workers\n +given: +`self.lock`, a _thread.lock(.|\n)*in open\(\)"
    with pytest.raises(UnsupportedOperationError, match=told):
        SparkRunner(spark).run(pipeline_of(sink, keyed=False))
    assert not (tmp_path / "calls").exists()


@pytest.mark.classic(reason="Spark ends the process of the server that closes the sink behind the run")
def test_a_stream_that_is_stopped_closes_its_sinks(spark: SparkSession, tmp_path: Path) -> None:
    running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(pipeline_of(Ledger(tmp_path), keyed=False))
    running.process_available()
    assert calls(tmp_path) == ["open", "write 0"]
    running.stop()
    assert calls(tmp_path) == ["open", "write 0", "close"]
