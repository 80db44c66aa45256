"""Sources and sinks that exchange Arrow data, in the interpreter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pytest

from tests.arrow_connectors import Reading, Readings, Tables, reading, rows_of
from tests.support.runs import MALFORMED, batches_of, sorted_out
from windrow import Pipeline, from_arrow, from_collection, from_source
from windrow.connectors import CustomSink, CustomSource
from windrow.errors import InvalidArgumentError, MalformedRecordError, PlanError, SourceError, UserFunctionError
from windrow.sinks import CollectSink
from windrow.sources import ArrowSource, MalformedRecord
from windrow_runtime.codecs.arrow.exchanged import read_stored, stored_rows
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.local import LocalRunner

# Any in this module: pyarrow has no types, and data of wrong types are handed over.

TABLE = pa.Table.from_pylist([reading(number)._asdict() for number in range(10)])


def collected(source: Any) -> list[Any]:
    return from_source(source, name="source").collect(name="p")


@pytest.mark.parametrize("form", ["batch", "table"])
def test_a_source_gives_rows_as_elements(form: str) -> None:
    elements = collected(Readings(1_000, form=form, per_batch=300))
    assert sorted(elements, key=lambda each: each.time) == [reading(number) for number in range(1_000)]
    assert {type(each) for each in elements} == {Reading}


def test_malformed_records_among_the_data_go_where_the_source_says() -> None:
    readings, malformed, _ = sorted_out(from_source(Readings(100, malformed=MALFORMED, bad=42)))
    assert malformed == [MalformedRecord("42", "is bad", "even:42")]
    assert sorted(readings) == sorted(reading(number) for number in range(100) if number != 42)
    with pytest.raises(MalformedRecordError, match=r"is bad(.|\n)*even:42"):
        collected(Readings(100, bad=42))


@dataclass(frozen=True)
class Given(CustomSource[Reading, int]):
    """Gives what it holds, whatever that is."""

    data: Any

    @property
    def is_bounded(self) -> bool:
        return True

    def initial_offset(self, partition: str) -> int:
        return 0

    def latest_offset(self, partition: str) -> int:
        return 1

    def read_arrow(self, partition: str, start: int, end: int) -> Iterator[Any]:
        if isinstance(self.data, Exception):
            raise self.data
        yield self.data


def test_a_row_that_does_not_fit_its_type_says_which_it_is() -> None:
    values = pa.array([1.5, None, 2.5])
    rows = pa.record_batch({"sensor": ["a", "b", "c"], "value": values, "time": pa.array([1, 2, 3])})
    message = r"value(.|\n)*where: +p\.1\.source, \S+:\d+, all from 0 to 1, row 1"
    with pytest.raises(MalformedRecordError, match=message):
        collected(Given(rows))


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (TABLE.drop_columns(["time"]), SourceError, r"time(.|\n)*where: +p\.1\.source"),
        (TABLE.cast(pa.schema([("sensor", "string"), ("value", "string"), ("time", "int64")])), SourceError, "value"),
        ([1, 2], InvalidArgumentError, r"PyCapsule interface(.|\n)*\[1, 2\](.|\n)*where: +p\.1\.source"),
        (pa.array([1, 2]), SourceError, "Arrow data cannot be taken(.|\n)*where: +p.1.source"),
        (pd.DataFrame({"sensor": ["a"], "value": [2**70]}), SourceError, "Arrow data cannot be taken(.|\n)*too large"),
        (OSError("it is away"), UserFunctionError, r"OSError: it is away(.|\n)*read_arrow\('all', 0, 1\)"),
    ],
)
def test_data_that_cannot_be_taken_is_refused(data: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        collected(Given(data))


def test_a_type_without_fields_is_one_column() -> None:
    table = pa.table({"value": [3, 1, 2]})
    assert collected(ArrowSource(table, int)) == [3, 1, 2]


@pytest.mark.parametrize("size", [None, 1, 3, 20])
def test_the_rows_of_a_table_come_in_batches(size: int | None) -> None:
    batches = batches_of(from_arrow(TABLE, Reading, batch_size=size))
    assert [len(batch) for batch in batches if batch] == {None: [10], 1: [1] * 10, 3: [3, 3, 3, 1], 20: [10]}[size]


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches()),
        pd.DataFrame(TABLE.to_pylist()),
        TABLE.append_column("more", pa.nulls(10)),
    ],
    ids=["table", "batch", "reader", "pandas", "more columns"],
)
def test_a_pipeline_of_a_table_runs_again(data: Any) -> None:
    sink = CollectSink[Reading]()
    pipeline = Pipeline("p", from_arrow(data, Reading).sink_to(sink))
    for _ in range(2):
        assert LocalRunner().run(pipeline).collected(sink) == [reading(number) for number in range(10)]


def test_a_source_of_a_table_takes_no_other_object() -> None:
    with pytest.raises(InvalidArgumentError, match=r"given: +<class 'list'>(.|\n)*__arrow_c_stream__"):
        from_arrow([1, 2], int)  # type: ignore[call-overload]  # what is tested
    with pytest.raises(InvalidArgumentError, match="the batch size"):
        from_arrow(TABLE, Reading, batch_size=0)


class Event(NamedTuple):
    at: datetime
    note: str | None
    tags: list[str]


EVENTS = [Event(datetime(2026, 1, 31, 12, tzinfo=UTC), None, ["a"]), Event(datetime(2026, 2, 1, tzinfo=UTC), "b", [])]


def test_results_become_a_table_and_come_back() -> None:
    sink = CollectSink[Event]()
    result = LocalRunner().run(Pipeline("p", from_collection(EVENTS).sink_to(sink)))
    table = result.to_arrow(sink)
    assert isinstance(table, pa.Table)
    assert table.schema.names == ["at", "note", "tags"]
    assert table.to_pylist() == [each._asdict() for each in EVENTS]
    assert collected(ArrowSource(table, Event)) == EVENTS


def test_results_of_an_unknown_type_have_no_table() -> None:
    sink = CollectSink[Any]()
    untyped = eval("lambda each: max([*range(each + 1)])")
    result = LocalRunner().run(Pipeline("p", from_collection([1]).map(untyped).sink_to(sink)))
    with pytest.raises(InvalidArgumentError, match=r"their type is not(.|\n)*where: +p\.3(.|\n)*returns\(Type\)"):
        result.to_arrow(sink)
    with pytest.raises(InvalidArgumentError, match="not part of the pipeline"):
        result.to_arrow(CollectSink[Any]())


@pytest.mark.parametrize("workers", [False, True])
def test_a_sink_takes_elements_as_a_table(tmp_path: Path, workers: bool) -> None:
    readings = [reading(number) for number in range(10)]
    LocalRunner().run(Pipeline("p", from_collection(readings).sink_to(Tables(tmp_path, workers=workers))))
    assert rows_of(tmp_path) == [each._asdict() for each in readings]


def test_errors_of_a_sink_of_tables_say_where(tmp_path: Path) -> None:
    numbers = from_collection([1, 2])
    with pytest.raises(
        UserFunctionError, match=r"the table is away\n +given: +batch 0 of 2 rows\n +where: +p\.2\.sink"
    ):
        LocalRunner().run(Pipeline("p", numbers.sink_to(Tables(tmp_path, fails=True))))
    wrong = numbers.map(eval("lambda each: ''.join([*map(str, [each])])")).returns(int)
    with pytest.raises(InvalidArgumentError, match=r"where: +p\.\d\.sink"):
        LocalRunner().run(Pipeline("p", wrong.sink_to(Tables(tmp_path))))
    untyped = eval("lambda each: max([*range(each + 1)])")
    with pytest.raises(PlanError, match="the columns of the sink 'Tables' cannot be known"):
        Pipeline("p", numbers.map(untyped).sink_to(Tables(tmp_path)))


class Neither(CustomSink[int]):
    """A sink without a method that writes."""


@dataclass(frozen=True)
class ReadsNothing(CustomSource[int, int]):
    """A source without a method that reads."""

    def initial_offset(self, partition: str) -> int:
        return 0

    def latest_offset(self, partition: str) -> int:
        return 1


def test_a_connector_without_its_method_is_refused_before_a_run() -> None:
    with pytest.raises(PlanError, match="the sink Neither has neither write nor write_arrow"):
        Pipeline("p", from_collection([1]).sink_to(Neither()))
    message = r"given: +ReadsNothing, without read and read_arrow(.|\n)*where: +\S*" + re.escape(Path(__file__).name)
    with pytest.raises(InvalidArgumentError, match=message):
        from_source(ReadsNothing())


def test_large_data_is_taken_in_portions_whose_rows_are_numbered() -> None:
    times = [*range(70_000), None]
    table = pa.table({"sensor": ["a"] * 70_001, "value": [0.0] * 70_001, "time": pa.array(times, pa.int64())})
    with pytest.raises(MalformedRecordError, match=r", row 70000$|, row 70000\n"):
        collected(Given(table))


def test_wide_rows_are_stored_in_portions_that_spark_can_hold() -> None:
    table = pa.table({"value": ["x" * 1_000_000] * 150})
    portions = stored_rows(table, 0, 150)
    assert len(portions) == 3
    assert max(map(len, portions)) < 80_000_000
    batch = pa.record_batch({"payload": pa.array(portions, pa.binary())})
    assert sum(rows.rows.num_rows for rows in read_stored(record_type(str), "table", iter([batch]))) == 150
