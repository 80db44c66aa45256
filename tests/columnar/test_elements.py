"""Aggregates that take the element itself, on columns: records of all shapes come back as they were."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
import pytest

from tests.columnar.engine import Element, at, batches, run, told
from tests.columnar.planning import column_form
from tests.columnar.window_steps import sessions, step, tumbling
from windrow import aggregates as agg
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.kernels.arrays import lists
from windrow_spark.columnar.results import record_batch
from windrow_spark.columnar.rows.columns import WholeElement, element_values
from windrow_spark.columnar.windows.column_operator import Fired

# Any in this module: elements and results of every type, and pyarrow has no types.


class Named(NamedTuple):
    name: str | None
    at: datetime
    fare: Decimal


@dataclass
class Plain:
    key: int
    at: int
    text: str
    took: timedelta | None = None


@dataclass(kw_only=True, frozen=True)
class ByKeyword:
    level: float
    data: bytes = b""


class Typed(TypedDict):
    name: str
    flag: bool


MOMENT = datetime(2024, 2, 1, tzinfo=UTC)
ELEMENTS: dict[str, tuple[Any, list[Any]]] = {
    "NamedTuple": (
        Named,
        [Named("a", MOMENT, Decimal("1.500000000000000000")), Named(None, MOMENT, Decimal("-2.000000000000000001"))],
    ),
    "dataclass": (Plain, [Plain(1, 2, "a", timedelta(seconds=1)), Plain(-1, 0, "")]),
    "dataclass by keyword": (ByKeyword, [ByKeyword(level=-0.0, data=b"\xff"), ByKeyword(level=math.inf)]),
    "TypedDict": (Typed, [Typed(name="a", flag=True), Typed(name="", flag=False)]),
    "tuple": (tuple[int, str | None], [(1, "a"), (2**63 - 1, None)]),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_come_back_from_columns(name: str) -> None:
    kind = record_type(ELEMENTS[name][0])
    one, two = ELEMENTS[name][1]
    batch = encode_batch([two, one, two, one], kind).slice(1)
    whole = WholeElement(kind)
    column = whole.evaluate(dict(zip(batch.schema.names, batch.columns, strict=True)))
    assert column.type == whole.arrow_type
    cases = [
        (column, [one, two, one]),
        (column.slice(1), [two, one]),
        (column.slice(3), []),
        (column.take(pa.array([None, 1, None])), [None, two, None]),
        (lists(column, np.array([0, 2, 0, 1])).slice(1), [[one, two], [], [one]]),
    ]
    for found, expected in cases:
        assert repr(element_values(found, kind)) == repr(expected)
    assert type(element_values(column, kind)[0]) is type(one)


def test_other_columns_are_as_they_were() -> None:
    kind = record_type(Named)
    moments = pa.array([MOMENT, None], pa.timestamp("us", tz="UTC"))
    assert element_values(moments, kind) == [MOMENT, None]
    assert element_values(pa.array([[1], [], None]), kind) == [[1], [], None]


def plain(chance: random.Random) -> list[list[Plain]]:
    return [
        [
            Plain(chance.randrange(4), number * 40 + chance.randrange(-200, 40), chance.choice(["a", "b", "ff"]))
            for _ in range(chance.choice([0, 3, 30]))
        ]
        for number in range(12)
    ]


@pytest.mark.parametrize("lateness", [0, 60])
@pytest.mark.parametrize(
    "aggregate",
    [agg.first(), agg.collect_list(), agg.max_by(lambda e: e.text), agg.top_k(2, lambda e: e.text)],
    ids=lambda aggregate: aggregate.declaration.kind,
)
def test_an_aggregate_of_elements_may_stand_alone(aggregate: Any, lateness: int) -> None:
    build = step(tumbling(50), aggregate, lateness=lateness)
    engine, (expected,), dropped = run(build, plain(random.Random(2)), column_form, crash_at=1, record=Plain)
    assert len(expected) > 20
    assert told(engine.results) == told(expected)
    assert engine.counted["late_records_dropped"] == dropped


def test_an_element_that_is_only_counted_may_be_in_sessions() -> None:
    build = step(sessions(9), agg.combine(agg.key(), agg.count(lambda e: e)), lateness=60)
    engine, (expected,), _ = run(build, plain(random.Random(3)), column_form, record=Plain)
    assert told(engine.results) == told(expected)


class Last(NamedTuple):
    found: Element | None


class Every(NamedTuple):
    found: list[Element]


class Numbers(NamedTuple):
    found: frozenset[int]


@pytest.mark.parametrize(
    ("target", "aggregate", "held"),
    [
        (Last, agg.last(), at(1)._asdict()),
        (Every, agg.collect_list(), [at(1)._asdict()]),
        (Numbers, agg.collect_set(lambda e: e.number), [1]),
    ],
)
def test_records_with_elements_or_sets_are_made_in_python(target: type[Any], aggregate: Any, held: Any) -> None:
    build = step(tumbling(100), agg.into(target, found=aggregate))
    engine, (expected,), _ = run(build, [*batches(random.Random(5)), []][::4], column_form)
    assert told(engine.results) == told(expected)
    assert isinstance(engine.form, ColumnarForm)
    # Another class of the sink may have the same columns, or a list in place of the set.
    zeros = np.zeros(1, np.int64)
    results = pa.array([{"found": held}], engine.form.kernel.result_type)
    fired = Fired(pa.array(["a"]), zeros, zeros, zeros, results)
    assert record_batch(engine.form, fired, record_type(target)) is None
