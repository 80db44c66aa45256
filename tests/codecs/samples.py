"""The element types that the codecs' tests share, and the ways in which elements are written."""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import NotRequired
from uuid import UUID

import msgspec
from typing_extensions import TypedDict

from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.csv import CsvEncoder
from windrow_runtime.codecs.json.encoder import JsonEncoder, JsonLines
from windrow_runtime.codecs.value_type import RecordType


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Reading:
    sensor: str
    at: int
    celsius: float


@dataclass(frozen=True, slots=True)
class Place:
    x: float
    y: float
    name: str | None = None


@dataclass(kw_only=True)
class Keywords:
    a: int
    b: str = "b"


class Point(typing.NamedTuple):
    x: int
    y: int = 7


class Event(msgspec.Struct, frozen=True, rename="camel"):
    event_id: int
    tag_list: list[str] = []


class Options(TypedDict):
    name: str
    size: NotRequired[int]


@dataclass
class Everything:
    flag: bool
    number: int
    ratio: float
    text: str
    data: bytes
    price: Decimal
    key: UUID
    colour: Colour
    level: Level
    at: datetime
    day: date
    length: timedelta
    tags: list[str]
    series: Sequence[float]
    pair: tuple[str, int]
    numbers: tuple[int, ...]
    names: set[str]
    frozen: frozenset[int]
    counts: dict[str, int]
    by_number: dict[int, list[str | None]]
    place: Place
    point: Point
    options: Options
    maybe: Place | None
    maybe_at: datetime | None
    maybe_tags: list[str] | None
    maybe_counts: dict[Colour, Place] | None
    places: list[Place | None]
    nothing: None


@dataclass
class Defaults:
    name: str
    size: int = 3
    tags: list[str] = field(default_factory=list)
    note: str | None = None
    maybe: float | None = 1.5


@dataclass
class Trip:
    """JSON-friendly: all of it can be read by msgspec too."""

    id: int
    at: datetime
    fare: float
    paid: bool
    note: str | None
    stops: list[Place]
    counts: dict[str, int]
    pair: tuple[int, str]
    colour: Colour
    level: Level = Level.LOW


@dataclass
class Positive:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("n is negative")


@dataclass
class Tree:
    value: int
    children: list[Tree]


def writers_of(kind: RecordType) -> dict[str, Callable[[object], object]]:
    """What writes an element: in columns, as a line of JSON, as one line of many, and as a row of CSV."""
    return {
        "columns": lambda element: encode_batch([element], kind),
        "a line": JsonEncoder(kind).encode,
        "lines": lambda element: JsonLines(kind).encode([element]),
        "a row": CsvEncoder(kind, ",").encode,
    }
