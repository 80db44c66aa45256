"""What the plan refuses by annotations: keys in fields of other types, one value for many, keys without a hash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from tests.dsl.plans import SECONDS, in_time, plan
from windrow import aggregates as agg
from windrow import from_collection
from windrow.errors import InvalidArgumentError, PlanError
from windrow.evictors import CountEvictor
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.windows import TimeWindow

# Any in this module: streams of every type, as programs have them that are not type-checked.


@dataclass(frozen=True)
class Reading:
    sensor: str
    celsius: float
    tags: list[str] = field(default_factory=list)


class Lowest(NamedTuple):
    sensor: int
    low: float


class Named(NamedTuple):
    sensor: str
    low: float


@dataclass
class Changing:
    number: int


readings = in_time([Reading("a", 1.5)], lambda r: 0)
keyed = readings.key_by(lambda r: r.sensor)


def windows(selector: Callable[[Any], Any] = lambda r: r.sensor) -> Any:
    return readings.key_by(selector).window(SECONDS)


def run(stream: Any) -> Any:
    return stream.collect(name="p")


def lowest(record: Any) -> Any:
    return agg.into(record, sensor=agg.key(), low=agg.min(lambda r: r.celsius))


def test_a_key_that_the_plan_knows_must_fit_its_field() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"field sensor of Lowest(.|\n)*gives str\n  expected: int\n  where: "
    ):
        windows().aggregate(lowest(Lowest))
    assert run(windows().aggregate(lowest(Named))) == [("a", 1.5)]


def test_another_key_is_refused_with_the_first_result() -> None:
    stream = windows(lambda r: "".join([*r.sensor.title()])).aggregate(lowest(Lowest))
    message = r"field sensor of Lowest cannot take the key\n  given:    'A', which is of type str\n  expected: int\n"
    with pytest.raises(InvalidArgumentError, match=message + r"  where:    p\.\d+\.window, .*\.py:\d+\n  hint: "):
        run(stream)
    assert run(windows(lambda r: round(len(r.sensor))).aggregate(lowest(Lowest))) == [(1, 1.5)]


def test_without_an_evictor_results_are_not_none() -> None:
    least: agg.DeclaredAggregate[Reading, Any, Any] = agg.min(lambda r: r.celsius)
    assert windows().aggregate(least).node.element_type is float
    evicted = windows().evictor(CountEvictor.of(1))
    assert evicted.aggregate(least).node.element_type == float | None
    with pytest.raises(InvalidArgumentError, match=r"field low of Named(.|\n)*gives float \| None\n  expected: float"):
        evicted.aggregate(lowest(Named))
    assert keyed.count_window(3, 1).aggregate(agg.min(lambda r: r.celsius)).node.element_type is float


def text(reading: Reading) -> str:
    return reading.sensor


def of_window(key: str, window: TimeWindow, elements: Sequence[Reading]) -> dict[str, int]:
    return {key: len(elements)}


class Text(ProcessWindowFunction[Reading, str, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Reading]) -> str:
        return key


class Point(KeyedProcessFunction[str, Reading, object]):
    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> Named:
        return Named(value.sensor, value.celsius)


SINGLE: dict[str, tuple[Callable[[], Any], str]] = {
    "flat_map": (lambda: readings.flat_map(text), r"text returns str"),
    "apply": (lambda: windows().apply(of_window), r"of_window returns dict\[str, int\]"),
    "process": (lambda: windows().process(Text()), r"Text.process returns str"),
    "behind a reduce": (lambda: windows().reduce(lambda a, b: a, Text()), r"Text.process returns str"),
    "process function": (lambda: keyed.process(Point()), r"Point.process_element returns Named"),
}


@pytest.mark.parametrize("case", SINGLE)
def test_a_function_annotated_with_one_value_is_refused(case: str) -> None:
    build, message = SINGLE[case]
    with pytest.raises(PlanError, match=message + r", whose items(.|\n)*\.py:\d+\n  hint:     return a list"):
        plan(build())


class Late(KeyedProcessFunction[str, Reading, str]):
    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> Iterable[str]:
        context.timer_service.register_event_time_timer(1)
        return ()

    def on_timer(self, timestamp: int, context: Any) -> Any:
        return "late"


RETURNED: dict[str, tuple[Callable[[], Any], str]] = {
    "flat_map": (lambda: readings.flat_map(lambda r: r.sensor * 3), "'aaa', a str"),
    "bytes": (lambda: readings.flat_map(lambda r: r.sensor.encode()), "b'a', a bytes"),
    "a record": (lambda: readings.flat_map(lambda r: Named("a", 1.0)), r"Named\(.*\), a Named"),
    "apply": (lambda: windows().apply(lambda key, window, elements: {key: 1}), r"\{'a': 1\}, a dict"),
    "timer": (lambda: keyed.process(Late()), "'late', a str"),
}


@pytest.mark.parametrize("case", RETURNED)
def test_one_value_that_a_function_returns_is_refused(case: str) -> None:
    build, given = RETURNED[case]
    message = rf"a function that emits records returned one value\n  given:    {given}\n  expected: an iterable"
    with pytest.raises(InvalidArgumentError, match=message + r"(.|\n)*  where:    p\.\d+(.|\n)*\[value\]"):
        run(build())


def by_tags(reading: Reading) -> list[str]:
    return reading.tags


def by_both(reading: Reading) -> tuple[str, set[str] | None]:
    return reading.sensor, None


def by_changing(reading: Reading) -> Changing:
    return Changing(1)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (by_tags, r"keys of type list\[str\] cannot be hashed"),
        (lambda r: r.tags, r"keys of type list\[str\] cannot be hashed"),
        (by_both, r"keys of type set\[str\] in tuple\[.*\] cannot be hashed"),
        (by_changing, r"keys of type Changing cannot be hashed"),
    ],
)
def test_keys_without_a_hash_are_refused_by_their_type(selector: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message + r"(.|\n)*hint:     use a tuple for a list"):
        plan(windows(selector).aggregate(agg.count()))


def test_other_keys_without_a_hash_are_refused_at_the_first() -> None:
    stream = windows(lambda r: [*r.sensor]).aggregate(agg.count())
    message = r"a key cannot be hashed\n  given:    \['a'\](.|\n)*p\.\d+\.key_by, .*\n  hint:     use a tuple"
    with pytest.raises(InvalidArgumentError, match=message):
        run(stream)


def test_a_union_has_the_widest_type() -> None:
    numbers, some = from_collection([1], int), from_collection([None, 2], int | None)
    assert numbers.union(some).element_type == int | None
    assert some.union(numbers).element_type == int | None
    assert run(numbers.union(some)) == [1, None, 2]
