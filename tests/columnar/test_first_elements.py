"""``distinct``, ``first`` and ``on_change`` on columns give what the general operator gives, batch by batch."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from tests.budget import seeded
from tests.columnar.engine import Element, Engine, Ran, at, batches, bound_in, millis, run
from tests.columnar.planning import column_form, plan_of
from tests.columnar.window_steps import TINY, tumbling
from windrow import DataStream, KeyedStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import CheckpointError, UnsupportedOperationError
from windrow.functions import RichFunction
from windrow.kafka import KafkaRecordSource
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, TimeDomain
from windrow.windows import GlobalWindows
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.local.execution import Execution, StampedElements
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.operators.topology import Port, Topology
from windrow_spark.columnar.first_elements import Passed, batch_of_passed, values_of_passed
from windrow_spark.columnar.forms.first_form import FirstForm, PassingForm
from windrow_spark.columnar.forms.kept_objects import check_kept, kept_objects
from windrow_spark.columnar.forms.result_type import result_type
from windrow_spark.columnar.step_operator import Times

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
    ratio: float


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
        chance.choice([each for each in LEVELS if each is not None]),
    )


def few(chance: random.Random, element: Element) -> Few:
    return Few(element.key, element.at // 20 * 20, element.text[:1], chance.choice(LEVELS))


def frozen(chance: random.Random, element: Element) -> Frozen:
    return Frozen(*few(chance, element))


def two_of_a_key(chance: random.Random, element: Element) -> Frozen:
    return Frozen(element.key, 0, "t", chance.choice([math.nan, -math.nan, -0.0, 0.0]))


# Any: keyed streams of every type.
Build = Callable[[Any], DataStream[Any]]


CLOCK = TimeDomain.PROCESSING_TIME


def distinct(
    selector: Callable[[Any], Any] | None = None, within: int | timedelta = 100, by: TimeDomain = TimeDomain.EVENT_TIME
) -> Build:
    within = within if isinstance(within, timedelta) else millis(within)
    return lambda keyed: keyed.distinct(selector, within=within, by=by)


def first(within: int | timedelta, by: TimeDomain = TimeDomain.EVENT_TIME) -> Build:
    within = within if isinstance(within, timedelta) else millis(within)
    return lambda keyed: keyed.first(within=within, by=by)


def on_change(selector: Callable[[Any], Any] = lambda e: e) -> Build:
    return lambda keyed: keyed.on_change(selector)


class Plan(NamedTuple):
    build: Build
    record: type[Any] = Element
    made: Callable[[random.Random, Element], Any] = lambda chance, element: element
    least: int = 60
    stays: bool = False
    stamped: bool = True


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
    "tuples": Plan(distinct(lambda e: (e.text, e.flag)), Typed, typed),
    "tuples of floats": Plan(distinct(lambda e: (e.ratio, e.flag), 60), Typed, typed),
    "decimals": Plan(distinct(lambda e: e.price, 12), Typed, typed),
    "days": Plan(distinct(lambda e: e.day, 12), Typed, typed),
    "moments": Plan(distinct(lambda e: e.moment, 12), Typed, typed),
    "spans": Plan(distinct(lambda e: e.span, 12), Typed, typed),
    "bytes": Plan(distinct(lambda e: e.data, 12), Typed, typed),
    "booleans": Plan(distinct(lambda e: e.flag, 12), Typed, typed),
    "an expression": Plan(distinct(lambda e: e.text.startswith("a"), 5)),
    "a few values of whole elements": Plan(distinct(), Few, few),
    "frozen dataclasses": Plan(distinct(), Frozen, frozen),
    "changes of texts": Plan(on_change(lambda e: e.text), stays=True),
    "changes of ints": Plan(on_change(lambda e: e.number), stays=True, stamped=False),
    "changes of floats": Plan(on_change(lambda e: e.level), Typed, typed, stays=True),
    "changes of tuples": Plan(on_change(lambda e: (e.ratio, e.flag)), Typed, typed, stays=True),
    "changes of an expression": Plan(on_change(lambda e: e.text.startswith("a")), stays=True),
    "changes of whole elements": Plan(on_change(), Few, few, stays=True),
    "changes of frozen dataclasses": Plan(on_change(), Frozen, two_of_a_key, stays=True, stamped=False),
    # A batch comes each 10 ms.
    "first by the clock": Plan(first(20, CLOCK)),
    "first of a moment of the clock": Plan(first(1, CLOCK)),
    "first by the clock for long": Plan(first(110, CLOCK), least=25, stays=True, stamped=False),
    "first by the clock for ever": Plan(first(timedelta.max, CLOCK), least=20, stays=True),
    "texts by the clock": Plan(distinct(lambda e: e.text, 35, CLOCK), stays=True, stamped=False),
    "whole elements by the clock": Plan(distinct(None, 60, CLOCK), Few, few, stays=True, stamped=False),
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
        plan.build,
        [*inputs, []],
        column_form,
        crash_at=seed,
        record=plan.record,
        stamped=plan.stamped,
        tuning=TINY,
        engine_of=FirstEngine,
    )
    in_order(ran)
    assert plan.least < len(ran.expected[0]) < sum(map(len, inputs))
    assert (set(ran.engine.records.values()) != {None}) == plan.stays


def topology_of(build: Build, record: type[Any] = Element, key: Callable[[Any], Any] = lambda e: e.key) -> Topology:
    strategy = WatermarkStrategy[Any].for_bounded_out_of_orderness(millis(80))
    source = from_source(ParquetFileSource("never read", record))
    keyed = source.assign_timestamps_and_watermarks(strategy, timestamp=lambda e: e.at).key_by(key)
    return Topology(Pipeline("one step", build(keyed).sink_to(CollectSink[Any]())).steps)


def passing(build: Build, record: type[Any] = Element) -> PassingForm:
    topology = topology_of(build, record)
    form = column_form(topology, topology.keyed[0])
    assert isinstance(form, PassingForm)
    return form


def form_of(build: Build, record: type[Any] = Element, key: Callable[[Any], Any] = lambda e: e.key) -> FirstForm:
    topology = topology_of(build, record, key)
    form = column_form(topology, topology.keyed[0])
    assert isinstance(form, FirstForm)
    return form


class Both:
    """A step on columns beside the general operator, batch by batch."""

    def __init__(self, build: Build, record: type[Any] = Element) -> None:
        self.topology = topology_of(build, record)
        form = column_form(self.topology, self.topology.keyed[0])
        self.engine = FirstEngine(self.topology, form, record, TINY, bound_in)
        self.reference = Execution(self.topology, fast=False)
        self.reference.open()
        self.time = Times(MIN_TIMESTAMP, 0)

    def batch(self, elements: list[Any], watermark: int) -> tuple[list[Any], list[Any]]:
        """Runs a batch, and returns what passed on columns and in the general operator."""
        chunk = StampedElements(elements, [None] * len(elements))
        source, following = Port(self.topology.sources[0].id), Times(watermark, self.time.now + 1)
        self.reference.round({source: chunk}, watermark=watermark, processing_time=following.now)
        self.engine.batch(elements, self.time, following, 1, crash=False)
        self.time = following
        expected = list(self.reference.sinks[self.topology.sinks[0].id].values)
        self.reference.sinks.clear()
        passed, self.engine.results = self.engine.results, []
        return passed, expected

    def alive(self, state: OperatorState, within: int) -> dict[Any, Any]:
        """Returns the entries of a state that have not expired, by key."""
        found = {}
        now = self.time.now if self.engine.form.by_clock else self.time.watermark
        for key, key_state in state.keys.items():
            ((cell, stored),) = key_state.state.items()
            entries = stored if isinstance(stored, dict) else {None: stored}
            left = {mark: entry for mark, entry in entries.items() if entry[0] + within > now}
            if left:
                found[key] = cell, left
        return found

    def kept(self) -> OperatorState:
        """Returns the state on columns, as objects."""
        kept = OperatorState()
        form = check_kept(self.engine.form)
        for group in self.engine.records:
            record = self.engine._loaded(group).steps.get("step")
            for rows in () if record is None else form.operator.stored_rows(record, self.engine.stores[group], TINY):
                for state in kept_objects(form, rows, self.time.watermark):
                    assert kept.keys.keys().isdisjoint(state.keys)
                    kept.keys.update(state.keys)
                    for queue, of_part in (
                        (kept.event_timers, state.event_timers),
                        (kept.processing_timers, state.processing_timers),
                    ):
                        for key, namespace, time in of_part:
                            queue.register(key, namespace, time)
        return kept


@pytest.mark.parametrize(
    "name",
    [
        "first",
        "floats",
        "a few values of whole elements",
        "frozen dataclasses",
        "first by the clock for long",
        "texts by the clock",
    ],
)
def test_what_is_kept_can_become_the_state_of_the_general_operator(name: str) -> None:
    plan, chance = PLANS[name], random.Random(5)
    both, watermark, compared = Both(plan.build, plan.record), MIN_TIMESTAMP, 0
    for batch in batches(chance):
        elements = [plan.made(chance, element) for element in batch]
        both.batch(elements, watermark)
        (operator,) = both.reference.operators.values()
        within, kept = both.engine.form.millis, both.kept()
        assert both.alive(kept, within) == both.alive(operator.state, within)
        timers, others = kept.event_timers, kept.processing_timers
        if both.engine.form.by_clock:
            timers, others = others, timers
        assert not list(others)
        for key, timer, time in timers:
            (written,) = ([at for at, _ in entries.values()] for _, entries in [both.alive(kept, 1 << 62)[key]])
            assert (timer.name, timer.millis, time) == ("seen", within, min(written) + within)
        compared += len(kept.keys)
        watermark = max([watermark, *(element.at - 81 for element in elements)])
    assert compared > 40


@pytest.mark.parametrize("name", ["changes of floats", "changes of whole elements", "changes of texts"])
def test_values_before_can_become_the_state_of_the_general_operator(name: str) -> None:
    plan, chance = PLANS[name], random.Random(5)
    both, kept = Both(plan.build, plan.record), OperatorState()
    for batch in batches(chance):
        both.batch([plan.made(chance, element) for element in batch], MIN_TIMESTAMP)
        (operator,) = both.reference.operators.values()
        kept = both.kept()
        assert {key: repr([*each.state["before"]]) for key, each in kept.keys.items()} == {
            key: repr([*each.state["before"]]) for key, each in operator.state.keys.items()
        }
    assert len(kept.keys) > 2


def test_elements_count_at_the_watermark_and_pass_at_exactly_the_time() -> None:
    both = Both(first(100))
    for elements, watermark, passing in (
        ([at(0), at(99), at(-50)], MIN_TIMESTAMP, 1),
        ([at(99)], 40, 0),
        ([at(20)], 100, 1),  # it is late, and counts at 100
        ([at(199), at(200, number=2), at(150), at(300, number=3)], 110, 2),
        ([at(5)], 399, 0),
        ([at(5)], 400, 1),
    ):
        passed, expected = both.batch(elements, watermark)
        assert passed == expected
        assert len(passed) == passing


def test_elements_after_the_end_count_at_their_timestamps() -> None:
    both = Both(first(100))
    assert both.batch([at(0)], 50) == ([at(0)], [at(0)])
    passed, expected = both.batch([at(7), at(106), at(107, number=2)], MAX_TIMESTAMP)
    assert passed == expected == [at(7), at(107, number=2)]


def test_state_goes_without_elements_when_the_watermark_passes() -> None:
    both = Both(distinct(lambda e: e.text, 100))
    both.batch([at(0), at(60, "l"), at(60, "m")], MIN_TIMESTAMP)
    for watermark, left in ((99, 3), (100, 2), (159, 2), (160, 0)):
        both.batch([], watermark)
        assert len(both.kept().keys) == left
    assert set(both.engine.records.values()) == {None}


def test_one_key_that_passes_thousands_of_times_is_taken_in_a_moment() -> None:
    both = Both(first(1))
    elements = [at(moment, number=moment) for moment in range(30_000)]
    passed, expected = both.batch(elements, MIN_TIMESTAMP)
    assert passed == expected == elements


class Own(NamedTuple):
    """Elements that say themselves what is equal to them."""

    key: str
    at: int
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


@dataclass(frozen=True)
class Partly:
    key: str
    at: int = field(compare=False)
    text: str = ""


class Rich(RichFunction):
    def __call__(self, element: Any) -> Any:
        return element.text


DECLINED: dict[str, tuple[Build, type[Any], str]] = {
    "a policy": (
        lambda keyed: keyed.distinct(lambda e: e.text, within=millis(1), on_error="drop"),
        Element,
        "a call that fails changes nothing",
    ),
    "code": (distinct(lambda e: repr(e.text)), Element, "uses repr"),
    "an object that is called": (distinct(Rich()), Element, "the selector is a rich function"),
    "what may fail": (distinct(lambda e: e.text[0]), Element, "text"),
    "nothing": (distinct(lambda e: None), Element, "the selector gives something else"),
    "tuples or nothing": (
        distinct(lambda e: (e.text, e.at) if e.at > 3 else None),
        Element,
        "the selector makes a record or",
    ),
    "an equality of its own": (distinct(), Own, "it compares elements as Own says"),
    "an equality of some fields": (distinct(), Partly, "it compares elements as Partly says"),
    "another function": (
        lambda keyed: keyed.stateful_map(lambda: 0, lambda count, e: (count + 1, e)),
        Element,
        "a process function sees each",
    ),
    "changes by code": (on_change(lambda e: repr(e.text)), Element, "uses repr"),
    "changes with a policy": (
        lambda keyed: keyed.on_change(lambda e: e.text, on_error="drop"),
        Element,
        "a call that fails changes nothing",
    ),
}


@pytest.mark.parametrize(
    "passing_of", [first(5), first(5, CLOCK), on_change(lambda n: n)], ids=["first", "by the clock", "on change"]
)
def test_results_that_carry_the_end_of_time_stay_objects(passing_of: Build) -> None:
    windows = GlobalWindows.create_with_end_of_stream_trigger()
    topology = topology_of(lambda keyed: passing_of(keyed.window(windows).aggregate(agg.count()).key_by(lambda n: n)))
    assert "carry the end of time" in str(plan_of(topology).forms()[topology.keyed[1].id])


@pytest.mark.parametrize("name", DECLINED)
def test_what_columns_decline_says_why(name: str) -> None:
    build, record, reason = DECLINED[name]
    with pytest.raises(DeclinedError) as declined:
        form_of(build, record)
    assert reason in str(declined.value)


def test_explain_says_that_they_run_on_columns() -> None:
    topology = topology_of(distinct(lambda e: e.text))
    (form,) = (plan_of(topology).forms()[step.id] for step in topology.keyed)
    assert str(form) == "columns"


def test_state_has_the_key_the_time_and_what_is_compared() -> None:
    assert form_of(first(5)).state_text == "string, int64"
    assert form_of(distinct(lambda e: e.level)).state_text == "string, int64, double"
    whole = form_of(distinct(), Few)
    assert whole.state_text == "string, int64, struct<key: string, at: int64, text: string, level: double>"
    assert whole.state_text_of(["key", "at", "text", "level"]) == whole.state_text
    assert passing(on_change(lambda e: e.level)).state_text == "string, double"


def test_what_passes_by_the_clock_has_timestamps_where_it_had_some() -> None:
    build = first(5, CLOCK)
    form = form_of(build)
    assert form.gives_stamps
    assert str(form.describe()) == "columns, in processing time"
    bare = from_source(ParquetFileSource("never read", Element)).key_by(lambda e: e.key)
    passed = build(bare).map(lambda e: e)

    def forms_of(stream: DataStream[Any]) -> list[str]:
        topology = Topology(Pipeline("bare", stream.sink_to(CollectSink[Any]())).steps)
        forms = plan_of(topology).forms()
        return [str(forms[step.id]) for step in topology.keyed]

    assert forms_of(passed) == ["columns, in processing time"]
    # Steps in event time take the columns of what has got timestamps behind it.
    strategy = WatermarkStrategy[Element].for_monotonous_timestamps()
    timed = build(bare).assign_timestamps_and_watermarks(strategy, lambda e: e.at)
    assert forms_of(timed.key_by(lambda e: e.key).first(within=millis(5))) == ["columns, in processing time", "columns"]
    some = from_source(ParquetFileSource("never", Element)).assign_timestamps_and_watermarks(strategy, lambda e: e.at)
    assert "some elements may have no timestamps" in forms_of(build(bare.union(some).key_by(lambda e: e.key)))[0]


def test_windows_downstream_take_what_passes_as_columns() -> None:
    def build(keyed: KeyedStream[Any, Any]) -> DataStream[Any]:
        passed = keyed.distinct(lambda e: e.text, within=millis(5))
        return passed.key_by(lambda e: e.text).window(tumbling(100)).aggregate(agg.count())

    topology = topology_of(build)
    plan = plan_of(topology)
    assert plan.on_columns == {step.id for step in topology.keyed}
    form = plan.keyed[topology.keyed[0].id].on_columns
    assert form is not None
    assert result_type(form) == record_type(Element)


def test_a_policy_upstream_has_elements_cross_as_columns_all_the_same() -> None:
    def build(keyed: KeyedStream[Any, Any]) -> DataStream[Any]:
        mapped = keyed.map(lambda e: (e.text, e.text.split("/")[1]), on_error="drop")
        return mapped.key_by(lambda pair: pair[0]).distinct(lambda pair: pair[1], within=millis(5))

    form = form_of(build)
    assert form.takes_objects
    assert str(form.describe()) == "columns"


class Noted(NamedTuple):
    key: str
    note: str | None


def passed_as(form: FirstForm, record: Any) -> Any:
    """What a sink of a type gets of one element."""
    columns = [pa.array(["k"]), pa.array(["n"])]
    passed = Passed(pa.RecordBatch.from_arrays(columns, schema=arrow_schema(form.element)), np.array([1]))
    return batch_of_passed(form, passed, record_type(record))


def test_sinks_get_columns_of_the_class_of_the_elements_alone() -> None:
    class Wide(NamedTuple):
        key: str
        note: Any

    of_map = form_of(
        lambda stream: stream.map(lambda e: Noted(e.text, e.text)).key_by(lambda n: n.key).first(within=millis(5))
    )
    assert not of_map.element.columns[1].type.nullable
    assert passed_as(of_map, Noted).to_pylist() == [{"key": "k", "note": "n"}]
    assert passed_as(of_map, Noted).schema == arrow_schema(record_type(Noted))
    assert passed_as(of_map, Wide) is None
    assert passed_as(of_map, tuple[str, str | None]) is None
    plain = form_of(
        lambda stream: stream.map(lambda e: (e.text, e.text)).key_by(lambda n: n[0]).first(within=millis(5))
    )
    assert passed_as(plain, tuple[str, str]).to_pylist() == [{"_1": "k", "_2": "n"}]
    assert passed_as(plain, tuple[str, Any]) is None


def test_values_of_records_of_a_topic_are_compared_and_no_records() -> None:
    def reason_of(selector: Any) -> str:
        topic = from_source(KafkaRecordSource("a:1", "in", Few))
        stamped = topic.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda r: r.value.at
        )
        passed = stamped.key_by(lambda r: r.value.text).distinct(selector, within=millis(5))
        topology = Topology(Pipeline("topic", passed.sink_to(CollectSink[Any]())).steps)
        return str(plan_of(topology).forms()[topology.keyed[0].id])

    assert reason_of(lambda r: r.value.level) == "columns"
    assert "whole records of a topic are kept" in reason_of(None)
    assert "it compares values that are a Few" in reason_of(lambda r: r.value)


def test_damaged_rows_are_refused() -> None:
    operator = form_of(first(5)).operator
    rows = pa.RecordBatch.from_pylist([{"key": "k", "at": None}], operator.schema)
    with pytest.raises(CheckpointError, match="no place in time"):
        operator.check(rows)


def test_timestamps_that_are_too_far_away_are_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="too far away"):
        run(first(5), [[at(2**62)]], column_form, alone=True, engine_of=FirstEngine)


@pytest.mark.parametrize(
    "key", [lambda e: e.number, lambda e: (e.text, e.at), lambda e: e.at > 0], ids=["int", "tuple", "boolean"]
)
def test_keys_of_every_type(key: Callable[[Any], Any]) -> None:
    ran = run(
        distinct(lambda e: e.level, 50),
        [*batches(random.Random(3))],
        column_form,
        crash_at=1,
        way=lambda stream: stream.key_by(key),
        tuning=TINY,
        engine_of=FirstEngine,
    )
    assert sorted(map(repr, ran.engine.results)) == sorted(map(repr, ran.expected[0]))
    assert len(ran.engine.results) > 60
