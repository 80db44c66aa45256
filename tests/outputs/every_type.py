"""Records with a field of each type that file sinks write, flat and nested, and the ways to read what was written."""

from __future__ import annotations

import enum
import typing
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import msgspec

from windrow import Pipeline, from_source
from windrow.formats import JsonValue, RawJson
from windrow.sinks import CsvFileSink, FileSink, JsonFileSink, ParquetFileSink
from windrow.sources import CollectionSource, CsvFileSource, JsonFileSource, ParquetFileSource

# Any in this module: records of several classes.


class Colour(enum.Enum):
    RED = 're"d'
    GREEN = "grün"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    span: timedelta


@dataclass(frozen=True)
class Inner:
    amount: Decimal
    took: timedelta
    at: datetime
    pair: tuple[int, str]
    point: Point
    moments: dict[str, datetime]


@dataclass(frozen=True)
class Flat:
    flag: bool
    number: int
    ratio: float
    text: str
    raw: bytes
    amount: Decimal
    identity: uuid.UUID
    colour: Colour
    level: Level
    at: datetime
    day: date
    took: timedelta
    maybe: str | None
    perhaps: timedelta | None


@dataclass(frozen=True)
class Nested:
    inner: Inner
    maybe: Inner | None
    spans: list[timedelta]
    by_name: dict[str, timedelta]
    by_day: dict[date, list[Decimal]]
    pair: tuple[int, timedelta, Decimal]
    many: tuple[datetime, ...]
    names: frozenset[str]
    numbers: frozenset[int]
    pairs: frozenset[tuple[int, str]]
    listed: list[list[tuple[int, str]]]


class Cased(msgspec.Struct, frozen=True):
    name: str
    Name: int
    NAME: timedelta


class Keys(TypedDict):
    amount: Decimal
    took: timedelta
    note: NotRequired[str]


class Columns(NamedTuple):
    """As a :class:`Flat`, of what is written as columns on Spark."""

    key: str
    number: int
    ratio: float
    at: datetime
    day: date
    took: timedelta
    tags: frozenset[str]
    maybe: float | None
    colour: Colour
    raw: bytes
    pair: tuple[int, str]


@dataclass(frozen=True)
class Payload:
    """Has fields that are any JSON."""

    key: str
    body: JsonValue
    anything: Any
    bodies: list[JsonValue]
    by_name: dict[str, JsonValue]
    raw: RawJson
    maybe: RawJson | None
    raws: tuple[RawJson, ...]


Whole: typing.TypeAlias = tuple[Decimal, datetime, timedelta]

EAST: typing.Final = timezone(timedelta(hours=5, minutes=30))
AT: typing.Final = datetime(2026, 3, 1, 9, tzinfo=UTC)
INNER: typing.Final = Inner(
    Decimal("-0.001"),
    timedelta(microseconds=-1),
    AT.replace(microsecond=1),
    (7, "é"),
    Point(-1, timedelta(days=400)),
    {"a": AT, "": AT + timedelta(milliseconds=1)},
)
FLATS: typing.Final = [
    Flat(
        True, 2**60, 1e20, 'a,"b"\nc%s', b"\x00hi", Decimal("1.10"), uuid.UUID(int=1), Colour.RED, Level.LOW, AT,
        AT.date(), timedelta(seconds=5), None, None,
    ),
    Flat(
        False, -(2**63), 1e-7, "", b"", Decimal(2), uuid.UUID(int=2**127), Colour.GREEN, Level.HIGH,
        AT.replace(microsecond=120000).astimezone(EAST), date(1, 1, 1), timedelta(days=-1, microseconds=1), "null",
        timedelta(0),
    ),
    Flat(
        True, 0, -0.0, "\u2028\x7f\U0001f600", b"\xff", Decimal("1E+5"), uuid.UUID(int=3), Colour.RED, Level.HIGH,
        datetime(1, 1, 1, tzinfo=UTC), date(9999, 12, 31), timedelta(microseconds=1), "\\", timedelta(hours=25),
    ),
]  # fmt: skip
NESTED: typing.Final = [
    Nested(
        INNER, None, [timedelta(seconds=1), timedelta(0)], {"a": timedelta(minutes=1)}, {AT.date(): [Decimal("1.10")]},
        (1, timedelta(seconds=2), Decimal("3.0")), (AT, AT.astimezone(EAST)), frozenset("hgfedcba"),
        frozenset([10, 9, 2**40]), frozenset([(2, "b"), (1, "z")]), [[(1, "a")], []],
    ),
    Nested(
        INNER, INNER, [], {}, {}, (0, timedelta(0), Decimal(0)), (), frozenset(), frozenset(), frozenset(), [],
    ),
]  # fmt: skip
CASED: typing.Final = [Cased("a", 1, timedelta(seconds=1))]
KEYS: typing.Final[list[Keys]] = [
    {"took": timedelta(1), "amount": Decimal("1.10")},
    {"amount": Decimal(2), "note": "x", "took": timedelta(0)},
]
COLUMNS: typing.Final = [
    Columns("a", 1, 5, AT, AT.date(), timedelta(seconds=1), frozenset("xyzuvw"), None, Colour.RED, b"\xff", (1, "b")),
    Columns("b", 2, 0.1, AT.replace(microsecond=5), date(1969, 1, 1), timedelta(-1), frozenset(), 1.5, Colour.GREEN,
            b"", (2, "")),
]  # fmt: skip
PAYLOADS: typing.Final = [
    Payload("a", {"n": [1, 2.5, None, "é\n", True, {}]}, "text", [None, []], {"": 1}, RawJson('{"b": 1, "a": 1.10}'),
            RawJson("[null]"), (RawJson("null"), RawJson("1E400"), RawJson('"x,y"'))),
    Payload("b", None, -(2**80), [], {}, RawJson("[ ]"), None, ()),
]  # fmt: skip

RECORDS: typing.Final[dict[str, tuple[list[Any], Any]]] = {
    "flat": (FLATS, Flat),
    "nested": (NESTED, Nested),
    "cased": (CASED, Cased),
    "keys": (KEYS, Keys),
    "columns": (COLUMNS, Columns),
    "payloads": (PAYLOADS, Payload),
    "tuples": ([(Decimal("1.10"), AT, timedelta(1)), (Decimal(2), AT, timedelta(0))], Whole),
    "spans": ([timedelta(1), timedelta(microseconds=-1)], timedelta),
}  # fmt: skip
"""Elements, and their type, by a name."""

FORMATS: typing.Final[dict[str, tuple[Any, Any]]] = {
    "json": (JsonFileSink, JsonFileSource),
    "csv": (CsvFileSink, CsvFileSource),
    "parquet": (ParquetFileSink, ParquetFileSource),
}
"""The sink and the source of each format of files."""


def pipeline_of(out: Path) -> Pipeline:
    """Writes all records in all formats, each into a folder of its own."""
    ends = []
    for name, (elements, kind) in RECORDS.items():
        stream = from_source(CollectionSource(elements, kind), name=name)
        for form, (sink, _) in FORMATS.items():
            written: FileSink[Any] = sink(out / f"{name}-{form}")
            ends.append(stream.sink_to(written))
    return Pipeline("write", *ends)


def lines_in(out: Path) -> dict[str, list[bytes]]:
    """The lines of JSON and CSV, in one order."""
    return {
        f"{name}-{form}": sorted(
            line
            for file in (out / f"{name}-{form}").glob("[!_.]*")
            for line in file.read_bytes().splitlines(keepends=True)
        )
        for name in RECORDS
        for form in ("json", "csv")
    }
