"""Short ways on Spark: collect(), print(), and blocks at whose end a running pipeline is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from tests.spark.test_lifecycle import wait_for
from tests.support.thorough import thorough
from windrow import Pipeline, from_collection, from_source
from windrow.errors import UserFunctionError
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import CollectionSource
from windrow_runtime.spark import RunningPipeline, SparkRunner
from windrow_spark.run.gate import BatchGate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = from_collection([3, 1, 2])


def test_a_stream_is_collected_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    sums = NUMBERS.key_by(lambda number: 0).sum(lambda number: number)
    found = sums.collect(SparkRunner(spark, partitions=1))
    assert_type(found, list[tuple[int, int]])
    assert found == sums.collect() == [(0, 3), (0, 4), (0, 6)]


@pytest.mark.classic(reason="over Spark Connect the server prints")
def test_elements_are_printed_by_the_driver(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    SparkRunner(spark).run(Pipeline("p", NUMBERS.print("number: ")))
    assert [line for line in capfd.readouterr().out.splitlines() if line.startswith("number")] == [
        *("number: 3", "number: 1", "number: 2")
    ]


def counted(write: Any = None) -> tuple[Pipeline, CollectSink[int]]:
    """Three batches of two numbers each."""
    numbers = from_source(CollectionSource([1, 2, 3, 4, 5, 6], batch_size=2)).map(lambda number: number)
    sink = CollectSink[int]()
    ends = [numbers.sink_to(sink)] if write is None else [numbers.sink_to(sink), numbers.sink_to(FunctionSink(write))]
    return Pipeline("counted", *ends), sink


def test_the_end_of_a_block_stops_the_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, sink = counted()
    with SparkRunner(spark, checkpoint=tmp_path).start(pipeline) as running:
        assert_type(running, RunningPipeline)
        running.process_available()
        assert running.is_active
    assert not running.is_active
    assert running.stop().collected(sink) == [1, 2, 3, 4, 5, 6]
    # The checkpoint is free, and at its place.
    assert SparkRunner(spark, checkpoint=tmp_path).run(pipeline).collected(sink) == []


@pytest.mark.parametrize("call", [thorough("stop", reason="the block before stops it, too"), "drain"])
def test_a_block_may_end_the_pipeline_by_itself(spark: SparkSession, tmp_path: Path, call: str) -> None:
    pipeline, sink = counted()
    with SparkRunner(spark, checkpoint=tmp_path).start(pipeline) as running:
        running.process_available()
        result = getattr(running, call)()
        assert not running.is_active
    assert result.collected(sink) == [1, 2, 3, 4, 5, 6]


class LeftError(Exception):
    """What a block raises."""


def leave(running: RunningPipeline, begun: Callable[[], object], error: BaseException) -> None:
    """Leaves the block of a pipeline by an exception, once a batch is under way."""
    with running:
        begun()
        raise error


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Is set when a stop lets no further batch begin."""
    event, close = threading.Event(), BatchGate.close

    def closing(gate: BatchGate, planned: Callable[[], int]) -> int:
        last = close(gate, planned)
        event.set()
        return last

    monkeypatch.setattr(BatchGate, "close", closing)
    return event


@pytest.mark.classic(reason="sinks tell this process what they see")
def test_an_exception_stops_the_pipeline_behind_its_batch(
    spark: SparkSession, tmp_path: Path, closed: threading.Event
) -> None:
    begun, written = threading.Event(), list[int]()

    def write(batch: int, numbers: Sequence[int]) -> None:
        begun.set()
        assert closed.wait(60)
        written.append(batch)

    running, error = SparkRunner(spark, checkpoint=tmp_path).start(counted(write)[0]), LeftError("left")
    with pytest.raises(LeftError) as caught:
        leave(running, lambda: begun.wait(60), error)
    assert caught.value is error
    assert not hasattr(error, "__notes__")
    assert (running.is_active, written) == (False, [0])
    rest = list[int]()
    SparkRunner(spark, checkpoint=tmp_path).run(counted(lambda batch, _: rest.append(batch))[0])
    assert rest == [1, 2]


def leave_by_ctrl_c(running: RunningPipeline, is_begun: Callable[[], bool]) -> None:
    with pytest.raises(KeyboardInterrupt):
        leave(running, lambda: wait_for(is_begun), KeyboardInterrupt())


def force_stop(running: RunningPipeline, is_begun: Callable[[], bool]) -> None:
    wait_for(is_begun)
    running.stop(graceful=False)


@pytest.mark.classic(reason="sinks tell this process what they see")
@pytest.mark.parametrize("end", [leave_by_ctrl_c, thorough(force_stop, reason="Ctrl-C stops by force, too")])
def test_ctrl_c_and_a_forced_stop_break_the_batch_off(spark: SparkSession, tmp_path: Path, end: Any) -> None:
    begun, go, written = tmp_path / "begun", tmp_path / "go", list[int]()

    def slow(number: int) -> int:
        begun.touch()
        wait_for(go.exists)
        return number

    numbers = from_collection([1, 2]).map(slow)
    pipeline = Pipeline("slow", numbers.sink_to(FunctionSink(lambda batch, _: written.append(batch))))
    running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(pipeline)
    end(running, begun.exists)
    assert (running.is_active, written) == (False, [])
    go.touch()
    SparkRunner(spark, checkpoint=tmp_path / "checkpoint").run(pipeline)
    assert written == [0]


@pytest.mark.classic(reason="sinks tell this process what they see")
def test_a_failure_of_the_pipeline_is_raised_at_the_end_of_a_block(spark: SparkSession, tmp_path: Path) -> None:
    failed = threading.Event()

    def fail(batch: int, numbers: Sequence[int]) -> None:
        failed.set()
        raise LookupError("no such table")

    pipeline, _ = counted(fail)
    with pytest.raises(UserFunctionError, match="LookupError: no such table"):  # noqa: SIM117
        with SparkRunner(spark, checkpoint=tmp_path / "a").start(pipeline):
            assert failed.wait(60)
    # An error that the block itself gets of the pipeline goes on as it is, once.
    with pytest.raises(UserFunctionError, match="LookupError: no such table") as caught:  # noqa: SIM117
        with SparkRunner(spark, checkpoint=tmp_path / "b").start(pipeline) as running:
            running.process_available()
    assert not hasattr(caught.value, "__notes__")
    assert not running.is_active


@pytest.mark.classic(reason="sinks tell this process what they see")
@pytest.mark.parametrize("when", [thorough("before", reason="it fails while the block is left, too"), "while"])
def test_a_failure_before_or_while_a_block_is_left_is_a_note(
    spark: SparkSession, tmp_path: Path, closed: threading.Event, when: str
) -> None:
    begun = threading.Event()

    def fail(batch: int, numbers: Sequence[int]) -> None:
        begun.set()
        assert when == "before" or closed.wait(60)
        raise LookupError("no such table")

    running = SparkRunner(spark, checkpoint=tmp_path).start(counted(fail)[0])

    def until_it_failed() -> None:
        with pytest.raises(UserFunctionError):
            running.await_termination(60)

    with pytest.raises(LeftError) as caught:
        leave(running, until_it_failed if when == "before" else lambda: begun.wait(60), LeftError("left"))
    (note,) = caught.value.__notes__
    assert note.startswith("the pipeline has failed too: ")
    assert "LookupError: no such table" in note
