"""Kernels for values of every type that a column has, and what they say where they cannot."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.columnar.rows import (
    OF_ONE,
    ORDERED,
    folded,
    groups_of,
    kernel_of_numbers,
    merged_states,
    outcome,
    rebuilt_as,
)
from windrow import aggregates as agg
from windrow.aggregates import DeclaredAggregate
from windrow.functions.aggregate import AggregateFunction
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.kernels.choice import kernel_for
from windrow_spark.columnar.rows.groups import Groups

# Any in this module: pyarrow ships no types, and values are of every type.

VALUES: dict[str, tuple[Any, list[Any]]] = {
    "bool": (pa.bool_(), [True, None, False, True]),
    "int8": (pa.int8(), [-128, None, 127, 5, -128]),
    "uint64": (pa.uint64(), [2**64 - 1, 0, None, 2**63, 2**63 - 1]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1, None, 0, 2**63 - 1]),
    "float16": (pa.float16(), [1.5, -2.0, None, math.nan]),
    "float32": (pa.float32(), [1.5, -math.inf, None, 0.25]),
    "float64": (pa.float64(), [1.5, -0.0, None, 0.0, -5e-324]),
    "text": (pa.string(), ["b", "\U0001f300", None, "\uffee", "", "b"]),
    "large text": (pa.large_string(), ["b", None, "a", "ab"]),
    "bytes": (pa.binary(), [b"\xff", None, b"", b"\x00"]),
    "decimal": (pa.decimal128(38, 18), [Decimal("1.5"), None, Decimal(-2), Decimal("1.50")]),
    "date": (pa.date32(), [date(2024, 2, 1), None, date(1969, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        [datetime(2024, 2, 1, tzinfo=UTC), None, datetime(1969, 12, 31, tzinfo=UTC)],
    ),
    "duration": (pa.duration("us"), [timedelta(1), None, timedelta(-1), timedelta(microseconds=1)]),
}

AGGREGATES: dict[str, Callable[[Any], DeclaredAggregate[Any, Any, Any]]] = {
    **OF_ONE,
    "min_by": agg.min_by,
    "top_k": partial(agg.top_k, 3),
    "first": partial(agg.first, ignore_nulls=True),
}
COMPARING = ("count", "count_distinct", "collect_set", "min", "max", *ORDERED)
ADDING = ("sum", "mean", "var_pop", "approx_count_distinct", "approx_quantile")
TOO = [("decimal", "sum"), ("duration", "sum")]  # of what is no number, these can be added
COUNTED = ["text", "bytes", "decimal", "date", "timestamp", "duration"]
NUMBERS = ["bool", "int8", "int64", "float16", "float32", "float64"]


# Any: values of all types.
def same(value: Any) -> Any:
    return value


def results(function: DeclaredAggregate[Any, Any, Any], kind: Any, values: list[Any]) -> list[Any]:
    """The results of values that came in two pieces, and of a group without values."""
    kernel = kernel_of_numbers(function, kind)
    padded = pa.array([None, *values, None], kind)
    middle = len(values) // 2
    pieces = [padded.slice(1, middle), padded.slice(1 + middle, len(values) - middle)]
    states = [kernel.partial(groups_of([0] * len(piece), 2), [piece for _ in kernel.inputs]) for piece in pieces]
    column = kernel.results(merged_states(kernel, states, 2))
    assert column.type == kernel.result_type
    found: list[Any] = column.to_pylist()
    return found


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in VALUES for name in COMPARING]
    + [(kind, name) for kind in NUMBERS for name in ADDING]
    + [*TOO, *((kind, "approx_count_distinct") for kind in COUNTED)],
)
def test_values_of_every_type(kind: str, name: str) -> None:
    function = AGGREGATES[name](same)
    arrow, values = VALUES[kind]
    # What a narrow float holds is what the aggregate would have been given.
    held = pa.array(values, arrow).to_pylist()
    expected = [function.get_result(folded(function, held)), function.get_result(folded(function, []))]
    found = [rebuilt_as(function, each) for each in results(function, arrow, values)]
    assert [type(value) for value in found] == [type(value) for value in expected]
    assert repr(found[1]) == repr(expected[1])
    if name == "collect_set":
        assert found == expected
        return
    assert repr(found[0]) == repr(expected[0]) or found[0] == pytest.approx(expected[0], rel=1e-15)


TOP = 2**63 - 1


@pytest.mark.parametrize(
    ("values", "kind", "total"),
    [([TOP, TOP, -TOP, -TOP, -(2**63), 5, 2**63 - 6], pa.int64(), -1), ([2**62, 2**61], pa.uint64(), 2**62 + 2**61)],
)
def test_sums_do_not_wrap_around(values: list[int], kind: Any, total: int) -> None:
    assert results(agg.sum(same), kind, values) == [total, None]


@pytest.mark.parametrize(
    ("values", "kind"), [([2**62] * 4, pa.int64()), ([-(2**63), -1], pa.int64()), ([2**64 - 1], pa.uint64())]
)
def test_a_sum_that_fits_no_column_is_the_error_of_the_aggregate(values: list[int], kind: Any) -> None:
    function: DeclaredAggregate[Any, Any, Any] = agg.sum(same)
    expected = outcome(function.get_result, folded(function, values))
    assert isinstance(expected, str)
    assert outcome(results, function, kind, values) == expected


@pytest.mark.parametrize(
    "values",
    [[TOP] * 3, [-(2**63), -(2**63) + 1], [2**53 + 1, 2**53 + 3, 2**53 + 4], [10**18 + 1, -(10**18)], [-1, -2]],
)
def test_means_of_huge_ints_are_exact(values: list[int]) -> None:
    assert results(agg.mean(same), pa.int64(), values) == [sum(values) / len(values), None]


def test_sums_of_floats_keep_what_rounding_takes_away() -> None:
    values = [1e16, 1.0, -1e16, 1e-9] * 3000
    expected = math.fsum(values)
    for order in (values, values[::-1], sorted(values)):
        assert results(agg.sum(same), pa.float64(), order)[0] == pytest.approx(expected, rel=1e-14)


def test_sums_of_small_values_beside_groups_of_large_ones() -> None:
    kernel = kernel_of_numbers(agg.sum(same), pa.float64())
    values = pa.array([1e300, 1e-300, 1e300, 3e-300, 5e-324, 1e300])
    states = kernel.partial(groups_of([0, 1, 0, 1, 2, 0], 3), [values])
    assert kernel.results(states).to_pylist() == pytest.approx([3e300, 4e-300, 5e-324], rel=1e-15)


@pytest.mark.parametrize("values", [[1e308, 1e308, -1e308], [1e308, -1e308, 1e308], [1e308] * 2 + [-math.inf]])
def test_near_the_largest_float_sums_are_what_the_aggregate_says(values: list[float]) -> None:
    function: DeclaredAggregate[Any, Any, Any] = agg.sum(same)
    kernel = kernel_of_numbers(function, pa.float64())
    expected = function.get_result(folded(function, values))
    states = kernel.partial(groups_of([0] * 3, 1), [pa.array(values)])
    assert repr(kernel.results(states).to_pylist()) == repr([expected])
    apart = kernel.partial(groups_of([0, 1, 2], 3), [pa.array(values)])
    assert repr(kernel.results(kernel.merge(groups_of([0] * 3, 1), apart)).to_pylist()) == repr([expected])


def test_many_rows_in_many_groups() -> None:
    random = np.random.default_rng(7)
    ids, values = random.integers(0, 40, 20_000), random.normal(size=20_000).round(1)
    groups = Groups(ids, 40)
    function = agg.combine(agg.top_k(5, same), agg.count_distinct(same), agg.collect_list(same), agg.sum(same))
    kernel = kernel_of_numbers(function, pa.float64())
    found = kernel.results(kernel.partial(groups, [pa.array(values)]))
    assert len(kernel.inputs) == 1, "the members take the same"
    for group, result in enumerate(found.to_pylist()):
        expected = function.get_result(folded(function, values[ids == group].tolist()))
        *exact, total = result.values()
        assert exact == list(expected[:-1])
        assert total == pytest.approx(expected[-1], rel=1e-14)


def test_members_share_inputs_only_if_they_take_the_same() -> None:
    function: DeclaredAggregate[float, Any, Any] = agg.combine(
        agg.sum(lambda r: r + 1), agg.mean(lambda row: row + 1), agg.min(lambda r: r + 1.0), agg.first()
    )
    # Constants 1 and 1.0 are equal, yet their sums are of different types.
    assert len(kernel_of_numbers(function, pa.float64()).inputs) == 3


@pytest.mark.parametrize("codes", [[3, 1, 3, 0, 2], [3 << 60, 1 << 60, 3 << 60, 0, 2 << 60]])
def test_groups_are_ordered_by_code_and_then_by_arrival(codes: list[int]) -> None:
    groups = groups_of([1, 0, 1, 1, 0], 2)
    assert groups.ordered_by(np.array(codes), max(codes) + 1).tolist() == [1, 4, 3, 0, 2]
    assert groups.order.tolist() == [1, 4, 0, 2, 3]
    assert (groups.starts.tolist(), groups.sizes.tolist()) == ([0, 2], [2, 3])


class Longest(AggregateFunction[str, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: str, accumulator: int) -> int:
        return max(accumulator, len(value))

    def get_result(self, accumulator: int) -> int:
        return accumulator


UNKNOWN: list[tuple[AggregateFunction[Any, Any, Any], Any, str]] = [
    (agg.mean(lambda r: r.d), pa.decimal128(38, 18), "mean of decimals"),
    (agg.sum(lambda r: r.d), pa.decimal256(50, 2), "sum of decimals"),
    (agg.sum(lambda r: r.d), pa.duration("ms"), "sum of time spans"),
    (agg.mean(lambda r: r.d), pa.string(), "mean of texts"),
    (agg.stddev(lambda r: r.d), pa.timestamp("us"), "stddev of times"),
    (agg.min(lambda r: r.d), pa.struct([("a", pa.int64())]), "min of records"),
    (agg.max_by(lambda r: r.d), pa.list_(pa.int64()), "max_by of lists"),
    (agg.top_k(2, lambda r: r.d), pa.null(), "top_k of nothing but None"),
    (agg.count_distinct(lambda r: r.d), pa.map_(pa.string(), pa.string()), "count_distinct of dicts"),
    (agg.collect_set(lambda r: r.d), pa.list_(pa.int64()), "collect_set of lists"),
    (agg.approx_count_distinct(lambda r: r.d), pa.timestamp("us"), "approx_count_distinct of times"),
    (agg.mean(lambda r: round(r.d)), None, "the selector of mean uses round"),
    (agg.mean(lambda r: r.d + 1), None, "the selector of mean takes .d + 1, which is no column"),
    (agg.collect_list(), None, "collect_list takes the element, which is no column"),
    (Longest(), pa.string(), "Longest is an aggregate function of yours"),
    (agg.combine(agg.count(), Longest()), pa.string(), "Longest is an aggregate function of yours"),
    (agg.combine(agg.count(), agg.sum(lambda r: r.d)), pa.decimal256(39, 2), "sum of decimals"),
]


@pytest.mark.parametrize(("function", "kind", "reason"), UNKNOWN)
def test_where_there_is_no_kernel_it_says_why(
    function: AggregateFunction[Any, Any, Any], kind: Any, reason: str
) -> None:
    with pytest.raises(DeclinedError) as declined:
        kernel_for(function, lambda _: kind)
    assert str(declined.value) == reason
