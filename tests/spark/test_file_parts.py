"""Parts of Parquet sinks without Spark: what is written, told, taken away and made visible."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from windrow import Pipeline, from_collection
from windrow.errors import SinkError
from windrow.sinks import JsonFileSink, ParquetFileSink, Sink
from windrow_runtime.codecs.arrow.batches import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.columnar.state.chunks import dump_rows
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark.exchange.payload import pack_columns, pack_elements
from windrow_runtime.spark.exchange.rows import COUNTERS, FIRST_SINK, PackedRow, exchange_batch
from windrow_runtime.spark.faults.marked import MarkedError
from windrow_runtime.spark.sinks.parts import PartSink, PartStage, worker_sinks

# Any in this module: pyarrow has no types.


class Row(NamedTuple):
    name: str
    number: int | None


def sink_of(sink: Sink[Row]) -> PartSink | None:
    (step,) = Topology(Pipeline("parts", from_collection([Row("a", 1)], Row).sink_to(sink)).steps).sinks
    part = worker_sinks({FIRST_SINK: step}, lambda: "query").get(FIRST_SINK)
    assert part is None or isinstance(part, PartSink)
    return part


@pytest.fixture
def part(tmp_path: Path) -> PartSink:
    found = sink_of(ParquetFileSink(str(tmp_path / "out")))
    assert found is not None
    return found


def rows(*found: PackedRow) -> Any:
    return exchange_batch(found).select(["sink", "number", "payload"])


def values(*found: Any) -> bytes:
    return pack_elements(list(found), [None] * len(found))


def columns(*found: Row) -> bytes:
    return pack_columns(FIRST_SINK, dump_rows(encode_batch(found, record_type(Row))))


def test_rows_of_files_are_written_and_all_others_passed_on(part: PartSink) -> None:
    count = PackedRow(0, COUNTERS, 7, values(("step", "late", 1)))
    stage = PartStage(3, {FIRST_SINK: part}, ())
    batches = [
        rows(count, PackedRow(0, FIRST_SINK, 1, values(Row("a", 1), Row("b", None)))),
        rows(PackedRow(0, FIRST_SINK, 2, columns(Row("c", 3)))),
        rows(PackedRow(0, FIRST_SINK, 3, values())),
    ]
    passed, told = stage(iter(batches))
    assert passed.schema == told.schema  # Spark writes all of them into one stream
    assert passed.to_pylist() == [{"sink": COUNTERS, "number": 7, "payload": count.payload}]
    (name,) = told.column("payload").to_pylist()
    (part.folder(3).aside / "of-a-task-that-failed.parquet").write_bytes(b"half")
    part.publish(3, [name])
    folder = Path(part.path, "batch-3")
    assert [file.name for file in folder.iterdir()] == [name.decode()]
    assert [Row(**row) for row in pq.read_table(folder / name.decode()).to_pylist()] == [
        Row("a", 1),
        Row("b", None),
        Row("c", 3),
    ]
    # Run again without elements, the batch has nothing any more.
    part.publish(3, [])
    assert not folder.exists()


def test_parts_that_are_not_there_are_told_and_nothing_is_made_visible(part: PartSink) -> None:
    # Another machine wrote one of them into a folder of its own, or all of them.
    stage = PartStage(3, {FIRST_SINK: part}, ())
    (told,) = stage(iter([rows(PackedRow(0, FIRST_SINK, 1, values(Row("a", 1))))]))
    (name,) = told.column("payload").to_pylist()
    for there in (1, 0):
        with pytest.raises(SinkError, match="not where the driver looks") as caught:
            part.publish(3, [name, b"part-0.parquet"])
        aside = part.folder(3).aside
        elsewhere = f"{2 - there} of 2 are missing in {aside}, one is part-0.parquet"
        assert caught.value.given == elsewhere
        assert "every machine has mounted" in str(caught.value.hint)
        assert "test_file_parts.py:" in str(caught.value.where)
        assert not part.folder(3).visible.exists()
        shutil.rmtree(aside, ignore_errors=True)


def test_an_element_of_another_type_names_the_sink(part: PartSink) -> None:
    stage = PartStage(0, {FIRST_SINK: part}, ())
    with pytest.raises(MarkedError, match="does not fit its type") as caught:
        list(stage(iter([rows(PackedRow(0, FIRST_SINK, 1, values(Row("a", "one"))))])))  # type: ignore[arg-type]
    assert "test_file_parts.py:" in str(caught.value)


def test_a_folder_that_cannot_be_made_is_told(part: PartSink, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    stage = PartStage(0, {FIRST_SINK: part}, ())
    with pytest.raises(MarkedError, match="cannot be written"):
        list(stage(iter([rows(PackedRow(0, FIRST_SINK, 1, values(Row("a", 1))))])))


def test_what_spark_writes() -> None:
    assert sink_of(JsonFileSink("out")) is None
    assert sink_of(ParquetFileSink("s3a://bucket/out")) is None


def test_where_workers_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A worker may run in another folder, and what is in the user's file system is so under each of its names.
    monkeypatch.chdir(tmp_path)
    paths = ["out", f"{tmp_path}/out", f"file:{tmp_path}/out", f"file://{tmp_path}/out"]
    found = [sink_of(ParquetFileSink(path)) for path in paths]
    assert {None if part is None else part.path for part in found} == {f"{tmp_path}/out"}
