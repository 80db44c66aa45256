"""Files of Delta tables that tasks write, and commits of a batch's files: once each, read back as they were."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.outputs.outputs import output_of
from tests.outputs.test_delta import REPORTS, Report, Total, rows
from windrow import Pipeline, from_source
from windrow.errors import InvalidArgumentError, SinkError
from windrow.sinks import DeltaSink
from windrow.sources import CollectionSource
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.outputs.output import Identity
from windrow_spark.sinks.spark_writer import WrittenBy, spark_writer_of
from windrow_spark.sinks.worker_sink import WorkerSink
from windrow_sql.delta.spark_writer import DeltaWorkerSink

# Any in this module: elements of every type, and pyarrow has no types.


def worker_sink(element_type: type[Any], sink: DeltaSink[Any], query: str = "query") -> WorkerSink:
    """The sink as an engine has it, with the table."""
    pipeline = Pipeline("parts", from_source(CollectionSource([], element_type)).sink_to(sink))
    writer = spark_writer_of(pipeline.step_of(pipeline.sinks[0].node))
    assert writer.written_by is WrittenBy.WORKERS
    made = writer.worker_sink(Identity(query, "sink"))
    made.check(0, "", again=True)
    return made


def run_task(sink: WorkerSink, *portions: Sequence[Any] | pa.RecordBatch) -> list[bytes]:
    """Runs a task that succeeds, with elements or columns; returns the names that the driver gets."""
    task = sink.task(0)
    names: list[bytes] = []
    for portion in portions:
        write = task.write_rows if isinstance(portion, pa.RecordBatch) else task.write
        write(portion)
        names += task.take_names()
    task.finish()
    task.close()
    return names


def files_in(folder: Path) -> int:
    return len(list(folder.rglob("*.parquet")))


def test_the_files_of_all_tasks_are_one_commit_and_are_added_once(tmp_path: Path) -> None:
    sink = worker_sink(Total, DeltaSink[Total](tmp_path))
    names = run_task(sink, [Total("a", 1)], [Total("b", 2)]) + run_task(sink, [Total("c", 3)])
    assert len(names) == files_in(tmp_path) == 2
    assert rows(tmp_path) == []
    sink.publish(0, names)
    assert rows(tmp_path) == [("a", 1), ("b", 2), ("c", 3)]
    # A batch that runs again writes other files, which go.
    for again in (sink, worker_sink(Total, DeltaSink[Total](tmp_path))):
        again.publish(0, run_task(again, [Total("a", 10)]))
        assert files_in(tmp_path) == 2
    sink.publish(1, run_task(sink))  # nothing to write
    assert DeltaTable(tmp_path).version() == 1
    with pytest.raises(SinkError, match=r"batch 0 for .*, which has batch 0\n(.|\n)*older copy"):
        sink.check(0, "", again=False)
    # The interpreter goes on in the same table, under the same identity.
    output_of(Total, DeltaSink[Total](tmp_path), query="other").write(0, [Total("d", 4)])
    assert rows(tmp_path)[-1] == ("d", 4)


class Colour(Enum):
    RED = "red"
    BLUE = "%41 b/l=u'e"


class Sale(NamedTuple):
    shop: str | None
    n: int | None
    day: date
    paid: bool
    colour: Colour
    note: str


SALES = [
    Sale(shop, n, date(2026, 1, 1 + place % 3), place % 2 == 0, Colour.RED if place % 4 else Colour.BLUE, "x" * place)
    for place, (shop, n) in enumerate((shop, n) for shop in (None, "a", " ", "é/%") for n in (None, -1, 2**62))
]


class Short(NamedTuple):
    shop: str | None
    n: int
    day: date


class Mixed(NamedTuple):
    n: int
    mean: float
    price: Decimal
    paid: bool
    note: str


def found(path: Path, where: Any) -> list[str]:
    table = DeltaTable(path).to_pyarrow_dataset().to_table(filter=where)
    return sorted(map(repr, table.to_pylist()))


def test_readers_with_conditions_find_what_they_find_in_files_of_the_driver(tmp_path: Path) -> None:
    short = [Short(shop, n, date(1969 + n % 3, 1, 1)) for shop in (None, "a", "é/%") for n in (-1, 0, 2**62)]
    mixed = [Mixed(n, n / 2, Decimal(n), n % 2 == 0, "x" * 20 * n) for n in range(4)]
    cases: list[tuple[type[Any], Sequence[Any]]] = [(Short, short), (Mixed, mixed), (Sale, SALES), (float, [1.0, 2.5])]
    for element_type, elements in cases:
        name = element_type.__name__
        sink = worker_sink(element_type, DeltaSink[Any](tmp_path / name))
        columns = encode_batch(elements[1:], record_type(element_type))
        sink.publish(0, run_task(sink, elements[:1], columns) + run_task(sink, elements[:1]))
        driver = tmp_path / f"{name} of the driver"
        output_of(element_type, DeltaSink[Any](driver)).write(0, [*elements, elements[0]])
        names = DeltaTable(driver).to_pyarrow_table().column_names
        for column in names:
            values = DeltaTable(driver).to_pyarrow_table().column(column).to_pylist()
            field = ds.field(column)
            for value in values:
                wheres = [field.is_null()] if value is None else [field == value, field >= value, field < value]
                for where in wheres:
                    assert found(tmp_path / name, where) == found(driver, where), (name, column, value)
    logs = [(tmp_path / name / "_delta_log" / f"{1:020}.json").read_text() for name in ("Short", "Mixed")]
    assert ["minValues" in log for log in logs] == [True, False]


def test_columns_of_every_type_come_back_as_they_were(tmp_path: Path) -> None:
    output_of(Report, DeltaSink[Report](tmp_path / "driver")).write(0, REPORTS)
    sink = worker_sink(Report, DeltaSink[Report](tmp_path / "workers"))
    sink.publish(0, run_task(sink, REPORTS))
    tables = [DeltaTable(tmp_path / name).to_pyarrow_table() for name in ("workers", "driver")]
    assert sorted(map(repr, tables[0].to_pylist())) == sorted(map(repr, tables[1].to_pylist()))
    assert tables[0].schema == tables[1].schema


class Loose(NamedTuple):
    key: str | None
    value: int | None


def test_conditions_of_a_table_hold(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("key", pa.string(), nullable=False), ("value", pa.int64()), ("more", pa.int64())])
    table = DeltaTable.create(tmp_path, schema)
    sink = worker_sink(Loose, DeltaSink[Loose](tmp_path))
    with pytest.raises(SinkError, match="the Delta table refused a batch"):
        sink.publish(0, run_task(sink, [Loose("a", 1), Loose(None, 2)]))
    table.update_incremental()
    table.alter.add_constraint({"positive": "value > 0"})
    with pytest.raises(SinkError, match="the Delta table refused a batch"):
        sink.publish(0, run_task(sink, [Loose("a", 1)]) + run_task(sink, [Loose("b", -1)]))
    assert rows(tmp_path) == []
    for _ in range(2):
        sink.publish(0, run_task(sink, [Loose("a", 1)]) + run_task(sink, [Loose("b", 2)]))
        assert rows(tmp_path) == [("a", 1, None), ("b", 2, None)]
    table.update_incremental()
    assert len(table.file_uris()) == 1  # not those of the tasks


@pytest.mark.parametrize(
    ("other", "options"),
    [({"key": ["q"], "value": [1]}, {"partition_by": ["key"]}), ({"key": [1], "value": [1]}, {}), ({"key": ["q"]}, {})],
)
def test_a_table_that_was_changed_meanwhile_is_refused(tmp_path: Path, other: Any, options: Any) -> None:
    sink = worker_sink(Loose, DeltaSink[Loose](tmp_path))
    write_deltalake(tmp_path, pa.table(other), mode="overwrite", schema_mode="overwrite", **options)
    with pytest.raises(SinkError, match="the Delta table does not fit Loose"):
        sink.publish(0, run_task(sink, [Loose("a", 1)]))
    assert DeltaTable(tmp_path).to_pyarrow_table().num_rows == 1


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    sink = worker_sink(Total, DeltaSink[Total](tmp_path))
    task = sink.task(0)
    task.write([Total("a", 1)])
    assert files_in(tmp_path) == 1
    wrong: Any = Total("b", None)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(InvalidArgumentError, match="None in a field that is not Optional") as caught:
        task.write([wrong])
    assert str(caught.value.where).endswith(", Total.value")
    task.close()
    assert files_in(tmp_path) == 0


#  stale        sees that the table has no batch 0                    commits batch 0
#  successor                                       commits batch 0
def test_of_two_commits_with_one_number_the_table_takes_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale, successor = (worker_sink(Total, DeltaSink[Total](tmp_path)) for _ in range(2))
    files, others = run_task(stale, [Total("a", 10)]), run_task(successor, [Total("a", 1)])
    commit = DeltaTable.create_write_transaction

    def late(*arguments: Any, **options: Any) -> None:
        monkeypatch.undo()
        successor.publish(0, others)
        commit(*arguments, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
    with pytest.raises(SinkError, match="the Delta table refused a batch"):
        stale.publish(0, files)
    assert rows(tmp_path) == [("a", 1)]
    stale.publish(1, run_task(stale, [Total("b", 2)]))
    assert rows(tmp_path) == [("a", 1), ("b", 2)]


def test_a_file_that_the_driver_does_not_find_is_told(tmp_path: Path) -> None:
    sink = worker_sink(Total, DeltaSink[Total](tmp_path))
    names = run_task(sink, [Total("a", 1)])
    (file,) = tmp_path.glob("*.parquet")
    file.unlink()
    with pytest.raises(SinkError, match="not where the driver looks for it") as caught:
        sink.publish(0, names)
    assert caught.value.given == str(file)


def writer_of(sink: DeltaSink[Report]) -> WrittenBy:
    pipeline = Pipeline("parts", from_source(CollectionSource([], Report)).sink_to(sink))
    return spark_writer_of(pipeline.step_of(pipeline.sinks[0].node)).written_by


def test_the_driver_writes_what_workers_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for sink in (
        DeltaSink[Report](tmp_path, key="key"),
        DeltaSink[Report]("s3://bucket/table"),
        DeltaSink[Report](tmp_path, storage_options={"region": "eu"}),
        DeltaSink[Report](tmp_path, partition_by="day"),
        DeltaSink[Report](f"file://{tmp_path}/a%20b"),
        DeltaSink[Report](tmp_path / "a%20b"),
    ):
        assert writer_of(sink) is WrittenBy.OUTPUT
    plain = DeltaSink[Report](tmp_path)
    assert writer_of(plain) is WrittenBy.WORKERS
    # That version commits files without the number of the batch, which would be added again.
    monkeypatch.setattr("windrow_sql.delta.spark_writer.version", lambda name: "1.5.1")
    assert writer_of(plain) is WrittenBy.OUTPUT


def test_workers_get_no_connection(tmp_path: Path) -> None:
    sink = worker_sink(Total, DeltaSink[Total](tmp_path))
    assert isinstance(sink, DeltaWorkerSink)
    constructor, arguments = sink.__reduce__()
    copy = constructor(*arguments)
    copy.publish(0, run_task(copy, [Total("a", 1)]))
    assert rows(tmp_path) == [("a", 1)]
