"""What plans say of declared aggregates, what types they know, and what they refuse."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tests.counting import Count
from tests.dsl.plans import fault_of, in_time, plan, refusal
from tests.support.records import millis
from windrow import aggregates as agg
from windrow.aggregates import Declaration, DeclaredAggregate
from windrow.builder.windowed import WindowedStream
from windrow.functions import KeySelector, RuntimeContext
from windrow.windows import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows

# Any in this module: aggregates of every type, and arguments that the type checker would refuse.


@dataclass(frozen=True)
class Reading:
    sensor: str
    at: int
    celsius: float
    humidity: int | None


class Climate(NamedTuple):
    low: float | None
    n: int


READINGS = [Reading("a", 0, 1.5, 40), Reading("a", 1, 0.5, None)]
keyed = in_time(READINGS, lambda r: r.at).key_by(lambda r: r.sensor)
windows: WindowedStream[Reading, str, TimeWindow] = keyed.window(TumblingEventTimeWindows.of(millis(5)))
sessions = keyed.window(EventTimeSessionWindows.with_gap(millis(5)))


def celsius(reading: Reading) -> float:
    return reading.celsius if reading.celsius > 0 else 0.0


def warmth(reading: Reading) -> float:
    return reading.celsius


SHOWN: dict[str, tuple[DeclaredAggregate[Reading, Any, Any, Any], object]] = {
    "count()": (agg.count(), int),
    "count(.humidity)": (agg.count(lambda r: r.humidity), int),
    "sum(.humidity)": (agg.sum(lambda r: r.humidity), int | None),
    "sum(.celsius * 2)": (agg.sum(lambda r: r.celsius * 2), float),
    "mean(.celsius)": (agg.mean(lambda r: r.celsius), float),
    "stddev_pop(.celsius)": (agg.stddev_pop(lambda r: r.celsius), float),
    "min(celsius)": (agg.min(celsius), float),
    "max(abs(.celsius))": (agg.max(lambda r: abs(r.celsius)), float),
    "max_by(.celsius)": (agg.max_by(lambda r: r.celsius), Reading),
    "min_by(.celsius, value=.sensor)": (agg.min_by(lambda r: r.celsius, lambda r: r.sensor), str),
    "first()": (agg.first(), Reading),
    "last(.humidity, ignore_nulls=True)": (agg.last(lambda r: r.humidity, ignore_nulls=True), int | None),
    "collect_list(.humidity)": (agg.collect_list(lambda r: r.humidity), list[int]),
    "top_k(.celsius, k=3)": (agg.top_k(3, lambda r: r.celsius), list[Reading]),
    "collect_set(.humidity)": (agg.collect_set(lambda r: r.humidity), frozenset[int]),
    "count_distinct(.sensor)": (agg.count_distinct(lambda r: r.sensor), int),
    "approx_count_distinct(.sensor, rsd=0.05)": (agg.approx_count_distinct(lambda r: r.sensor, rsd=0.05), int),
    "approx_quantile(.celsius, q=0.5, k=200)": (agg.approx_quantile(lambda r: r.celsius, 0.5), float),
    "approx_quantiles(.celsius, q=(0.5, 0.9), k=9)": (agg.approx_quantiles(warmth, [0.5, 0.9], k=9), list[float]),
    "combine(count(), Count)": (agg.combine(agg.count(), Count()), tuple[int, int]),
    "into(Climate, low=min(.celsius), n=count())": (agg.into(Climate, low=agg.min(warmth), n=agg.count()), Climate),
    "into(Climate, min(.celsius), count())": (agg.into(Climate, agg.min(lambda r: r.celsius), agg.count()), Climate),
}


@pytest.mark.parametrize("text", SHOWN)
def test_explain_shows_the_call_and_the_plan_knows_the_type(text: str) -> None:
    function, kind = SHOWN[text]
    stream = windows.aggregate(function)
    assert f"aggregate {text}" in plan(stream).explain()
    assert stream.node.element_type == kind
    assert len(stream.collect()) == 1


def test_without_the_type_of_elements_the_type_of_the_result_is_not_known() -> None:
    assert agg.min(lambda r: r.celsius).result_type(None) is None
    assert agg.combine(agg.count(), agg.first()).result_type(None) is None


def test_a_declaration_tells_all() -> None:
    def by(r: Reading) -> float:
        return r.celsius

    top = agg.top_k(3, by)
    assert top.declaration == Declaration("top_k", (("by", by),), (("k", 3),))
    total = Count()
    members = (
        ("low", Declaration("top_k", (("by", by),), (("k", 3),))),
        ("n", Declaration("function", parameters=(("function", total),))),
    )
    assert agg.into(dict, low=top, n=total).declaration == Declaration("into", members=members, target=dict)


class Opened(KeySelector[Reading, float]):
    """Knows where it runs."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.closed = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.steps.append(runtime_context.step_name)

    def close(self) -> None:
        self.closed += 1

    def get_key(self, value: Reading) -> float:
        assert self.steps
        return value.celsius


def test_selectors_that_are_rich_functions_are_opened_and_closed() -> None:
    alone, inside = Opened(), Opened()
    for function, selector in ((agg.mean(alone), alone), (agg.combine(agg.min(inside)), inside)):
        windows.aggregate(function, name="warm").collect()
        assert len(selector.steps) == selector.closed == 1


def test_a_combination_merges_if_all_its_members_do() -> None:
    assert agg.combine(agg.count(), agg.first()).can_merge
    message = fault_of(sessions.aggregate(agg.combine(agg.count(), Count()))).message
    assert message.startswith("combine(count(), Count) has no merge, but EventTimeSessionWindows")


def test_a_combination_shares_slices_if_all_its_members_do() -> None:
    assert agg.combine(agg.count(), agg.mean(celsius), agg.max(celsius)).can_share
    assert not agg.combine(agg.count(), agg.last(celsius)).can_share
    # Without a merge there is nothing to share.
    assert not agg.combine(agg.count(), Unmerged()).can_share


class Unmerged(Count):
    commutative = True


def test_an_aggregate_that_has_worked_can_be_sent() -> None:
    both = agg.combine(agg.count(), agg.sum(celsius))
    accumulator = both.add(READINGS[0], both.create_accumulator())
    sent: DeclaredAggregate[Reading, Any, Any, Any] = pickle.loads(pickle.dumps(both))
    assert sent == both
    assert sent.get_result(sent.add(READINGS[1], accumulator)) == (2, 2.0)


# The type checker would have refused most of these.
anything: Any = agg
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no function": (lambda: anything.sum("celsius"), r"the selector of sum must be a function\n  given:    celsius"),
    "k": (lambda: anything.top_k(0, celsius), r"k of top_k must be positive\n  given:    0"),
    "nothing": (lambda: anything.combine(), r"combine needs aggregates"),  # noqa: PLW0108  the call is that of this file
    "no aggregate": (lambda: anything.combine(anything.count), r"aggregate functions(.|\n)*hint:     count\(\)"),
    "no record": (lambda: anything.into(7, agg.count()), r"what into makes must be a function\n  given:    7"),
    "mixed": (
        lambda: anything.into(Climate, agg.count(), n=agg.count()),
        r"by position and by name\n  given:    1 by position; n",
    ),
    "unknown field": (
        lambda: agg.into(Climate, low=agg.count(), m=agg.count()),
        r"Climate does not take these results: (.|\n)*given:    low, m\n  expected: Climate\(low: ",
    ),
    "a tuple": (lambda: anything.into(tuple, agg.count(), agg.count()), r"tuple does not take these results"),
    "missing field": (lambda: anything.into(Climate, agg.count()), r"missing a required argument: 'n'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(name: str) -> None:
    call, message = WRONG[name]
    error = refusal(call)
    assert re.search(message, str(error))
    assert str(error.where).startswith(f"{__file__}:")


class Weather(NamedTuple):
    low: float | None
    n: int
    names: list[str]


def sensor(reading: Reading) -> str:
    return reading.sensor


def weather(low: float, n: int, names: list[str]) -> Weather:
    return Weather(low, n, names)


names = agg.collect_list(sensor)
MISFITS: dict[str, Callable[[], object]] = {
    r"field low of Weather cannot take what its aggregate gives\n  given:    collect_list\(.*\), which gives "
    r"list\[str\]\n  expected: float \| None": lambda: agg.into(
        Weather, low=names, n=agg.count(), names=names
    ).result_type(Reading),
    r"field n of weather cannot take(.|\n)*gives float\n  expected: int": lambda: agg.into(
        weather, low=agg.min(celsius), n=agg.mean(celsius), names=names
    ).result_type(Reading),
}


@pytest.mark.parametrize("message", MISFITS, ids=["by name", "into a function"])
def test_results_that_do_not_fit_their_field_are_refused(message: str) -> None:
    assert re.search(message, str(refusal(MISFITS[message])))


def test_results_that_fit_or_are_not_known_are_taken() -> None:
    fits = agg.into(Weather, low=agg.mean(celsius), n=agg.count(), names=names)
    assert fits.result_type(Reading) is Weather
    unknown = agg.into(Weather, low=agg.first(lambda r: r.sensor), n=agg.count(), names=names)
    assert unknown.result_type(None) is Weather
