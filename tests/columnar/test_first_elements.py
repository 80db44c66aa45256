"""``distinct`` and ``first`` on columns give what the general operator gives, over random batches, some run twice."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from tests.budget import seeded
from tests.columnar.engine import Element, Engine, Ran, at, batches, millis, run
from tests.columnar.planning import column_form, plan_of
from tests.columnar.window_steps import TINY
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.errors import CheckpointError, UnsupportedOperationError
from windrow.failures import Failed
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, TimeDomain
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology
from windrow_spark.columnar.first_elements import Passed, batch_of_passed, values_of_passed
from windrow_spark.columnar.forms.first_form import FirstForm
from windrow_spark.columnar.forms.result_type import result_type
from windrow_spark.columnar.step_operator import Times
from windrow_spark.storage.group_record import GroupState

# Any in this module: elements of every type.


class FirstEngine(Engine):
    """Makes objects of the elements that pass."""

    def values_of(self, results: Any) -> list[Any]:
        assert isinstance(results, Passed)
        return values_of_passed(self.form, results)


class Typed(NamedTuple):
    """Values of every type, of which few differ."""

    key: bool | None
    at: int
    text: str
    level: float | None
    price: Decimal
    day: datetime.date
    moment: datetime.datetime
    span: timedelta
    data: bytes
    flag: bool


@dataclass(frozen=True)
class Frozen:
    key: str | None
    at: int
    text: str
    level: float | None


class Few(NamedTuple):
    """An element that others equal, time and all."""

    key: str | None
    at: int
    text: str
    level: float | None


DIGITS = Decimal("1e-18")
LEVELS = [None, 0.0, -0.0, math.nan, -math.nan, math.inf, 1.5]
MOMENT = datetime.datetime(2026, 10, 25, 1, tzinfo=datetime.UTC)


def typed(chance: random.Random, element: Element) -> Typed:
    return Typed(
        chance.choice([None, False, True]),
        element.at,
        element.text,
        chance.choice(LEVELS),
        Decimal(chance.choice([1, 2])).quantize(DIGITS),
        datetime.date(2026, 1, chance.choice([1, 2])),
        MOMENT + timedelta(microseconds=chance.randrange(3)),
        timedelta(chance.randrange(3)),
        chance.choice([b"", b"\0"]),
        chance.choice([True, False]),
    )


def few(chance: random.Random, element: Element) -> Few:
    return Few(element.key, element.at // 20 * 20, element.text[:1], chance.choice(LEVELS))


def frozen(chance: random.Random, element: Element) -> Frozen:
    return Frozen(*few(chance, element))


# Any: keyed streams of every type.
Build = Callable[[Any], DataStream[Any]]


def distinct(selector: Callable[[Any], Any] | None = None, within: int | timedelta = 100) -> Build:
    within = within if isinstance(within, timedelta) else millis(within)
    return lambda keyed: keyed.distinct(selector, within=within)


def first(within: int | timedelta) -> Build:
    within = within if isinstance(within, timedelta) else millis(within)
    return lambda keyed: keyed.first(within=within)


class Plan(NamedTuple):
    build: Build
    record: type[Any] = Element
    made: Callable[[random.Random, Element], Any] = lambda chance, element: element
    least: int = 60
    stays: bool = False


PLANS = {
    "first": Plan(first(100)),
    "first of a moment": Plan(first(1)),
    "first within little time": Plan(first(7)),
    "first for long": Plan(first(700), least=25),
    "first for ever": Plan(first(timedelta.max), least=20, stays=True),
    "texts": Plan(distinct(lambda e: e.text)),
    "texts for ever": Plan(distinct(lambda e: e.text, timedelta.max), stays=True),
    "ints": Plan(distinct(lambda e: e.number)),
    "floats": Plan(distinct(lambda e: e.level, 30), Typed, typed),
    "floats and booleans": Plan(distinct(lambda e: (e.text, e.flag)), Typed, typed),
    "decimals": Plan(distinct(lambda e: e.price, 12), Typed, typed),
    "days": Plan(distinct(lambda e: e.day, 12), Typed, typed),
    "moments": Plan(distinct(lambda e: e.moment, 12), Typed, typed),
    "spans": Plan(distinct(lambda e: e.span, 12), Typed, typed),
    "bytes": Plan(distinct(lambda e: e.data, 12), Typed, typed),
    "booleans": Plan(distinct(lambda e: e.flag, 12), Typed, typed),
    "an expression": Plan(distinct(lambda e: e.text.startswith("a"), 5)),
    "a few values of whole elements": Plan(distinct(), Few, few),
    "frozen dataclasses": Plan(distinct(), Frozen, frozen),
}


def in_order(ran: Ran) -> None:
    """The results of each key come in the same order, with the signs of their zeros."""
    by_key: list[dict[Any, list[str]]] = []
    for results in (ran.engine.results, ran.expected[0]):
        found: dict[Any, list[str]] = {}
        for each in results:
            found.setdefault(each.key, []).append(repr(each))
        by_key.append(found)
    assert by_key[0] == by_key[1]


@pytest.mark.parametrize(("name", "seed"), seeded(PLANS))
def test_columns_give_what_the_general_operator_gives(name: str, seed: int) -> None:
    plan, chance = PLANS[name], random.Random(seed)
    inputs = [[plan.made(chance, element) for element in batch] for batch in batches(chance)]
    ran = run(
        plan.build, [*inputs, []], column_form, crash_at=seed, record=plan.record, tuning=TINY, engine_of=FirstEngine
    )
    in_order(ran)
    assert plan.least < len(ran.expected[0]) < sum(map(len, inputs))
    assert (set(ran.engine.records.values()) != {None}) == plan.stays
