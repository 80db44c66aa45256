"""Hours that a clock shows alike are two moments, and all NaNs one value: keys, functions by key, aggregates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from tests.support.records import millis
from windrow import DataStream, from_changes, from_collection, from_source
from windrow import aggregates as agg
from windrow.panes import Change, ChangeKind
from windrow.rows.equality import as_key, as_keys, is_same
from windrow.time import TimeDomain
from windrow.windows import GlobalWindows
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: values of every type.

BERLIN = ZoneInfo("Europe/Berlin")
FIRST = datetime(2025, 10, 26, 2, 30, tzinfo=BERLIN)
SECOND = FIRST.replace(fold=1)
LATER_OF_FIRST = datetime(2025, 10, 26, 2, 45, tzinfo=BERLIN)
NOON = datetime(2025, 10, 26, 12, tzinfo=BERLIN)


class Slot(NamedTuple):
    room: str
    at: datetime


@dataclass(frozen=True)
class Booking:
    slot: Slot
    price: float = 1.5


def instants(values: Any) -> list[datetime]:
    return [value.astimezone(UTC) for value in values]


@dataclass(frozen=True, order=True)
class Place:
    at: datetime


PAIRS: dict[str, Callable[[datetime], Any]] = {
    "datetime": lambda at: at,
    "tuple": lambda at: ("a", at),
    "tuple in a tuple": lambda at: (("a", at), 1.5),
    "NamedTuple": lambda at: Slot("a", at),
    "dataclass": lambda at: Booking(Slot("a", at)),
    "frozenset": lambda at: frozenset({at}),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("others", [[], ["text", None, 1.5]])
def test_keys_tell_the_hours_apart(name: str, others: list[Any]) -> None:
    make = PAIRS[name]
    assert make(FIRST) == make(SECOND), "to Python they are equal"
    keys = as_keys([make(FIRST), *others, make(SECOND), make(FIRST), make(SECOND)])
    assert len(set(keys)) == 2 + len(others)
    assert keys[-1] == keys[-3] != keys[0]
    plain = [make(FIRST), make(NOON), *others]
    assert all(one is key for one, key in zip(as_keys(plain), plain, strict=True))


class Loose:
    """Compares without the case of its letters."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loose) and self.text.lower() == other.text.lower()

    __hash__ = None  # type: ignore[assignment]  # it is changed in place


HOLDING: dict[str, Callable[[datetime], Any]] = {
    **PAIRS,
    "list": lambda at: [at],
    "dict": lambda at: {"at": at},
    "list in a record": lambda at: {"slots": [Slot("a", at)], "price": math.nan},
}


@pytest.mark.parametrize("name", HOLDING)
def test_values_of_other_hours_are_others(name: str) -> None:
    make = HOLDING[name]
    assert is_same(make(FIRST), make(FIRST))
    assert is_same(make(SECOND), make(SECOND))
    assert not is_same(make(FIRST), make(SECOND))
    assert not is_same(make(SECOND), make(FIRST))


class Counted:
    """Counts how often it is compared."""

    compared = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return isinstance(other, Counted) and self.number == other.number

    def __hash__(self) -> int:
        return self.number


def test_equal_sets_are_compared_by_their_hashes() -> None:
    Counted.compared = 0
    assert is_same(set(map(Counted, range(500))), set(map(Counted, range(500))))
    assert Counted.compared <= 500
    assert not is_same({FIRST}, {SECOND})
    assert is_same({math.nan, 1}, {float("nan"), 1})


def test_a_class_that_compares_in_its_own_way_does_so() -> None:
    assert is_same(Loose("A"), Loose("a"))
    assert is_same([Loose("A"), 1], [Loose("a"), True])
    assert not is_same((1, 2), [1, 2])


def test_a_withdrawal_takes_the_row_of_its_hour() -> None:
    changes = [(ChangeKind.INSERT, FIRST), (ChangeKind.INSERT, SECOND), (ChangeKind.DELETE, SECOND)]
    rows = from_changes(from_collection([Change(kind, Slot("a", at)) for kind, at in changes]))
    windows = rows.window_all(GlobalWindows.create_with_end_of_stream_trigger())
    assert windows.aggregate(agg.collect_list(lambda slot: slot.at.fold)).collect() == [[0]]


@pytest.mark.parametrize("name", ["tuple in a tuple", "ordered dataclass"])
def test_the_lowest_of_two_hours_in_parts(name: str) -> None:
    make: Callable[[datetime], Any] = {**PAIRS, "ordered dataclass": Place}[name]
    elements = [make(SECOND), make(FIRST)]
    windows = from_collection(elements).window_all(GlobalWindows.create_with_end_of_stream_trigger())
    (lowest,) = windows.min(lambda element: element).collect()
    assert is_same(lowest, make(FIRST))


def test_a_moment_that_is_known_stays_what_it_is() -> None:
    assert as_key(SECOND) == datetime.fromisoformat("2025-10-26T02:30+01:00")
    in_utc = SECOND.astimezone(UTC).replace(fold=1)
    for known in (FIRST, NOON.replace(fold=1), datetime(2025, 10, 26, 2, 30, fold=1), in_utc):
        assert as_key(known) is known
    assert as_keys([(SECOND, [])]) == [(SECOND, [])], "a key without a hash is refused later"


def hours() -> DataStream[datetime]:
    return from_collection([FIRST, SECOND, LATER_OF_FIRST, FIRST, SECOND], element_type=datetime)


def test_windows_of_the_hours() -> None:
    counts = (
        hours().key_by(lambda at: at).count_window(9, fire_at_end=True).aggregate(agg.combine(agg.key(), agg.count()))
    )
    assert sorted((key.astimezone(UTC).hour, key.minute, count) for key, count in counts.collect()) == [
        *((0, 30, 2), (0, 45, 1), (1, 30, 2))
    ]


AGGREGATES: list[tuple[Any, Any]] = [
    (agg.min(lambda at: at), [FIRST]),
    (agg.max(lambda at: at), [SECOND]),
    (agg.min_by(lambda at: ("a", at)), [FIRST]),
    (agg.max_by(lambda at: at), [SECOND]),
    (agg.top_k(2, by=lambda at: at), [SECOND, SECOND]),
    (agg.collect_set(lambda at: at), [FIRST, LATER_OF_FIRST, SECOND]),
]


@pytest.mark.parametrize(("function", "expected"), AGGREGATES, ids=lambda each: str(each)[:12])
def test_aggregates_compare_moments(function: Any, expected: list[datetime]) -> None:
    (result,) = hours().key_by(lambda at: 0).count_window(5).aggregate(function).collect()
    found = [result] if isinstance(result, datetime) else result
    assert sorted(instants(found)) == sorted(instants(expected))


def test_values_are_counted_by_moments() -> None:
    assert hours().key_by(lambda at: 0).count_window(5).aggregate(agg.count_distinct(lambda at: at)).collect() == [3]


def test_rolling_aggregates_compare_moments() -> None:
    keyed = hours().key_by(lambda at: 0)
    highest = instants(each for _, each in keyed.max(lambda at: at).collect())
    assert highest == instants([FIRST, SECOND, SECOND, SECOND, SECOND])
    assert instants(keyed.max_by(lambda at: at).collect()) == highest
    assert instants(keyed.min_by(lambda at: at).collect()) == instants([FIRST] * 5)


def test_rolling_aggregates_take_a_nan_for_the_highest() -> None:
    keyed = from_collection([2.0, math.nan, 1.0, 3.0]).key_by(lambda _: 0)
    assert [low for _, low in keyed.min(lambda number: number).collect()] == [2.0, 2.0, 1.0, 1.0]
    assert str([high for _, high in keyed.max(lambda number: number).collect()]) == "[2.0, nan, nan, nan]"


NAN: Callable[[], float] = lambda: float("nan")  # noqa: E731  each is another object
VALUES: dict[str, tuple[Callable[[], Any], Any]] = {
    "NaN": (NAN, 0.5),
    "tuple": (lambda: ("a", NAN()), ("a", 0.5)),
    "record": (lambda: Booking(Slot("a", FIRST), NAN()), Booking(Slot("a", FIRST), 0.5)),
    "hours": (lambda: SECOND, FIRST),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("by", ["distinct", "on_change", "first"])
def test_functions_by_key_know_equal_values_after_a_restart(name: str, by: str) -> None:
    make, other = VALUES[name]
    source = PushSource[Any]()
    stream: DataStream[Any] = from_source(source)
    if by == "first":
        stream = stream.key_by(lambda value: value).first(within=millis(1_000), by=TimeDomain.EVENT_TIME)
    else:
        keyed = stream.key_by(lambda _: 0)
        stream = keyed.distinct(within=millis(1_000)) if by == "distinct" else keyed.on_change(lambda value: value)
    passed: list[bool] = []
    with StreamHarness(stream, source) as harness:
        for value in (make(), make(), other, other, make(), make()):
            harness.process_element(value, 0)
            passed.append(bool(harness.take_values()))
            harness.snapshot_restore()
    assert passed == [True, False, True, False, by == "on_change", False]


def test_on_change_takes_values_without_a_hash() -> None:
    changed = (
        from_collection([[1.0, NAN()], [1.0, NAN()], [2.0, NAN()]]).key_by(lambda _: 0).on_change(lambda each: each)
    )
    assert [each[0] for each in changed.collect()] == [1.0, 2.0]
