"""Records with fields of many types, and functions of them, for what the plan and type checkers say of their types."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Generic, Literal, NamedTuple, Self, TypedDict, TypeVar

import msgspec

# Any in this module: what users write who say nothing.

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Row(NamedTuple):
    n: int
    s: str
    x: float
    y: int | None
    d: Decimal
    at: datetime
    day: date
    span: timedelta
    flag: bool
    items: list[int]
    tags: dict[str, float]
    pair: tuple[int, str]
    color: Color
    either: int | str
    kind: Literal["a", "b"]

    def total(self) -> float:
        return self.x

    @property
    def twice(self) -> int:
        return self.n * 2

    def untold(self):  # type: ignore[no-untyped-def]  # what users write who annotate nothing
        return self.n


class Envelope(NamedTuple, Generic[T]):
    key: str
    value: T


@dataclasses.dataclass(frozen=True)
class Box(Generic[T]):
    value: T
    items: list[T]

    def first(self) -> T | None:
        return self.items[0] if self.items else None

    @property
    def again(self) -> Box[T]:
        return self


class IntBox(Box[int]):
    pass


class Struct(msgspec.Struct, Generic[T]):
    value: T
    other: str = ""


class Options(TypedDict):
    size: int


class Order(NamedTuple):
    key: str
    number: int


@dataclasses.dataclass
class Checked:
    number: int

    def __post_init__(self) -> None:
        self.number = abs(self.number)


class Loose:
    def __eq__(self, other: object) -> Any:
        return "neither"

    __hash__ = None  # type: ignore[assignment]  # as Python has it for such a class


@dataclasses.dataclass
class Holder:
    loose: Loose
    box: IntBox


class Settings:
    @classmethod
    def of(cls, text: str) -> Self:
        return cls()

    @staticmethod
    def limit(text: str) -> float:
        return float(text)


FACTOR = 3
NAMES = {1: "one", 2: "two"}


def clean(text: str) -> str:
    return text.strip()


def same(value: T) -> T:
    return value


def helper(row):  # type: ignore[no-untyped-def]  # as above
    return row.n + FACTOR
