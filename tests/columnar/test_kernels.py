"""Kernels give what the aggregates give row by row, however the rows were cut and merged."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.aggregates.naive import AGGREGATES, Row, Summary
from tests.budget import examples
from tests.columnar.rows import decode, folded, kernel_of, merged, merged_states, outcome, rebuilt_as, states_of
from windrow.aggregates import DeclaredAggregate
from windrow_spark.columnar.kernels.kernel import Kernel

# Any in this module: results of every type.

floats = st.one_of(
    st.none(),
    st.sampled_from([0.0, -0.0, 1.5, -2.0, math.nan, math.inf, -math.inf, 1e16, -1e16, 5e-324, 1e-300, 1e300]),
    st.floats(-1e6, 1e6),
    st.floats(),
)
ints = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.integers(-(2**55), 2**55),
    st.sampled_from([2**63 - 1, -(2**63), 2**32, -(2**32) - 1, 2**53 + 1]),
)
rows = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.builds(
            Row,
            st.sampled_from("ab"),
            st.integers(0, 60),
            floats,
            ints,
            st.sampled_from([None, "", "north", "süd", "\U0001f300", "\uffee"]),
        ),
    ),
    max_size=14,
)
GROUPS = 4  # the last one has no rows

# What differs in more than the last bits is tested in test_spread.py. Sketches of so few values are exact.
NAMES = [name for name in AGGREGATES if not name.startswith(("var", "stddev"))]


def slack(elements: Sequence[Row]) -> float:
    """What rounding may leave of a sum of floats: it depends on what was added, not on what is left."""
    found = math.fsum(abs(row.f) / 2**60 for row in elements if row.f is not None and math.isfinite(row.f))
    return min(found * 2**60 * 1e-15, 1e300)


def agree(found: Any, expected: Any, least: float) -> bool:
    """Whether two results are the same, floats but for the last bits; a NaN is a NaN, and a zero has its sign."""
    found, expected = (
        tuple(vars(value).values()) if isinstance(value, Summary) else value for value in (found, expected)
    )
    if type(found) is not type(expected):
        return False
    if isinstance(found, float):
        if math.isnan(found) or math.isnan(expected):
            return math.isnan(found) and math.isnan(expected)
        if found == expected == 0:
            return math.copysign(1, found) == math.copysign(1, expected)
        return math.isclose(found, expected, rel_tol=1e-14, abs_tol=least)
    if isinstance(found, (list, tuple)):
        return len(found) == len(expected) and all(agree(a, b, least) for a, b in zip(found, expected, strict=True))
    if isinstance(found, Row):
        return agree(tuple(vars(found).values()), tuple(vars(expected).values()), 0.0)
    return bool(found == expected)


def check_group(
    function: DeclaredAggregate[Any, Any, Any],
    kernel: Kernel,
    state: Sequence[Any],
    accumulator: Any,
    held: Any,
    own: Sequence[Row],
    more: Sequence[Row],
) -> None:
    """The state of a group gives what the aggregate gives, which goes on with more rows where the kernel left off."""
    found = outcome(lambda: rebuilt_as(function, kernel.results(state).to_pylist()[0]))
    expected = outcome(function.get_result, held)
    assert agree(found, expected, slack(own)), (found, expected)
    found = outcome(function.get_result, folded(function, more, accumulator))
    expected = outcome(function.get_result, folded(function, more, copy.deepcopy(held)))
    assert agree(found, expected, slack([*own, *more])), (found, expected)


@pytest.mark.parametrize("name", NAMES)
@examples(20)
@given(arrived=rows, data=st.data())
def test_a_kernel_gives_what_the_aggregate_gives(
    name: str, arrived: list[tuple[int, Row]], data: st.DataObject
) -> None:
    function, _ = AGGREGATES[name]
    kernel = kernel_of(function)
    # The rows are cut into pieces. Runs of neighbours are then merged until one piece is left: kernels merge states,
    # the aggregate merges accumulators.
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arrived)), max_size=4)))
    pieces = [arrived[start:end] for start, end in zip([0, *cuts], [*cuts, len(arrived)], strict=True)]
    states = [states_of(kernel, [row for _, row in piece], [group for group, _ in piece], GROUPS) for piece in pieces]
    held = [
        [folded(function, [row for group, row in piece if group == wanted]) for wanted in range(GROUPS)]
        for piece in pieces
    ]
    while len(states) > 1:
        start = data.draw(st.integers(0, len(states) - 2))
        end = data.draw(st.integers(start + 2, len(states)))
        states[start:end] = [merged_states(kernel, states[start:end], GROUPS)]
        held[start:end] = [[merged(function, group) for group in zip(*held[start:end], strict=True)]]
    assert [state.type for state in states[0]] == list(kernel.state_types)
    accumulators = kernel.accumulators(states[0], decode)
    more = [row for _, row in arrived[:3]]
    for wanted in range(GROUPS):
        own = [row for group, row in arrived if group == wanted]
        one = [state.slice(wanted, 1) for state in states[0]]
        check_group(function, kernel, one, accumulators[wanted], held[0][wanted], own, more)
    if not isinstance(outcome(kernel.results, states[0]), str):
        assert kernel.results(states[0]).type == kernel.result_type


@pytest.mark.parametrize("name", [name for name in NAMES if kernel_of(AGGREGATES[name][0]).ordered])
@examples(20)
@given(arrived=rows, data=st.data())
def test_a_numbered_kernel_merges_in_any_order(name: str, arrived: list[tuple[int, Row]], data: st.DataObject) -> None:
    function, _ = AGGREGATES[name]
    kernel = kernel_of(function).numbered()
    assert not kernel.ordered
    # Each row is in one of some pieces, and the pieces are merged in any order, some at a time.
    chosen = data.draw(st.lists(st.integers(0, 3), min_size=len(arrived), max_size=len(arrived)))
    pieces: list[list[Any]] = []
    for wanted in range(4):
        piece = [place for place, number in enumerate(chosen) if number == wanted]
        own, ids = [arrived[place][1] for place in piece], [arrived[place][0] for place in piece]
        pieces.append(states_of(kernel, own, ids, GROUPS, numbers=piece))
    while len(pieces) > 1:
        order = data.draw(st.permutations(range(len(pieces))))
        some = data.draw(st.integers(2, len(pieces)))
        joined = merged_states(kernel, [pieces[n] for n in order[:some]], GROUPS)
        pieces = [*[pieces[n] for n in order[some:]], joined]
    assert [state.type for state in pieces[0]] == list(kernel.state_types)
    accumulators = kernel.accumulators(pieces[0], decode)
    for wanted in range(GROUPS):
        own = [row for group, row in arrived if group == wanted]
        one = [state.slice(wanted, 1) for state in pieces[0]]
        check_group(function, kernel, one, accumulators[wanted], folded(function, own), own, own[:2])
