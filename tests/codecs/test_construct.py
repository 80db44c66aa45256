"""Records are made by what their class says, however fast."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from windrow_runtime.codecs.records import construct


class Point(NamedTuple):
    x: int
    y: int = 0


class Shifted(Point):
    """Has a constructor of its own."""

    def __new__(cls, x: int, y: int) -> Shifted:
        return super().__new__(cls, x + 1, y)


class Odd(tuple[int, ...]):
    """Looks like a named tuple."""

    _fields = ("x", "y")

    def __new__(cls, x: int, y: int) -> Odd:
        return super().__new__(cls, (y, x))


@dataclass(frozen=True)
class Plain:
    x: int
    y: int


Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize("kind", [Point, Shifted, Odd, Plain, Pair])
def test_records_are_those_of_the_constructor(kind: Any) -> None:
    made = construct(kind, [[1, 2], [3, 4]])
    assert made == [kind(1, 3), kind(2, 4)]
    assert {type(one) for one in made} == {kind}
