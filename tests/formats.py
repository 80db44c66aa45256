"""Files of many formats and with many faults, with what both engines have to make of them."""

from __future__ import annotations

import bz2
import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq

from windrow import OutputTag
from windrow.formats import DateFormat, EpochMillis
from windrow.sources import (
    CsvFileSource,
    FileSource,
    JsonFileSource,
    MalformedRecord,
    ParquetFileSource,
    TextFileSource,
)

__all__ = ["BAD", "CASES", "Case", "Row", "Timed"]

BAD: Final = OutputTag("bad", MalformedRecord)


@dataclass(frozen=True)
class Row:
    name: str | None
    n: int


@dataclass(frozen=True)
class Timed:
    at: datetime
    took: timedelta | None = None


@dataclass(frozen=True)
class Written:
    at: Annotated[datetime, DateFormat("%d.%m.%Y %H:%M", timezone="Europe/Berlin")]
    millis: Annotated[datetime, EpochMillis]


@dataclass(frozen=True)
class Dated:
    n: int
    day: str | None
    key: int = 7


Odd = TypedDict("Odd", {"a.b": int, "a`b": int, "__file": int, "__part": int, "_metadata": int, "a": int})
ODD: Final[Odd] = {"a.b": 1, "a`b": 2, "__file": 3, "__part": 4, "_metadata": 5, "a": 6}


@dataclass(frozen=True)
class Case:
    """Files, and what a source makes of them.

    Attributes:
        name: The name of the case, and of the folder of its files.
        files: The bytes of each file, by its name.
        source: Makes the source of the folder. Any: sources of every type.
        expected: The elements, in any order of files.
        bad: The malformed records: the end of the origin, and a part of the reason.
    """

    name: str
    files: dict[str, bytes]
    source: Callable[[Path], FileSource[Any]]
    expected: list[Any]
    bad: list[tuple[str, str]] = field(default_factory=list)

    def write(self, folder: Path) -> FileSource[Any]:
        """Write the files into a folder of their own, and make the source."""
        root = folder / self.name
        for name, data in self.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        return self.source(root)


def zstd(data: bytes) -> bytes:
    compressed: bytes = pa.Codec("zstd").compress(data, asbytes=True)
    return compressed


def json_of(name: str, n: int) -> bytes:
    return f'{{"name": "{name}", "n": {n}}}'.encode()


def parquet(table: dict[str, Any], **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(table), sink, **options)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def json_source(path: Path, **options: Any) -> FileSource[Any]:
    return JsonFileSource(path, Row, on_malformed=BAD, **options)


def csv_source(path: Path, **options: Any) -> FileSource[Any]:
    return CsvFileSource(path, Row, on_malformed=BAD, **options)


MARK: Final = b"\xef\xbb\xbf"
LONG: Final = "x" * 200_000
NOON: Final = datetime(2026, 1, 31, 12, tzinfo=UTC)
ODD_NAMES: Final = (
    "a.b", "a`b", "a b%20c", "2026-01-31T10:00:00.json", "day=1/x", "a=7/x", "length=7/x", "{x}/[1]", "below/x",
)  # fmt: skip

CASES: Final = [
    Case(
        "compressed",
        {
            "1.json.gz": gzip.compress(json_of("gz", 1)) + gzip.compress(b"\n" + json_of("gz", 2)),
            "2.json.zst": zstd(json_of("zst", 3) + b"\n"),
            "3.bz2": bz2.compress(json_of("bz2", 4)),
            "4.deflate": zlib.compress(json_of("deflate", 5)),
            "5.json": json_of("plain", 6),
            **dict.fromkeys(("empty", "empty.gz", "empty.zst", "empty.bz2", "empty.deflate"), b""),
        },
        json_source,
        [Row("gz", 1), Row("gz", 2), Row("zst", 3), Row("bz2", 4), Row("deflate", 5), Row("plain", 6)],
    ),
    Case(
        "compressed csv",
        {"1.csv.gz": gzip.compress(b"n,name\n1,gz\n"), "2.csv.zst": zstd(MARK + b"n,name\r\n2,zst\r\n")},
        csv_source,
        [Row("gz", 1), Row("zst", 2)],
    ),
    Case(
        "json lines",
        {
            "marked": MARK + json_of("a", 1) + b"\r\n\r\n" + json_of("b", 2) + b"\r" + json_of("c", 3) + b"\n",
            "bytes": json_of("d", 4) + b'\n{"name": "\xff", "n": 5}\n{"n": 6, "x": "\xe4"}\n' + json_of("e", 7),
        },
        json_source,
        [Row("a", 1), Row("b", 2), Row("c", 3), Row("d", 4), Row("e", 7)],
        [("bytes:2", "not UTF-8: 0xff"), ("bytes:3", "not UTF-8: 0xe4")],
    ),
    Case(
        "json utf-16",
        {
            "marked": '{"name": "\u00e4\u4e16", "n": 1}\r\n{"name": "b", "n": 2}'.encode("utf-16"),
            "unmarked half": json_of("c", 3).decode().encode("utf-16-le") + b"\n\x00\x00\xd8\n\x00",
        },
        lambda path: json_source(path, encoding="UTF-16"),
        [Row("\u00e4\u4e16", 1), Row("b", 2), Row("c", 3)],
        [("unmarked half:2", "not utf-16: 0x00, 0xd8")],
    ),
    Case(
        "csv",
        {
            "marked": MARK + b'name,n\r\n"a\nb",1\r\n"c, ""d""",2\re\x00,3\n',
            "wrong": b'name,n\n\xff,1\nf,x\n"g\nh",2\n"i,3\nj,4\n',
            "long": f'name,n\n"{LONG}",5\n'.encode(),
            "header": b"name,n\xff\na,1\n",
            "empty": b"",
            "quotes": b'n,name\n6,\n7,""\n8,"""\n9,"k"\n',
        },
        csv_source,
        [
            Row("a\nb", 1),
            Row('c, "d"', 2),
            Row("e\x00", 3),
            Row("g\nh", 2),
            Row("j", 4),
            Row(LONG, 5),
            Row(None, 6),
            Row("", 7),
            Row("k", 9),
        ],
        [
            ("wrong:2", "not UTF-8: 0xff"),
            ("wrong:3", "expected int"),
            ("wrong:6", "a quote is not closed"),
            ("header:1", "not UTF-8: 0xff"),
            ("quotes:4", "text after a closing quote, 1 line below"),
        ],
    ),
    Case(
        "csv quotes",
        {
            "merged": b'name,n\n"a,1\nb,2\n"c",3\nd,4\n',
            "within": b'name,n\ne"e,5\n"f"f,6\n"g" ,7\n "h",8\ni,9\n',
            "wide": b'name,n\n"j,10\nk,11,"\nl,12\n',
        },
        csv_source,
        [Row("b", 2), Row("c", 3), Row("d", 4), Row("i", 9), Row("l", 12)],
        [
            ("merged:2", "text after a closing quote, 2 lines below; the lines below it are read as rows"),
            ("within:2", "a quote within a cell that does not begin with one"),
            ("within:3", "text after a closing quote"),
            ("within:4", "text after a closing quote"),
            ("within:5", "a quote within a cell"),
            ("wide:2", "1 cells in a row of 2 columns; the row has 2 lines"),
        ],
    ),
    Case(
        "csv without a header",
        {"some": "Zo\u00eb|1\n\u20ac|2\n\ufffd".encode("cp1252", "replace") + b"\x81|3\n"},
        lambda path: csv_source(path, header=False, delimiter="|", encoding="windows-1252"),
        [Row("Zo\u00eb", 1), Row("\u20ac", 2)],
        [("some:3", "not cp1252: 0x81")],
    ),
    Case(
        "text",
        {"some": MARK + b" a \r\n\nb\xff\nc\rd\n", "other.zst": zstd("\u00e4\u2028\u0085x".encode())},
        lambda path: TextFileSource(path, on_malformed=BAD),
        [" a ", "", "c", "d", "\u00e4\u2028\u0085x"],
        [("some:3", "not UTF-8: 0xff")],
    ),
    Case("odd names", {name: json_of("odd", 1) for name in ODD_NAMES}, json_source, [Row("odd", 1)] * len(ODD_NAMES)),
    Case(
        "hidden names",
        dict.fromkeys(("__file", "_metadata", ".x", "_x=1", "a._COPYING_", "_y/a", ".y/a", "a/_x/b"), b"no data"),
        json_source,
        [],
    ),
    *(
        Case(
            f"folders that are columns of {name}",
            {
                **{f"day=2026-01-31/key=9/n=3/{end}": data for end in ("x", "2026-01-31T10:00:00.x", "a`b")},
                "day=x/key=nine/y": data,
            },
            # The default binds the class of this turn.
            lambda path, kind=kind: kind(  # type: ignore[misc]  # mypy infers no type of a default
                path, Dated, partitions=("day", "key"), on_malformed=BAD
            ),
            [Dated(1, "2026-01-31", 9)] * 3,
            [("day=x/key=nine/y", "Dated.key: expected int")],
        )
        for name, kind, data in (
            ("json", JsonFileSource, b'{"n": 1}'),
            ("csv", CsvFileSource, b"n\n1"),
            ("parquet", ParquetFileSource, parquet({"n": [1]})),
        )
    ),
    *(
        Case(
            f"odd fields of {name}",
            {"day=1/x": data, "a=7/x": data},
            lambda path, kind=kind: kind(path, Odd),  # type: ignore[misc]  # mypy infers no type of a default
            [ODD] * 2,
        )
        for name, kind, data in (
            ("json", JsonFileSource, json.dumps(ODD).encode()),
            ("csv", CsvFileSource, b"a.b,a`b,__file,__part,_metadata,a\n1,2,3,4,5,6"),
            ("parquet", ParquetFileSource, parquet({name: [value] for name, value in ODD.items()})),
        )
    ),
    Case(
        "parquet rows",
        {
            "one": parquet({"name": ["a", None, "b", None], "n": [1, None, 3, None]}, row_group_size=2),
            "2026-01-31T10:00:00": parquet({"name": ["c"], "n": pa.array([None], pa.int64())}),
        },
        lambda path: ParquetFileSource(path, Row, on_malformed=BAD),
        [Row("a", 1), Row("b", 3)],
        [("one, row 1", "null"), ("one, row 3", "null"), ("2026-01-31T10:00:00, row 0", "null")],
    ),
    Case(
        "times",
        {
            "some": b'{"at": "2026-01-31T12:00:00Z"}\n{"at": "2026-01-31T12:00:00"}\n'
            b'{"at": "2026-01-31T12:00:00.1234567Z"}\n'
        },
        lambda path: JsonFileSource(path, Timed, on_malformed=BAD),
        [Timed(NOON)],
        [("some:2", "timezone="), ("some:3", "finer than a microsecond")],
    ),
    Case(
        "json without lines",
        {
            "array": b'[{"n": 1},\n{"name": "a]",\n"n": 2},\n{"n": "x"}]',
            "records.gz": gzip.compress(b'{\n"n": 3\n}\n{"n": 4}'),
            "broken": b'[{"n": 5}\n',
        },
        lambda path: json_source(path, lines=False),
        [Row(None, 1), Row("a]", 2), Row(None, 3), Row(None, 4), Row(None, 5)],
        [("array:4", "expected int"), ("broken:2", "ends within an array")],
    ),
    *(
        Case(
            f"formats of times in {name}",
            {"some": data},
            # The default binds the class of this turn.
            lambda path, kind=kind: kind(path, Written, on_malformed=BAD),  # type: ignore[misc]  # as above
            [Written(NOON, NOON)],
            [("some:3", "a number of milliseconds"), ("some:4", "no text of the pattern")],
        )
        for name, kind, data in (
            (
                "json",
                JsonFileSource,
                b'\n{"at": "31.01.2026 13:00", "millis": 1769860800000}\n'
                b'{"at": "31.01.2026 13:00", "millis": "x"}\n{"at": "2026-01-31", "millis": 0}\n',
            ),
            ("csv", CsvFileSource, b"at,millis\n31.01.2026 13:00,1769860800000\n31.01.2026 13:00,x\n2026-01-31,0\n"),
        )
    ),
    Case(
        "clock",
        {"some": b"at,took\n2026-01-31T13:00:00,P0DT1S\n2026-01-31T12:00:00Z,\n"},
        lambda path: CsvFileSource(path, Timed, timezone="Europe/Berlin"),
        [Timed(NOON, timedelta(seconds=1)), Timed(NOON)],
    ),
    Case(
        "parquet clock",
        {
            "naive": parquet({"at": pa.array([NOON.replace(tzinfo=None) + timedelta(hours=1)], pa.timestamp("ms"))}),
            "aware": parquet({"at": pa.array([NOON], pa.timestamp("us", "UTC")), "took": pa.array([1000], pa.int64())}),
            "old": parquet({"at": pa.array([NOON], pa.timestamp("ns", "UTC"))}, use_deprecated_int96_timestamps=True),
            "spans": parquet(
                {"at": pa.array([NOON], pa.timestamp("us", "UTC")), "took": pa.array([1], pa.duration("ms"))}
            ),
        },
        lambda path: ParquetFileSource(path, Timed, timezone="Europe/Berlin"),
        [Timed(NOON), Timed(NOON, timedelta(milliseconds=1)), Timed(NOON), Timed(NOON, timedelta(milliseconds=1))],
    ),
]
