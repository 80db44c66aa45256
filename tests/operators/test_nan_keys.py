"""All NaNs are one key, as they are to Flink and to Spark SQL, wherever in the key they stand."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.support.records import millis
from windrow import KeyedStream, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.rows.equality import as_keys
from windrow.state import ValueStateDescriptor
from windrow.triggers import CountTrigger
from windrow.windows import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows
from windrow_runtime.testing import PushSource, StreamHarness


class Place(NamedTuple):
    name: str
    height: float


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: Decimal = Decimal(0)


class Cell(msgspec.Struct, frozen=True):
    x: float
    inner: Point


@dataclasses.dataclass(frozen=True)
class Spot:
    """May be referred to weakly, and has a field that is not compared."""

    x: float
    note: list[int] = dataclasses.field(default_factory=list, compare=False)


def nan() -> float:
    """A NaN that is no other NaN's object."""
    return float("nan")


# Any: keys of every type.
KEYS: dict[str, Callable[[], Any]] = {
    "float": nan,
    "Decimal": lambda: Decimal("NaN"),
    "tuple": lambda: ("a", (nan(), 1)),
    "frozenset": lambda: frozenset({nan(), 1.0}),
    "NamedTuple": lambda: Place("a", nan()),
    "dataclass": lambda: Point(nan(), Decimal("NaN")),
    "Struct": lambda: Cell(1.0, Point(nan())),
    "one NaN": lambda: Point(math.nan),
    "weakly": lambda: Spot(nan()),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("others", [[], ["text", 1, None, 0.5, (1.0, 2)]])
def test_keys_with_a_nan_are_equal(name: str, others: list[Any]) -> None:
    make = KEYS[name]
    given = [make(), *others, make(), make()]
    keys = as_keys(given)
    assert len(set(keys)) == 1 + len(others)
    assert list(map(type, keys)) == list(map(type, given))
    assert [sorted(repr(key)) for key in keys] == [sorted(repr(key)) for key in given]
    assert [key for key in keys if key in others] == others


def test_keys_without_one_are_what_they_were() -> None:
    plain = ["a", 1, None, True, b"b"]
    assert as_keys(plain) is plain
    records = [(1.0, "a"), Point(2.0), Cell(0.0, Point(1.0)), frozenset({1.5}), Decimal(1)]
    assert all(one is key for one, key in zip(as_keys(records), records, strict=True))


def test_a_key_without_a_hash_is_left_for_the_error_that_tells_of_it() -> None:
    keys: list[Any] = [[nan()], (nan(), [])]
    assert as_keys(keys) is keys
    signaling = [Decimal("sNaN")]
    assert as_keys(signaling) is signaling


Keyed = KeyedStream[Any, tuple[Any, int]]


class Count(KeyedProcessFunction[Any, tuple[Any, int], int]):
    """How many elements a key had, when a timer fires."""

    seen = ValueStateDescriptor[int]("seen")

    def process_element(self, value: tuple[Any, int], context: KeyedProcessContext[Any]) -> list[int]:
        context.timer_service.register_event_time_timer(9)
        held = context.get_state(self.seen)
        held.update((held.value() or 0) + 1)
        return []

    def on_timer(self, timestamp: int, context: OnTimerContext[Any]) -> list[int]:
        return [context.get_state(self.seen).value() or 0]


def count(key: Any, window: Any, elements: Any) -> list[int]:
    return [len(list(elements))]


PLANS: dict[str, Callable[[Keyed], Any]] = {
    "process": lambda keyed: keyed.process(Count()),
    "tumbling": lambda keyed: keyed.window(TumblingEventTimeWindows.of(millis(10))).apply(count),
    "sessions": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(millis(5))).apply(count),
    "a trigger that counts": lambda keyed: (
        keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(4)).apply(count)
    ),
}


#  element    NaN   NaN  |  NaN    NaN     other
#  time       0     1    |  2      3       4
#                        snapshot, restore
@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("key", KEYS)
def test_they_share_windows_state_and_timers(key: str, name: str, restored: bool) -> None:
    source = PushSource[tuple[Any, int]]()
    stream = PLANS[name](from_source(source).key_by(lambda element: element[0]))
    with StreamHarness(stream, source) as harness:
        for at in range(5):
            if restored and at == 2:
                harness.snapshot_restore()
            harness.process_element((0.25 if at == 4 else KEYS[key](), at), at)
        harness.process_watermark(1_000)
        assert sorted(harness.take_values()) == ([4] if "counts" in name else [1, 4])


@dataclasses.dataclass(frozen=True)
class Tagged:
    """Has a field without a hash, which its own hash leaves out."""

    x: float
    tags: list[str] = dataclasses.field(default_factory=list, hash=False)


def test_a_field_that_the_hash_leaves_out_may_have_none() -> None:
    (key,) = as_keys([Tagged(nan(), ["a"])])
    assert math.isnan(key.x)
    assert key.tags == ["a"]
