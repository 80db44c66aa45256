"""Sums of decimals and time spans on columns: the value of the aggregate, digit by digit, or its error."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from tests.columnar.rows import column, folded, groups_of, kernel_of_numbers, merged, merged_states, outcome
from windrow import aggregates as agg
from windrow.errors import AggregateOverflowError

# Any in this module: pyarrow has no types, and sums are of several types.

GROUPS = 4  # the last one has no rows
WIDE = Context(prec=60)
MICROSECOND = timedelta(microseconds=1)


def decimals(scale: int) -> st.SearchStrategy[Decimal]:
    """Decimals as they come out of a column of 38 digits: all with so many behind the point."""
    far = 10**38 - 1
    digits = st.one_of(
        st.integers(-3, 3),
        st.integers(-(2**70), 2**70),
        st.integers(-far, far),
        st.sampled_from([far, -far, 2**63, -(2**63), 2**64 - 1, 2**32, -(2**95), 2**126, -1]),
    )
    return digits.map(lambda number: Decimal(number).scaleb(-scale, WIDE))


spans = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**45), 2**45),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([2**63 - 1, -(2**63), 2**32, -(2**31)]),
).map(lambda number: number * MICROSECOND)

KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "decimals": (pa.decimal128(38, 18), decimals(18)),
    "whole decimals": (pa.decimal128(38, 0), decimals(0)),
    "fractions": (pa.decimal128(38, 38), decimals(38)),
    "time spans": (pa.duration("us"), spans),
}


def held_in(kind: Any, values: Sequence[Any]) -> Any:
    """A column of values. Arrow itself refuses to make some of the longest time spans that a column holds."""
    if not pa.types.is_duration(kind):
        return column(values, kind)
    numbers = [None if value is None else value // MICROSECOND for value in values]
    return column(numbers, pa.int64()).view(kind)


@pytest.mark.parametrize("name", KINDS)
@examples(60)
@given(data=st.data())
def test_sums_are_those_of_the_aggregate(name: str, data: st.DataObject) -> None:
    kind, values = KINDS[name]
    function: agg.DeclaredAggregate[Any, Any, Any, Any] = agg.sum(lambda value: value)
    kernel = kernel_of_numbers(function, kind)
    row = st.tuples(st.integers(0, GROUPS - 2), st.one_of(st.none(), values))
    pieces = data.draw(st.lists(st.lists(row, max_size=8), min_size=1, max_size=4))
    states = [
        kernel.partial(groups_of([group for group, _ in piece], GROUPS), [held_in(kind, [value for _, value in piece])])
        for piece in pieces
    ]
    held = [
        [folded(function, [value for group, value in piece if group == wanted]) for wanted in range(GROUPS)]
        for piece in pieces
    ]
    if len(pieces) > 1:
        states = [merged_states(kernel, states, GROUPS)]
        held = [[merged(function, group) for group in zip(*held, strict=True)]]
    assert [state.type for state in states[0]] == list(kernel.state_types)
    accumulators = kernel.accumulators(states[0])
    more = [value for _, value in pieces[0][:3]]
    for wanted in range(GROUPS):
        one = [state.slice(wanted, 1) for state in states[0]]
        # As texts, which show the type, the exponent and the sign.
        found = outcome(lambda one=one: kernel.results(one).to_pylist()[0])
        assert repr(found) == repr(outcome(function.get_result, held[0][wanted]))
        # The aggregate goes on where the kernel left off.
        found = outcome(function.get_result, folded(function, more, accumulators[wanted]))
        expected = outcome(function.get_result, folded(function, more, copy.deepcopy(held[0][wanted])))
        assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("digits", "scale"), [(10**38 - 1, 18), (-(10**38) + 1, 0), (2**127 - 2**100, 38), (-(2**64), 2)]
)
def test_sums_of_decimals_outgrow_their_column(digits: int, scale: int) -> None:
    value = Decimal(digits % 10**38).scaleb(-scale, WIDE)
    kernel = kernel_of_numbers(agg.sum(lambda value: value), pa.decimal128(38, scale))
    states = kernel.partial(groups_of([1] * 70_000, 2), [pa.array([value] * 70_000, pa.decimal128(38, scale))])
    for _ in range(3):
        states = kernel.merge(groups_of([0, 1] * 50, 2), [pa.concat_arrays([state] * 50) for state in states])
    expected = WIDE.multiply(value, 70_000 * 50**3)
    assert repr(kernel.results(states).to_pylist()) == repr([None, expected])


def test_a_total_of_time_spans_may_be_longer_than_any_of_them() -> None:
    longest = (2**63 - 1) * MICROSECOND
    values = [longest] * 40 + [-longest] * 40
    function: agg.DeclaredAggregate[Any, Any, Any, Any] = agg.sum(lambda value: value)
    kernel = kernel_of_numbers(function, pa.duration("us"))
    half = kernel.partial(groups_of([0] * 40, 1), [pa.array(values[:40], pa.duration("us"))])
    (accumulator,) = kernel.accumulators(half)
    assert function.get_result(folded(function, values[40:], accumulator)) == timedelta(0)
    with pytest.raises(AggregateOverflowError) as found:
        kernel.results(half)
    with pytest.raises(AggregateOverflowError) as expected:
        function.get_result(folded(function, values[:40]))
    assert str(found.value) == str(expected.value)
