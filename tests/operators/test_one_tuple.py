"""A function that emits records and returns one tuple, text or dict: refused by the plan, or by the run."""

from __future__ import annotations

from collections import UserString
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row

from tests.operators.stories import collected
from windrow import Pipeline, from_collection
from windrow.errors import InvalidArgumentError, PlanError
from windrow.functions import (
    FlatMapFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    MapFunction,
    ProcessContext,
    ProcessFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
)
from windrow.plan.emitting import gives_one_tuple
from windrow.sinks import CollectSink
from windrow.windows import GlobalWindow, TimeWindow, TumblingProcessingTimeWindows

WORDS = from_collection(["be", "not"])
BY_WORD = WORDS.key_by(lambda word: word)
WINDOWS = BY_WORD.window(TumblingProcessingTimeWindows.of(timedelta(seconds=1)))


def pair(word: str) -> tuple[str, int]:
    return word, len(word)


def several(word: str) -> tuple[str, ...]:
    return (word, word)


def pair_of_window(key: str, window: TimeWindow, words: Sequence[str]) -> tuple[str, int] | None:
    return key, len(words)


class Annotated(KeyedProcessFunction[str, str, tuple[str, int]]):
    """Says itself that it returns one tuple."""

    # mypy refuses it; the plan has to as well.
    def process_element(self, value: str, context: KeyedProcessContext[str]) -> tuple[str, int]:  # type: ignore[override]
        return value, 1


class Bare(ProcessFunction[str, tuple[str, int]]):
    """Has no annotated result, and the type of its records is known."""

    def process_element(self, value, context):  # type: ignore[no-untyped-def]  # as beginners write it
        return value, len(value)


class OfWindow(ProcessWindowFunction[str, tuple[str, int], str, TimeWindow]):
    """Returns one tuple of a window."""

    def process(self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[str]) -> Any:
        return key, len(elements)


def built(stream: Any) -> Pipeline:
    return Pipeline("p", stream.sink_to(CollectSink[Any]()))


@pytest.mark.parametrize(
    "stream",
    [
        lambda: WORDS.flat_map(pair),
        lambda: WORDS.map_batches(pair, size=2),  # type: ignore[arg-type]  # it is refused
        lambda: WORDS.flat_map(lambda word: (word, len(word))),
        lambda: WORDS.flat_map(lambda word: (word, 1) if word else None),
        lambda: WORDS.flat_map(lambda word: (word, 1)).returns(tuple[str, int]),
        lambda: WINDOWS.apply(pair_of_window),
        lambda: WINDOWS.apply(lambda key, window, words: (key, len(words))),
        lambda: BY_WORD.process(Annotated()),
        lambda: WORDS.process(Bare()),
        lambda: WINDOWS.process(OfWindow()),
    ],
    ids=map(str, range(10)),
)
def test_one_tuple_is_refused_when_the_plan_is_built(stream: Callable[[], Any]) -> None:
    with pytest.raises(PlanError, match=r"whose (items|parts) would be taken for records") as caught:
        built(stream())
    assert "yield (a, b), or return [(a, b)]" in str(caught.value)


def test_tuples_of_records_are_as_good_as_lists() -> None:
    assert collected(WORDS.flat_map(several)) == ["be", "be", "not", "not"]
    assert collected(WORDS.flat_map(lambda word: (word,))) == ["be", "not"]
    assert collected(WORDS.flat_map(lambda word: ((word, 1), (word, 2)))) == [
        *[("be", 1), ("be", 2)],
        *[("not", 1), ("not", 2)],
    ]
    numbers: Any = WORDS.flat_map(lambda word: (len(word), 0))
    assert collected(numbers.returns(int)) == [2, 0, 3, 0]
    assert collected(WORDS.map_batches(lambda words: (*words,), size=2)) == ["be", "not"]


def test_the_code_of_a_function_tells() -> None:
    def mixed(word: str) -> object:
        return (word, 1) if word else [(word, 1)]

    def generator(word: str) -> Iterator[object]:
        yield word
        return (word, 1)  # type: ignore[return-value]  # it is no result

    assert not gives_one_tuple(mixed)
    assert not gives_one_tuple(generator)
    assert not gives_one_tuple(len)
    assert gives_one_tuple(lambda: (1, 2))


class Computed(ProcessFunction[str, tuple[str, int]]):
    """Returns one tuple that neither annotations nor code tell of."""

    def process_element(self, value: str, context: ProcessContext) -> Iterable[Any]:
        return tuple(iter([value, 1]))


def test_parts_that_are_no_records_are_refused_at_run_time() -> None:
    def tupled(word: str) -> Iterable[tuple[str, int]]:
        return tuple(cast(Any, [word, len(word)]))  # a cast: mypy refuses it

    class OfKey(KeyedProcessFunction[str, str, tuple[str, int]]):
        def process_element(self, value: str, context: KeyedProcessContext[str]) -> Iterable[Any]:
            return tuple(iter([value, 1]))

    for stream in (WORDS.flat_map(tupled), WORDS.process(Computed()), BY_WORD.process(OfKey())):
        with pytest.raises(InvalidArgumentError, match=r"returned one value\n +given: +\('be', .\), a tuple") as caught:
            collected(stream)
        assert "yield (a, b), or return [(a, b)]" in str(caught.value)


@pytest.mark.parametrize("result", ["ab", b"ab", {"x": 1, "y": 2}, bytearray(b"ab")], ids=repr)
def test_batches_are_no_text_and_no_dict(result: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="returned one value"):
        collected(WORDS.map_batches(lambda words: result, size=2))


@pytest.mark.parametrize(
    "results",
    [
        lambda numbers: {number * 3 for number in numbers},
        frozenset,
        lambda numbers: pd.DataFrame({"x": numbers, "double": numbers}),
        lambda numbers: pa.table({"a": numbers, "b": numbers}),
        lambda numbers: pa.record_batch({"a": numbers, "b": numbers}),
        lambda numbers: Row(*numbers),
        lambda numbers: UserString("ab"),
    ],
    ids=["set", "frozenset", "pandas", "Arrow table", "Arrow batch", "row of Spark's", "text of one's own"],
)
def test_tables_rows_and_sets_are_no_results_of_a_batch(results: Callable[[Any], Any]) -> None:
    stream = from_collection([30, 2]).map_batches(results, size=2)
    with pytest.raises(InvalidArgumentError, match=r"returned one value|results without an order"):
        collected(stream)


def test_tables_are_no_records() -> None:
    stream = from_collection([30, 2]).flat_map(lambda number: pd.DataFrame({"x": [number], "double": [2 * number]}))
    with pytest.raises(InvalidArgumentError, match=r"returned one value(.|\n)*itertuples"):
        collected(stream)
    # A set has no order, and records that have none need none.
    assert sorted(collected(from_collection([1]).flat_map(lambda number: {number, 2}))) == [1, 2]


class BareFlatMap(FlatMapFunction[str, tuple[str, int]]):
    """Has no annotated result, and its class says the type of the records."""

    def flat_map(self, value):  # type: ignore[no-untyped-def]  # as beginners write it
        return value, len(value)


class BareMap(MapFunction[str, tuple[str, int]]):
    """Has no annotated result, and its class says it."""

    def map(self, value):  # type: ignore[no-untyped-def]  # as beginners write it
        return value, len(value)


def by_a_variable(word):  # type: ignore[no-untyped-def]  # as beginners write it
    made = (word, len(word))
    return made  # noqa: RET504  by a variable


def test_the_method_of_a_class_is_looked_at_as_a_function_is() -> None:
    with pytest.raises(PlanError, match="returns one tuple"):
        built(WORDS.flat_map(BareFlatMap()))
    with pytest.raises(PlanError, match="returns one tuple"):
        built(WORDS.flat_map(BareFlatMap()).returns(tuple[str, int]))
    assert WORDS.map(BareMap())._node.element_type == tuple[str, int]


def test_the_type_that_returns_states_is_that_of_the_records() -> None:
    stream = WORDS.flat_map(by_a_variable).returns(tuple[str, int])
    with pytest.raises(InvalidArgumentError, match="returned one value"):
        collected(stream)


@pytest.mark.parametrize("fast", [True, False])
def test_the_type_that_returns_states_is_that_of_a_window_too(fast: bool) -> None:
    def counted(key: str, window: GlobalWindow, words: Sequence[str]) -> Any:
        result = (key, len(words))
        return result  # noqa: RET504  the plan sees no tuple in code that returns a variable

    stream = BY_WORD.count_window(1).apply(counted).returns(tuple[str, int])
    with pytest.raises(InvalidArgumentError, match=r"type that returns\(...\) declares") as caught:
        collected(stream, fast=fast)
    assert "tuple[str, int]" in str(caught.value)
    assert "test_one_tuple.py:" in str(caught.value.where)
