"""Sketches: how far off they are, how they are stored, and what they tell apart."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from tests.dsl.plans import refusal
from windrow import aggregates as agg
from windrow.aggregates import DeclaredAggregate
from windrow.aggregates.sketches import HllSketch, KllSketch
from windrow.errors import InvalidArgumentError
from windrow_spark.storage.packed import decode, encode
from windrow_spark.storage.values import StateCodec

# Any in this module: results of every type, and arguments that the type checker would refuse.


def fold(function: DeclaredAggregate[Any, Any, Any], elements: Any, accumulator: Any = None) -> Any:
    held = function.create_accumulator() if accumulator is None else accumulator
    for element in elements:
        held = function.add(element, held)
    return held


def identity(value: Any) -> Any:
    return value


COUNT = agg.approx_count_distinct(identity)
MEDIAN = agg.approx_quantile(identity, 0.5)


def test_counts_are_about_right() -> None:
    for rsd in (0.01, 0.05):
        count = agg.approx_count_distinct(identity, rsd=rsd)
        halves = fold(count, range(60_000)), fold(count, range(40_000, 100_000))
        for sketch, exact in ((halves[0], 60_000), (count.merge(*halves), 100_000)):
            # Four standard deviations. The sketch does not depend on chance.
            assert abs(count.get_result(sketch) - exact) < 4 * rsd * exact


def test_quantiles_are_about_right() -> None:
    quantiles = agg.approx_quantiles(identity, [0.1, 0.5, 0.9])
    halves = fold(quantiles, range(0, 100_000, 2)), fold(quantiles, range(1, 100_000, 2))
    found = quantiles.get_result(quantiles.merge(*halves))
    # The sketch chooses by chance; an error of 5 % does not happen with a size of 200.
    assert found == pytest.approx([10_000, 50_000, 90_000], abs=5_000)


@pytest.mark.parametrize(("function", "kind"), [(COUNT, HllSketch), (MEDIAN, KllSketch)], ids=["hll", "kll"])
def test_sketches_are_stored_by_type(function: DeclaredAggregate[Any, Any, Any], kind: type) -> None:
    """A record of bytes, which is read when it is used, and whose bytes are kept while it is not."""
    held = [fold(function, range(size)) for size in (0, 1, 150, 5_000)]
    codec = StateCodec()
    packed = codec.pack(held)
    assert "tag='P'" not in str(packed)
    assert f"tag='r', data=b'', scalars=['windrow.aggregates.sketches:{kind.__name__}', 'data']" in str(packed)
    restored = codec.unpack(decode(encode(packed)))
    assert codec.pack(restored) == packed
    for before, after in zip(held, restored, strict=True):
        assert function.get_result(after) == function.get_result(before)
    assert codec.pack(restored) == packed, "asking for a result changed a sketch"
    before = copy.deepcopy(held[2])
    grown = fold(function, range(900, 950), restored[2])
    assert function.get_result(grown) == function.get_result(fold(function, range(900, 950), before))
    assert codec.pack([grown]) != codec.pack([held[2]])
    assert function.get_result(pickle.loads(pickle.dumps(grown))) == function.get_result(grown)


@dataclass(frozen=True)
class Place:
    name: str
    floor: int


class Color(Enum):
    RED = "red"
    BLUE = "blue"


DIFFERENT: list[Any] = [
    *(0, 1, -1, -2, 0.5, 2**61 - 1, 2**61, 2**63, 2**64, 1e300, float("inf"), float("nan")),
    *("", "s", "x", "0", "1", "süd", "\ud800", "\x7f00", b"", b"x"),
    *(("a", "bc"), ("ab", "c"), ("a",), (), ("a", None), ((), ()), ("1",), (1,), (0.5,)),
    *(date(2024, 1, 1), datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)),
    *(timedelta(1), timedelta(2), UUID(int=1), Decimal("0.1"), Decimal("0.10000000000000001")),
    *(Color.RED, Color.BLUE, Place("a", 1), Place("a", 2), frozenset([1, 2]), frozenset([1])),
]


def test_different_values_are_told_apart() -> None:
    assert COUNT.get_result(fold(COUNT, DIFFERENT)) == len(DIFFERENT)
    assert COUNT.get_result(fold(COUNT, DIFFERENT * 2)) == len(DIFFERENT)


EQUAL: dict[str, tuple[Any, ...]] = {
    "one": (1, 1.0, True, Decimal("1.00")),
    "zero": (0, 0.0, -0.0),
    "half": (0.5, Decimal("0.50")),
    "nan": (float("nan"), -float("nan"), Decimal("nan")),
    "tuples": ((1, "a"), (1.0, "a")),
    "moments": (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))),
    "sets": (frozenset([1, 9]), frozenset([9, 1])),
}


@pytest.mark.parametrize("equal", EQUAL.values(), ids=EQUAL)
def test_equal_values_are_one(equal: tuple[Any, ...]) -> None:
    assert COUNT.get_result(fold(COUNT, equal)) == 1


def test_values_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"cannot tell from others\n  given:    \[1\]"):
        fold(COUNT, [[1]])


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "rsd": (lambda: agg.approx_count_distinct(identity, rsd=0.5), r"deviation\n  given:    0.5\n.*from 0.001 to 0.09"),
    "q": (lambda: agg.approx_quantile(identity, 50), r"a share\n  given:    50\n.*from 0 to 1"),
    "k": (lambda: agg.approx_quantile(identity, 0.5, k=1), r"that size\n  given:    1\n.*from 8 to 65535"),
    "none": (lambda: agg.approx_quantiles(identity, []), r"approx_quantiles needs quantiles"),
}


@pytest.mark.parametrize("name", WRONG)
def test_parameters_are_checked(name: str) -> None:
    call, message = WRONG[name]
    assert re.search(message, str(refusal(call)))


def test_without_the_library_the_call_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for call in (lambda: agg.approx_count_distinct(identity), lambda: agg.approx_quantile(identity, 0.5)):
        with pytest.raises(InvalidArgumentError, match=r"not installed(.|\n)*pip install .*\[sketches\]"):
            call()
