"""Columnar steps of decimals, dates, datetimes and time spans against the general operator, digit by digit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from tests.budget import seeded
from tests.columnar.engine import Ran, run, told
from tests.columnar.planning import column_form
from tests.columnar.window_steps import Plan, planned, sessions, sliding, step, tumbling
from windrow import KeyedStream
from windrow import aggregates as agg
from windrow.errors import AggregateOverflowError
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.record_type import record_type
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.results import record_batch
from windrow_spark.columnar.windows.column_operator import Fired

# Any in this module: results of every type, and pyarrow has no types.


class Trip(NamedTuple):
    key: str
    at: int
    text: str
    fare: Decimal
    tip: Decimal | None
    took: timedelta
    waited: timedelta | None
    day: date | None
    left: datetime | None


Trips = KeyedStream[Trip, str]
PLACES = Decimal(1).scaleb(-18)  # as elements come from a column


class Sums(NamedTuple):
    fares: Decimal | None
    tips: Decimal | None
    took: timedelta | None
    waited: timedelta | None


SUMS: Any = agg.into(
    Sums,
    fares=agg.sum(lambda t: t.fare),
    tips=agg.sum(lambda t: t.tip),
    took=agg.sum(lambda t: t.took),
    waited=agg.sum(lambda t: t.waited),
)
UNORDERED: Any = agg.combine(
    agg.key(),
    agg.window_start(),
    agg.sum(lambda t: t.fare),
    agg.sum(lambda t: t.waited),
    agg.max(lambda t: t.tip),
    agg.min(lambda t: t.day),
    agg.max(lambda t: t.took),
    agg.combine(agg.count_distinct(lambda t: t.left), agg.collect_set(lambda t: t.left)),
)
ORDERED: Any = agg.combine(
    agg.combine(agg.sum(lambda t: t.tip), agg.combine(agg.last(lambda t: t.left), agg.count())),
    agg.first(lambda t: t.tip),
    agg.collect_list(lambda t: t.left),
    agg.top_k(2, lambda t: t.fare, lambda t: t.left),
    agg.min_by(lambda t: t.took, lambda t: t.day),
    agg.combine(
        agg.approx_count_distinct(lambda t: t.left),
        agg.approx_count_distinct(lambda t: t.day),
        agg.approx_count_distinct(lambda t: t.waited),
        agg.approx_count_distinct(lambda t: t.tip),
    ),
)
OF_ELEMENTS: Any = agg.combine(agg.first(), agg.min_by(lambda t: t.left), agg.top_k(2, lambda t: t.fare))

PLANS: dict[str, Plan] = {
    "tumbling": planned(tumbling(100), SUMS),
    "ordered": planned(tumbling(100), ORDERED),
    "late": planned(tumbling(30), UNORDERED, lateness=10, late=True),
    "elements": planned(tumbling(30), OF_ELEMENTS, lateness=40),
    "sliding": planned(sliding(90, 30), UNORDERED),
    "sessions": planned(sessions(9), UNORDERED),
    "late sessions": planned(sessions(9), UNORDERED, lateness=40),
}


def decimal(number: int) -> Decimal:
    return (Decimal(number) / 8).quantize(PLACES, context=Context(prec=60))


def batches(chance: random.Random) -> Iterator[list[Trip]]:
    """Time goes on by some 60 ms in each batch, with disorder."""
    for number in range(30):
        yield [
            Trip(
                chance.choice("abcde"),
                (number - 3) * 60 + chance.randrange(-150, 60),
                chance.choice(["x", "ff"]),
                decimal(chance.choice([chance.randrange(-9000, 9000), 10**19, -(10**19)])),
                chance.choice([None, decimal(chance.randrange(100))]),
                timedelta(microseconds=chance.choice([chance.randrange(10**9), 2**56, -(2**56)]))
                if number % 7
                else timedelta(seconds=1),
                chance.choice([None, timedelta(seconds=chance.randrange(-99, 99))]),
                chance.choice([None, date.min, date(2024, 2, chance.randrange(1, 29)), date.max]),
                chance.choice([None, datetime(2024, 2, 1, chance.randrange(24), tzinfo=UTC)]),
            )
            for _ in range(chance.choice([0, 1, 7, 60]))
        ]


def ran(name: str, seed: int) -> Ran:
    inputs = [*batches(random.Random(seed)), []]
    return run(PLANS[name].build, inputs, column_form, crash_at=seed, late=name == "late", record=Trip)


@pytest.mark.parametrize(("name", "seed"), seeded(PLANS))
def test_columns_give_what_the_general_operator_gives(name: str, seed: int) -> None:
    engine, wanted, dropped = ran(name, seed)
    assert len(wanted[0]) > 50
    assert told(engine.results) == told(wanted[0])
    if name == "late":
        assert len(wanted[1]) > 5
        assert told(engine.late) == told(wanted[1])
    assert engine.counted["late_records_dropped"] == dropped


def trip(took: timedelta) -> Trip:
    return Trip("a", 1, "x", decimal(1), None, took, None, None, None)


def test_a_sum_of_time_spans_beyond_64_bits_is_an_error_that_names_the_step() -> None:
    inputs = [[trip(timedelta(microseconds=2**62)), trip(timedelta(microseconds=2**62))]]
    with pytest.raises(AggregateOverflowError, match=r"9223372036854775808 microseconds") as caught:
        run(PLANS["tumbling"].build, inputs, column_form, record=Trip, alone=True)
    assert "window_steps.py:" in str(caught.value.where)


def fired(fare: Decimal) -> Fired:
    """A window with a sum of fares, and of nothing else."""
    fares = pa.array([fare, None], pa.decimal256(76, 18))
    nothing = pa.nulls(2, pa.decimal256(76, 18))
    spans = pa.nulls(2, pa.duration("us"))
    results = pa.StructArray.from_arrays([fares, nothing, spans, spans], list(Sums._fields))
    zeros = np.zeros(2, np.int64)
    return Fired(pa.array(["a", "b"]), zeros, zeros, zeros, results)


def test_sums_of_decimals_go_to_sinks_as_columns_where_they_fit() -> None:
    form = ran("tumbling", 1).engine.form
    assert isinstance(form, ColumnarForm)
    kind = record_type(Sums)
    batch = record_batch(form, fired(decimal(12)), kind)
    assert batch is not None
    assert batch.schema == arrow_schema(kind)
    assert batch.column(0).to_pylist() == [Decimal("1.5"), None]
    # Python makes the results, and says that this one has too many digits.
    assert record_batch(form, fired(Decimal(10**20)), kind) is None


def test_combinations_within_combinations_go_to_sinks_by_way_of_python() -> None:
    class Pair(NamedTuple):
        both: tuple[int, int]
        n: int

    both: Any = agg.combine(agg.count(), agg.count(lambda t: t.tip))
    build = step(tumbling(100), agg.into(Pair, both=both, n=agg.count()))
    engine, (expected,), _ = run(build, [*batches(random.Random(5)), []], column_form, record=Trip)
    assert told(engine.results) == told(expected)
    assert all(type(pair.both) is tuple for pair in engine.results)
    counts = pa.array([1], pa.int64())
    inner = pa.StructArray.from_arrays([counts, counts], ["_1", "_2"])
    results = pa.StructArray.from_arrays([inner, counts], ["both", "n"])
    zeros = np.zeros(1, np.int64)
    assert isinstance(engine.form, ColumnarForm)
    found = record_batch(engine.form, Fired(pa.array(["a"]), zeros, zeros, zeros, results), record_type(Pair))
    assert found is None
