"""Files of Iceberg tables that tasks write, and commits of a batch's files: once each, read back as they were."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import FileSelector
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import StringType

from tests.outputs.outputs import output_of
from tests.outputs.test_delta import REPORTS, Report, Total
from tests.outputs.test_iceberg import VISITS, Visit, before_commit, visits_table
from tests.services.s3 import BUCKET
from tests.support.iceberg import catalog_in, iceberg_rows, iceberg_sink, table_in
from windrow import Pipeline, from_source
from windrow.errors import InvalidArgumentError, SinkError
from windrow.sinks import IcebergSink
from windrow.sources import CollectionSource
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.outputs.output import Identity
from windrow_spark.sinks.spark_writer import WrittenBy, spark_writer_of
from windrow_spark.sinks.worker_sink import WorkerSink
from windrow_sql.iceberg import spark_writer as spark_writer_module
from windrow_sql.iceberg.parts import FileList
from windrow_sql.iceberg.spark_writer import IcebergWorkerSink

# Any in this module: elements of every type, and pyarrow has no types.


def worker_sink(folder: Path, element_type: type[Any], table: str = "db.t", query: str = "query") -> WorkerSink:
    """The sink of a table as an engine has it, with the table."""
    sink = iceberg_sink(folder, table)
    pipeline = Pipeline("parts", from_source(CollectionSource([], element_type)).sink_to(sink))
    writer = spark_writer_of(pipeline.step_of(pipeline.sinks[0].node))
    assert writer.written_by is WrittenBy.WORKERS
    assert writer.takes_columns
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
    assert task.take_names() == ()
    return names


def files_in(folder: Path, ending: str = "parquet") -> int:
    return len(list((folder / "warehouse").rglob(f"data/**/*.{ending}")))


def test_the_files_of_all_tasks_are_one_snapshot_and_are_added_once(tmp_path: Path) -> None:
    sink = worker_sink(tmp_path, Total)
    names = run_task(sink, [Total("a", 1)], [Total("b", 2)]) + run_task(sink, [Total("c", 3)])
    assert len(names) == files_in(tmp_path) == files_in(tmp_path, "avro") == 2
    assert iceberg_rows(tmp_path) == []
    sink.publish(0, names)
    assert iceberg_rows(tmp_path) == [("a", 1), ("b", 2), ("c", 3)]
    # A batch that runs again writes other files, which go.
    for again in (sink, worker_sink(tmp_path, Total)):
        again.publish(0, run_task(again, [Total("a", 10)]))
        assert (files_in(tmp_path), files_in(tmp_path, "avro")) == (2, 0)
    sink.publish(1, run_task(sink))  # nothing to write
    sink.publish(1, run_task(sink, []))
    assert len(table_in(tmp_path).snapshots()) == 1
    with pytest.raises(SinkError, match=r"batch 0 for .*, which has batch 0\n(.|\n)*older copy"):
        sink.check(0, "", again=False)
    # The interpreter goes on in the same table.
    output_of(Total, iceberg_sink(tmp_path), query="other").write(0, [Total("d", 4)])
    assert iceberg_rows(tmp_path)[-1] == ("d", 4)


def test_a_batch_makes_the_table_before_its_tasks_begin(tmp_path: Path) -> None:
    pipeline = Pipeline("parts", from_source(CollectionSource([], Total)).sink_to(iceberg_sink(tmp_path)))
    sink = spark_writer_of(pipeline.step_of(pipeline.sinks[0].node)).worker_sink(Identity("query", "sink"))
    # Jobs check no number first.
    sink.begin(0)
    sink.publish(0, run_task(sink, [Total("a", 1)]))
    assert iceberg_rows(tmp_path) == [("a", 1)]


def test_a_task_with_many_rows_writes_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_writer_module, "_FILE_BYTES", 1)
    sink = worker_sink(tmp_path, Total)
    names = run_task(sink, [Total("a", 1)], [Total("b", 2)], [Total("c", 3)])
    assert (len(names), files_in(tmp_path), files_in(tmp_path, "avro")) == (1, 3, 1)
    sink.publish(0, names)
    assert iceberg_rows(tmp_path) == [("a", 1), ("b", 2), ("c", 3)]


def test_columns_of_every_type_come_back_as_those_of_the_driver(tmp_path: Path) -> None:
    output_of(Report, iceberg_sink(tmp_path, "db.driver")).write(0, REPORTS)
    sink = worker_sink(tmp_path, Report, "db.workers")
    sink.publish(0, run_task(sink, REPORTS[:1], encode_batch(REPORTS[1:], record_type(Report))))
    assert iceberg_rows(tmp_path, "db.workers") == iceberg_rows(tmp_path, "db.driver")
    tables = [table_in(tmp_path, f"db.{name}") for name in ("workers", "driver")]
    assert tables[0].schema().fields == tables[1].schema().fields
    bounds = [table.inspect.files().select(["lower_bounds", "upper_bounds"]).to_pylist() for table in tables]
    assert len(bounds[0]) == 1
    assert bounds[0] == bounds[1]


def test_files_lie_in_the_partitions_of_the_table(tmp_path: Path) -> None:
    visits_table(tmp_path, ("at", DayTransform()), ("site", IdentityTransform()), ("n", BucketTransform(4)))
    sink = worker_sink(tmp_path, Visit)
    sink.publish(0, run_task(sink, VISITS[:3], VISITS[3:]) + run_task(sink, VISITS[:1]))
    assert iceberg_rows(tmp_path) == sorted(
        [(each.n, each.at, None, each.site) for each in [*VISITS, VISITS[0]]], key=repr
    )
    table = table_in(tmp_path)
    assert table.inspect.partitions().num_rows == len(VISITS)
    assert table.scan("site == 'a/b=é' and n == 4").to_arrow().num_rows == 1
    assert len(list(table.scan("n == 4").plan_files())) == 1


def test_a_task_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_writer_module, "_FILE_BYTES", 1)
    sink = worker_sink(tmp_path, Total)
    task = sink.task(0)
    task.write([Total("a", 1)])
    assert files_in(tmp_path) == 1
    wrong: Any = Total("b", None)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(InvalidArgumentError, match="None in a field that is not Optional") as caught:
        task.write([wrong])
    assert str(caught.value.where).endswith(", Total.value")
    task.close()
    assert (files_in(tmp_path), files_in(tmp_path, "avro")) == (0, 0)


def test_a_batch_is_done_where_nothing_may_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: PyArrowFileIO, location: str) -> None:
        raise PermissionError(f"the user swordfish may not delete {location}")

    monkeypatch.setattr(PyArrowFileIO, "delete", refuse)
    sink = worker_sink(tmp_path, Total)
    sink.publish(0, run_task(sink, [Total("a", 1)]))
    sink.publish(0, run_task(sink, [Total("a", 10)]))
    task = sink.task(1)
    task.close()
    assert iceberg_rows(tmp_path) == [("a", 1)]
    assert "a file of an Iceberg table cannot be deleted (PermissionError): file:///" in caplog.text
    assert "swordfish" not in caplog.text


#  stale        sees that the table has no batch 0                    commits batch 0
#  successor                                       commits batch 0
def test_of_two_commits_with_one_number_the_table_takes_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale, successor = (worker_sink(tmp_path, Total) for _ in range(2))
    files, others = run_task(stale, [Total("a", 10)]), run_task(successor, [Total("a", 1)])
    before_commit(monkeypatch, lambda: successor.publish(0, others))
    stale.publish(0, files)
    assert iceberg_rows(tmp_path) == [("a", 1)]
    assert (files_in(tmp_path), files_in(tmp_path, "avro")) == (1, 0)
    stale.publish(1, run_task(stale, [Total("b", 2)]))
    assert iceberg_rows(tmp_path) == [("a", 1), ("b", 2)]


def test_columns_that_are_added_meanwhile_have_nulls(tmp_path: Path) -> None:
    sink = worker_sink(tmp_path, Total)
    names = run_task(sink, [Total("a", 1)])
    with table_in(tmp_path).update_schema() as update:
        update.add_column("note", StringType())
    # The worker takes the table as it has loaded it.
    sink.publish(0, names + run_task(sink, [Total("b", 2)]))
    assert iceberg_rows(tmp_path) == [("a", 1, None), ("b", 2, None)]


def replace_column(folder: Path) -> None:
    with table_in(folder).update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("key")
    with table_in(folder).update_schema() as update:
        update.add_column("key", StringType())


def divide_by_key(folder: Path) -> None:
    with table_in(folder).update_spec() as update:
        update.add_identity("key")


@pytest.mark.parametrize("change", [replace_column, divide_by_key])
def test_files_for_a_table_that_was_changed_meanwhile_are_refused(tmp_path: Path, change: Any) -> None:
    sink = worker_sink(tmp_path, Total)
    names = run_task(sink, [Total("a", 1)])
    change(tmp_path)
    with pytest.raises(
        SinkError, match=r"changed while workers wrote files for it(.|\n)*run again from the checkpoint"
    ):
        sink.publish(0, names)
    assert table_in(tmp_path).scan().count() == 0
    # A run that goes on from the checkpoint loads the table anew, also in the workers that it finds.
    again = worker_sink(tmp_path, Total)
    again.publish(0, run_task(again, [Total("a", 1)]))
    assert table_in(tmp_path).scan().to_arrow().column("key").to_pylist() == ["a"]


def test_a_table_that_does_not_fit_any_more_is_refused(tmp_path: Path) -> None:
    sink = worker_sink(tmp_path, Total)
    names = run_task(sink, [Total("a", 1)])
    with table_in(tmp_path).update_schema() as update:
        update.rename_column("key", "name")
    with pytest.raises(SinkError, match="the Iceberg table does not fit Total"):
        sink.publish(0, names)
    assert table_in(tmp_path).scan().count() == 0


def test_another_table_of_the_name_is_refused(tmp_path: Path) -> None:
    sink = worker_sink(tmp_path, Total)
    names = run_task(sink, [Total("a", 1)])
    table = table_in(tmp_path)
    catalog = catalog_in(tmp_path)
    catalog.drop_table("db.t")
    catalog.create_table("db.t", table.schema())
    with pytest.raises(SinkError, match="Table UUID does not match"):
        sink.publish(0, names)
    with pytest.raises(SinkError, match="changed while workers wrote files for it"):
        worker_sink(tmp_path, Total).publish(0, names)


def test_a_file_that_the_driver_does_not_find_is_told(tmp_path: Path) -> None:
    sink = worker_sink(tmp_path, Total)
    names = run_task(sink, [Total("a", 1)])
    Path(FileList.load(names[0]).location.removeprefix("file://")).unlink()
    with pytest.raises(SinkError, match="not where the driver looks for it") as caught:
        sink.publish(0, names)
    assert ".avro" in str(caught.value.given)


def test_a_worker_loads_a_table_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr(spark_writer_module, "_loaded", {})
    clock = SimpleNamespace(monotonic=lambda: next(ticks) * 25.0)
    monkeypatch.setattr(spark_writer_module, "time", clock)
    sink, other = (worker_sink(tmp_path, Total, query=query) for query in ("query", "other"))
    versions = []
    for batch in range(4):
        task = sink.task(batch)
        versions.append(task._table.metadata.last_updated_ms)  # type: ignore[attr-defined]  # a private class
        task.close()
        with table_in(tmp_path).transaction() as transaction:
            transaction.set_properties({"batch": str(batch)})
    assert versions[0] == versions[1] == versions[2] < versions[3]
    assert len(spark_writer_module._loaded) == 1
    other.task(0).close()
    assert len(spark_writer_module._loaded) == 2
    next(ticks), next(ticks)
    other.task(0).close()
    assert len(spark_writer_module._loaded) == 1


def test_workers_get_the_configuration_of_the_driver_and_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = iceberg_sink(tmp_path).properties
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", properties["warehouse"])
    sink = IcebergSink[Total]("db.t", catalog="lake", properties={"type": "sql", "uri": properties["uri"]})
    catalog = catalog_in(tmp_path)
    catalog.name = "lake"
    catalog.create_namespace("db")
    pipeline = Pipeline("parts", from_source(CollectionSource([], Total)).sink_to(sink))
    made = spark_writer_of(pipeline.step_of(pipeline.sinks[0].node)).worker_sink(Identity("query", "sink"))
    made.check(0, "", again=True)
    monkeypatch.undo()
    assert isinstance(made, IcebergWorkerSink)
    constructor, arguments = made.__reduce__()
    copy = constructor(*arguments)
    copy.publish(0, run_task(copy, [Total("a", 1)]))
    assert catalog.load_table("db.t").scan().count() == 1


def test_workers_write_into_an_object_store(tmp_path: Path, s3: str) -> None:
    place = {
        "warehouse": f"s3://{BUCKET}/{tmp_path.name}",
        "s3.endpoint": f"http://{s3}",
        "s3.region": "us-east-1",
        "s3.access-key-id": "anyone",
        "s3.secret-access-key": "anything",
    }
    sink = iceberg_sink(tmp_path, **place)
    pipeline = Pipeline("parts", from_source(CollectionSource([], Total)).sink_to(sink))
    writer = spark_writer_of(pipeline.step_of(pipeline.sinks[0].node))
    made, again = (writer.worker_sink(Identity("query", "sink")) for _ in range(2))
    for each in (made, again):
        each.check(0, "", again=True)
        each.publish(0, run_task(each, [Total("a", 1)], [Total("b", 2)]) + run_task(each, [Total("c", 3)]))
    with closing(load_catalog("test", **sink.properties)) as catalog:
        table = catalog.load_table("db.t")
        assert sorted(table.scan().to_arrow().column("value").to_pylist()) == [1, 2, 3]
        files, _, path = PyArrowFileIO.parse_location(f"{table.location()}/data")
        assert files == "s3"
        io = table.io
        assert isinstance(io, PyArrowFileIO)
        found = io.fs_by_scheme("s3", BUCKET).get_file_info(FileSelector(path, recursive=True))
        # Neither lists nor the files of the second run are left.
        assert len([each for each in found if each.is_file]) == 2


def test_without_the_library_the_output_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline("parts", from_source(CollectionSource([], Total)).sink_to(iceberg_sink(tmp_path)))
    writer = spark_writer_of(pipeline.step_of(pipeline.sinks[0].node))
    monkeypatch.setattr(spark_writer_module, "find_spec", lambda name: None)
    assert writer.written_by is WrittenBy.OUTPUT
