"""Keys of every type that columns have, and elements at the edges of their types, against the general operator."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from tests.columnar.engine import Element, by_key, run
from tests.columnar.planning import column_form
from tests.columnar.window_steps import PLANS, agree
from windrow import DataStream
from windrow import aggregates as agg
from windrow.windows import TumblingEventTimeWindows

# Any in this module: keys and results of every type.


class ByNumber(NamedTuple):
    key: int | None
    at: int
    number: int | None
    level: float | None
    text: str


class ByFlag(NamedTuple):
    key: bool | None
    at: int
    number: int | None
    level: float | None
    text: str


class ByBytes(NamedTuple):
    key: bytes | None
    at: int
    number: int | None
    level: float | None
    text: str


class ByGivenNumber(NamedTuple):
    """The key is never None."""

    key: int
    at: int
    number: int | None
    level: float | None
    text: str


EDGES = [0, -1, -2, 1, 2**53 + 1, 2**61 - 2, 2**61 - 1, 2**63 - 1, -(2**63), -(2**63) + 11]
"""Where Python's hashes of ints begin anew, and the int that shares its hash with None."""

KEYS: dict[type[Any], st.SearchStrategy[Any]] = {
    Element: st.sampled_from([None, "", "a", "A", "\0", "a\0", "süd", "su\u0308d", "\U0001f300", "None"]),
    ByNumber: st.none() | st.sampled_from(EDGES),
    ByFlag: st.sampled_from([None, True, False]),
    ByBytes: st.sampled_from([None, b"", b"\0", b"\0\0", b"a", b"\xff", b"\xed\xa0\x80"]),
    ByGivenNumber: st.sampled_from(EDGES),
}
# Sums of larger floats depend on where windows share slices; squares of larger ones leave the floats.
LEVELS = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -1.5, 1e120]

NAMES = ["tumbling", "tumbling with lateness and late output", "sliding", "sliding unevenly", "sessions with lateness"]


def elements(record: type[Any]) -> st.SearchStrategy[list[list[Any]]]:
    """Batches of elements near each other, of few keys."""
    element = st.builds(
        record,
        KEYS[record],
        st.integers(-50, 350),
        st.sampled_from([None, 0, -7, 2**55]),
        st.sampled_from(LEVELS),
        st.sampled_from(["", "a", "ff", "\U0001f300"]),
    )
    return st.lists(st.lists(element, min_size=1, max_size=12), min_size=1, max_size=4)


@pytest.mark.parametrize("record", KEYS)
@examples(8)
@given(data=st.data(), name=st.sampled_from(NAMES))
def test_columns_give_what_the_general_operator_gives(record: type[Any], name: str, data: st.DataObject) -> None:
    plan = PLANS[name]
    inputs = data.draw(elements(record))
    agree(run(plan.build, inputs, column_form, crash_at=1, late=plan.late, record=record), plan)


def by_pair(records: DataStream[ByGivenNumber]) -> Any:
    """The records by two of their fields."""
    return records.key_by(lambda r: (r.key, r.text))


@pytest.mark.parametrize("name", NAMES)
@examples(8)
@given(data=st.data())
def test_keys_that_are_tuples_lie_in_columns(name: str, data: st.DataObject) -> None:
    plan = PLANS[name]
    inputs = data.draw(elements(ByGivenNumber))
    agree(run(plan.build, inputs, column_form, crash_at=1, late=plan.late, record=ByGivenNumber, way=by_pair), plan)


def ranked(stream: Any) -> DataStream[Any]:
    """Elements compared by tuples: the extreme ones, and the first few from either end."""
    windows = stream.window(TumblingEventTimeWindows.of(timedelta(milliseconds=100)))
    by = lambda r: (r.text, -r.at)  # noqa: E731  one function for all
    found: DataStream[Any] = windows.aggregate(
        agg.combine(
            agg.key(),
            agg.combine(agg.max_by(by), agg.min_by(by, lambda r: r.level)),
            agg.top_k(3, by, lambda r: r.at),
            agg.top_k(3, by, reverse=True),
            agg.top_k(2, lambda r: r.text, with_ties=True),
            agg.top_k(2, lambda r: (r.at // 50, r.text), lambda r: r.at, with_ties=True, reverse=True),
            agg.max(lambda r: (r.text, r.at)),
            agg.count_distinct(lambda r: (r.at // 7, r.text)),
        )
    )
    return found


@examples(25)
@given(data=st.data())
def test_tuples_compare_part_by_part(data: st.DataObject) -> None:
    inputs = data.draw(elements(ByGivenNumber))
    engine, wanted, dropped = run(ranked, inputs, column_form, crash_at=1, record=ByGivenNumber)
    assert by_key(engine.results) == by_key(wanted[0])
    assert engine.counted["late_records_dropped"] == dropped
