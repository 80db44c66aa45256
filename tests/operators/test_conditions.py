"""The truth of what users' functions return as conditions, and values that are computed later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.operators.stories import collected
from windrow import DataStream, from_collection
from windrow import aggregates as agg
from windrow.calls.results import UnusableResultError, truth
from windrow.errors import UserFunctionError, WindrowError
from windrow.evictors import DeltaEvictor
from windrow.functions import FixedDelayRetryStrategy, KeyedProcessFunction
from windrow.state import ValueStateDescriptor

# Any in this module: functions that do what their types forbid.


class Refusing:
    def __bool__(self) -> bool:
        raise RuntimeError("ask somebody else")


def test_values_with_a_truth_value() -> None:
    for value in (1, "a", [0], Decimal(1), np.bool_(True), np.array(True), pd.NaT, object(), pa.scalar(True)):
        assert truth(value)
    for value in (0, "", None, [], 0.0, np.bool_(False), np.array(0), pa.scalar(False)):
        assert not truth(value)


def test_values_without_a_truth_value() -> None:
    arrays = [np.array([1]), np.array([]), pd.Series([1]), pd.Index([]), pd.DataFrame(), pa.array([1]), pa.table({})]
    for value in (pd.NA, *arrays, Refusing(), (each for each in [1]), map(abs, [1])):
        with pytest.raises(UnusableResultError) as caught:
            truth(value)
        assert caught.value.given == f"a {type(value).__name__}"


numbers = from_collection([1, 2, 3])


def error_of(stream: DataStream[Any]) -> UserFunctionError:
    with pytest.raises(UserFunctionError) as caught:
        collected(stream)
    return caught.value


def test_a_filter_without_an_answer_names_step_and_element() -> None:
    error = error_of(numbers.filter(lambda n: pd.NA if n == 3 else True, name="large"))
    assert error.given == "element 3"
    assert str(error.where).startswith("plan.2.large, ")
    assert "returned a NAType: a condition is neither true nor false, TypeError: boolean value of NA" in error.message
    assert collected(numbers.filter(lambda n: np.bool_(n > 1))) == [2, 3]  # type: ignore[arg-type, return-value]
    assert collected(numbers.filter(lambda n: "yes" * (n > 2))) == [3]  # type: ignore[arg-type, return-value]


async def later(number: int) -> int:
    return number


async def generating(number: int) -> Any:
    return (each for each in [number])


LATER: dict[str, tuple[Callable[[], DataStream[Any]], str]] = {
    "map": (lambda: numbers.map(lambda n: (each for each in [n])), "element 1"),
    "coroutine": (lambda: numbers.map(lambda n: later(n)), "element 1"),  # noqa: PLW0108  a function would be seen
    "filter": (lambda: numbers.filter(lambda n: (each for each in [n])), "element 1"),  # type: ignore[arg-type, return-value]
    "flat_map": (lambda: numbers.flat_map(lambda n: [map(abs, [n])]), "element 1"),
    "map_async": (lambda: numbers.map_async(generating, capacity=1), "element 1"),
    "map_batches": (lambda: numbers.map_batches(lambda b: [map(abs, b)] * 3, size=3), "the first of them 1"),
    "key_by": (lambda: numbers.key_by(lambda n: map(abs, [n])).count_window(1).reduce(max), "element 1"),
    "state": (lambda: numbers.key_by(lambda n: 0).process(Keeping()), "key 0, element 1"),
    "a result that is typed": (
        lambda: numbers.key_by(lambda n: 0).count_window(2).reduce(lambda a, b: map(abs, [a])),  # type: ignore[arg-type, return-value]
        "element 2",
    ),
    "aggregate": (
        lambda: numbers.key_by(lambda n: 0).count_window(1).aggregate(agg.first(lambda n: map(abs, [n]))),
        "element 1",
    ),
}


class Keeping(KeyedProcessFunction[int, int, int]):
    LAST = ValueStateDescriptor[Any]("last")

    def process_element(self, value: int, context: Any) -> Iterator[int]:
        context.get_state(self.LAST).update(iter(()) if value > 1 else (each for each in [value]))
        yield value


@pytest.mark.parametrize("place", LATER)
def test_values_that_are_computed_later_are_refused_with_step_and_element(place: str) -> None:
    make, given = LATER[place]
    error = error_of(make())
    assert error.message.endswith("a value that is computed later can neither be sent to workers nor be read twice")
    assert given in str(error.given)
    assert __file__ in str(error.where)


def test_a_collection_of_generators() -> None:
    with pytest.raises(WindrowError, match="can neither be sent") as caught:
        collected(from_collection([(each for each in [1])]).map(list))
    assert __file__ in str(caught.value.where)


def test_the_conditions_of_evictors_and_retries() -> None:
    evicting = numbers.key_by(lambda n: 0).count_window(3)
    windows = evicting.evictor(DeltaEvictor.of(1.0, lambda a, b: pd.NA))
    assert "a condition is neither true nor false" in error_of(windows.reduce(max)).message
    asking = FixedDelayRetryStrategy(2, retry_result=lambda result: np.array([result]))  # type: ignore[arg-type, return-value]
    error = error_of(numbers.map_async(later, capacity=1, retry_strategy=asking))
    assert error.given == "element 1, try 1"
