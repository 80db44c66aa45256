"""Kafka's topics written by confluent-kafka in Spark's workers, each record once, against a broker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pytest

from tests.kafka.topics import Topics, in_json
from tests.spark.streams import stamped
from tests.support.files import forget_batch
from tests.support.thorough import thorough
from windrow import DataStream, DataStreamSink, Pipeline, from_collection, from_source
from windrow import aggregates as agg
from windrow.connectors.hybrid import HybridSource
from windrow.errors import SinkError, UnsupportedOperationError, UserFunctionError
from windrow.kafka import AvroFormat, KafkaSink, KafkaSource
from windrow.sinks import CollectSink
from windrow.sources import JsonFileSource, MalformedRecord
from windrow.tags import OutputTag
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_spark.run_limits import RunLimits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: JSON, and sinks of every type of elements.

MALFORMED = OutputTag("malformed", MalformedRecord)
START = 1_700_000_000_000
COUNT = 600


class Reading(NamedTuple):
    sensor: str
    at: int
    n: int


class Total(NamedTuple):
    sensor: str
    end: int
    n: int


@pytest.fixture
def topics(kafka: str) -> Topics:
    return Topics(kafka, f"sink-{uuid4().hex[:8]}")


def given(topics: Topics, partitions: int = 2) -> DataStream[Reading]:
    """The stream of a topic with readings, of which some batches have a part."""
    topic = topics.make("in", partitions)
    for partition in range(partitions):
        numbers = range(partition, COUNT, partitions)
        readings = in_json(Reading(f"s{n % 7}", START + n * 100, n)._asdict() for n in numbers)
        topics.send(topic, readings, partition=partition)
    source = KafkaSource(topics.servers, topic, Reading, starting_offsets="earliest", max_offsets_per_batch=COUNT // 2)
    return from_source(source, name="in")


def totals(stream: DataStream[Reading], check: Any = None) -> DataStream[Total]:
    keyed = stamped(stream, 20_000).key_by(lambda each: each.sensor)
    windows = keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=5)))
    if check is None:
        return windows.aggregate(agg.into(Total, agg.key(), agg.window_end(), agg.sum(lambda each: each.n)))

    def total(key: str, window: Any, readings: Any) -> list[Total]:
        check(key)
        return [Total(key, window.end, sum(each.n for each in readings))]

    return windows.apply(total).returns(Total)


def found(topics: Topics, topic: str) -> Counter[str]:
    """The committed values of all partitions of a topic."""
    return Counter((record.value or b"").decode() for record in topics.committed(topic))


def newest(checkpoint: Path, log: str = "commits") -> int:
    return max(int(file.name) for file in (checkpoint / "spark" / log).iterdir() if file.name.isdigit())


def expected_of(stream: DataStream[Any]) -> Counter[str]:
    """The values that a stream comes to in the interpreter."""
    sink = CollectSink[Any]()
    values = LocalRunner().run(Pipeline("p", stream.sink_to(sink)), drain=False).collected(sink)
    return Counter(json.dumps(value._asdict(), separators=(",", ":")) for value in values)


def test_each_record_is_written_once_also_by_batches_that_run_again(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    stream = given(topics)
    copied, keyed, summed = topics.make("copied", 3), topics.make("keyed", 3), topics.make("summed")
    tenfold = stream.map(lambda each: Reading(each.sensor, each.at, each.n * 10))
    stateless = (
        tenfold.sink_to(KafkaSink[Reading](topics.servers, copied)),
        tenfold.sink_to(KafkaSink[Reading](topics.servers, lambda each: keyed, key=lambda each: each.sensor)),
    )
    windows = totals(stream).sink_to(KafkaSink[Total](topics.servers, summed, key=lambda total: total.sensor))
    pipeline, checkpoint = Pipeline("p", *stateless, windows), tmp_path / "checkpoint"
    runner = SparkRunner(spark, checkpoint=checkpoint, partitions=2)
    assert Pipeline("p", *stateless).explain(runner).count("runs as columns") == 1
    runner.run(pipeline, drain=False)
    wanted = [(copied, expected_of(tenfold)), (keyed, expected_of(tenfold)), (summed, expected_of(totals(stream)))]
    for topic, expected in wanted:
        assert expected.total() > 20
        assert found(topics, topic) == expected

    # A run may end while a batch without elements is planned, which runs again then.
    if newest(checkpoint) == newest(checkpoint, "offsets"):
        forget_batch(checkpoint, newest(checkpoint))
    runner.run(pipeline, drain=False)
    for topic, expected in wanted:
        assert found(topics, topic) == expected


@pytest.mark.parametrize(
    "form", [thorough("stateless", reason="tests/kafka/test_sink.py has a task that takes its records back"), "keyed"]
)
def test_a_task_that_fails_leaves_nothing_and_its_batch_is_written_then(
    spark: SparkSession, topics: Topics, tmp_path: Path, form: str
) -> None:
    broken = tmp_path / "broken"
    broken.touch()

    def check(what: object) -> None:
        # Others of the task were written before it.
        if what in ("s6", COUNT - 1) and broken.exists():
            raise ValueError("not now")

    def checked(each: Reading) -> Reading:
        check(each.n)
        return each

    stream = given(topics, partitions=1)
    target = topics.make("out")
    results: DataStream[Any] = stream.map(checked) if form == "stateless" else totals(stream, check)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=1)
    pipeline = Pipeline("p", results.sink_to(KafkaSink[Any](topics.servers, target, key=lambda each: each.sensor)))
    with pytest.raises(UserFunctionError, match="not now"):
        runner.run(pipeline, drain=False)
    before = found(topics, target)
    broken.unlink()
    expected = expected_of(results)
    assert before.total() == {"stateless": COUNT // 2, "keyed": 0}[form]
    runner.run(pipeline, drain=False)
    assert found(topics, target) == expected


@pytest.mark.classic(reason="a server does not say into how many partitions a batch is divided")
@pytest.mark.parametrize(
    "form", ["rows, keyed", thorough("keyed", reason="the other case in test_topic_sinks.py has these rows, too")]
)
def test_a_batch_of_files_on_other_cores(
    spark: SparkSession, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(4):
        lines = [json.dumps(Reading(f"s{n}", START + n * 10_000, n)._asdict()) for n in range(number, 20, 4)]
        # Both three and four cores get three chunks of it, but not the same ones.
        lines += ["{"] + [" " * (2 << 20)] * 4 * (number == 0)
        (folder / f"{number}.json").write_text("\n".join(lines))
    copied, summed = topics.make("copied"), topics.make("summed")
    source = JsonFileSource(folder, Reading, files_in_order="name", on_malformed=MALFORMED)
    stream = from_source(source)
    sums = stream.key_by(lambda each: each.sensor).count_window(1).aggregate(agg.sum(lambda each: each.n))
    sinks: dict[str, Callable[[], DataStreamSink]] = {
        "rows": lambda: stream.sink_to(KafkaSink[Reading](topics.servers, copied)),
        "keyed": lambda: sums.sink_to(KafkaSink[int](topics.servers, summed)),
    }
    pipeline = Pipeline("p", *(sinks[each]() for each in form.split(", ")))
    cores = type(spark.sparkContext)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", partitions=2)
    monkeypatch.setattr(cores, "defaultParallelism", 3)
    runner.run(pipeline, drain=False)
    before = found(topics, copied), found(topics, summed)
    assert any(before)
    assert newest(tmp_path / "checkpoint") == 0
    forget_batch(tmp_path / "checkpoint", 0)
    monkeypatch.setattr(cores, "defaultParallelism", 4)
    noted = tmp_path / "checkpoint" / "division"
    kept = noted.read_bytes() if noted.exists() else b""
    assert bool(kept) == (form != "keyed")
    if kept:
        noted.unlink()  # as earlier versions, which did not keep it
        with pytest.raises(SinkError, match=r"divided differently now\n(.|\n)*cores=4(.|\n)*cores=3"):
            runner.run(pipeline, drain=False)
        noted.write_bytes(kept)
    runner.run(pipeline, drain=False)
    assert (found(topics, copied), found(topics, summed)) == before
    assert not kept or noted.read_bytes() == kept

    (folder / "4.json").write_text(json.dumps(Reading("s20", START + 200_000, 20)._asdict()))
    runner.run(pipeline, drain=False)
    assert not kept or noted.read_bytes() != kept
    later = found(topics, copied), found(topics, summed)
    assert [after.total() - each.total() for after, each in zip(later, before, strict=True)] == (
        [0, 1] if form == "keyed" else [1, 1]
    )


@pytest.mark.classic(reason="a server does not say into how many partitions a batch is divided")
def test_a_batch_of_files_that_spark_divides_on_other_cores(
    spark: SparkSession, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkRunner, "_limits", RunLimits(large_file_bytes=1 << 20))
    folder, checkpoint, cores = tmp_path / "files", tmp_path / "checkpoint", type(spark.sparkContext)
    folder.mkdir()

    def write(name: str, n: int, size: int = 0) -> None:
        (folder / name).write_text(json.dumps(Reading("s", START, n)._asdict()) + "\n" + " " * size)

    for number in range(4):
        write(f"{number}.json", number)
    copied = topics.make("copied")
    stream = from_source(JsonFileSource(folder, Reading))
    pipeline = Pipeline("p", stream.sink_to(KafkaSink[Reading](topics.servers, copied)))
    runner = SparkRunner(spark, checkpoint=checkpoint)
    monkeypatch.setattr(cores, "defaultParallelism", 3)
    runner.run(pipeline, drain=False)
    assert topics.offsets_of(copied) == [4 + 2]  # three cores have two tasks, each with a transaction
    forget_batch(checkpoint, 0)
    # Eight cores would have four, and large files are read in parts.
    monkeypatch.setattr(cores, "defaultParallelism", 8)
    write("large.json", 4, 2 << 20)
    runner.run(pipeline, drain=False)
    assert found(topics, copied) == expected_of(stream)
    assert newest(checkpoint) == 1


def test_batch_jobs(spark: SparkSession, topics: Topics) -> None:
    target, summed = topics.make("out"), topics.make("summed")
    readings = from_collection([Reading(f"s{n % 7}", START + n * 100, n) for n in range(COUNT)])
    pipeline = Pipeline(
        "p",
        readings.sink_to(KafkaSink[Reading](topics.servers, target)),
        totals(readings).sink_to(KafkaSink[Total](topics.servers, summed, key=lambda each: each.sensor)),
    )
    SparkRunner(spark, partitions=2).run_batch(pipeline)
    assert found(topics, target) == expected_of(readings)
    sink = CollectSink[Total]()
    values = LocalRunner().run(Pipeline("p", totals(readings).sink_to(sink))).collected(sink)
    assert found(topics, summed).total() == len(values)


def test_a_registry_within_the_process_is_refused(spark: SparkSession) -> None:
    form = AvroFormat("mock://name")
    source = KafkaSource("a:1", "in", Reading, value_format=form, starting_offsets="earliest")
    live = HybridSource(JsonFileSource("/nowhere", Reading)).then(source)
    for stream in (from_source(source), from_source(live)):
        pipeline = Pipeline("p", stream.sink_to(CollectSink[Reading]()))
        with pytest.raises(UnsupportedOperationError, match=r"registry within the process(.|\n)*p\.1\.source"):
            SparkRunner(spark).run(pipeline, drain=False)
    readings = from_collection([Reading("a", 1, 2)])
    pipeline = Pipeline("p", readings.sink_to(KafkaSink[Reading]("a:1", "out", value_format=form)))
    with pytest.raises(UnsupportedOperationError, match=r"registry within the process(.|\n)*p\.2\.sink"):
        SparkRunner(spark).run_batch(pipeline)


def test_what_kafka_refuses_names_the_step(spark: SparkSession, topics: Topics) -> None:
    target = topics.make("out", settings={"max.message.bytes": "20000"})
    texts = from_collection(["a", "b" * 50_000, "c"])
    large = KafkaSink[str](topics.servers, target, key=lambda text: text[0], value_format="text")
    with pytest.raises(SinkError, match="Kafka refuses a record of a sink, as it is too large") as caught:
        SparkRunner(spark).run_batch(Pipeline("large", texts.sink_to(large)))
    assert f"50001 bytes for {target}, key b'b', value b'bbbb" in str(caught.value)
    assert str(caught.value.where).startswith("large.2.sink, ")
    absent = KafkaSink[str](topics.servers, f"{topics.prefix}-absent", value_format="text")
    with pytest.raises(SinkError, match="the topic of a sink is not there"):
        SparkRunner(spark).run(Pipeline("absent", texts.sink_to(absent)))
    assert found(topics, target).total() <= 2
