"""Each sink finds its own mark in its target after the plan has changed, or is refused. Most of it needs no Spark."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.spark.comparison import Event
from windrow import DataStream, DataStreamSink, OutputTag, Pipeline, from_source
from windrow.connectors import CustomSink, SinkContext
from windrow.errors import IncompatibleStateError, InvalidArgumentError, UserFunctionError
from windrow.functions import ProcessFunction
from windrow.kafka import KafkaSink
from windrow.sinks import DatabaseSink, DeltaSink, FunctionSink, IcebergSink, JsonFileSink, Sink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_plan import Parallelism, resume
from windrow_spark.physical.plan import PhysicalPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: sinks of every type of elements.

EVENTS = [Event("abc"[number % 3], number, number) for number in range(6)]
SESSION = Parallelism(None, None, 3)
LOW, HIGH = OutputTag("low", Event), OutputTag("high", Event)


class Divide(ProcessFunction[Event, Event]):
    def process_element(self, value: Event, context: Any) -> tuple[Event, ...]:
        context.output(LOW if value.value < 3 else HIGH, value)
        return ()


IN = from_source(CollectionSource(EVENTS, Event))


def times(factor: int) -> DataStream[Event]:
    return IN.map(lambda event: Event(event.key, event.at, event.value * factor))


def opaque(factor: int) -> DataStream[Event]:
    def scaled(event: Event) -> Event:
        for _ in range(1):
            event = replace(event, value=event.value * factor)
        return event

    return IN.map(scaled)


def table(name: str = "t", address: str = "/one.db") -> DatabaseSink[Event]:
    return DatabaseSink(f"sqlite://{address}", name)


def labels(folder: Path, *sinks: DataStreamSink, accepted: Sequence[str] = ()) -> list[str]:
    """The labels of the sinks of a plan that goes on from a checkpoint, in the plan's order."""
    topology = Topology(Pipeline("plan", *sinks).steps)
    folder.mkdir(exist_ok=True)
    stored = resume(Checkpoint(folder), PhysicalPlan(topology), "event time", SESSION, accepted)
    assert stored.sinks is not None
    return [stored.sinks[step.id] for step in topology.sinks]


SINKS: dict[str, Callable[[], Sink[Event]]] = {
    "table": table,
    "Delta": lambda: DeltaSink("/delta"),
    "Iceberg": lambda: IcebergSink("db.t"),
    "topic": lambda: KafkaSink("localhost:1", "t"),
    "topics": lambda: KafkaSink("localhost:1", lambda event: event.key),
    "own": lambda: Recorded("t"),
}


class Recorded(CustomSink[Event]):
    def __init__(self, path: str) -> None:
        self.path = path
        self.labels: list[str] = []

    def open(self, context: SinkContext) -> None:
        self.labels.append(context.sink)

    def write(self, batch: int, rows: Sequence[Event]) -> None:
        pass


@pytest.mark.parametrize("sink", SINKS.values(), ids=SINKS)
@pytest.mark.parametrize("stream", [times, opaque])
def test_sinks_of_one_target_are_found_by_what_they_write(
    tmp_path: Path, sink: Callable[[], Sink[Event]], stream: Callable[[int], DataStream[Event]]
) -> None:
    (first,) = labels(tmp_path, stream(1).sink_to(sink()))
    second, *rest = labels(tmp_path, stream(2).sink_to(sink()), stream(1).sink_to(sink()))
    assert rest == [first] != [second]
    third, *rest = labels(tmp_path, *(stream(factor).sink_to(sink()) for factor in (3, 1, 2)))
    assert rest == [first, second]
    assert third not in rest
    # One is gone, and comes back; the label of another one that is gone stays its own.
    assert labels(tmp_path, stream(2).sink_to(sink()), stream(1).sink_to(sink())) == [second, first]
    assert labels(tmp_path, *(stream(factor).sink_to(sink()) for factor in (1, 3))) == [first, third]
    fourth, _ = labels(tmp_path, stream(4).sink_to(sink()), stream(1).sink_to(sink()))
    assert fourth == third  # the only one that may be another version of it


def test_a_sink_keeps_its_mark_by_name_address_input_and_where_it_is_the_only_one(tmp_path: Path) -> None:
    one, two = table(address="/one.db"), table(address="/two.db")
    parts = IN.process(Divide())
    low, high = (parts.get_side_output(tag) for tag in (LOW, HIGH))
    cases: dict[str, tuple[list[tuple[DataStream[Event], Any, str | None]], ...]] = {
        "name": ([(times(1), one, "a"), (times(2), one, "b")], [(times(2), one, "a"), (times(1), one, "b")]),
        "name added": ([(times(1), one, None)], [(times(1), one, "a")]),
        "another function": ([(times(1), one, None)], [(opaque(2), one, None)]),
        "another address": ([(times(1), one, None)], [(times(1), two, None)]),
        "side outputs": ([(low, one, None), (high, one, None)], [(low, one, None), (high, one, None)]),
    }
    for case, (before, now) in cases.items():
        folder = tmp_path / case
        built = [[stream.sink_to(sink, name=name) for stream, sink, name in plan] for plan in (before, now)]
        assert labels(folder, *built[0]) == labels(folder, *built[1]), case
    # Copies of one stream in two databases; the name of the table alone begins the label.
    first = labels(tmp_path / "copies", times(1).sink_to(one), times(1).sink_to(two))
    assert labels(tmp_path / "copies", times(1).sink_to(two), times(1).sink_to(one)) == first[::-1]


class Table(dict[str, int]):
    """A table that a function looks values up in; counts how often all of it is read."""

    reads = 0

    def items(self) -> Any:
        self.reads += 1
        return super().items()


def test_a_large_table_of_a_function_is_read_few_times_when_a_run_begins(tmp_path: Path) -> None:
    table_of_keys = Table(a=1)

    def looked_up(event: Event) -> Event:
        for _ in range(1):
            event = replace(event, value=table_of_keys.get(event.key, 0))
        return event

    stream = IN.map(looked_up)
    counted = stream.key_by(lambda event: event.key).count_window(2).reduce(lambda one, _: one)
    for _ in range(2):  # the second one compares the plan with that of the first
        table_of_keys.reads = 0
        labels(tmp_path, stream.sink_to(table("a")), counted.sink_to(table("b")))
        assert 0 < table_of_keys.reads <= 4


def test_a_checkpoint_that_nobody_keeps_tells_no_sinks_apart(tmp_path: Path) -> None:
    sinks = [times(1).sink_to(table()), times(1).sink_to(table())]
    plan = PhysicalPlan(Topology(Pipeline("plan", *sinks).steps))
    stored = resume(Checkpoint(tmp_path), plan, "event time", SESSION, begins=True, is_kept=False)
    assert stored.sinks is not None
    assert sorted(stored.sinks.values()) == ["t", "t#2"]


def test_a_sink_of_which_nobody_can_say_which_it_was_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"could not tell them apart(.|\n)*sink_to\(sink, name="):
        labels(tmp_path / "alike", times(1).sink_to(table()), times(1).sink_to(table()))
    assert len(set(labels(tmp_path / "alike", *(times(1).sink_to(table(), name=name) for name in "ab")))) == 2
    # An edited sink, and a new one beside it.
    first = labels(tmp_path / "edited", times(1).sink_to(table()))
    plan = [times(2).sink_to(table(), name="x"), times(3).sink_to(table())]
    with pytest.raises(IncompatibleStateError, match=r"plan\.\d+\.x.*whether it is a new sink(.|\n)*accept_changes"):
        labels(tmp_path / "edited", *plan)
    again = [times(2).sink_to(table(), name="x"), times(3).sink_to(table())]
    accepted = labels(tmp_path / "edited", *again, accepted=["x"])
    assert accepted[0] == first[0] != accepted[1]
    labels(tmp_path / "renamed", times(1).sink_to(table(), name="a"))
    with pytest.raises(IncompatibleStateError, match="whether it is a new sink"):
        labels(tmp_path / "renamed", times(1).sink_to(table(), name="b"))


@pytest.mark.parametrize(
    "pair",
    [
        (table("one"), table("two")),
        (JsonFileSink[Event]("/one"), JsonFileSink[Event]("/two")),
        (DeltaSink[Event]("/one"), table("two")),
        (KafkaSink[Event]("localhost:1", "one"), JsonFileSink[Event]("s3a://bucket/two")),
    ],
    ids=["tables", "folders", "kinds", "elsewhere"],
)
def test_sinks_that_change_places_are_refused(tmp_path: Path, pair: tuple[Sink[Event], Sink[Event]]) -> None:
    one, two = pair
    before = labels(tmp_path, times(1).sink_to(one), times(2).sink_to(two))
    with pytest.raises(IncompatibleStateError, match=r"what it writes was what plan\.\d"):
        labels(tmp_path, times(2).sink_to(one), times(1).sink_to(two))
    assert labels(tmp_path, times(2).sink_to(two), times(1).sink_to(one)) == before[::-1]


# batch                               0, whose last sink fails        0 again, with other sinks in front of the first
def test_a_sink_in_front_of_another_takes_its_own_rows_of_a_batch_that_runs_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    database, delta = tmp_path / "test.db", tmp_path / "delta"

    def sinks(factor: int) -> list[DataStreamSink]:
        stream = times(factor)
        return [stream.sink_to(DatabaseSink(f"sqlite:///{database}", "t")), stream.sink_to(DeltaSink(delta))]

    def fail(batch: int, events: Sequence[Event]) -> None:
        raise ValueError("not now")

    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    with pytest.raises(UserFunctionError, match="not now"):
        runner.run(Pipeline("p", *sinks(1), IN.sink_to(FunctionSink(fail))), drain=False)
    runner.run(Pipeline("p", *sinks(100), *sinks(1)), drain=False)
    wanted = Counter(event.value * factor for event in EVENTS for factor in (1, 100))
    with closing(sqlite3.connect(database)) as connection:
        assert Counter(value for (value,) in connection.execute("SELECT value FROM t")) == wanted
    assert Counter(DeltaTable(delta).to_pyarrow_table()["value"].to_pylist()) == wanted


def test_sinks_of_a_users_class_are_told_apart_on_the_interpreter(tmp_path: Path) -> None:
    sinks = [Recorded("a"), Recorded("b")]
    LocalRunner().run(Pipeline("p", *(IN.sink_to(sink) for sink in sinks)))
    assert [sink.labels for sink in sinks] == [["Recorded"], ["Recorded#2"]]
