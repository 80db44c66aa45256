"""Formats of files, and faults in them, on the interpreter."""

from __future__ import annotations

import builtins
import bz2
import csv
import errno
import gzip
import os
import socket
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.formats import BAD, CASES, Case, Row, json_of, parquet, zstd
from tests.support.runs import sorted_out
from windrow import DataStream, Pipeline, from_collection, from_source
from windrow.distribution import install_hint
from windrow.errors import InvalidArgumentError, PlanError, SourceError, UnsupportedOperationError
from windrow.sinks import CsvFileSink, FileSink, ParquetFileSink, TextFileSink
from windrow.sources import (
    CsvFileSource,
    JsonFileSource,
    MalformedRecord,
    ParquetFileSource,
    SocketSource,
    Source,
    TextFileSource,
)
from windrow_runtime.codecs.csv import csv_rows
from windrow_runtime.local import LocalRunner

# Any in this module: elements of every type.


def collected(source: Source[Any]) -> list[Any]:
    return from_source(source).collect(name="read")


def written(stream: DataStream[Any], sink: FileSink[Any]) -> None:
    LocalRunner().run(Pipeline("write", stream.sink_to(sink)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_format(tmp_path: Path, case: Case) -> None:
    source, limit = case.write(tmp_path), csv.field_size_limit()
    stream, records = from_source(source), list[MalformedRecord]()
    if source.on_malformed == BAD:
        good, records, _ = sorted_out(stream, BAD)
    else:
        good = stream.collect()
    assert csv.field_size_limit() == limit
    assert sorted(map(repr, good)) == sorted(map(repr, case.expected))
    assert len(records) == len(case.bad)
    for end, reason in case.bad:
        (record,) = (one for one in records if one.origin == str(tmp_path / case.name / end))
        assert reason in record.reason


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("x.json.gz", gzip.compress(json_of("a", 1) * 99)[:-9], "end-of-stream"),
        ("x.json.gz", b"no gzip", "Not a gzipped file"),
        ("x.json.bz2", b"no bzip2", "Invalid data stream"),
        ("x.json.zst", b"\x28\xb5\x2f\xfd", "x.json.zst"),
        ("x.json.zst", zstd(json_of("a", 1) * 99)[:-9], "x.json.zst"),
        ("x.json.zst", zstd(json_of("a", 1)) + zstd(json_of("a", 1))[:-9], "x.json.zst"),
        ("x.json.bz2", bz2.compress(json_of("a", 1) * 99)[:-9], "end-of-stream"),
        ("x.json.deflate", zlib.compress(json_of("a", 1) * 99)[:-9], "incomplete"),
        ("x.json.deflate", b"plain", "header check"),
        ("x.parquet", parquet({"name": ["a"], "n": [1]})[:-3], "Parquet"),
        ("x.parquet", b"no parquet at all", "Parquet"),
    ],
    ids=count(),
)
def test_a_damaged_file_is_told(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(data)
    kind = ParquetFileSource if name.endswith("parquet") else JsonFileSource
    with pytest.raises(SourceError, match="a file cannot be read") as caught:
        collected(kind(tmp_path, Row, on_malformed="drop"))
    assert reason in str(caught.value.given)
    assert name in str(caught.value.where)
    assert "read.1.source, " in str(caught.value.where)
    assert caught.value.hint


@pytest.mark.parametrize("ending", ["snappy", "xz", "zip", "GZ"])
def test_a_way_to_compress_that_is_not_read_is_refused(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"x.{ending}").write_bytes(json_of("a", 1))
    with pytest.raises(UnsupportedOperationError, match="compressed in a way"):
        collected(JsonFileSource(tmp_path, Row))


def test_a_hidden_file_is_not_read_by_its_name_either(tmp_path: Path) -> None:
    (tmp_path / "_x").write_bytes(json_of("a", 1))
    for path in (tmp_path / "_x", f"file:{tmp_path}/_x", f"file://{tmp_path}/_x"):
        with pytest.raises(SourceError, match="passed over"):
            collected(JsonFileSource(path, Row))


@pytest.mark.parametrize(
    ("where", "name"), [(os, "scandir"), (os, "listdir"), (os, "stat"), (builtins, "open")], ids=count()
)
def test_what_the_user_may_not_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: object, name: str
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x.json").write_bytes(json_of("a", 1))
    real = getattr(where, name)

    def refused(path: Any, *rest: Any, **options: Any) -> Any:
        if "secret" in str(path) and (name != "stat" or str(path).endswith(".json")):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *rest, **options)

    # As root, whom tests may run as, everything can be read.
    monkeypatch.setattr(where, name, refused)
    path = tmp_path / "secret" / ("*.json" if name == "listdir" else "")
    with pytest.raises(SourceError, match="cannot be read") as caught:
        collected(JsonFileSource(path, Row))
    assert "Permission denied" in str(caught.value.given)
    assert "read.1.source, " in str(caught.value.where)
    assert "let the user who runs the pipeline read" in str(caught.value.hint)


def test_parquet_timestamps_without_a_zone_are_refused(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "parquet clock")
    source = case.write(tmp_path)
    with pytest.raises(SourceError, match="it has no time zone"):
        collected(ParquetFileSource(tmp_path / "parquet clock" / "naive", source.record_type))


def test_parquet_columns_that_differ_by_case_alone_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(parquet({"NAME": ["a"], "Name": ["b"], "N": [1]}))
    with pytest.raises(SourceError, match=r"case of letters(.|\n)*NAME, Name(.|\n)*Row.name(.|\n)*read.1.source"):
        collected(ParquetFileSource(tmp_path, Row))
    (tmp_path / "x").write_bytes(parquet({"NAME": ["a"], "name": ["b"], "N": [1]}))
    assert collected(ParquetFileSource(tmp_path, Row)) == [Row("b", 1)]


_NO_ZONE: Any = timedelta(hours=1)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: JsonFileSource("in", Row, encoding="latin-99"), "encoding is unknown"),
        (lambda: CsvFileSource("in", Row, encoding="base64"), "encoding is unknown"),
        (lambda: TextFileSource("in", encoding=""), "encoding is unknown"),
        (lambda: JsonFileSource("in", Row, timezone="Europe/Bonn"), "time zone is unknown"),
        (lambda: CsvFileSource("in", Row, timezone="../etc"), "time zone is unknown"),
        (lambda: ParquetFileSource("in", Row, timezone=_NO_ZONE), "no time zone"),
        (lambda: CsvFileSource("in", Row, delimiter='"'), "delimiter"),
        (lambda: CsvFileSink("out", delimiter="\n"), "delimiter"),
        (lambda: SocketSource("", 1), "host"),
        (lambda: SocketSource("localhost", 70_000), "port"),
    ],
    ids=count(),
)
def test_what_is_refused_when_it_is_made(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        make()


def test_a_zone_may_be_an_object() -> None:
    zone = timezone(timedelta(hours=2))
    assert JsonFileSource("in", Row, timezone=zone).timezone is zone
    assert CsvFileSource("in", Row, timezone="UTC").timezone is UTC


def test_rows_behind_many_quotes_that_are_not_closed_are_all_found() -> None:
    rows = list(csv_rows(iter(['a,"d\n', '""\n'] * 20_000 + ["e\n"]), ","))
    assert [row.line for row in rows] == list(range(1, 40_002))
    assert all("text after a closing quote, 2 lines below" in str(row.fault) for row in rows[:-3:2])
    assert "a quote is not closed" in str(rows[-3].fault)
    assert all(row.cells == [""] for row in rows[1::2])
    assert rows[-1].cells == ["e"]


@dataclass(frozen=True)
class Wide:
    text: str | None
    number: float
    tags: list[str | None]
    flag: bool | None
    word: str = "default"


WIDE = [
    Wide(None, 1.5, [], None),
    Wide("", float("inf"), ["a,b", None, '"'], True, ""),
    Wide('x"y\r\nz;', -0.0, ["\u00e4"], False, "\ufeffmark"),
]


@pytest.mark.parametrize(("delimiter", "header"), [(",", True), (";", False)])
def test_csv_is_read_back_as_it_was(tmp_path: Path, delimiter: str, header: bool) -> None:
    written(from_collection(WIDE), CsvFileSink(tmp_path / "out", delimiter=delimiter, header=header))
    (file,) = (tmp_path / "out").glob("*.csv")
    assert (b"text" in file.read_bytes()) == header
    assert collected(CsvFileSource(tmp_path / "out" / "*.csv", Wide, delimiter=delimiter, header=header)) == WIDE


@dataclass(frozen=True)
class Defaulted:
    n: int | None = 5


@pytest.mark.parametrize("element", [Defaulted(None), None], ids=count())
def test_what_csv_would_not_give_back_is_refused(tmp_path: Path, element: Any) -> None:
    kind: Any = Defaulted if element else int | None
    with pytest.raises(InvalidArgumentError, match="reads as the default" if element else "is no row"):
        written(from_collection([1]).map(lambda _: element).returns(kind), CsvFileSink(tmp_path / "out"))


def test_text_is_read_back_as_it_was(tmp_path: Path) -> None:
    lines = ["", " a ", "\u00e4\u2028", "\x00"]
    written(from_collection(lines, str), TextFileSink(tmp_path / "out"))
    assert collected(TextFileSource(tmp_path / "out" / "*.txt")) == lines


@pytest.mark.parametrize("line", ["a\nb", "a\r", "\ufeffa", "\ud800"], ids=count())
def test_what_is_no_line_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidArgumentError, match="no line of text"):
        written(from_collection([line], str), TextFileSink(tmp_path / "out"))


def test_a_text_sink_takes_texts_only() -> None:
    sink: Any = TextFileSink("out")
    with pytest.raises(PlanError, match="takes str only, and the elements are int"):
        Pipeline("write", from_collection([1, 2], int).sink_to(sink))
    with pytest.raises(PlanError, match="takes str only; the type of the elements is unknown"):
        Pipeline("write", from_collection([1]).map(lambda number: [*range(number)]).sink_to(sink))


def serve(data: bytes) -> int:
    """Sends bytes to the first client, and closes the connection."""
    server = socket.create_server(("127.0.0.1", 0))
    port: int = server.getsockname()[1]

    def run() -> None:
        with server, server.accept()[0] as connection:
            connection.sendall(data)

    threading.Thread(target=run, daemon=True).start()
    return port


def test_a_socket_is_read_until_it_is_closed() -> None:
    assert collected(SocketSource("127.0.0.1", serve(b"a\r\n\n\xc3\xa4\xff"))) == ["a", "", "\u00e4\ufffd"]


def test_a_socket_that_nobody_serves() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(SourceError, match="socket source cannot be read") as caught:
        collected(SocketSource("127.0.0.1", port))
    assert str(port) in str(caught.value.given)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def without_arrow(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ImportError("No module named 'pyarrow'")
        return load(name, *rest)

    source, sink = from_source(ParquetFileSource(tmp_path, Row)), ParquetFileSink[Row](tmp_path / "out")
    monkeypatch.setattr(builtins, "__import__", without_arrow)
    runs: list[Callable[[], object]] = [source.collect, lambda: written(from_collection([Row("a", 1)]), sink)]
    for run in runs:
        with pytest.raises(UnsupportedOperationError) as caught:
            run()
        assert caught.value.hint == install_hint("spark")
        assert "test_formats.py" in str(caught.value.where)
