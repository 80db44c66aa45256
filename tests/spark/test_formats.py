"""Formats of files, and faults in them, on Spark: all of them in few queries."""

from __future__ import annotations

import gzip
import itertools
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import pytest

from tests.budget import for_a_night
from tests.formats import BAD, CASES, Row, json_of, parquet, zstd
from tests.local.test_formats import WIDE, Wide
from tests.support.thorough import thorough
from windrow import DataStreamSink, Pipeline, from_collection, from_dataframe, from_source
from windrow.errors import InvalidArgumentError, SourceError, UnsupportedOperationError, WindrowWarning
from windrow.sinks import CollectSink, CsvFileSink, JsonFileSink, ParquetFileSink, TextFileSink
from windrow.sources import (
    CsvFileSource,
    JsonFileSource,
    MalformedRecord,
    ParquetFileSource,
    SocketSource,
    TextFileSource,
)
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_spark.run_limits import RunLimits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: elements of every type.


def test_each_format_gives_what_the_interpreter_reads(spark: SparkSession, tmp_path: Path) -> None:
    good: dict[str, CollectSink[Any]] = {}
    bad: dict[str, CollectSink[MalformedRecord]] = {}
    ends: list[DataStreamSink] = []
    for case in CASES:
        source = case.write(tmp_path)
        stream = from_source(source, name=case.name)
        good[case.name] = CollectSink(case.name)
        ends.append(stream.sink_to(good[case.name]))
        if source.on_malformed == BAD:
            bad[case.name] = CollectSink(f"bad {case.name}")
            ends.append(stream.get_side_output(BAD).sink_to(bad[case.name]))
    pipeline = Pipeline("formats", *ends)
    expected = LocalRunner().run(pipeline)
    runner = SparkRunner(spark)
    # test_runner_sources.py has good and bad records of each format in a stream.
    for result in (run(pipeline) for run in for_a_night((runner.run, runner.run_batch), (runner.run_batch,))):
        for case in CASES:
            found = result.collected(good[case.name])
            assert sorted(map(repr, found)) == sorted(map(repr, case.expected)), case.name
        for name, sink in bad.items():
            assert sorted(map(repr, result.collected(sink))) == sorted(map(repr, expected.collected(sink))), name
        assert result.counters == expected.counters


LIKE_ZSTD = "workers read it as the interpreter does, which tests/local/test_formats.py has; zstd runs"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        thorough("x.json.gz", gzip.compress(json_of("a", 1) * 99)[:-9], reason=LIKE_ZSTD),
        ("x.json.zst", zstd(json_of("a", 1) * 99)[:-9]),
        thorough("x.json.deflate", zlib.compress(json_of("a", 1) * 99)[:-9], reason=LIKE_ZSTD),
        ("x.parquet", parquet({"name": ["a"], "n": [1]})[:-3]),
    ],
    ids=["gzip", "zstd", "deflate", "parquet"],  # gzip writes the time, which would be part of the name of the test
)
def test_a_damaged_file_is_told(spark: SparkSession, tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    kind = ParquetFileSource if name.endswith("parquet") else JsonFileSource
    pipeline = Pipeline("read", from_source(kind(tmp_path, Row, on_malformed="drop")).sink_to(CollectSink[Any]()))
    with pytest.raises(SourceError) as expected:
        LocalRunner().run(pipeline)
    with pytest.raises(SourceError) as caught:
        SparkRunner(spark).run_batch(pipeline)
    assert str(caught.value) == str(expected.value)


class Below(TypedDict, total=False):
    m: int


class Lacking(TypedDict):
    n: int
    below: Below
    name: NotRequired[str]


def test_files_of_one_engine_are_read_by_the_other(spark: SparkSession, tmp_path: Path) -> None:
    runners = {"interpreter": LocalRunner().run, "spark": SparkRunner(spark).run_batch}
    spans = [timedelta(days=-1, microseconds=1), timedelta(seconds=2)]
    lacking: list[Lacking] = [{"n": 1, "below": {}}, {"n": 2, "below": {"m": 3}, "name": "a"}]
    forms: dict[str, tuple[list[Any], Any, Any, Callable[[str], Any]]] = {
        "csv": (WIDE, Wide, CsvFileSink, lambda path: CsvFileSource(path, Wide)),
        "txt": (["", "\u00e4 "], str, TextFileSink, TextFileSource),
        "parquet": (spans, timedelta, ParquetFileSink, lambda path: ParquetFileSource(path, timedelta)),
        "json": (spans, timedelta, JsonFileSink, lambda path: JsonFileSource(path, timedelta)),
        "lacking.json": (lacking, Lacking, JsonFileSink, lambda path: JsonFileSource(path, Lacking)),
    }
    for name, run in runners.items():
        ends = [
            from_collection(elements, kind).sink_to(sink(tmp_path / name / form))
            for form, (elements, kind, sink, _) in forms.items()
        ]
        run(Pipeline("write", *ends))
    for name, run in itertools.product(runners, runners.values()):
        sinks = {form: CollectSink[Any](form) for form in forms}
        paths = {form: f"{tmp_path / name / form}/*.{form.rpartition('.')[2]}" for form in forms}
        result = run(Pipeline("read", *(from_source(forms[f][3](paths[f])).sink_to(sinks[f]) for f in forms)))
        for form, (elements, *_) in forms.items():
            assert sorted(map(repr, result.collected(sinks[form]))) == sorted(map(repr, elements)), (name, form)
    for form in ("csv", "json", "lacking.json"):
        files = [sorted((tmp_path / name / form).glob(f"*.{form.rpartition('.')[2]}")) for name in runners]
        one, other = (b"".join(file.read_bytes() for file in each) for each in files)
        assert one == other
    with pytest.raises(InvalidArgumentError, match="no line of text"):
        runners["spark"](Pipeline("line", from_collection(["a\nb"], str).sink_to(TextFileSink(tmp_path / "refused"))))


@dataclass(frozen=True)
class Weather:
    sensor: str
    celsius: float = 0.5


def test_a_header_with_a_misspelt_column_is_warned_of(spark: SparkSession, tmp_path: Path) -> None:
    for name, header in (("a", "sensor,Celsius"), ("b", "sensor,Celsius"), ("c", "sensor"), ("d", "x,sensor,celsius")):
        (tmp_path / name).write_text(f"{header}\n")
    (tmp_path / "e.gz").write_bytes(gzip.compress(b"sensor,temp,celcius\n"))
    for run in (LocalRunner().run, SparkRunner(spark).run):
        pipeline = Pipeline(
            "read", from_source(CsvFileSource(tmp_path, Weather, on_malformed="drop")).sink_to(CollectSink[Any]())
        )
        with pytest.warns(WindrowWarning, match="a column may be misspelt") as caught:
            run(pipeline)
        first, other = sorted(str(warning.message) for warning in caught)
        assert "the header has 'Celsius', which no field takes, and lacks 'celsius'\n" in first
        assert re.search(rf"where:    read\.1\.source, {__file__}:\d+, {tmp_path}/[ab]\n", first)
        assert "the header has 'temp', 'celcius', which no field takes, and lacks 'celsius'\n" in other
        assert {warning.filename for warning in caught} == {__file__}


class DividingRunner(SparkRunner):
    _limits = RunLimits(large_file_bytes=1000)


def test_large_files_are_read_in_parts_in_order(spark: SparkSession, tmp_path: Path) -> None:
    lines = [json_of("x" * (number % 7), number) for number in range(500)]
    line_ends = [b"\n", b"\r\n", b"\r"]
    data = b"\xef\xbb\xbf" + b"".join(line + line_ends[number % 3] for number, line in enumerate(lines))
    broken = data.replace(b'"n": 490', b'"n": \xff90')
    (tmp_path / "in.json").write_bytes(broken)
    (tmp_path / "in.json.gz").write_bytes(gzip.compress(broken))
    files = [tmp_path / "in.json", tmp_path / "in.json.gz"]
    good, bad = [CollectSink[Row]() for _ in files], [CollectSink[MalformedRecord]() for _ in files]
    sinks: list[DataStreamSink] = []
    for number, file in enumerate(files):
        stream = from_source(JsonFileSource(file, Row, on_malformed=BAD))
        sinks += [stream.sink_to(good[number]), stream.get_side_output(BAD).sink_to(bad[number])]
    result = DividingRunner(spark).run(Pipeline("parts", *sinks))
    for number, file in enumerate(files):
        assert [row.n for row in result.collected(good[number])] == [n for n in range(500) if n != 490]
        assert [record.origin for record in result.collected(bad[number])] == [f"{file}:491"]


def test_timestamps_of_a_dataframe_without_a_zone(spark: SparkSession) -> None:
    frame = spark.sql("SELECT timestamp_ntz'2026-07-01 12:00:00' AS value")
    with pytest.raises(SourceError, match="it has no time zone"):
        SparkRunner(spark).run_batch(Pipeline("naive", from_dataframe(frame, datetime).sink_to(CollectSink[Any]())))
    sink = CollectSink[datetime]()
    pipeline = Pipeline("aware", from_dataframe(frame, datetime, timezone="Europe/Berlin").sink_to(sink))
    found = SparkRunner(spark).run_batch(pipeline).collected(sink)
    assert found == [datetime(2026, 7, 1, 10, tzinfo=UTC)]


def test_a_socket(spark: SparkSession, tmp_path: Path) -> None:
    done = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with server, server.accept()[0] as connection:
            connection.sendall(b"a\n\xc3\xa4\n")
            done.wait(60)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    seen: list[str] = []
    sink = CollectSink[str]()
    pipeline = Pipeline("socket", from_source(SocketSource("127.0.0.1", server.getsockname()[1])).sink_to(sink))
    with pytest.raises(UnsupportedOperationError, match="cannot be drained"):
        SparkRunner(spark).run(pipeline)
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    running = runner.start(pipeline)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            running.await_termination(0.2)
            if sum(progress["numInputRows"] for progress in running.streaming_query.recentProgress) >= 2:
                break
    finally:
        seen = running.stop().collected(sink)
        done.set()
        thread.join(60)
    assert seen == ["a", "\u00e4"]
    with pytest.raises(UnsupportedOperationError, match="cannot go on from a checkpoint"):
        runner.start(pipeline)
