"""An exception from outside, such as Ctrl-C, ends what runs: the query first, then the sinks, and the locks at last."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.test_lifecycle import wait_for
from tests.support.thorough import thorough
from windrow import Pipeline, from_collection, from_source
from windrow.connectors import CustomSink, SinkContext
from windrow.errors import CheckpointError, UnsupportedOperationError
from windrow.sinks import FunctionSink, JsonFileSink
from windrow.sources import CollectionSource
from windrow_runtime.outputs.registry import claim_targets
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.lock import CheckpointLock
from windrow_spark.run_limits import RunLimits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.classic(reason="sinks tell this process what they see")


class TimeIsUpError(Exception):
    """What the handler of a user's signal raises."""


def is_locked(checkpoint: Path) -> bool:
    try:
        CheckpointLock(checkpoint).release()
    except CheckpointError:
        return True
    return False


class Witness(CustomSink[object]):
    """Notes what is still there when it is closed."""

    def __init__(self, spark: SparkSession, checkpoint: Path | None) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        self.seen: list[tuple[int, bool]] = []

    def open(self, context: SinkContext) -> None:
        pass

    def write(self, batch: int, rows: Sequence[object]) -> None:
        pass

    def close(self) -> None:
        locked = self._checkpoint is not None and is_locked(self._checkpoint)
        self.seen.append((self._at_work(), locked))

    def _at_work(self) -> int:
        """The queries, and the stages of jobs, that run."""
        tracker = self._spark.sparkContext.statusTracker()
        infos = map(tracker.getStageInfo, tracker.getActiveStageIds())
        tasks = sum(1 for info in infos if info is not None and info.numActiveTasks)
        return len(self._spark.streams.active) + tasks


def slow(folder: Path, witness: Witness) -> Pipeline:
    """Its workers wait in the first batch until there is a file ``go``."""

    def wait(number: int) -> int:
        (folder / "begun").touch()
        wait_for((folder / "go").exists)
        return number

    numbers = from_source(CollectionSource([1, 2, 3, 4], batch_size=2)).map(wait)
    lines = numbers.map(lambda number: {"number": number}).returns(dict[str, int])
    return Pipeline("slow", numbers.sink_to(witness), lines.sink_to(JsonFileSink(folder / "out", overwrite=True)))


@contextmanager
def interrupted(number: int, when: Callable[[], bool], *, times: int = 1) -> Iterator[None]:
    """Sends a signal to this process when a condition holds, and again while the first one takes its course.

    Behind the block no signal comes: it would break into the next test, or end the process.
    """
    is_over = threading.Event()

    def raise_it(number: int, frame: FrameType | None) -> None:
        raise TimeIsUpError

    def send() -> None:
        deadline = time.monotonic() + 60
        while not when():
            if is_over.wait(0.01) or time.monotonic() > deadline:
                return
        for _ in range(times):
            os.kill(os.getpid(), number)
            time.sleep(0.05)

    # For Ctrl-C PySpark has set a handler.
    before = signal.getsignal(number) if number == signal.SIGINT else signal.signal(number, raise_it)
    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        while thread.is_alive():
            with suppress(TimeIsUpError, KeyboardInterrupt):
                thread.join(0.1)
        signal.signal(number, before)


def is_called() -> bool:
    """Whether a call of this process waits for Spark: a signal that comes before is not the call's."""
    return any(thread.name == "windrow calls Spark" for thread in threading.enumerate())


@pytest.mark.parametrize(
    "call",
    [
        "run",
        "run_batch",
        thorough("stop", reason="run waits for the end of a batch likewise"),
        thorough("drain of a running one", reason="run drains likewise"),
    ],
)
def test_the_query_ends_then_sinks_close_then_the_lock_goes(spark: SparkSession, tmp_path: Path, call: str) -> None:
    checkpoint = None if call == "run_batch" else tmp_path / "checkpoint"
    witness = Witness(spark, checkpoint)
    pipeline = slow(tmp_path, witness)
    runner = SparkRunner(spark, checkpoint=checkpoint)
    running = runner.start(pipeline) if call in {"stop", "drain of a running one"} else None
    kind, error = (signal.SIGINT, KeyboardInterrupt) if call in {"run", "stop"} else (signal.SIGUSR1, TimeIsUpError)
    if running is not None:
        wait_for((tmp_path / "begun").exists)
    # A second signal comes while the first one is taking its course.
    when = (tmp_path / "begun").exists if running is None else is_called
    with pytest.raises(error), interrupted(kind, when, times=2):  # noqa: PT012
        if running is not None:
            running.stop() if call == "stop" else running.drain()
        elif call == "run_batch":
            runner.run_batch(pipeline)
        else:
            runner.run(pipeline)
    assert witness.seen == [(0, checkpoint is not None)]
    assert not spark.streams.active
    (tmp_path / "go").touch()
    # The folder and the checkpoint are free, and calls of Java get their own answers.
    assert spark.range(3).count() == 3
    if checkpoint is not None:
        assert not is_locked(checkpoint)
    if call == "run":
        SparkRunner(spark, checkpoint=checkpoint).run(slow(tmp_path, witness))
    else:
        claim_targets(pipeline.steps[-1:], "another", begins=True).close()
    if running is not None:
        assert not running.is_active
        with pytest.raises(UnsupportedOperationError, match="free for other runs"):
            running.drain()


IN_A_PROGRAM = pytest.mark.thorough(reason="the program below is interrupted in the same call")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("await_termination", marks=IN_A_PROGRAM),
        pytest.param("await_termination(60)", marks=IN_A_PROGRAM),
        pytest.param("process_available", marks=IN_A_PROGRAM),
        thorough("run_batch", reason="the test above interrupts a batch job, and the program goes on with a pipeline"),
    ],
)
def test_ctrl_c_interrupts_the_call_and_no_other_pipeline(spark: SparkSession, tmp_path: Path, call: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    witness = Witness(spark, tmp_path / "checkpoint")
    running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(slow(tmp_path, witness))
    wait_for((tmp_path / "begun").exists)
    calls: dict[str, Callable[[], object]] = {
        "await_termination": running.await_termination,
        "await_termination(60)": lambda: running.await_termination(60),
        "process_available": running.process_available,
        "run_batch": lambda: SparkRunner(spark).run_batch(slow(other, Witness(spark, None))),
    }
    handler = signal.getsignal(signal.SIGINT)
    when = (other / "begun").exists if call == "run_batch" else is_called
    with pytest.raises(KeyboardInterrupt), interrupted(signal.SIGINT, when):
        calls[call]()
    assert signal.getsignal(signal.SIGINT) is handler
    assert running.is_active
    (tmp_path / "go").touch()
    running.process_available()
    running.stop()
    assert witness.seen == [(0, True)]


def test_a_handler_of_the_users_and_other_threads_keep_what_they_have(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    running = SparkRunner(spark, checkpoint=checkpoint).start(slow(tmp_path, Witness(spark, checkpoint)))
    wait_for((tmp_path / "begun").exists)
    before = signal.getsignal(signal.SIGINT)
    waiting = threading.Thread(target=running.await_termination)
    waiting.start()
    wait_for(is_called)
    assert signal.getsignal(signal.SIGINT) is before
    # The handler asks for the end, as programs do that end at a signal.
    stopping = threading.Thread(target=running.stop, kwargs={"graceful": False})
    signal.signal(signal.SIGINT, lambda *_: stopping.start())
    try:
        with interrupted(signal.SIGINT, is_called):
            assert running.await_termination()
    finally:
        signal.signal(signal.SIGINT, before)
    stopping.join()
    waiting.join()
    assert not running.is_active


PROGRAM = """
import signal, threading, time
from pathlib import Path
from windrow import Pipeline, from_collection
from windrow.sinks import CollectSink
from windrow_runtime.spark import SparkRunner

def slow(number):
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return number

def tell():  # once the call has begun: PySpark's own handler cancels the batch
    while signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        time.sleep(0.01)
    print("waits", flush=True)

sink = CollectSink()
sums = from_collection([1, 2]).map(slow).returns(int).key_by(lambda number: 0).sum(lambda number: number)
running = SparkRunner(checkpoint="checkpoint", partitions=1).start(Pipeline("slow", sums.sink_to(sink)))
for call in (running.await_termination, lambda: running.await_termination(60), running.process_available):
    try:
        threading.Thread(target=tell).start()
        call()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
Path("go").touch()
running.process_available()
found = running.stop().collected(sink)
for name in ("go", "begun"):
    Path(name).unlink()
print(len(found), flush=True)
SparkRunner(partitions=1).run(Pipeline("ends", sums.sink_to(sink)))
"""


@pytest.mark.program
def test_a_program_goes_on_behind_ctrl_c_or_ends_with_the_line_that_was_interrupted(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(PROGRAM)
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "main.py"]
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **pipes) as program:
        assert program.stdout is not None
        for _ in range(3):
            assert program.stdout.readline() == "waits\n"
            wait_for((tmp_path / "begun").exists)
            os.killpg(program.pid, signal.SIGINT)  # as a terminal does
            assert program.stdout.readline() == "interrupted\n"
        assert program.stdout.readline() == "2\n"
        wait_for((tmp_path / "begun").exists)
        os.killpg(program.pid, signal.SIGINT)
        _, told = program.communicate(timeout=60)
    lines = [line for line in told.splitlines() if not line.startswith("WARNING: Using incubator modules")]
    assert lines[0] == "Traceback (most recent call last):", told
    assert lines[-1] == "KeyboardInterrupt", told
    assert told.count("Traceback") == 1, told
    assert "py4j" not in told
    assert "SparkRunner(partitions=1).run" in told


def test_a_start_that_is_interrupted_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "checkpoint"
    witness = Witness(spark, checkpoint)
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    start, begun = DataStreamWriter.start, threading.Event()

    def late(writer: DataStreamWriter) -> object:
        begun.set()
        time.sleep(0.5)
        return start(writer)

    monkeypatch.setattr(DataStreamWriter, "start", late)
    with pytest.raises(TimeIsUpError), interrupted(signal.SIGUSR1, begun.is_set):
        SparkRunner(spark, checkpoint=checkpoint).start(slow(tmp_path, witness))
    assert witness.seen == [(0, True)]
    assert not is_locked(checkpoint)


@pytest.mark.parametrize(
    "call",
    [
        "run",
        "to_dataframe",
        thorough("start", reason="run starts it likewise"),
        thorough("run_batch", reason="to_dataframe makes the same plan"),
    ],
)
def test_a_plan_whose_making_is_interrupted_leaves_nothing(spark: SparkSession, tmp_path: Path, call: str) -> None:
    """py4j makes an error of its own of what breaks into a call of Java."""
    checkpoint = None if call == "run_batch" else tmp_path / "checkpoint"
    runner = SparkRunner(spark, checkpoint=checkpoint)
    stream = from_collection([1, 2]).key_by(lambda number: number % 2).reduce(lambda a, b: a + b)
    pipeline = Pipeline("made", stream.sink_to(Witness(spark, checkpoint)))
    calls: dict[str, Callable[[], object]] = {
        "run": lambda: runner.run(pipeline),
        "start": lambda: runner.start(pipeline),
        "run_batch": lambda: runner.run_batch(pipeline),
        "to_dataframe": lambda: runner.to_dataframe(stream),
    }
    wait_for(lambda: not is_called())
    with pytest.raises(TimeIsUpError), interrupted(signal.SIGUSR1, is_called):
        calls[call]()
    assert not spark.streams.active
    assert spark.range(3).count() == 3
    assert not is_called()
    assert checkpoint is None or not is_locked(checkpoint)


class HastyRunner(SparkRunner):
    _limits = RunLimits(end_seconds=0.3)


def test_a_query_that_does_not_end_keeps_its_lock(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # sink    writes ----------------------------------- returns
    # run     SIGUSR1, waits 0.3 s, raises                         the sink closes, the lock goes
    checkpoint = tmp_path / "checkpoint"
    witness = Witness(spark, checkpoint)
    begun, go = threading.Event(), threading.Event()

    def write(batch: int, numbers: Sequence[int]) -> None:
        begun.set()
        assert go.wait(60)

    numbers = from_collection([1, 2])
    pipeline = Pipeline("blocked", numbers.sink_to(FunctionSink(write)), numbers.sink_to(witness))
    with pytest.raises(TimeIsUpError) as caught, interrupted(signal.SIGUSR1, begun.is_set):
        HastyRunner(spark, checkpoint=checkpoint).run(pipeline)
    assert "has not ended within" in caught.value.__notes__[0]
    assert "pipeline 'blocked'" in caplog.text
    assert is_locked(checkpoint)
    assert witness.seen == []
    go.set()
    wait_for(lambda: not is_locked(checkpoint))
    assert witness.seen == [(0, True)]
