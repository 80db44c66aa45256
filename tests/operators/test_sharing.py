"""Accumulators that several windows take."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from windrow_runtime.operators.copies import own
from windrow_runtime.operators.windows.table_loop import are_immutable, for_each_window

# Any in this module: accumulators of every type.


class Pair(NamedTuple):
    a: Any
    b: Any


class Noted(Pair):
    """Has attributes beside its fields."""


class Masked(Pair):
    """Shows other elements than it holds."""

    __slots__ = ()

    # Any: the elements of a tuple.
    def __iter__(self) -> Any:
        return iter(())


class Text(str):
    """May hold anything."""


@dataclass(frozen=True)
class Frozen:
    held: Any


Plain = namedtuple("Plain", "a b")

CONSTANT = [
    None,
    True,
    1,
    1.5,
    "a",
    b"a",
    Decimal(1),
    datetime(2024, 1, 1, tzinfo=UTC),
    (),
    (1, (2, ("a", None))),
    frozenset({1, (2, 3)}),
    Pair(1, Plain("a", (1,))),
]
CHANGEABLE = [
    [],
    {},
    set[int](),
    bytearray(),
    (1, [2]),
    (1, (2, frozenset({Frozen(1)}))),
    Pair(1, []),
    Plain(1, set[int]()),
    Noted(1, 2),
    Masked(1, []),
    Text("a"),
    Frozen(1),
    object(),
]


@pytest.mark.parametrize("value", CONSTANT, ids=repr)
def test_constants_are_shared(value: object) -> None:
    contents = [*CONSTANT, value]
    assert are_immutable(contents)
    assert [shared is contents for shared in for_each_window(contents, 3)] == [True] * 3


@pytest.mark.parametrize("value", CHANGEABLE, ids=lambda value: repr(value)[:20])
def test_what_may_change_is_copied(value: object) -> None:
    assert not are_immutable([*CONSTANT, value])


def test_a_tuple_that_names_itself_again_and_again_is_not_followed_for_ever() -> None:
    value: tuple[Any, ...] = ()
    for _ in range(200):
        value = (value, value)
    assert not are_immutable([value])


class Local:
    """A class that the test hides from pickle."""

    def __init__(self) -> None:
        self.items = [1]


def test_each_window_has_its_own() -> None:
    def hidden() -> Any:
        class Inside(Local):
            """Pickle cannot name it."""

        return Inside()

    for made in (Local(), hidden()):
        (first,), (second,), (third,) = for_each_window([made], 3)
        assert third is made
        first.items.append(2)
        third.items.append(3)
        assert (first.items, second.items, third.items) == ([1, 2], [1], [1, 3])
        assert type(first) is type(second) is type(made)


def test_one_window_needs_no_copy() -> None:
    contents = [object()]
    (only,) = for_each_window(contents, 1)
    assert only is contents


@dataclass(frozen=True)
class Parent:
    """A frozen record that may hold itself."""

    children: list[int]
    parent: object = None


def test_a_frozen_record_may_hold_itself() -> None:
    value = Parent([1])
    object.__setattr__(value, "parent", (value,))
    copy = own(value)
    assert copy is not value
    assert copy.children == [1]
    assert copy.children is not value.children
    assert isinstance(copy.parent, tuple)
    assert copy.parent[0] is copy
