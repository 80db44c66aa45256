"""Elements of every type that cross the exchange as columns to steps on objects, against the general operator."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budget import examples
from tests.columnar import engine as columnar_engine
from tests.columnar.engine import millis, told
from tests.columnar.planning import row_form
from tests.columnar.test_keys import KEYS, ByGivenNumber, by_pair, elements
from tests.columnar.test_maps import WAYS, WINDOWS, windowed
from tests.columnar.test_record_hooks import ByMeta, Euro, Frozen, Lower, Mixed, Padded, Point, Struct
from tests.columnar.test_typed_steps import Trip, Trips, batches
from tests.spark import test_arrivals
from tests.spark.group_engine import run
from windrow import DataStream
from windrow.functions import AggregateFunction
from windrow.windows import TumblingEventTimeWindows
from windrow_spark.exchange.rows import pack_values, unpack_values

# Any in this module: keys and results of every type.

PYTHON_PLANS = ["tumbling", "hourly", "sliding", "sessions_late", "all_elements", "process"]


def check(name: str, inputs: Any, record: type[Any], **way: Any) -> None:
    late = name == "sessions_late"
    engine, wanted, dropped = run(
        test_arrivals.PLANS[name], inputs, row_form, crash_at=1, late=late, record=record, **way
    )
    assert told(engine.results) == told(wanted[0])
    assert told(engine.late) == (told(wanted[1]) if late else {})
    assert engine.counted["late_records_dropped"] == dropped


@pytest.mark.parametrize("record", KEYS)
@examples(4)
@given(data=st.data(), name=st.sampled_from(PYTHON_PLANS))
def test_elements_in_columns_give_what_the_general_operator_gives(
    record: type[Any], name: str, data: st.DataObject
) -> None:
    check(name, data.draw(elements(record)), record)


@pytest.mark.parametrize("name", PYTHON_PLANS)
@examples(4)
@given(data=st.data())
def test_elements_with_keys_that_are_tuples_cross_in_columns(name: str, data: st.DataObject) -> None:
    check(name, data.draw(elements(ByGivenNumber)), ByGivenNumber, way=by_pair)


class Values(AggregateFunction[Any, tuple[Any, ...], tuple[Any, ...]]):
    """All values, in order of arrival."""

    def create_accumulator(self) -> tuple[Any, ...]:
        return ()

    def add(self, value: Any, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*accumulator, value)

    def get_result(self, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        return accumulator

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return a + b


@pytest.mark.parametrize("lateness", [0, 90])
@pytest.mark.parametrize("name", WAYS)
def test_values_that_cross_the_exchange_as_columns_are_the_same(name: str, lateness: int) -> None:
    def build(stream: Any) -> DataStream[Any]:
        found: DataStream[Any] = windowed(stream, WINDOWS["tumbling"], lateness).aggregate(Values())
        return found

    inputs = [*columnar_engine.batches(random.Random(6)), []][::4]
    engine, (expected,), dropped = run(build, inputs, row_form, crash_at=1, way=WAYS[name].of)
    assert len(expected) > 10
    assert told(engine.results) == told(expected)
    assert engine.counted["late_records_dropped"] == dropped


def test_elements_that_cross_the_exchange_as_columns_are_the_same() -> None:
    def every(keyed: Trips) -> DataStream[Any]:
        windows = keyed.window(TumblingEventTimeWindows.of(millis(100)))
        return windows.apply(lambda key, window, elements: [(key, window.start, *elements)])

    inputs = [*batches(random.Random(4)), []]
    engine, wanted, _ = run(every, inputs, row_form, record=Trip)
    assert len(wanted[0]) > 50
    assert told(engine.results) == told(wanted[0])


@pytest.mark.parametrize("kind", [Lower, Mixed, Euro, Padded, ByMeta, Frozen, Point, Struct])
def test_the_exchange_gives_back_what_it_was_given(kind: type[Any]) -> None:
    elements = [kind(1), kind(2)]
    back = unpack_values(pack_values(elements))
    assert [type(each) for each in back] == [kind, kind]
    assert [each.a for each in back] == [each.a for each in elements]
