"""Policies for elements that a sink cannot write: the others are written, whatever the sink."""

from __future__ import annotations

import json
import math
import random
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.connectors import CustomSink
from windrow.errors import InvalidArgumentError, PlanError, SinkError, UnsupportedOperationError, UserFunctionError
from windrow.failures import Failed, Retry
from windrow.functions import FixedDelayRetryStrategy
from windrow.kafka import KafkaSink, ProducerRecord
from windrow.sinks import (
    CollectSink,
    ConsoleSink,
    CsvFileSink,
    DatabaseSink,
    DeltaSink,
    FunctionSink,
    IcebergSink,
    JsonFileSink,
    ParquetFileSink,
    Sink,
    TextFileSink,
    WriterSink,
)
from windrow.sources import CollectionSource, CsvFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.writer import encoder_of

# Any in this module: elements that are not of the type that the plan says, and sinks of them.


@dataclass(frozen=True)
class Reading:
    number: int
    sensor: str
    celsius: float


FAILED = OutputTag[Failed[Reading]]("failed")
WRONG: Any = "warm"
GOOD = [Reading(number, "abc"[number % 3], number / 2) for number in range(40)]


def with_bad(bad: Sequence[Reading], seed: int) -> list[Reading]:
    """Good readings with others at random places among them."""
    readings, chance = [*GOOD], random.Random(seed)
    for each in bad:
        readings.insert(chance.randrange(len(readings) + 1), each)
    return readings


def source(readings: Sequence[Reading], batch_size: int = 16) -> DataStream[Reading]:
    return from_source(CollectionSource(readings, batch_size=batch_size)).returns(Reading)


def rows_of_lines(folder: Path) -> Iterator[int]:
    for file in folder.rglob("batch-*"):
        for line in file.read_text().splitlines():
            if line.startswith("{"):
                yield json.loads(line)["number"]
            elif not line.startswith("number"):
                yield int(line.split(",")[0])


def rows_of_parquet(folder: Path) -> Iterator[int]:
    for file in folder.rglob("batch-*.parquet"):
        yield from pq.ParquetFile(file).read().column("number").to_pylist()


def rows_of_delta(folder: Path) -> Iterator[int]:
    yield from DeltaTable(folder).to_pyarrow_table().column("number").to_pylist()


def rows_of_database(folder: Path) -> Iterator[int]:
    with sqlite3.connect(folder / "readings.db") as connection:
        yield from (number for (number,) in connection.execute("SELECT number FROM readings"))


HALF = Reading(100, "\ud800", 1.0)  # half of a surrogate pair, which UTF-8 has no bytes for
NO_NUMBER = Reading(101, "a", WRONG)
NO_READING: Any = {"number": 102}
NULL_FOLDER = Reading(103, "__HIVE_DEFAULT_PARTITION__", 1.0)
LONG = Reading(104, "x" * 300, 1.0)
NAN = Reading(105, "a", math.nan)
HUGE = Reading(1 << 70, "a", 1.0)

Case = tuple[Callable[[Path], Sink[Any]], Callable[[Path], Iterator[int]], Sequence[Any]]
CASES: dict[str, Case] = {
    "json": (JsonFileSink, rows_of_lines, [HALF, NO_NUMBER, NO_READING, HUGE]),
    "json by folders": (
        lambda folder: JsonFileSink(folder, partition_by="sensor"),
        rows_of_lines,
        [HALF, NO_NUMBER, NO_READING, NULL_FOLDER, LONG],
    ),
    "csv": (CsvFileSink, rows_of_lines, [HALF, NO_NUMBER, NO_READING]),
    "parquet": (ParquetFileSink, rows_of_parquet, [HALF, NO_NUMBER, NO_READING, HUGE]),
    "parquet by folders": (
        lambda folder: ParquetFileSink(folder, partition_by="sensor"),
        rows_of_parquet,
        [NO_NUMBER, NO_READING, NULL_FOLDER, LONG],
    ),
    "sqlite": (
        lambda folder: DatabaseSink(f"sqlite:///{folder}/readings.db", "readings", key="number"),
        rows_of_database,
        [HALF, NO_NUMBER, NO_READING, NAN, HUGE],
    ),
    "delta": (
        lambda folder: DeltaSink(folder, partition_by="sensor"),
        rows_of_delta,
        [HALF, NO_NUMBER, NO_READING, replace(GOOD[0], sensor=""), LONG],
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_elements_that_cannot_be_written_are_put_aside(tmp_path: Path, case: str, seed: int) -> None:
    make, rows_of, bad = CASES[case]
    written = source(with_bad(bad, seed)).sink_to(make(tmp_path), on_error=FAILED, name="out")
    letters = CollectSink[Failed[Reading]]()
    result = LocalRunner().run(Pipeline("p", written, written.get_side_output(FAILED).sink_to(letters)))
    failed = result.collected(letters)
    assert sorted(map(repr, [each.element for each in failed])) == sorted(map(repr, bad))
    assert {each.step for each in failed} == {"out"}
    assert all(re.match(r"InvalidArgumentError: \S", each.error) and __file__ not in each.error for each in failed)
    assert sorted(rows_of(tmp_path)) == [each.number for each in GOOD]


@pytest.mark.parametrize("case", CASES)
def test_dropped_elements_are_counted(tmp_path: Path, case: str) -> None:
    make, rows_of, bad = CASES[case]
    end = source(with_bad(bad, 3)).sink_to(make(tmp_path), on_error="drop", name="out")
    result = LocalRunner().run(Pipeline("p", end))
    assert result.counter("failed_records_dropped") == len(bad)
    assert sorted(rows_of(tmp_path)) == [each.number for each in GOOD]


def test_by_default_the_run_fails(tmp_path: Path) -> None:
    for end in (
        source([NO_NUMBER]).sink_to(JsonFileSink(tmp_path / "a")),
        source([NO_NUMBER]).sink_to(JsonFileSink(tmp_path / "b"), on_error="fail"),
    ):
        with pytest.raises(InvalidArgumentError, match="'warm' is a str"):
            LocalRunner().run(Pipeline("p", end))


def test_lines_of_text_are_checked(tmp_path: Path) -> None:
    lines = from_collection(["a", "b\nc", "", "\ufeffd", "e"])
    tag = OutputTag[Failed[str]]("no line")
    written = lines.sink_to(TextFileSink(tmp_path), on_error=tag)
    letters = CollectSink[Failed[str]]()
    result = LocalRunner().run(Pipeline("p", written, written.get_side_output(tag).sink_to(letters)))
    assert [each.element for each in result.collected(letters)] == ["b\nc", "\ufeffd"]
    assert "".join(file.read_text() for file in tmp_path.glob("batch-*")) == "a\n\ne\n"


def test_a_failed_element_says_where_it_came_from_and_keeps_its_timestamp(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "readings.csv").write_text("number,sensor,celsius\n1,a,1\n2,b,NaN\n3,c,3\n")
    strategy = WatermarkStrategy[Reading].for_monotonous_timestamps()
    readings = from_source(CsvFileSource(tmp_path / "in", Reading)).filter(lambda reading: reading.number > 1)
    stamped = readings.assign_timestamps_and_watermarks(strategy, lambda reading: reading.number)
    written = stamped.sink_to(DatabaseSink(f"sqlite:///{tmp_path}/readings.db", "readings"), on_error=FAILED)
    failed = written.get_side_output(FAILED)
    counts, letters = CollectSink[int](), CollectSink[Failed[Reading]]()
    windows = failed.window_all(TumblingEventTimeWindows.of(timedelta(milliseconds=2))).count()
    pipeline = Pipeline("p", written, failed.sink_to(letters), windows.sink_to(counts))
    result = LocalRunner().run(pipeline)
    assert [each.origin for each in result.collected(letters)] == [f"{tmp_path}/in/readings.csv:3"]
    assert result.collected(counts) == [1]


def test_failed_elements_may_go_to_a_sink_with_a_policy_of_its_own(tmp_path: Path) -> None:
    written = source([NO_NUMBER, GOOD[0]]).sink_to(JsonFileSink(tmp_path / "good"), on_error=FAILED)
    again = OutputTag[Failed[Failed[Reading]]]("again")
    letters = written.get_side_output(FAILED).sink_to(JsonFileSink(tmp_path / "letters"), on_error=again)
    kept = CollectSink[Failed[Failed[Reading]]]()
    result = LocalRunner().run(Pipeline("p", written, letters, letters.get_side_output(again).sink_to(kept)))
    (each,) = result.collected(kept)
    assert each.element.element == NO_NUMBER
    assert list(rows_of_lines(tmp_path / "good")) == [0]


def test_two_sinks_of_one_stream_decide_for_themselves(tmp_path: Path) -> None:
    readings = source([*GOOD[:2], NAN])
    written = readings.sink_to(JsonFileSink(tmp_path / "files"), on_error="drop")
    rows = readings.sink_to(DatabaseSink(f"sqlite:///{tmp_path}/readings.db", "readings"), on_error="drop")
    result = LocalRunner().run(Pipeline("p", written, rows))
    assert result.counter("failed_records_dropped") == 1
    assert (sorted(rows_of_lines(tmp_path / "files")), list(rows_of_database(tmp_path))) == ([0, 1, 105], [0, 1])


def test_failures_of_the_target_fail_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    end = source(GOOD).sink_to(JsonFileSink(tmp_path / "file" / "out"), on_error="drop")
    with pytest.raises(SinkError, match="cannot be written"):
        LocalRunner().run(Pipeline("p", end))
    missing: DatabaseSink[Reading] = DatabaseSink(f"sqlite:///{tmp_path}/no/readings.db", "readings")
    with pytest.raises(SinkError, match="cannot be made ready"):
        LocalRunner().run(Pipeline("p", source(GOOD).sink_to(missing, on_error="drop")))


def test_withdrawn_results_that_cannot_be_written_are_neither_written_nor_deleted(tmp_path: Path) -> None:
    newest = source([GOOD[0], GOOD[1], replace(GOOD[0], celsius=math.nan), replace(GOOD[1], celsius=9.0)])
    table = newest.key_by(lambda reading: reading.number).latest()
    end = table.sink_to(DatabaseSink(f"sqlite:///{tmp_path}/readings.db", "readings", key="number"), on_error="drop")
    result = LocalRunner().run(Pipeline("p", end))
    assert result.counter("failed_records_dropped") == 1
    assert list(rows_of_database(tmp_path)) == [1]  # the row before was withdrawn
    written = table.sink_to(DatabaseSink("sqlite:///x.db", "readings", key="number"), on_error=FAILED)
    letters = written.get_side_output(FAILED).sink_to(CollectSink())
    with pytest.raises(PlanError, match="would write withdrawals as results"):
        Pipeline("p", written, letters)


# Topics, whose records are made without a broker


def topic_failures(sink: KafkaSink[Any], values: Sequence[Any], type_: Any = int) -> list[type[Exception] | None]:
    """For each element the error of the sink's encoder."""
    (step,) = [
        each for each in Pipeline("p", from_collection(values).returns(type_).sink_to(sink)).steps if each.node.is_sink
    ]
    encode = encoder_of(step)
    errors: list[type[Exception] | None] = []
    for value in values:
        try:
            encode([value])
        except Exception as error:
            errors.append(type(error))
        else:
            errors.append(None)
    return errors


def test_records_of_topics_are_made_without_a_broker() -> None:
    def topic(number: int) -> str:
        return ["even", "odd"][number] if number < 3 else "no topic"

    assert topic_failures(KafkaSink("none:9", topic), [0, 1, 2, 3]) == [
        None,
        None,
        UserFunctionError,
        InvalidArgumentError,
    ]
    keys: Any = {0: "a", 1: 5}.__getitem__
    assert topic_failures(KafkaSink("none:9", "t", key=keys), [0, 1, 2]) == [
        None,
        InvalidArgumentError,
        UserFunctionError,
    ]
    wrong: Any = ProducerRecord(1, key="a", partition=-1)
    records = [ProducerRecord(1, key="a"), wrong]
    assert topic_failures(KafkaSink("none:9", "t"), records, ProducerRecord[int]) == [None, InvalidArgumentError]


def failing_encoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, cause: Exception | None) -> Any:
    def encode(values: Sequence[Any]) -> None:
        if 2 in values:
            raise error from cause

    monkeypatch.setattr("windrow_runtime.local.execution.encoder_of", lambda step: encode)
    end = from_collection([1, 2, 3]).sink_to(JsonFileSink(tmp_path), on_error="drop")
    return LocalRunner().run(Pipeline("p", end))


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (SinkError("a registry does not answer"), None),
        (MemoryError(), None),
        (InvalidArgumentError("does not fit"), MemoryError()),
        (UserFunctionError("the topic function raised"), InvalidArgumentError("misuse")),
    ],
)
def test_errors_that_are_not_about_an_element_fail_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, cause: Exception | None
) -> None:
    with pytest.raises(type(error)):
        failing_encoder(monkeypatch, tmp_path, error, cause)


@pytest.mark.parametrize(
    ("error", "cause"), [(KeyError("x"), None), (UserFunctionError("the topic function raised"), KeyError("x"))]
)
def test_errors_of_users_functions_are_about_an_element(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, cause: Exception | None
) -> None:
    assert failing_encoder(monkeypatch, tmp_path, error, cause).counter("failed_records_dropped") == 1


def test_a_batch_is_encoded_at_once_and_divided_only_where_an_element_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes: list[int] = []

    def encode(values: Sequence[int]) -> None:
        sizes.append(len(values))
        if 700 in values:
            raise ValueError

    monkeypatch.setattr("windrow_runtime.local.execution.encoder_of", lambda step: encode)
    numbers = from_source(CollectionSource(range(1024), batch_size=512)).returns(int)
    result = LocalRunner().run(Pipeline("p", numbers.sink_to(JsonFileSink(tmp_path), on_error="drop")))
    assert result.counter("failed_records_dropped") == 1
    assert sizes[:2] == [512, 512]
    # 512 elements in parts of 22, one of these in parts of 4, one of these in parts of 2, one of these one by one.
    assert len(sizes) == 2 + 24 + 6 + 2 + 2
    assert sum(sizes) == 512 + 512 + 512 + 22 + 4 + 2


def test_a_sink_that_workers_are_asked_about_can_be_sent_to_them(tmp_path: Path) -> None:
    sink = JsonFileSink[int](tmp_path)
    vars(sink)["lock"] = threading.Lock()
    Pipeline("p", from_collection([1]).sink_to(sink))
    with pytest.raises(UnsupportedOperationError, match=r"cannot be sent(.|\n)*lock"):
        LocalRunner().run(Pipeline("p", from_collection([1]).sink_to(sink, on_error="drop")))


# Refusals


class Own(CustomSink[int]):
    def write(self, batch: int, rows: Sequence[int]) -> None: ...


@pytest.mark.parametrize(
    "sink",
    [
        CollectSink(),
        ConsoleSink(),
        FunctionSink(lambda batch, elements: None),
        Own(),
        WriterSink(lambda frame: frame.writeStream),
    ],
)
def test_sinks_that_cannot_tell_which_elements_fail_take_no_policy(sink: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"takes no on_error(.|\n)*{re.escape(__file__)}(.|\n)*map\("):
        from_collection([1]).sink_to(sink, on_error="drop")


def test_policies_that_a_sink_cannot_follow_are_refused(tmp_path: Path) -> None:
    numbers, sink = from_collection([1]), JsonFileSink[int](tmp_path)
    again: Any = Retry(FixedDelayRetryStrategy(2))
    with pytest.raises(InvalidArgumentError, match=r"fails at each try(.|\n)*test_sinks_on_error"):
        numbers.sink_to(sink, on_error=again)
    unknown: Any = "ignore"
    with pytest.raises(InvalidArgumentError, match="on_error has an unknown value"):
        numbers.sink_to(sink, on_error=unknown)


def test_a_side_output_is_read_by_its_tag_and_with_its_sink(tmp_path: Path) -> None:
    tag, other = OutputTag[Failed[int]]("failed"), OutputTag[Failed[int]]("other")
    written = from_collection([1]).sink_to(JsonFileSink(tmp_path), on_error=tag)
    with pytest.raises(InvalidArgumentError, match="no such side output"):
        written.get_side_output(other)
    dropping = from_collection([1]).sink_to(JsonFileSink(tmp_path), on_error="drop")
    with pytest.raises(InvalidArgumentError, match="no such side output"):
        dropping.get_side_output(tag)
    with pytest.raises(InvalidArgumentError, match="was not given that sink"):
        written.get_side_output(tag).collect()
    for end in (written, dropping):
        Pipeline("used", end)  # or a warning says that nobody has used it


def test_a_plan_shows_the_policy_and_knows_the_type_of_failed_elements(tmp_path: Path) -> None:
    written = source(GOOD).sink_to(JsonFileSink(tmp_path / "good"), on_error=FAILED)
    pipeline = Pipeline("p", written, written.get_side_output(FAILED).sink_to(JsonFileSink(tmp_path / "letters")))
    text = pipeline.explain()
    assert re.search(r"sink +<- 2 +json \S+, on error: to 'failed'", text)
    assert re.search(r"side_output +<- 3 +'failed' +: Failed\[Reading\]", text)
    for format_ in ("mermaid", "json", "svg"):
        assert "failed" in pipeline.explain(format=format_)


def test_an_iceberg_sink_encodes_without_its_catalog() -> None:
    (step,) = [
        each
        for each in Pipeline("p", source(GOOD).sink_to(IcebergSink("weather.readings"), on_error="drop")).steps
        if each.node.is_sink
    ]
    encode = encoder_of(step)
    encode(GOOD)
    with pytest.raises(InvalidArgumentError, match="'warm' is a str"):
        encode([NO_NUMBER])
