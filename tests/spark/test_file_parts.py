"""Parts of Parquet sinks without Spark: what is written, told, taken away and made visible."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from windrow import Pipeline, from_collection
from windrow.errors import InvalidArgumentError, SinkError
from windrow.sinks import JsonFileSink, ParquetFileSink, Sink
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.operators.topology import Topology
from windrow_spark.columnar.state import dump_rows
from windrow_spark.connectors.files.writer import PartSink
from windrow_spark.exchange.packer import Packer, ToSink
from windrow_spark.exchange.rows import PackedRow, Phase, RowKind, dump_values, load_values
from windrow_spark.key_groups import KeyGroups
from windrow_spark.physical.plan import ColumnEdge, Objects, PhysicalSink
from windrow_spark.sinks.parts import WorkerSinks, worker_sinks

# Any in this module: pyarrow has no types.

SINK = 4


class Row(NamedTuple):
    name: str
    number: int | None


def sinks_of(sink: Sink[Row]) -> WorkerSinks | None:
    (step,) = Topology(Pipeline("parts", from_collection([Row("a", 1)], Row).sink_to(sink)).steps).sinks
    return worker_sinks({SINK: step}, {}, 3)


def part_of(sinks: WorkerSinks | None) -> PartSink | None:
    part = None if sinks is None else sinks.sinks[SINK]
    assert part is None or isinstance(part, PartSink)
    return part


@pytest.fixture
def sinks(tmp_path: Path) -> WorkerSinks:
    found = sinks_of(ParquetFileSink(str(tmp_path / "out")))
    assert found is not None
    return found


@pytest.fixture
def part(sinks: WorkerSinks) -> PartSink:
    found = part_of(sinks)
    assert found is not None
    return found


def values(*found: Any) -> PackedRow:
    return PackedRow(-1, RowKind.OUTPUT, SINK, 5, dump_values(list(found)))


def columns(*found: Row) -> PackedRow:
    stream = dump_rows(encode_batch(found, record_type(Row)), compress=False)
    return PackedRow(-1, RowKind.OUTPUT_COLUMNS, SINK, 6, stream)


def written(sinks: WorkerSinks, *rows: PackedRow) -> list[PackedRow]:
    with closing(sinks.writer()) as writer:
        return list(writer.pass_on(rows))


def rows_in(folder: Path) -> list[Row]:
    return [Row(**row) for file in sorted(folder.glob("batch-3-*")) for row in pq.read_table(file).to_pylist()]


def test_rows_for_files_are_written_and_all_others_passed_on(sinks: WorkerSinks, part: PartSink) -> None:
    count = PackedRow(-1, RowKind.COUNTERS, 0, 7, dump_values([("step", "late", 1)]))
    other = PackedRow(-1, RowKind.OUTPUT, SINK + 1, 8, b"of another sink")
    first, second = values(Row("a", 1), Row("b", None)), columns(Row("c", 3))
    passed = written(sinks, count, values(), first, other, second)
    (name,) = {row.payload for row in passed if row.kind == RowKind.PART}
    assert passed == [count, first._replace(kind=RowKind.PART, payload=name), other]
    (part.folder(3).staging / "of-a-task-that-failed.parquet").write_bytes(b"half")
    part.publish(3, [name])
    assert [file.name for file in Path(part.path).glob("batch-*")] == [f"batch-3-{name.decode()}"]
    assert rows_in(Path(part.path)) == [Row("a", 1), Row("b", None), Row("c", 3)]
    # Run again with other elements or without, the batch stays as it is, and nothing is left behind.
    (again,) = written(sinks, values(Row("a", 9)))
    for names in ([again.payload], []):
        part.publish(3, names)
        assert [file.name for file in Path(part.path).glob("batch-*")] == [f"batch-3-{name.decode()}"]
        assert rows_in(Path(part.path)) == [Row("a", 1), Row("b", None), Row("c", 3)]
        assert not part.folder(3).staging.exists()


def test_elements_of_the_stage_are_written_as_they_are(sinks: WorkerSinks, part: PartSink) -> None:
    #  elements   3 to the file of the task, 3 to another sink
    #  rows       the name of the file,      the elements
    with closing(sinks.writer()) as writer:
        packer = Packer(KeyGroups.balanced(1, 1), Phase.AFTER_WATERMARK, writer)
        packer.start(0, -1)
        elements = [Row("a", 1), Row("b", None), Row("c", 3)]
        for sink in (SINK, SINK + 1):
            assert (sink in writer) == (sink == SINK)
            packer.add(ToSink(sink), elements, [None] * 3)
        to_files = PhysicalSink(part.step, part.record_type, Objects("none"))
        more = encode_batch([Row("d", 4)], record_type(Row))
        (name, *rest) = [*packer.flush(), *packer.send_to_sink(ColumnEdge(SINK, to_files), more)]
    assert (name.kind, name.target) == (RowKind.PART, SINK)
    (output,) = rest
    assert (output.kind, output.target, list(load_values(output.payload))) == (RowKind.OUTPUT, SINK + 1, elements)
    assert name.number < output.number
    part.publish(3, [name.payload])
    assert rows_in(Path(part.path)) == [*elements, Row("d", 4)]


def test_large_elements_are_written_a_few_at_a_time() -> None:
    sizes: list[int] = []

    class Writer:
        def __contains__(self, sink: object) -> bool:
            return sink == SINK

        def write(self, sink: int, values: Sequence[Any], number: int) -> int:
            sizes.append(sum(map(len, values)))
            return sizes[-1]

        def write_columns(self, sink: int, rows: Any, number: int) -> None:
            raise AssertionError("there are none")

        def take_names(self) -> list[tuple[int, bytes]]:
            return []

    packer = Packer(KeyGroups.balanced(1, 1), Phase.AFTER_WATERMARK, Writer())
    packer.start(0, -1)
    for _ in range(60):
        packer.add(ToSink(SINK), ["x" * 100_000] * 50, [None] * 50)
        assert list(packer.full()) == []
    assert list(packer.flush()) == []
    assert sum(sizes) == 60 * 50 * 100_000
    # How large the elements are, the first ones have to show.
    assert max(sizes[2:]) < 6 << 20


def test_parts_that_are_not_there_are_told_and_nothing_is_made_visible(sinks: WorkerSinks, part: PartSink) -> None:
    # Another machine wrote one of them into a folder of its own, or all of them.
    (row,) = written(sinks, values(Row("a", 1)))
    for there in (1, 0):
        with pytest.raises(SinkError, match="not where the driver looks") as caught:
            part.publish(3, [row.payload, b"part-0.parquet"])
        staging = part.folder(3).staging
        elsewhere = f"{2 - there} of 2 are missing in {staging}, one is part-0.parquet"
        assert caught.value.given == elsewhere
        assert "every machine has mounted" in str(caught.value.hint)
        assert "test_file_parts.py:" in str(caught.value.where)
        assert not list(Path(part.path).glob("batch-*"))
        shutil.rmtree(staging, ignore_errors=True)


def test_an_element_of_another_type_names_the_sink(sinks: WorkerSinks) -> None:
    with pytest.raises(InvalidArgumentError, match="does not fit its type") as caught:
        written(sinks, values(Row("a", "one")))  # type: ignore[arg-type]
    assert "test_file_parts.py:" in str(caught.value)


def test_a_folder_that_cannot_be_made_is_told(sinks: WorkerSinks, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(SinkError, match="cannot be written"):
        written(sinks, values(Row("a", 1)))


def test_where_workers_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A worker may run in another folder, and what is in the user's file system is so under each of its names.
    monkeypatch.chdir(tmp_path)
    paths = ["out", f"{tmp_path}/out", f"file:{tmp_path}/out", f"file://{tmp_path}/out"]
    for path in paths:
        for sink in (ParquetFileSink[Row](path), JsonFileSink[Row](path)):
            part = part_of(sinks_of(sink))
            assert part is not None
            assert part.path == f"{tmp_path}/out"
    # The others are Spark's.
    assert sinks_of(JsonFileSink("hdfs://name/out")) is None
    assert sinks_of(ParquetFileSink("hdfs://name/out")) is None
