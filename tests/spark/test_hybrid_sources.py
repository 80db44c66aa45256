"""Sources that are read one after the other as one stream, on Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest

from tests.budget import for_a_night
from tests.kafka.topics import Topics, in_json
from tests.local.test_hybrid_sources import (
    Columns,
    Counted,
    Numbered,
    Reading,
    Sensors,
    batches,
    history,
    reading,
    write_files,
)
from tests.spark.timed import timed
from windrow import DataStream, OutputTag, Pipeline, from_source
from windrow import aggregates as agg
from windrow.connectors import HybridSource, SourceSwitch
from windrow.errors import CheckpointError, IncompatibleStateError, InvalidArgumentError, UserFunctionError
from windrow.kafka import KafkaSource
from windrow.sinks import CollectSink, FunctionSink, ParquetFileSink
from windrow.sources import (
    ArrowSource,
    CollectionSource,
    CsvFileSource,
    JsonFileSource,
    MalformedRecord,
    ParquetFileSource,
)
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: sources of every type.

MALFORMED = OutputTag("malformed", MalformedRecord)


def counted(source: HybridSource[Reading], name: str = "in") -> DataStream[Counted]:
    keyed = timed(from_source(source, name=name)).key_by(lambda each: each.sensor)
    windows = keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    return windows.aggregate(agg.into(Counted, agg.window_end(), agg.count()))


def counting(source: HybridSource[Reading]) -> tuple[Pipeline, CollectSink[Counted]]:
    counts = CollectSink[Counted]()
    return Pipeline("p", counted(source).sink_to(counts)), counts


def columnar(folder: Path) -> HybridSource[Reading]:
    """Parts that all give columns: 33 readings."""
    write_files(folder / "json", 2, 9)
    (folder / "csv").mkdir()
    (folder / "csv" / "a.csv").write_text("sensor,at\n" + "".join(f"s{n % 2},{n}000\n" for n in range(9, 15)))
    stream = from_source(CollectionSource(map(reading, range(15, 21))))
    LocalRunner().run(Pipeline("write", stream.sink_to(ParquetFileSink(folder / "parquet"))))
    rows = pa.Table.from_pylist([reading(number)._asdict() for number in range(21, 26)])
    return (
        HybridSource(history(folder / "json", files_per_batch=1))
        .then(CsvFileSource(folder / "csv", Reading))
        .then(ParquetFileSource(folder / "parquet", Reading))
        .then(ArrowSource(rows, Reading, batch_size=3))
        .then(Columns(26, 33, bounded=True))
    )


def with_objects(folder: Path) -> HybridSource[Reading]:
    write_files(folder / "json", 2, 9)
    return (
        HybridSource(CollectionSource([reading(0), reading(0)]))
        .then(history(folder / "json", files_per_batch=1))
        .then(lambda switch: Numbered(9, 9 + 2 * switch.offsets["all"], bounded=True))
        .then(JsonFileSource(folder / "json" / "*.none", Reading))
        .then(Numbered(13, 19, bounded=True))
    )


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, HybridSource[Reading]]:
    for name in ("columns", "objects"):
        (tmp_path / name).mkdir()
    return {"columns": columnar(tmp_path / "columns"), "objects": with_objects(tmp_path / "objects")}


@pytest.mark.filterwarnings("ignore:a part of a hybrid source has no files")
def test_a_batch_job_reads_all_parts(spark: SparkSession, sources: dict[str, HybridSource[Reading]]) -> None:
    sinks = {name: CollectSink[Counted]() for name in sources}
    ends = [counted(source, name).sink_to(sinks[name]) for name, source in sources.items()]
    pipeline, runner = Pipeline("p", *ends), SparkRunner(spark)
    expected = LocalRunner().run(pipeline)
    assert pipeline.explain(runner).count("runs as columns") == 1
    job = runner.run_batch(pipeline)
    for name, sink in sinks.items():
        wanted = sorted(expected.collected(sink))
        assert sum(each.elements for each in wanted) == {"columns": 33, "objects": 19 + 2}[name]
        assert sorted(job.collected(sink)) == wanted
    assert job.counter("late_records_dropped") == expected.counter("late_records_dropped") == 0


def test_partitions_of_the_history_do_not_hold_the_watermark_afterwards(spark: SparkSession) -> None:
    """The second sensor of the history ends at two seconds."""
    before, after = Sensors(((0, 14), (0, 3)), bounded=True), Sensors(((14, 21), (14, 21)))
    pipeline, counts = counting(HybridSource(before).then(after))
    result = SparkRunner(spark).run(pipeline, drain=False)
    assert sorted(result.collected(counts)) == [(10_000, 3), (10_000, 10), (20_000, 6), (20_000, 10)]
    assert result.counter("late_records_dropped") == 0


@pytest.mark.filterwarnings("ignore:a part of a hybrid source has no files")
def test_batches_are_those_of_the_interpreter(spark: SparkSession, sources: dict[str, HybridSource[Reading]]) -> None:
    for source in sources.values():
        assert batches(source, SparkRunner(spark)) == batches(source)


def test_a_history_is_what_was_there_when_the_stream_began(spark: SparkSession, tmp_path: Path) -> None:
    """Runs go on within the history, at its end and behind it; files that come later are not read."""
    write_files(tmp_path / "in", 2, 9)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")

    def run(end: int, *, files_per_batch: int = 1) -> list[int]:
        taken = CollectSink[Reading]()
        source = HybridSource(history(tmp_path / "in", files_per_batch=files_per_batch)).then(Live(tmp_path, 9, end))
        pipeline = Pipeline("p", from_source(source, name="in").sink_to(taken))
        return [each.at // 1_000 for each in runner.run(pipeline, drain=False).collected(taken)]

    (tmp_path / "stop").touch()
    with pytest.raises(UserFunctionError, match=r"given: +latest_offset\('all'\)"):
        run(9)
    (tmp_path / "stop").unlink()
    write_files(tmp_path / "in", 2, 9, 40)
    assert run(9, files_per_batch=7) == []
    assert run(12) == [9, 10, 11]
    assert run(13) == [12]
    changed = HybridSource(history(tmp_path / "in")).then(lambda switch: Live(tmp_path, 9, 13))
    kinds = "HybridSource of JsonFileSource and Live and are HybridSource of JsonFileSource and a function"
    with pytest.raises(IncompatibleStateError, match=f"the sources were {kinds}"):
        runner.run(Pipeline("p", from_source(changed, name="in").sink_to(CollectSink[Reading]())), drain=False)
    (tmp_path / "checkpoint" / "sources" / "1.0" / "files-of-batches").unlink()
    with pytest.raises(CheckpointError, match="it is gone, and batches have run"):
        run(13)


class Live(Numbered):
    """A source whose service is away while there is a file."""

    def __init__(self, folder: Path, first: int, end: int) -> None:
        super().__init__(first, end)
        object.__setattr__(self, "folder", folder)

    def latest_offset(self, partition: str) -> int:
        if (self.folder / "stop").exists():  # type: ignore[attr-defined]  # set above
            raise ConnectionError("away")
        return self.end


def live(topics: Topics, topic: str, **options: Any) -> KafkaSource[Reading]:
    return KafkaSource(topics.servers, topic, Reading, **{"starting_offsets": "earliest", **options})


def test_records_of_a_topic_that_come_while_history_and_topic_are_read(
    spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    topics = Topics(kafka, f"hybrid-{uuid4().hex[:8]}")
    topic = topics.make("in")
    write_files(tmp_path / "in", 4, 17)

    def send(begin: int, end: int) -> None:
        topics.send(topic, in_json(reading(number)._asdict() for number in range(begin, end)))

    send(17, 25)
    source = HybridSource(history(tmp_path / "in", files_per_batch=1)).then(live(topics, topic))
    pipeline, counts = counting(source)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    assert "runs as columns" in pipeline.explain(runner)
    running = runner.start(pipeline)
    send(25, 38)
    running.process_available()
    send(38, 61)
    result = running.drain()
    assert result.counter("late_records_dropped") == 0
    ends = [Counted(end, 5) for end in range(10_000, 61_000, 10_000) for _ in range(2)]
    assert sorted(result.collected(counts)) == [*ends, Counted(70_000, 1)]
    # The interpreter fires what the watermark has reached.
    assert sorted(LocalRunner().run(pipeline, drain=False).collected(counts)) == ends


@pytest.mark.thorough(reason="tests/crash/test_hybrid.py kills a run around its switch")
@pytest.mark.parametrize("made", [False, True])
def test_a_run_that_fails_in_each_batch_reads_each_record_once(
    spark: SparkSession, kafka: str, tmp_path: Path, made: bool
) -> None:
    """Two batches of history, and three of a topic: it fails before and behind each, and the switch lies between."""
    topics = Topics(kafka, f"hybrid-{uuid4().hex[:8]}")
    topic = topics.make("in")
    write_files(tmp_path / "in", 4, 11)
    topics.send(topic, in_json(reading(number)._asdict() for number in range(11, 20)))
    part = live(topics, topic, max_offsets_per_batch=3)
    source = HybridSource(history(tmp_path / "in", files_per_batch=1))
    source = source.then((lambda switch: part) if made else part)
    written: dict[int, list[int]] = {}
    failures = for_a_night([(batch, behind) for batch in range(5) for behind in (False, True)], [(1, True), (2, False)])

    def take(batch: int, readings: Iterable[Reading]) -> None:
        if failures and failures[0] == (batch, False):
            failures.pop(0)
            raise ConnectionError("before")
        written[batch] = [each.at // 1_000 for each in readings]
        if failures and failures[0] == (batch, True):
            failures.pop(0)
            raise ConnectionError("behind")

    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    pipeline = Pipeline("p", from_source(source, name="in").sink_to(FunctionSink(take)))
    while failures:
        with pytest.raises(UserFunctionError):
            runner.run(pipeline, drain=False)
    runner.run(pipeline, drain=False)
    assert [batch for _, batch in sorted(written.items()) if batch] == [
        list(range(4)), list(range(4, 11)), [11, 12, 13], [14, 15, 16], [17, 18, 19],
    ]  # fmt: skip


def test_malformed_records_of_all_parts(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 1)
    (tmp_path / "in" / "x.json").write_text("x\n")
    part = history(tmp_path / "in", on_malformed=MALFORMED)
    stream = from_source(HybridSource(part).then(part))
    values, malformed = CollectSink[Reading](), CollectSink[MalformedRecord]()
    pipeline = Pipeline("p", stream.sink_to(values), stream.get_side_output(MALFORMED).sink_to(malformed))
    result = SparkRunner(spark).run_batch(pipeline)
    assert result.collected(values) == [reading(0)] * 2
    assert [each.origin for each in result.collected(malformed)] == [f"{tmp_path}/in/x.json:1"] * 2


def test_errors_name_the_step(spark: SparkSession, tmp_path: Path) -> None:
    def following(switch: SourceSwitch) -> Any:
        return CollectionSource([1])

    pipeline, _ = counting(HybridSource(CollectionSource([reading(0)])).then(following))
    with pytest.raises(InvalidArgumentError, match=r"given: +collection of 1\n(.|\n)*where: +p\.1\.in, "):
        SparkRunner(spark).run(pipeline, drain=False)
    write_files(tmp_path / "in", 1)
    pipeline, _ = counting(HybridSource(CollectionSource([reading(0)])).then(history(tmp_path)))
    with pytest.raises(InvalidArgumentError, match=r"the checkpoint lies in a folder that a source reads"):
        SparkRunner(spark, checkpoint=tmp_path / "in" / "checkpoint").run(pipeline)
