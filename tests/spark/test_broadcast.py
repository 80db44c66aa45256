"""Broadcast rules on Spark give what the interpreter gives, in every key group, and also after a restart."""

from __future__ import annotations

import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.judging import ASIDE, LIMITS, TIMES, Judge, Rule, random_rules
from tests.spark.comparison import Event, Outputs, by_key, key_of, millis
from tests.spark.test_own_watermarks import ticking
from tests.support.thorough import thorough
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow.errors import IncompatibleStateError, UserFunctionError, WindrowWarning
from windrow.functions import BroadcastContext, KeyedBroadcastProcessFunction, ReadOnlyContext, ReadOnlyOnTimerContext
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_plan import Parallelism, resume
from windrow_spark.physical.plan import PhysicalPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: keys and results of several types.

Element = tuple[Any, int, int]
BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(millis(80))
KEYS: list[Any] = [*range(20), *(f"key {n}" for n in range(20))]


def random_elements(chance: random.Random, count: int) -> list[Element]:
    return [(chance.choice(KEYS), n * 3 + chance.randrange(-120, 60), chance.randrange(1000)) for n in range(count)]


def elements_of(elements: list[Element], batch_size: int | None) -> DataStream[Element]:
    source = from_source(CollectionSource(elements, batch_size=batch_size))
    return source.assign_timestamps_and_watermarks(BOUNDED, timestamp=lambda element: element[1])


def rules_of(rules: list[Rule], batch_size: int | None) -> DataStream[Rule]:
    """The rules, each 40 ms behind the one before."""
    numbered = from_source(CollectionSource(list(enumerate(rules)), batch_size=batch_size))
    return numbered.assign_timestamps_and_watermarks(BOUNDED, timestamp=lambda rule: rule[0] * 40).map(
        lambda rule: rule[1]
    )


def judged(outputs: Outputs, elements: DataStream[Element], rules: DataStream[Rule], name: str = "judge") -> None:
    stream = elements.key_by(key_of).connect(rules.broadcast(LIMITS, TIMES)).process(Judge(), name=name)
    outputs.add(name, stream)
    outputs.add(f"aside of {name}", stream.get_side_output(ASIDE))


def flat(counters: Mapping[str, Mapping[str, int]]) -> dict[tuple[str, str], int]:
    return {(step, name): count for step, counts in counters.items() for name, count in counts.items()}


@pytest.mark.parametrize(("seed", "groups"), [thorough(1, 1, reason="one group instead of three"), (2, 3)])
def test_runs_give_what_one_run_of_the_interpreter_gives(
    spark: SparkSession, tmp_path: Path, seed: int, groups: int
) -> None:
    # run         1             2
    # batches     1             2, 3, end
    chance = random.Random(seed)
    elements, rules = random_elements(chance, 240), random_rules(chance, 18)
    others, unstamped = random_elements(chance, 120), random_rules(chance, 12)
    more = random_elements(chance, 150)

    def judge(batches: int) -> tuple[Outputs, Pipeline]:
        outputs = Outputs()
        judged(outputs, elements_of(elements[: batches * 80], 80), rules_of(rules[: batches * 6], 6), "random")
        # Rules without timestamps hold nothing back.
        without = from_source(CollectionSource(unstamped[: batches * 4], batch_size=4))
        judged(outputs, elements_of(others[: batches * 40], 40), without, "unstamped")
        # level 1    windows over the elements: their sums are rules, which timers emit under the watermark before
        # level 2    the elements, with the rules that have come so far
        stream = elements_of(more[: batches * 50], 50)
        sums = (
            stream.key_by(lambda element: element[2] % 3)
            .window(TumblingEventTimeWindows.of(millis(100)))
            .apply(lambda key, window, found: [Rule("abc"[key], len(found), asks=len(found) % 3 == 0)])
            .returns(Rule)
        )
        judged(outputs, stream, sums, "levels")
        return outputs, outputs.pipeline("random")

    found: defaultdict[str, list[Any]] = defaultdict(list)
    counters = Counter[tuple[str, str]]()
    for batches in (1, 3):
        outputs, pipeline = judge(batches)
        runner = SparkRunner(spark, checkpoint=tmp_path, partitions=1, key_groups_per_partition=groups)
        result = runner.run(pipeline, drain=batches == 3)
        for name, sink in outputs.sinks.items():
            found[name] += result.collected(sink)
        counters.update(flat(result.counters))
    outputs, pipeline = judge(3)
    expected, wanted = outputs.expected(pipeline)
    assert counters == Counter(flat(wanted))
    # Windows of several keys fire at once, and which of them is first is not said: so rules of one time may come in
    # another order. They change other limits, so that only their order differs.
    for name in ("levels", "aside of levels"):
        of_key, wanted_of_key = by_key(found.pop(name)), expected.pop(name)
        assert set(of_key) == set(wanted_of_key)
        assert sum(map(len, of_key.values())) == sum(map(len, wanted_of_key.values()))
    assert {name: by_key(values) for name, values in found.items()} == expected


class Fading(KeyedBroadcastProcessFunction[str, Event, str, tuple[str, str, int]]):
    """Asks about keys whose state fades by the clock, and has a timer of the clock for each element."""

    uses_processing_time = True
    seen = ValueStateDescriptor[int]("seen", ttl=StateTtlConfig(millis(250)))

    def process_element(self, value: Event, context: ReadOnlyContext[str]) -> None:
        context.get_state(self.seen).update(value.value)
        timers = context.timer_service
        timers.register_processing_time_timer(timers.current_processing_time + 150)

    def process_broadcast_element(
        self, value: str, context: BroadcastContext[str, tuple[str, str, int]]
    ) -> Iterable[tuple[str, str, int]]:
        context.get_broadcast_state(NAMES).put(value, context.current_processing_time)
        context.apply_to_keyed_state(self.seen, lambda key, seen: [(key, value, seen.value() or 0)])
        return ()

    def on_timer(self, timestamp: int, context: ReadOnlyOnTimerContext[str]) -> Iterable[tuple[str, str, int]]:
        yield context.key, ",".join(context.get_broadcast_state(NAMES).keys()), timestamp


NAMES = MapStateDescriptor("names", str, int)


@pytest.mark.classic(reason="a clock over a generator cannot be sent to the server")
@pytest.mark.thorough(reason="tests/operators/test_broadcast.py has the clock, test_time_to_live.py has it on Spark")
def test_the_clock_counts_for_rules_too(spark: SparkSession) -> None:
    # clock      1000  1100  1200  1300  1400 ...    a timer 150 behind each element
    # elements   a     b     c     d     e
    # rules      r0    r1    r2    r3    r4          each sees the keys of the last 250
    outputs = Outputs()
    events = [Event("abcde"[n], n * 10, n) for n in range(5)]
    rules = from_source(CollectionSource([f"r{n}" for n in range(5)], batch_size=1))
    stream = (
        from_source(CollectionSource(events, batch_size=1))
        .key_by(lambda event: event.key)
        .connect(rules.broadcast(NAMES))
        .process(Fading())
    )
    outputs.add("fading", stream)
    pipeline = outputs.pipeline("clock")
    with warnings.catch_warnings():
        # How many batches follow is not the interpreter's to say: some timers stay.
        warnings.simplefilter("ignore", WindrowWarning)
        expected = outputs.of(LocalRunner(clock=ticking(1000, 100).__next__).run(pipeline))["fading"]
    found = outputs.of(SparkRunner(spark, clock=ticking(1000, 100).__next__).run(pipeline))["fading"]
    assert sum(map(len, expected.values())) > 8
    for key, records in expected.items():
        assert found[key][: len(records)] == records


def test_a_batch_job_sees_all_rules_first(spark: SparkSession) -> None:
    # rules      r r r ... r                             | end
    # elements                e e e ... e  of both sources | end of time: timers fire, and see what the rules have left
    chance = random.Random(3)
    outputs = Outputs()
    elements = elements_of(random_elements(chance, 200), None)
    judged(outputs, elements, rules_of(random_rules(chance, 20), None))
    pipeline = outputs.pipeline("job")
    expected = outputs.of(LocalRunner().run(pipeline))
    assert outputs.of(SparkRunner(spark).run_batch(pipeline)) == expected


def test_a_restart_with_rules_of_another_type_is_refused(tmp_path: Path) -> None:
    def resume_with(value_type: type[Any]) -> None:
        stream = (
            elements_of([("a", 1, 1)], None)
            .key_by(key_of)
            .connect(rules_of([Rule("a", 1)], None).broadcast(MapStateDescriptor("limits", str, value_type)))
            .process(Silent(), name="silent")
        )
        topology = Topology(Pipeline("typed", stream.sink_to(CollectSink[Any]())).steps)
        resume(Checkpoint.at(tmp_path), PhysicalPlan(topology), "event time", Parallelism(None, None, 2))

    resume_with(int)
    with pytest.raises(IncompatibleStateError, match="value of state 'broadcast limits' was int and is str"):
        resume_with(str)


class Silent(KeyedBroadcastProcessFunction[Any, Element, Rule, int]):
    def process_element(self, value: Element, context: ReadOnlyContext[Any]) -> None:
        """Emits nothing."""

    def process_broadcast_element(self, value: Rule, context: BroadcastContext[Any, int]) -> None:
        """Emits nothing."""


class Failing(Silent):
    def process_broadcast_element(self, value: Rule, context: BroadcastContext[Any, int]) -> None:
        raise ValueError(f"no rule {value.name}")


def test_an_error_names_the_element(spark: SparkSession) -> None:
    stream = (
        elements_of([("a", 1, 1)], None)
        .key_by(key_of)
        .connect(rules_of([Rule("a", 1)], None).broadcast())
        .process(Failing())
    )
    pipeline = Pipeline("failing", stream.sink_to(CollectSink[Any]()))
    for run in (LocalRunner().run, SparkRunner(spark).run_batch):
        with pytest.raises(UserFunctionError, match=r"(?s)no rule a.*element for all keys Rule"):
            run(pipeline)
