"""What the interpreter writes, and that a batch that is written again stays as it is."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import in_order
from windrow import Pipeline, from_collection, from_source
from windrow.errors import InvalidArgumentError, PlanError, SinkError, UnsupportedOperationError, UserFunctionError
from windrow.functions import MapFunction, RuntimeContext
from windrow.sinks import CollectSink, ConsoleSink, FunctionSink, JsonFileSink, ParquetFileSink, WriterSink
from windrow.sources import CollectionSource, JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.connectors.files.parts import FileOutput
from windrow_runtime.local import LocalRunner


@dataclass(frozen=True)
class Total:
    key: str
    total: int


TOTALS = [Total("a", 1), Total("b", 2), Total("c", 3)]


def test_a_function_gets_each_batch_with_its_number() -> None:
    seen: list[tuple[int, Sequence[Total]]] = []
    stream = from_source(CollectionSource(TOTALS, batch_size=2))
    sink = FunctionSink[Total](lambda batch, totals: seen.append((batch, totals)))
    LocalRunner().run(Pipeline("functions", stream.sink_to(sink)))
    assert seen == [(0, TOTALS[:2]), (1, TOTALS[2:])]


def test_a_function_that_raises_is_named() -> None:
    def fail(batch: int, totals: Sequence[Total]) -> None:
        raise OSError("disk full")

    stream = from_collection(TOTALS).sink_to(FunctionSink(fail), name="store")
    with pytest.raises(UserFunctionError, match="the function of the sink raised OSError: disk full") as caught:
        LocalRunner().run(Pipeline("functions", stream))
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.given == "batch 0 of 3 elements, beginning with Total(key='a', total=1)"
    assert "functions.2.store, " in str(caught.value.where)


def test_an_address_that_is_refused_is_shown_without_its_secrets() -> None:
    stream = from_collection(TOTALS).sink_to(JsonFileSink("s3a://ann:s3cret@bucket/out"))
    with pytest.raises(UnsupportedOperationError, match="only Spark opens files") as caught:
        LocalRunner().run(Pipeline("far", stream))
    assert caught.value.given == "s3a://ann:*****@bucket/out"


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "é \\ud800"), ("ascii", "\\xe9 \\ud800")])
def test_the_console_shows_what_it_has_no_characters_for(
    monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding, write_through=True))
    LocalRunner().run(Pipeline("lines", from_collection(["é \ud800", "b"]).sink_to(ConsoleSink("> "))))
    assert written.getvalue().decode(encoding) == f"> {shown}\n> b\n"


def rows_of_json(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def rows_of_parquet(file: Path) -> list[Any]:
    rows: list[Any] = pytest.importorskip("pyarrow.parquet").ParquetFile(file).read().to_pylist()
    return rows


@pytest.mark.parametrize(
    ("kind", "ending", "rows_of"),
    [(JsonFileSink, "json", rows_of_json), (ParquetFileSink, "parquet", rows_of_parquet)],
    ids=["json", "parquet"],
)
def test_files_hold_a_batch_each(tmp_path: Path, kind: Any, ending: str, rows_of: Callable[[Path], list[Any]]) -> None:
    stream = from_source(CollectionSource(TOTALS, batch_size=2))
    LocalRunner().run(Pipeline("files", stream.sink_to(kind(tmp_path / "out"))))
    files = sorted((tmp_path / "out").rglob(f"*.{ending}"))
    assert [file.name for file in files] == [f"batch-{number}-part-0.{ending}" for number in range(2)]
    assert [row for file in files for row in rows_of(file)] == [asdict(total) for total in TOTALS]


@pytest.mark.parametrize("kind", [JsonFileSink, ParquetFileSink])
def test_a_batch_that_is_written_again_stays_as_it_is(
    tmp_path: Path, kind: type[JsonFileSink[Total]] | type[ParquetFileSink[Total]]
) -> None:
    if kind is ParquetFileSink:
        pytest.importorskip("pyarrow")
    pipeline = Pipeline("files", from_collection(TOTALS).sink_to(kind(tmp_path)))
    output = FileOutput(pipeline.steps[-1])
    output.write(7, TOTALS)

    def files() -> dict[Path, tuple[int, bytes]]:
        return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in tmp_path.rglob("*-part-*")}

    written = files()
    # What a run that died had begun is not in the way, and is not left behind.
    (tmp_path / "_batch-7").mkdir()
    for values in (TOTALS, TOTALS[:1], []):
        output.write(7, values)
        assert files() == written
        assert not (tmp_path / "_batch-7").exists()


def test_a_second_run_does_not_mix_its_rows_with_those_of_the_first(tmp_path: Path) -> None:
    seen: list[int] = []

    def run(count: int, *, overwrite: bool = False) -> list[str]:
        source = from_source(CollectionSource(TOTALS[:count], batch_size=1))
        files = JsonFileSink[Total](tmp_path / "out", overwrite=overwrite)
        ends = source.sink_to(files), source.sink_to(FunctionSink(lambda batch, _: seen.append(batch)))
        LocalRunner().run(Pipeline("files", *ends))
        return sorted(file.name for file in tmp_path.rglob("*-part-*"))

    assert run(3) == [f"batch-{number}-part-0.json" for number in range(3)]
    seen.clear()
    with pytest.raises(SinkError, match=r"batches of another run(.|\n)*overwrite=True"):
        run(2)
    assert seen == []
    assert run(1, overwrite=True) == ["batch-0-part-0.json"]


def test_a_run_that_wrote_nothing_is_not_in_the_way(tmp_path: Path) -> None:
    def fail(total: Total) -> bool:
        raise ValueError(total)

    stream = from_collection(TOTALS)
    with pytest.raises(UserFunctionError):
        LocalRunner().run(Pipeline("files", stream.filter(fail).sink_to(JsonFileSink(tmp_path))))
    LocalRunner().run(Pipeline("files", stream.sink_to(JsonFileSink(tmp_path))))
    assert len(list(tmp_path.rglob("*-part-*"))) == 1


def test_the_fields_of_a_file_win_over_the_names_of_its_folders(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Row:
        batch: int

    stream = from_source(CollectionSource([Row(100), Row(101)], batch_size=1))
    LocalRunner().run(Pipeline("files", stream.sink_to(JsonFileSink(tmp_path / "batch=5"))))
    assert from_source(JsonFileSource(tmp_path, Row)).collect() == [Row(100), Row(101)]


def test_paths_with_a_scheme(tmp_path: Path) -> None:
    numbers = from_collection(TOTALS)
    LocalRunner().run(Pipeline("files", numbers.sink_to(JsonFileSink(f"file://{tmp_path}/out"))))
    assert (tmp_path / "out" / "batch-0-part-0.json").exists()
    elsewhere = numbers.sink_to(JsonFileSink("hdfs://name/out"))
    with pytest.raises(UnsupportedOperationError, match="only Spark opens files") as caught:
        LocalRunner().run(Pipeline("files", elsewhere))
    assert caught.value.given == "hdfs://name/out"
    assert "test_sinks.py:" in str(caught.value.where)


def test_a_file_needs_the_type_of_its_records(tmp_path: Path) -> None:
    untyped = from_collection(TOTALS).map(lambda total: max([total], key=lambda each: each.total))
    with pytest.raises(PlanError, match=r"call returns\(Type\) before sink_to"):
        Pipeline("files", untyped.sink_to(JsonFileSink(tmp_path)))
    LocalRunner().run(Pipeline("files", untyped.returns(Total).sink_to(JsonFileSink(tmp_path))))
    (file,) = tmp_path.rglob("*.json")
    assert len(file.read_text(encoding="utf-8").splitlines()) == 3


def test_a_sink_of_sparks_is_refused_before_anything_runs() -> None:
    ran: list[int] = []

    def note(number: int) -> int:
        ran.append(number)
        return number

    stream = from_collection([1]).map(note)
    with pytest.raises(UnsupportedOperationError, match="run the pipeline with SparkRunner"):
        LocalRunner().run(Pipeline("writer", stream.sink_to(WriterSink(lambda df: df))))
    assert ran == []


def test_several_sinks_are_collected_apart() -> None:
    numbers = from_collection([1, 2, 3])
    odd, tens = CollectSink[int]("odd"), CollectSink[int]("tens")
    odd_numbers, multiples = numbers.filter(lambda number: number % 2 == 1), numbers.map(lambda number: number * 10)
    result = LocalRunner().run(Pipeline("two", odd_numbers.sink_to(odd), multiples.sink_to(tens)))
    assert (result.collected(odd), result.collected(tens)) == ([1, 3], [10, 20, 30])
    with pytest.raises(InvalidArgumentError, match=r"not part of the pipeline(.*\n)*  hint: .*another one"):
        result.collected(CollectSink[int]())
    others: Any = (ConsoleSink(), FunctionSink(print), numbers)  # type checkers refuse them
    for other in others:
        with pytest.raises(InvalidArgumentError, match=f"given:    a {type(other).__name__}\n.*the CollectSink"):
            result.collected(other)


class Counting(MapFunction[Total, Total]):
    """Counts by a metric of its own."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.metrics.counter("seen")

    def map(self, value: Total) -> Total:
        self._seen.inc(value.total)
        return value


#  batch        1            2
#  elements     a at 0       a at 30       a at 1
#  watermark    none         none          29: late
def test_counters_are_told_by_step() -> None:
    late = [Total("a", 0), Total("a", 30), Total("a", 1)]
    counting = from_source(CollectionSource(late, batch_size=1)).map(Counting(), name="counting")
    keyed = in_order(counting, lambda total: total.total).key_by(lambda total: total.key)
    windows = keyed.window(TumblingEventTimeWindows.of(timedelta(milliseconds=10)))
    stream = windows.reduce(lambda a, b: a, name="first")
    sink = CollectSink[Total]()
    result = LocalRunner(clock=lambda: 0).run(Pipeline("counted", stream.sink_to(sink)))
    assert result.collected(sink) == [Total("a", 0), Total("a", 30)]
    assert result.counter("seen") == 31
    assert result.counter("late_records_dropped") == 1
    assert dict(result.counters["counted.2.counting"]) == {"seen": 31}
    assert dict(result.counters["counted.5.first"]) == {"late_records_dropped": 1}
