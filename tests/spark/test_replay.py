"""A run on Spark is replayed by the interpreter from the notes in its checkpoint, batch by batch.

The pipeline deduplicates by the clock, and fires early panes by the clock, so what a batch gives depends on the moment.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.spark.streams import stamped
from tests.support.files import put
from windrow import DataStream, Pipeline, from_source
from windrow import aggregates as agg
from windrow.errors import CheckpointError, IncompatibleStateError, UnsupportedOperationError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.plan import Step
from windrow.sinks import CollectSink, CsvFileSink, FunctionSink, JsonFileSink, ParquetFileSink
from windrow.sources import CollectionSource, JsonFileSource, SocketSource
from windrow.state import StateTtlConfig, ValueStateDescriptor
from windrow.triggers import after_processing_time, after_watermark
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.topology import Topology
from windrow_runtime.replay import replay
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_plan import Parallelism, resume
from windrow_spark.physical.plan import PhysicalPlan
from windrow_tools.command.program import main

SECOND = timedelta(seconds=1)


class Event(NamedTuple):
    key: str
    at: int


class Once(KeyedProcessFunction[str, Event, Event]):
    seen = ValueStateDescriptor("seen", bool, ttl=StateTtlConfig(timedelta(minutes=10)))
    uses_processing_time = True

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterator[Event]:
        seen = context.get_state(self.seen)
        if not seen.value():
            seen.update(True)
            yield value


def write(folder: Path, number: int) -> None:
    put(folder, number, [*(Event(f"{n % 5}", number * 400 + n * 20) for n in range(20)), {"key": "bad"}])


def read(folder: Path) -> DataStream[Event]:
    return stamped(from_source(JsonFileSource(folder, Event, on_malformed="drop")))


class Counting:
    """Counts by columns, and deduplicated elements in panes by the clock."""

    def __init__(self, root: Path) -> None:
        events = read(root / "in")
        windows = events.key_by(lambda event: event.key).window(TumblingEventTimeWindows.of(SECOND))
        counts = windows.aggregate(agg.count())
        once = events.key_by(lambda event: f"{event.key} {event.at}").process(Once())
        panes = (
            once.key_by(lambda event: event.key)
            .window(TumblingEventTimeWindows.of(SECOND))
            .trigger(after_watermark(early=after_processing_time(timedelta(milliseconds=50))))
            .accumulating()
            .apply(lambda key, window, elements: [(key, window.start, len(list(elements)))])
            .returns(tuple[str, int, int])
        )
        self.panes = CollectSink[tuple[str, int, int]]()
        self.pipeline = Pipeline(
            "counting",
            counts.sink_to(CsvFileSink(root / "counts")),
            events.sink_to(JsonFileSink(root / "events", partition_by="key")),
            events.sink_to(ParquetFileSink(root / "parquet")),
            panes.sink_to(self.panes),
            once.sink_to(FunctionSink(print)),
        )


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Counting]:
    """A run by the machine's clock that was stopped in the middle, and drained at the end."""
    root = tmp_path_factory.mktemp("replayed")
    counting = Counting(root)
    write(root / "in", 0)
    running = SparkRunner(spark, checkpoint=root / "checkpoint", partitions=1).start(counting.pipeline)
    running.process_available()
    first = running.stop()
    write(root / "in", 1)
    running = SparkRunner(spark, checkpoint=root / "checkpoint", partitions=1).start(counting.pipeline)
    running.process_available()
    write(root / "in", 2)
    second = running.drain()
    replayed = replay(root / "checkpoint", counting.pipeline)
    assert replayed.differences == []
    assert replayed.compare([first, second], [counting.panes]) == []
    assert len(replayed.collected(counting.panes)) > 20
    assert replayed.counters["counting.1.source"]["records_malformed"] == 3
    return root, counting


@pytest.mark.parametrize("fast", [False, True])
def test_a_run_by_the_clock_is_equal(run: tuple[Path, Counting], fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    root, counting = run
    forms: list[bool] = []

    def noted(step: Step, *, fast: bool) -> KeyedOperator:
        forms.append(fast)
        return operator_for(step, fast=fast)

    monkeypatch.setattr("windrow_runtime.local.execution.operator_for", noted)
    replayed = replay(root / "checkpoint", counting.pipeline, fast=fast)
    assert set(forms) == {fast}
    assert replayed.differences == []
    assert len(replayed.compared) == 3
    assert len(replayed.left_out) == 2


@pytest.fixture
def changing(run: tuple[Path, Counting], tmp_path: Path) -> Iterator[tuple[Path, Counting]]:
    """The folders of the run, which are put back behind the test, and its pipeline."""
    shutil.copytree(run[0], tmp_path / "kept")
    yield run
    shutil.rmtree(run[0])
    shutil.copytree(tmp_path / "kept", run[0])


def test_what_was_changed_is_told(changing: tuple[Path, Counting]) -> None:
    root, counting = changing
    (file, *_) = (root / "events").rglob("batch-0-*.json")
    file.write_text(file.read_text() + '{"at":7}\n')
    (file, *_) = (root / "parquet").glob("batch-0-*.parquet")
    file.unlink()
    shutil.rmtree(root / "checkpoint" / "counters")
    differences = "\n".join(replay(root / "checkpoint", counting.pipeline).differences)
    assert "records_malformed: the run counted 0, the replay 3" in differences
    assert "batch 0, key=" in differences
    assert ": 1 of the run alone: '{\"at\":7}'" in differences
    assert "of the replay alone: " in differences
    assert ", ..." in differences


def test_by_the_command_line(
    changing: tuple[Path, Counting], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = changing
    monkeypatch.syspath_prepend(tmp_path)
    program = tmp_path / "replayed_program.py"
    program.write_text(
        "from pathlib import Path\nfrom tests.spark.test_replay import Counting\n"
        f"def pipeline():\n    return Counting(Path({str(root)!r})).pipeline\n"
    )
    checkpoint = str(root / "checkpoint")
    assert main(["replay", checkpoint, f"{program}:pipeline"]) == 0
    assert "all is equal" in capsys.readouterr().out
    for folder, wrong, expected in (
        (checkpoint, f"{program}:Counting", "needs arguments"),
        (checkpoint, str(program), "the file has no pipeline"),
        (str(tmp_path), f"{program}:pipeline", "there is no checkpoint of a pipeline"),
    ):
        assert main(["replay", folder, wrong]) == 2
        assert expected in capsys.readouterr().err
    (file, *_) = (root / "events").rglob("batch-0-*.json")
    file.write_text("")
    assert main(["replay", checkpoint, f"{program}:pipeline"]) == 1
    assert "of the replay alone" in capsys.readouterr().out


def test_a_checkpoint_that_notes_its_sinks_is_that_of_the_same_plan(tmp_path: Path) -> None:
    def plan(sink: str) -> Pipeline:
        return Pipeline("events", read(tmp_path / "in").sink_to(JsonFileSink(tmp_path / sink)))

    folder = tmp_path / "checkpoint"
    folder.mkdir()
    resume(Checkpoint(folder), PhysicalPlan(Topology(plan("out").steps)), "event time", Parallelism(None, None, 1))
    for sink in ("out", "elsewhere"):
        with pytest.raises(IncompatibleStateError, match="no batch that is done"):
            replay(folder, plan(sink))


def test_what_cannot_be_replayed(changing: tuple[Path, Counting], tmp_path: Path) -> None:
    root, counting = changing
    checkpoint = root / "checkpoint"
    with pytest.raises(IncompatibleStateError, match="no batch that is done"):
        replay(tmp_path / "nothing", counting.pipeline)
    lines = from_source(SocketSource("localhost", 1))
    with pytest.raises(UnsupportedOperationError, match="is not known any more"):
        replay(checkpoint, Pipeline("counting", lines.sink_to(CollectSink())))
    with pytest.raises(IncompatibleStateError, match="another plan"):
        replay(checkpoint, Pipeline("counting", read(root / "other").sink_to(CollectSink())))
    (checkpoint / "spark" / "offsets" / "1").write_text("v1\n{}\n")
    with pytest.raises(CheckpointError, match=r"damaged(.|\n)*offsets/1"):
        replay(checkpoint, counting.pipeline)
    (checkpoint / "spark" / "offsets" / "0").unlink()
    with pytest.raises(IncompatibleStateError, match="the notes of the first batches are deleted"):
        replay(checkpoint, counting.pipeline)


def test_collections_in_batches(spark: SparkSession, tmp_path: Path) -> None:
    def pipeline() -> tuple[Pipeline, CollectSink[int]]:
        sums = CollectSink[int]()
        numbers = stamped(from_source(CollectionSource(list(range(10)), int, batch_size=5)), at=lambda number: number)
        windows = numbers.window_all(TumblingEventTimeWindows.of(timedelta(milliseconds=4)))
        return Pipeline("sums", windows.reduce(lambda a, b: a + b).sink_to(sums)), sums

    first, sums = pipeline()
    result = SparkRunner(spark, checkpoint=tmp_path, partitions=1).run(first)
    again, others = pipeline()
    replayed = replay(tmp_path, again)
    assert replayed.collected(others) == result.collected(sums) == [6, 22, 17]
    assert replayed.differences == []
    assert replay(tmp_path, first).compare([result], [sums]) == []
