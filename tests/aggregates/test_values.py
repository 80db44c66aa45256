"""Every aggregate gives what its plain definition gives, however the elements were merged."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, Inexact
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.aggregates.naive import AGGREGATES, Row, close
from tests.budget import examples
from windrow import aggregates as agg
from windrow.aggregates import DeclaredAggregate
from windrow.aggregates.distinct import CollectSet, CountDistinct
from windrow.errors import AggregateOverflowError, InvalidArgumentError

# Any in this module: results of every type.

LONGEST = timedelta(microseconds=2**63 - 1)
"""The longest time span that a column holds."""

floats = st.one_of(
    st.sampled_from([0.0, -0.0, 1.5, -2.0, math.nan, math.inf, -math.inf]), st.floats(-1e6, 1e6), st.none()
)
rows = st.lists(
    st.builds(
        Row,
        st.sampled_from("ab"),
        st.integers(0, 60),
        floats,
        st.one_of(st.none(), st.integers(-(2**55), 2**55)),
        st.sampled_from([None, "", "north", "süd"]),
    ),
    max_size=12,
)


def identity(value: Any) -> Any:
    return value


SUM: DeclaredAggregate[Any, Any, Any] = agg.sum(lambda element: element)


def folded(function: DeclaredAggregate[Any, Any, Any], elements: Sequence[Any]) -> Any:
    """The accumulator of some elements."""
    accumulator = function.create_accumulator()
    for element in elements:
        accumulator = function.add(element, accumulator)
    return accumulator


def result(function: DeclaredAggregate[Any, Any, Any], elements: Sequence[Any]) -> Any:
    return function.get_result(folded(function, elements))


@pytest.mark.parametrize("name", AGGREGATES)
@examples(25)
@given(elements=rows, data=st.data())
def test_every_aggregate_is_what_it_says(name: str, elements: list[Row], data: st.DataObject) -> None:
    function, naive = AGGREGATES[name]
    assert close(result(function, []), naive([]))
    expected = naive(elements)
    found = result(function, elements)
    assert close(found, expected), (found, expected)
    # Cut into pieces, which are then merged two by two at random places: the earlier one comes first.
    cuts = sorted(data.draw(st.lists(st.integers(0, len(elements)), max_size=4)))
    pieces = [
        folded(function, elements[start:end]) for start, end in zip([0, *cuts], [*cuts, len(elements)], strict=True)
    ]
    while len(pieces) > 1:
        place = data.draw(st.integers(0, len(pieces) - 2))
        first, second = pieces[place], pieces[place + 1]
        before = pickle.dumps((first, second))
        merged = function.merge(first, second)
        if not isinstance(function, CollectSet | CountDistinct):  # they add the fewer values to the others, in place
            assert pickle.dumps((first, second)) == before, "merge changed what it was given"
        pieces[place : place + 2] = [merged]
    merged_result = function.get_result(pieces[0])
    assert close(merged_result, expected), (merged_result, expected)
    # The result is a snapshot, and asking for it changes nothing.
    again = copy.deepcopy(merged_result)
    function.add(Row("a", 0, 1e6, 7, "zz"), pieces[0])
    assert close(merged_result, again)


def test_a_sum_is_described_for_its_error_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A description takes the code of the selector apart, which costs more than all else that a window does."""
    total: DeclaredAggregate[int, Any, int | None, Any] = agg.sum(lambda number: number)
    described: list[object] = []

    def describe(given: object) -> str:
        described.append(given)
        return "a sum"

    monkeypatch.setattr(type(total), "describe", describe)
    assert total.get_result(total.add(7, total.create_accumulator())) == 7
    assert described == []
    with pytest.raises(AggregateOverflowError, match="the result of a sum does not fit"):
        total.get_result(total.add(2**70, total.create_accumulator()))
    assert described == [total]


def test_sums_of_floats_keep_what_rounding_takes_away() -> None:
    values = [1e16, 1.0, -1e16, 1e-9] * 1000
    for order in (values, values[::-1], sorted(values)):
        assert result(SUM, order) == pytest.approx(math.fsum(values), rel=1e-12)
        halves = folded(SUM, order[:1234]), folded(SUM, order[1234:])
        assert SUM.get_result(SUM.merge(*halves)) == pytest.approx(math.fsum(values), rel=1e-12)


def test_sums_beyond_the_largest_float_are_infinite() -> None:
    assert result(SUM, [1e308, 1e308]) == math.inf
    assert math.isnan(result(SUM, [math.inf, -math.inf]))


def test_ints_and_floats_in_one_sum() -> None:
    for order in ([2**60 + 1, 0.5, 2**60 + 1, -(2.0**61)], [0.5, 2**60 + 1, -(2.0**61), 2**60 + 1]):
        assert result(SUM, order) == 2.5
    assert result(SUM, [True, False, True]) == 2
    assert type(result(SUM, [True])) is int


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([Decimal("0.1")] * 3, Decimal("0.3")),
        ([Decimal("1e30"), Decimal("1e-30"), Decimal("-1e30")], Decimal("1e-30")),
        ([timedelta(days=1), None, timedelta(microseconds=1)], timedelta(days=1, microseconds=1)),
        ([2**62, 2**62, -(2**62)], 2**62),
    ],
    ids=["decimals", "exact", "spans", "ints"],
)
def test_sums_of_other_types(values: list[Any], total: Any) -> None:
    found = result(SUM, values)
    assert found == total
    assert type(found) is type(total)


def test_a_sum_that_fits_no_column_is_an_error() -> None:
    message = r"sum\(element\) does not fit into 64 bits(.|\n)*9223372036854775808"
    with pytest.raises(AggregateOverflowError, match=message):
        result(SUM, [2**62, 2**62])
    with pytest.raises(Inexact):
        result(SUM, [Decimal("1e200"), Decimal("1e-200")])
    with pytest.raises(AggregateOverflowError, match="9223372036854775808 microseconds"):
        result(SUM, [LONGEST, timedelta(microseconds=1)])
    # The mean of the same values is a float, and exact.
    assert result(agg.mean(lambda value: value), [2**62, 2**62]) == 2.0**62


@pytest.mark.parametrize(
    "values",
    [
        [LONGEST, timedelta(microseconds=1), -LONGEST],
        [timedelta.max] * 3 + [timedelta.min] * 3,
        [timedelta.min, timedelta.min, timedelta(days=1), timedelta.max, timedelta.max, timedelta(days=2)],
        [LONGEST],
        [-LONGEST, timedelta(microseconds=-1)],
    ],
)
def test_sums_of_time_spans_may_be_longer_on_the_way(values: list[timedelta]) -> None:
    expected = timedelta(microseconds=sum(value // timedelta(microseconds=1) for value in values))
    assert result(SUM, values) == expected
    held = folded_in_pairs(SUM, values)
    assert SUM.get_result(held) == expected


def folded_in_pairs(function: DeclaredAggregate[Any, Any, Any], values: list[Any]) -> Any:
    """The accumulator of values that were folded two at a time."""
    held = function.create_accumulator()
    for start in range(0, len(values), 2):
        held = function.merge(held, folded(function, values[start : start + 2]))
    return held


@pytest.mark.parametrize("values", [[Decimal(1), 1.5], [1.5, Decimal(1)], [1, timedelta(1)], [timedelta(1), 1], ["x"]])
def test_sums_of_what_cannot_be_added(values: list[Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"cannot be added|got something else"):
        result(SUM, values)


def test_numbers_are_asked_for() -> None:
    functions: list[agg.DeclaredAggregate[Any, Any, Any]] = [agg.mean(identity), agg.variance(identity)]
    for function in functions:
        with pytest.raises(InvalidArgumentError, match=r"aggregate of numbers got something else\n  given:    'x'"):
            result(function, ["x"])


def test_variance_of_numbers_that_are_close_to_each_other() -> None:
    values = [1e9 + step for step in (4.0, 7.0, 13.0, 16.0)]
    assert result(agg.variance(lambda value: value), values) == 30.0
    assert result(agg.var_pop(lambda value: value), values) == 22.5


def test_whatever_has_an_order_can_be_compared() -> None:
    days = [date(2024, 1, day) for day in (3, 1, 2)]
    assert result(agg.min(lambda day: day), days) == date(2024, 1, 1)
    moments = [datetime(2024, 1, day, tzinfo=UTC) for day in (3, 1, 2)]
    assert result(agg.max(lambda moment: moment), moments) == moments[0]
    assert result(agg.top_k(2, lambda pair: pair), [(1, "a"), (2, "b"), (1, "c")]) == [(2, "b"), (1, "c")]


def test_distinct_values_are_merged_into_the_larger_set() -> None:
    distinct: DeclaredAggregate[float, Any, int] = agg.count_distinct(lambda value: value)
    for larger_first in (True, False):
        larger, smaller = folded(distinct, [1.0, 2.0, 3.0]), folded(distinct, [3.0, 4.0, math.nan])
        merged = distinct.merge(*((larger, smaller) if larger_first else (smaller, larger)))
        assert merged == ({1.0, 2.0, 3.0, 4.0}, True)
        assert merged[0] is larger[0]
        assert distinct.get_result(merged) == 5


def test_values_without_a_hash_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"no hash\n  given:    \[1\](.|\n)*tuple"):
        result(agg.count_distinct(identity), [[1]])
    with pytest.raises(InvalidArgumentError, match=r"^collect_set got a value that has no hash"):
        result(agg.collect_set(identity), [[1]])


@dataclass(frozen=True)
class Level:
    name: str
    value: float


#  accumulator   of a batch                of the next one
#  value         a NaN that was stored     another one
@pytest.mark.parametrize(
    "value",
    [("a", math.nan), ("a", (Decimal("NaN"),)), Level("a", math.nan), frozenset([math.nan])],
    ids=["tuple", "decimal", "record", "set"],
)
def test_stored_values_with_a_nan_within_are_one(value: Any) -> None:
    def both(function: Any) -> Any:
        stored = [pickle.dumps(function.add(value, function.create_accumulator())) for _ in range(2)]
        return function.get_result(function.merge(*map(pickle.loads, stored)))

    assert both(agg.count_distinct(lambda each: each)) == 1
    (only,) = both(agg.collect_set(lambda each: each))
    assert repr(only) == repr(value)
