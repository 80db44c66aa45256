"""What users of other systems write first is refused with what to write instead, or warned of."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from tests.support.runs import in_order
from windrow import DataStream, KeyedStream, Pipeline, WatermarkStrategy, from_collection, joins
from windrow import aggregates as agg
from windrow.errors import InvalidArgumentError, WindrowWarning
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, MapFunction, RuntimeContext
from windrow.sinks import CollectSink
from windrow.state import MapStateDescriptor
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.testing import StreamHarness

SKIPPED = "skipped"
SECOND = timedelta(seconds=1)


class Reading(NamedTuple):
    sensor: str
    at: int


class Climate(NamedTuple):
    lowest: int
    readings: int


READINGS = [Reading("a", 1), Reading("b", 2)]


# Any: calls that type checkers refuse.
STREAM: Any = from_collection(READINGS)
KEYED: Any = STREAM.key_by(lambda reading: reading.sensor)


def test_a_runner_is_given_something_else_than_a_pipeline() -> None:
    sink = STREAM.sink_to(CollectSink())
    given: Any
    for given in (STREAM, sink, Pipeline, "name", None):
        with pytest.raises(InvalidArgumentError, match=r"expected: a Pipeline\n  hint: .*Pipeline\("):
            LocalRunner().run(given)
    Pipeline("name", sink)  # a sink that no pipeline gets is warned of


def test_a_harness_is_given_a_pipeline() -> None:
    pipeline: Any = Pipeline("p", STREAM.sink_to(CollectSink()))
    with pytest.raises(InvalidArgumentError, match=r"hint: .*without a Pipeline"):
        StreamHarness(pipeline)


TAKE_NAMES: dict[str, Callable[[Any], object]] = {
    "key_by": STREAM.key_by,
    "map": STREAM.map,
    "filter": STREAM.filter,
    "timestamp": lambda name: in_order(STREAM, name),
    "sum": KEYED.sum,
    "agg.sum": agg.sum,
    "agg.max_by": agg.max_by,
    "where": lambda name: STREAM.join(STREAM).where(name),
    "left": joins.left,
    "reduce": KEYED.count_window(2).reduce,
    "apply": KEYED.count_window(2).apply,
}


@pytest.mark.parametrize("call", TAKE_NAMES.values(), ids=TAKE_NAMES)
def test_a_field_is_named_where_a_function_selects_it(call: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"hint:     lambda element: element\.at$"):
        call("at")
    with pytest.raises(InvalidArgumentError, match="hint:     a function of the element"):
        call("at > 3")


WINDOWS: tuple[Any, ...] = (
    KEYED.window(TumblingEventTimeWindows.of(SECOND)),
    KEYED.window(EventTimeSessionWindows.with_gap(SECOND)),
    KEYED.count_window(2),
    STREAM.window_all(TumblingEventTimeWindows.of(SECOND)),
)
BETWEEN: Any = KEYED.interval_join(KEYED).between(-SECOND, SECOND)
ELSEWHERE: dict[str, tuple[Any, str]] = {
    "show": (STREAM, r"print\(\), whose result a Pipeline takes; collect\(\) gives the elements"),
    "execute_and_collect": (STREAM, r"collect\(\), or collect\(SparkRunner\(\)\)"),
    "transform": (STREAM, r"pipe\(function\)"),
    "print": (KEYED, "take it from the stream, before key_by"),
    "collect": (KEYED, r"group_into_batches\(max_size, timeout=...\) for lists; to run a stream"),
    "window": (STREAM, "window_all"),
    "reduce": (STREAM, "key_by"),
    "key_by": (KEYED, "a stream has one key"),
    "count": (KEYED, r"sum\(lambda element: 1\)"),
    "aggregate": (KEYED, "AggregatingStateDescriptor"),
    "sink_to": (KEYED, "before key_by"),
    "map_async": (KEYED, "before key_by"),
    "flatMap": (STREAM, r"flat_map\(\.\.\.\)"),
    "keyBy": (STREAM, r"key_by\(\.\.\.\)"),
    "groupBy": (STREAM, r"key_by\(lambda"),
    "groupByKey": (STREAM, r"key_by\(lambda"),
    "GroupByKey": (STREAM, r"key_by\(lambda"),
    "mapValues": (KEYED, r"map\(lambda"),
    "toTable": (STREAM, r"key_by\(\.\.\.\)\.latest\(\)"),
    "to_table": (KEYED, r"latest\(\)"),
    "withColumn": (STREAM, r"map\(lambda"),
    "leftOuterJoin": (STREAM, r"left_join\(other\), or interval_join.*\.left\(\)"),
    "intervalJoin": (KEYED, r"interval_join\(\.\.\.\)"),
    "windowAll": (KEYED, "before key_by"),
    "sideOutputLateData": (WINDOWS[0], r"side_output_late_data\(tag\)"),
    "withWatermark": (STREAM, "assign_timestamps_and_watermarks"),
    "apply": (STREAM, r"pipe\(function\)"),
    "keyBy of two": (STREAM.connect(STREAM), r"key_by\(\.\.\.\)"),
    "left": (BETWEEN.left(), r"between\(\.\.\.\)\.full\(\)"),
    "right": (BETWEEN.left(), r"between\(\.\.\.\)\.full\(\)"),
    "execute": (Pipeline("p", STREAM.sink_to(CollectSink())), r"LocalRunner\(\)\.run\(pipeline\)"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_name_of_other_systems_leads_to_windrow_s(name: str) -> None:
    owner, hint = ELSEWHERE[name]
    name = name.split(maxsplit=1)[0]
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\n  hint:     .*{hint}"):
        getattr(owner, name)
    assert not hasattr(owner, name)


@pytest.mark.parametrize("windows", WINDOWS)
def test_windows_lead_to_what_makes_a_stream_of_them(windows: Any) -> None:
    # All calls of streams that windows lack, but for those that take two streams.
    lacking = {name for name in dir(STREAM) if not hasattr(windows, name) and not name.startswith("_")}
    of_two = {name for name in lacking if "join" in name or "co_" in name}
    others = of_two | {"count_window_all", "element_type", "node"}
    for name in lacking - others:
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\n  hint:     call aggregate\(\.\.\.\)"):
            getattr(windows, name)
    with pytest.raises(AttributeError, match=r"hint:     aggregate\(agg\.mean"):
        windows.mean  # noqa: B018
    with pytest.raises(AttributeError, match=rf"^'{type(windows).__name__}' object has no attribute 'nonsense'$"):
        windows.nonsense  # noqa: B018
    assert repr(copy.copy(windows)) == repr(windows)


@pytest.mark.parametrize("windows", WINDOWS)
def test_several_aggregates_lead_to_a_record(windows: Any) -> None:
    total: Any = agg.sum(lambda reading: reading.at)
    calls: tuple[Callable[[], object], ...] = (
        lambda: windows.aggregate(agg.count(), total),
        lambda: windows.process(agg.count()),
        lambda: windows.aggregate({"count": agg.count()}),
        lambda: windows.aggregate([agg.count(), total]),
    )
    for call in calls:
        with pytest.raises(InvalidArgumentError, match=r"hint:     several aggregates make a record: .*agg\.into"):
            call()


def test_names_that_no_system_has_are_plain_errors() -> None:
    for owner in (STREAM, KEYED, ELSEWHERE["execute"][0]):
        with pytest.raises(AttributeError, match=rf"^'{type(owner).__name__}' object has no attribute 'nonsense'$"):
            owner.nonsense  # noqa: B018
    assert copy.copy(STREAM).node is STREAM.node


def test_a_keyed_stream_leads_to_all_that_it_lacks() -> None:
    for name in [each for each in dir(DataStream) if not each.startswith("_") and each not in dir(KeyedStream)]:
        with pytest.raises(AttributeError, match="\n  hint:     "):
            getattr(KEYED, name)


def test_a_count_so_far_is_a_sum_of_ones() -> None:
    assert KEYED.sum(lambda reading: 1).collect() == [("a", 1), ("b", 1)]


def test_rules_for_a_stream_without_keys() -> None:
    rules = STREAM.broadcast(MapStateDescriptor("rules", str, int))
    with pytest.raises(InvalidArgumentError, match=r"hint: .*key_by\(lambda element: 0\) where it has no key"):
        STREAM.connect(rules)
    with pytest.raises(InvalidArgumentError, match=r"hint: .*other\.broadcast\(descriptor\)"):
        KEYED.connect(STREAM)


@pytest.mark.parametrize(
    ("into", "hint"),
    [
        (lambda: agg.into(Climate, lowst=agg.count(), readings=agg.count()), r"did you mean lowest\?"),
        (lambda: joins.into(Climate, lowest=joins.key(), reading=joins.key()), r"did you mean readings\?"),
        (lambda: joins.into(Climate, lowest=joins.key(), other=joins.key()), "one of the fields for each argument"),
    ],
    ids=["an aggregate", "a part of a join", "nothing is like it"],
)
def test_a_misspelt_keyword_of_into(into: Callable[[], object], hint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"hint:     {hint}"):
        into()


class Counting(MapFunction[Reading, Reading]):
    """Counts under a name of the class, one of the module and one that it makes."""

    EMPTY = "empty"

    def open(self, runtime_context: RuntimeContext) -> None:
        self._metrics = runtime_context.metrics

    def map(self, value: Reading) -> Reading:
        if value.at < 0:
            self._metrics.counter(self.EMPTY).inc()
            count_skipped(self)
        self._metrics.counter(f"sensor_{value.sensor}").inc()
        return value

    @property
    def metrics(self) -> Any:
        return self._metrics


def count_skipped(function: Counting) -> None:
    function.metrics.counter(SKIPPED).inc()


class Passing(KeyedProcessFunction[str, Reading, Reading]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.passed = runtime_context.metrics.counter("passed")

    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> list[Reading]:
        return [value]


def test_a_misspelt_counter() -> None:
    stream = from_collection(READINGS).map(Counting()).key_by(lambda reading: reading.sensor).process(Passing())
    result = LocalRunner().run(Pipeline("p", stream.sink_to(CollectSink())))
    assert result.counter("sensor_a") == 1
    # These exist, and are 0.
    for name in ("late_records_dropped", "records_malformed", "empty", "skipped", "passed"):
        assert result.counter(name) == 0
    with pytest.raises(InvalidArgumentError, match=r"did you mean late_records_dropped\?") as caught:
        result.counter("late_record_dropped")
    assert caught.value.expected is not None
    assert "sensor_a, sensor_b" in caught.value.expected
    with pytest.raises(InvalidArgumentError, match=r"result\.counters has these"):
        result.counter("zzzz")
    with pytest.raises(InvalidArgumentError, match=r"did you mean passed\?"):
        StreamHarness(stream).counter("passed_on")


class At(NamedTuple):
    at: int


def windowed(scale: int) -> DataStream[int]:
    times = from_collection([At(1_790_000_000 * scale), At(1_790_000_100 * scale)]).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5)), timestamp=lambda each: each.at
    )
    return times.key_by(lambda each: 0).window(TumblingEventTimeWindows.of(timedelta(minutes=1))).aggregate(agg.count())


@pytest.mark.parametrize(
    ("scale", "warning", "hint"),
    [
        (1, "look like seconds", ""),
        (1_000_000, "look like microseconds", "// 1000,"),
        (1_000_000_000, "look like nanoseconds", "// 1_000_000,"),
    ],
)
def test_epoch_times_of_another_unit_in_place_of_milliseconds(scale: int, warning: str, hint: str) -> None:
    with pytest.warns(WindrowWarning, match=warning) as caught:
        windowed(scale).collect()
    assert len(caught) == 1
    assert hint in str(caught[0].message)
    assert caught[0].filename == __file__


def test_epoch_milliseconds_are_not_warned_of() -> None:
    assert windowed(1000).collect() == [1, 1]
