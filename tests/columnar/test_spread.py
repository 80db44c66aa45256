"""Variance and standard deviation on columns, against the exact ones."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from tests.columnar.rows import folded, groups_of, kernel_of_numbers, merged, merged_states
from windrow import aggregates as agg
from windrow.aggregates.arithmetic import Spread

# Any in this module: pyarrow ships no types.

KINDS: list[tuple[Spread[Any], Callable[[list[Fraction]], Fraction], int]] = [
    (agg.var_pop(lambda value: value), statistics.pvariance, 1),
    (agg.variance(lambda value: value), statistics.variance, 2),
    (agg.stddev_pop(lambda value: value), statistics.pvariance, 1),
    (agg.stddev(lambda value: value), statistics.variance, 2),
]
values = st.lists(st.one_of(st.floats(-1e6, 1e6), st.floats(1e9, 1e9 + 1), st.none()), max_size=10)


def found_in(function: Spread[Any], pieces: Sequence[Sequence[float | None]]) -> float | None:
    """The result of values that came in pieces."""
    kernel = kernel_of_numbers(function, pa.float64())
    states = [kernel.partial(groups_of([1] * len(piece), 3), [pa.array(piece, pa.float64())]) for piece in pieces]
    first, found, last = kernel.results(merged_states(kernel, states, 3)).to_pylist()
    assert (first, last) == (None, None)
    result: float | None = found
    return result


@pytest.mark.parametrize("kind", range(len(KINDS)))
@examples(60)
@given(pieces=st.lists(values, min_size=1, max_size=4))
def test_spread_is_as_exact_as_two_passes(kind: int, pieces: list[list[float | None]]) -> None:
    function, measure, least = KINDS[kind]
    found = found_in(function, pieces)
    numbers = [Fraction(value) for piece in pieces for value in piece if value is not None]
    if len(numbers) < least:
        assert found is None
        return
    exact = float(measure(numbers))
    assert found is not None
    variance = found * found if function.root else found
    # The mean of each piece is rounded, which moves it by so much against the others.
    off = 4 * float(max(map(abs, numbers))) * 2**-53
    rounding = off * off + (off * math.sqrt(exact) if len(pieces) > 1 else 0.0)
    assert math.isclose(variance, exact, rel_tol=1e-14 * len(numbers), abs_tol=rounding + 1e-300)
    general = function.get_result(folded(function, [value for piece in pieces for value in piece]))
    assert general == pytest.approx(found, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_makes_it_nan(special: float) -> None:
    assert math.isnan(found_in(agg.var_pop(lambda value: value), [[1.0], [special, 2.0]]) or 0.0)
    assert found_in(agg.variance(lambda value: value), [[special]]) is None


@pytest.mark.parametrize("value", [0.1, 1e9 + 0.1, 1.7e308, -5e-324])
def test_equal_values_have_no_spread(value: float) -> None:
    assert found_in(agg.stddev_pop(lambda number: number), [[value] * 7, [], [value] * 5]) == 0.0


def test_near_the_largest_float_it_is_what_the_aggregate_says() -> None:
    for numbers in ([1e200, 1e200, 3.0], [1.7e308, -1.7e308], [1e154, -1e154, 0.0]):
        for pieces in ([numbers], [[number] for number in numbers]):
            function = agg.var_pop(lambda value: value)
            held = merged(function, [folded(function, piece) for piece in pieces])
            assert repr(found_in(function, pieces)) == repr(function.get_result(held))


def test_the_aggregate_goes_on_where_the_kernel_left_off() -> None:
    function = agg.variance(lambda value: value)
    kernel = kernel_of_numbers(function, pa.int64())
    states = kernel.partial(groups_of([0, 0, 0, 2], 3), [pa.array([1, 2, None, 9])])
    assert kernel.accumulators(states) == [(2, 1.5, 0.5), (0, 0.0, 0.0), (1, 9.0, 0.0)]
    assert function.get_result(folded(function, [3, 4], kernel.accumulators(states)[0])) == statistics.variance(
        [1, 2, 3, 4]
    )
