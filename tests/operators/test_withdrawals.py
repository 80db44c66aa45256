"""Elements that are withdrawn are taken out of what windows keep: the right ones, and in time that does not grow."""

from __future__ import annotations

import math
import pickle
import random
import time
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from itertools import product
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples, for_a_night
from tests.growth import assert_no_square
from tests.operators.stories import collected
from windrow import WatermarkStrategy, from_collection
from windrow.functions import AggregateFunction
from windrow.plan import FunctionSpec
from windrow.triggers import after_count, repeatedly
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.operators.state.model import NOTHING, GrowingList
from windrow_runtime.operators.windows.change_contents import KeptContents

# Any in this module: elements of every type.


@dataclass
class Reading:
    """Has no hash, and compares by one of its fields."""

    level: float
    note: str = field(default="", compare=False)


class Struct(msgspec.Struct):
    """Has no hash."""

    level: float


class Modulo:
    """Compares in a way of its own, which its hash does not follow."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Modulo) and self.number % 3 == other.number % 3

    def __hash__(self) -> int:
        return self.number


ELEMENTS: list[Any] = [
    1, 1.0, True, 2, math.nan, (1, math.nan), (1, float("nan")), "a", {"n": 1, "m": [2]}, {"m": [2.0], "n": 1.0},
    [1, 2], [1], Reading(1.0, "x"), Reading(1, "y"), Reading(math.nan), Modulo(1), Modulo(4), Modulo(5), {1, 2}, None,
    Decimal("nan"), {"n": math.nan}, {"n": [math.nan]}, Struct(1.0), Struct(math.nan),
    frozenset([math.nan]), frozenset([2]),
]  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Equality for which NaN is equal to itself; NaN reads the same wherever it is."""
    return bool(one == other) or ("nan" in repr(one).lower() and repr(one) == repr(other))


@examples(50)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, len(ELEMENTS) - 1), st.booleans()), max_size=40))
def test_the_first_equal_element_is_taken_out(steps: list[tuple[bool, int, bool]]) -> None:
    contents_of = KeptContents(FunctionSpec())
    contents: Any = NOTHING
    model: list[Any] = []
    for arrival, (withdraws, place, stores) in enumerate(steps):
        element = deepcopy(ELEMENTS[place])
        contents_of.withdraws = withdraws
        contents = contents_of.add(contents, element, None, arrival)
        if withdraws:
            known = next((place for place, each in enumerate(model) if same(each, element)), None)
            if known is not None:
                del model[known]
        else:
            model.append(element)
        if stores and contents is not NOTHING:
            contents = pickle.loads(pickle.dumps(contents))
            assert type(contents) is GrowingList
        left = [] if contents is NOTHING else [value for _, _, value in contents]
        assert list(map(repr, left)) == list(map(repr, model)) or "Modulo" in repr(model)
        assert len(left) == len(model)


ORDERS, KINDS = ("newest first", "oldest first", "at random"), ("struct", "dict", "dataclass", "int")


@pytest.mark.parametrize(
    ("order", "kind"), for_a_night([*product(ORDERS, KINDS)], [*zip(ORDERS, KINDS, strict=False), (ORDERS[0], "int")])
)
def test_ten_times_the_elements_take_some_ten_times_the_time(order: str, kind: str) -> None:
    makers: dict[str, Any] = {
        "int": int,
        "dict": lambda n: {"number": n, "tags": ["a"]},
        "dataclass": Reading,
        "struct": Struct,
    }
    make = makers[kind]

    def seconds(count: int) -> float:
        contents_of = KeptContents(FunctionSpec())
        contents: Any = NOTHING
        for number in range(count):
            contents = contents_of.add(contents, make(number), None, number)
        numbers = list(range(count))
        if order == "newest first":
            numbers.reverse()
        elif order == "at random":
            random.Random(1).shuffle(numbers)
        contents_of.withdraws = True
        begin = time.process_time()
        for number in numbers:
            contents = contents_of.add(contents, make(number), None, 0)
        assert contents is NOTHING
        return time.process_time() - begin

    assert_no_square(seconds, few=1_000, times=10)


class Shared(AggregateFunction[int, list[int], list[int]]):
    """Begins every window with one and the same list, which windrow has to copy."""

    empty: ClassVar[list[int]] = []

    def create_accumulator(self) -> list[int]:
        return self.empty

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return sorted(accumulator)

    def merge(self, first: list[int], second: list[int]) -> list[int]:
        return first + second


class SharedWithRetractions(Shared):
    def retract(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator.remove(value)
        return accumulator


@pytest.mark.parametrize("function", [Shared, SharedWithRetractions])
def test_windows_share_no_accumulator_behind_a_step_that_retracts(function: type[Shared]) -> None:
    numbers = from_collection([1, 2, 3, 101, 102, 103])
    timed = numbers.assign_timestamps_and_watermarks(
        WatermarkStrategy[int].for_monotonous_timestamps(), timestamp=lambda number: number
    )
    early = timed.key_by(lambda _: 0).window(TumblingEventTimeWindows.of(timedelta(milliseconds=10)))
    # The early sum of each window (of one element) is withdrawn, and replaced by that of two, and that of three.
    sums = early.trigger(repeatedly(after_count(1))).retracting().reduce(lambda a, b: a + b)
    windows = sums.key_by(lambda _: 0).window(TumblingEventTimeWindows.of(timedelta(milliseconds=100)))
    assert collected(windows.aggregate(function())) == [[6], [306]]
    assert Shared.empty == []
