"""Parts of Parquet sinks without Spark: what is written, told, taken away and made visible."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from windrow import Pipeline, from_collection
from windrow.sinks import JsonFileSink, ParquetFileSink, Sink
from windrow_runtime.codecs.arrow import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.columnar.chunks import dump_rows
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark.failures import MarkedError
from windrow_runtime.spark.file_parts import PartSink, PartStage, part_sink
from windrow_runtime.spark.payload import pack_columns, pack_elements
from windrow_runtime.spark.rows import COUNTERS, FIRST_SINK, PackedRow, exchange_batch

# Any in this module: pyarrow has no types.


class Row(NamedTuple):
    name: str
    number: int | None


def sink_of(sink: Sink[Row]) -> PartSink | None:
    (step,) = Topology(Pipeline("parts", from_collection([Row("a", 1)], Row).sink_to(sink)).steps).sinks
    return part_sink(step)


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
    (part.aside(3) / "of-a-task-that-failed.parquet").write_bytes(b"half")
    part.publish(3, [name])
    folder = Path(part.path, "batch=3")
    assert [file.name for file in folder.iterdir()] == [name.decode()]
    assert [Row(**row) for row in pq.read_table(folder / name.decode()).to_pylist()] == [
        Row("a", 1),
        Row("b", None),
        Row("c", 3),
    ]
    # Run again without elements, the batch has nothing any more.
    part.publish(3, [])
    assert not folder.exists()


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
