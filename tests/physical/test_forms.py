"""Which steps run on columns, and what explain() says of those that do not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from tests.columnar.window_steps import step
from tests.counting import Count, MergingCount
from windrow import DataStream, KeyedStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.evictors import CountEvictor
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, RuntimeContext
from windrow.kafka import KafkaRecordSource
from windrow.sinks import CollectSink, ParquetFileSink
from windrow.sources import CollectionSource, CsvFileSource, JsonFileSource, ParquetFileSource, Source
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    PurgingTrigger,
)
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
)
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import Topology
from windrow_spark.columnar.forms.route_step import expression_of
from windrow_spark.lowering import physical_plan


class Reading(NamedTuple):
    sensor: str
    at: datetime
    celsius: float
    copies: int
    spare: float | None = None


@dataclass(frozen=True)
class Tagged:
    """A record whose values have to be looked at one by one."""

    sensor: str
    at: int
    tags: list[str]


class Parcel(NamedTuple):
    sensor: str
    at: int
    price: Decimal
    worth: Decimal
    sent: date
    due: date
    took: timedelta
    paused: timedelta


@dataclass(frozen=True)
class Checked:
    sensor: str
    at: int

    def __post_init__(self) -> None:
        if self.at < 0:
            raise ValueError(self.at)


FIVE = timedelta(seconds=5)
Keyed = KeyedStream[Reading, str]


# Any: a test's own records, too.
def readings(source: Source[Any] | None = None) -> DataStream[Any]:
    return from_source(source or ParquetFileSource("never read", Reading)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda r: r.at
    )


def keyed() -> Keyed:
    return readings().key_by(lambda r: r.sensor)


def text(stream: DataStream[Any], *, columnar: bool = True) -> str:
    topology = Topology(Pipeline("plan", stream.sink_to(CollectSink())).steps)
    (form,) = physical_plan(topology, columnar=columnar).forms().values()
    return str(form)


def mean(stream: Keyed) -> DataStream[Any]:
    return stream.window(TumblingEventTimeWindows.of(FIVE)).aggregate(agg.mean(lambda r: r.celsius))


def negative(reading: Reading) -> float:
    return -reading.celsius


def spare(reading: Reading) -> float | None:
    return reading.spare


NOT_AGGREGATED = "; not partially aggregated before the exchange: "

FIRST = "partially aggregated before the exchange"
WORTH_IT = f"{FIRST} where on time and worth it"
BY_ORDER = "the result depends on the order of arrival"
# Any: it counts elements of every type.
COUNT: Any = agg.count()
SECOND = timedelta(seconds=1)
WINDOW, SLIDING = TumblingEventTimeWindows.of(FIVE), SlidingEventTimeWindows.of(FIVE, SECOND)
SESSIONS, SESSIONS_BY_CLOCK = EventTimeSessionWindows.with_gap(FIVE), ProcessingTimeSessionWindows.with_gap(FIVE)
EACH_FIVE, EACH_FIVE_BY_CLOCK = ContinuousEventTimeTrigger.of(FIVE), ContinuousProcessingTimeTrigger.of(FIVE)


# Any: windows of every assigner, their triggers and their aggregates.
def windows_of(assigner: Any, aggregate: Any = COUNT, trigger: Any = None, **said: Any) -> DataStream[Any]:
    return step(assigner, aggregate, trigger, **said)(keyed())


COLUMNS: dict[str, list[DataStream[Any]]] = {
    f"columns, {FIRST}": [mean(keyed())],
    f"columns, slices shared by windows, {FIRST}": [
        windows_of(SlidingEventTimeWindows.of(timedelta(milliseconds=size), timedelta(milliseconds=slide)))
        for size, slide in ((5_000, 1_000), (60_000, 7_001), (86_400_000, 10_000), (86_400_000, 100))
    ],
    f"columns, slices shared by windows{NOT_AGGREGATED}{BY_ORDER}": [
        windows_of(SLIDING, agg.top_k(3, lambda r: r.celsius))
    ],
    f"columns, elements counted{NOT_AGGREGATED}each element is counted": [
        from_source(ParquetFileSource("never read", Reading))
        .key_by(lambda r: r.sensor)
        .count_window(100)
        .aggregate(COUNT)
    ],
    f"columns, elements counted, runs shared by firings{NOT_AGGREGATED}each element is counted": [
        keyed().count_window(10, 5).aggregate(COUNT)
    ],
    f"columns, in processing time, {FIRST}": [windows_of(SlidingProcessingTimeWindows.of(FIVE, SECOND))],
    f"columns, in processing time{NOT_AGGREGATED}{BY_ORDER}": [
        windows_of(SESSIONS_BY_CLOCK, agg.last(lambda r: r.celsius))
    ],
    f"columns, in processing time{NOT_AGGREGATED}elements of sessions in processing time have no timestamps": [
        windows_of(SESSIONS_BY_CLOCK)
    ],
    f"columns, firings at intervals{NOT_AGGREGATED}late elements leave one by one": [
        windows_of(WINDOW, COUNT, ContinuousEventTimeTrigger.of(SECOND), late=True)
    ],
    f"columns, firings at intervals{NOT_AGGREGATED}each element fires at the end of the stream": [
        windows_of(GlobalWindows.create(), COUNT, EACH_FIVE)
    ],
    f"columns, in processing time, firings at intervals, {FIRST}": [
        windows_of(GlobalWindows.create(), COUNT, PurgingTrigger.of(EACH_FIVE_BY_CLOCK))
    ],
    f"columns, firings at intervals, {FIRST}": [windows_of(SLIDING, COUNT, EACH_FIVE)],
    f"columns{NOT_AGGREGATED}each late element fires its window": [windows_of(SESSIONS, lateness=FIVE)],
    f"columns{NOT_AGGREGATED}{BY_ORDER}": [windows_of(SESSIONS, agg.last(lambda r: r.celsius))],
    f"columns, {WORTH_IT}": [windows_of(WINDOW, late=True), windows_of(SESSIONS), windows_of(SESSIONS, late=True)],
}


@pytest.mark.parametrize("told", COLUMNS)
def test_columns(told: str) -> None:
    assert {text(stream) for stream in COLUMNS[told]} == {told}


def test_expressions_that_columns_compute() -> None:
    stream = (
        from_source(ParquetFileSource("never read", Reading))
        .filter(lambda r: r.celsius * 1.8 + 32 > 50.0)
        .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda r: r.at)
        .filter(lambda r: r.sensor != "s1")
        .key_by(lambda r: r[0])
        .window(TumblingEventTimeWindows.of(FIVE))
        .allowed_lateness(FIVE)
        .aggregate(agg.combine(agg.key(), agg.max(negative), agg.sum(spare)))
    )
    assert text(stream) == "columns, partially aggregated before the exchange where on time and worth it"


COMPARISONS: list[Callable[[Parcel], bool]] = [
    lambda p: p.price < p.worth,
    lambda p: p.sent == p.due,
    lambda p: p.took >= p.paused,
]


@pytest.mark.parametrize("place", range(len(COMPARISONS)))
def test_decimals_dates_and_time_spans_are_compared(place: int) -> None:
    moments = [(1, 2), (2, 2), (3, 2)]
    parcels = [
        Parcel(
            *("a", 0),
            *(Decimal(low) / 4, Decimal(high) / 4),
            *(date(2024, 2, low), date(2024, 2, high)),
            *(timedelta(low), timedelta(high)),
        )
        for low, high in moments
    ]
    kind = record_type(Parcel)
    batch = encode_batch(parcels, kind)
    found = expression_of(COMPARISONS[place], kind, "the filter")
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    assert found.evaluate(columns).to_pylist() == list(map(COMPARISONS[place], parcels))


def mean_by(key: Callable[[Reading], Any]) -> DataStream[Any]:
    return mean(readings().key_by(key))


def mean_where(condition: Callable[[Any], bool]) -> DataStream[Any]:
    return mean(readings().filter(condition).key_by(lambda r: r.sensor))


def mean_of(source: Source[Reading]) -> DataStream[Any]:
    return mean(readings(source).key_by(lambda r: r.sensor))


DELTA: DeltaTrigger[Reading] = DeltaTrigger.of(3, lambda a, b: b.celsius - a.celsius)
OTHERS: dict[str, DataStream[Any]] = {
    "the key: .sensor.title() is computed in Python": mean_by(lambda r: r.sensor.title()),
    "the key: .copies + 1 may outgrow 64 bits": mean_by(lambda r: r.copies + 1),
    "the key uses str": mean_by(lambda r: str(r.sensor)),
    "the key is a datetime": mean_by(lambda r: r.at),
    "the filter: .celsius / .copies is computed in Python: a division may fail": mean_where(
        lambda r: r.celsius / r.copies > 1
    ),
    "the filter: .copies > .celsius compares an int with a float": mean_where(lambda r: r.copies > r.celsius),
    "the filter: .spare > 3 may meet None": mean_where(lambda r: r.spare > 3),
    "the filter: .copies / .copies is computed in Python: a division may fail": mean_where(
        lambda r: r.copies / r.copies > 3
    ),
    "an evictor sees each element": windows_of(WINDOW, evictor=CountEvictor.of(3)),
    "the evictor leaves no element": windows_of(WINDOW, COUNT, CountTrigger.of(3), evictor=CountEvictor.of(0)),
    "DeltaTrigger": windows_of(WINDOW, COUNT, DELTA),
    "sessions that count": windows_of(SESSIONS, COUNT, CountTrigger.of(3)),
    "ContinuousProcessingTimeTrigger(5 s) goes by another time than the windows": windows_of(
        WINDOW, COUNT, EACH_FIVE_BY_CLOCK
    ),
    "a late element fires some of its windows at once, and others at intervals": windows_of(
        SLIDING, COUNT, EACH_FIVE, lateness=FIVE
    ),
    "windows that slide may end when others fire at intervals": windows_of(
        SLIDING, COUNT, ContinuousEventTimeTrigger.of(timedelta(milliseconds=7))
    ),
    "not an aggregate of windrow.aggregates": keyed().window(WINDOW).reduce(max),
    "gives records one by one": mean_of(CollectionSource([], Reading)),
    "json never read is read row by row: the encoding is utf-16": mean_of(
        JsonFileSource("never read", Reading, encoding="utf-16")
    ),
    "csv never read is read row by row: the delimiter '§' is more than a byte": mean_of(
        CsvFileSource("never read", Reading, delimiter="§")
    ),
    "there are gaps between windows": windows_of(SlidingEventTimeWindows.of(FIVE, 2 * FIVE)),
    "flat_map is upstream": mean(readings().flat_map(lambda r: [r, r]).returns(Reading).key_by(lambda r: r.sensor)),
    "the selector of mean uses round": windows_of(WINDOW, agg.mean(lambda r: round(r.celsius))),
    "the filter: uses '\\ud800', which is no text of UTF-8": mean_where(lambda r: r.sensor == "\ud800"),
    "the filter: uses 'a\\udfff', which is no text of UTF-8": mean_where(lambda r: r.sensor < "a\udfff"),
}


@pytest.mark.parametrize("told", OTHERS)
def test_why_not_on_columns(told: str) -> None:
    found = text(OTHERS[told])
    assert found.startswith("Python, ")
    assert told in found.partition("not on columns: ")[2]


@pytest.mark.parametrize(
    ("record", "told"), [(Tagged, "Tagged.tags is a list[str]"), (Checked, "Checked has a __post_init__")]
)
def test_records_that_have_to_be_made(record: Any, told: str) -> None:
    stamped = readings(ParquetFileSource("never read", record))
    assert text(step(WINDOW, COUNT)(stamped.key_by(lambda r: r.sensor))).endswith(f"not on columns: {told}")


class Shared(MergingCount):
    """Says that order makes no difference."""

    commutative = True


class Opened(MergingCount):
    """Has to be opened where it runs."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened = True


class Each(KeyedProcessFunction[str, Reading, int]):
    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> list[int]:
        return [value.copies]


CROSS = "elements cross the exchange as columns"
FOLDED = f"{CROSS}, partially aggregated before where"


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (windows_of(WINDOW, MergingCount()), f"loop of tumbling windows, {FOLDED} that pays"),
        (windows_of(WINDOW, MergingCount(), lateness=FIVE), f"loop of tumbling windows, {FOLDED} on time and worth it"),
        # What is left of a reduce need not stand for the elements that it was made of.
        (keyed().window(WINDOW).reduce(max), f"loop of tumbling windows, {CROSS}"),
        (windows_of(SESSIONS, Shared()), f"loop of sessions, {FOLDED} that pays"),
    ],
    ids=["tumbling", "late", "reduce", "sessions"],
)
def test_elements_of_python_functions_cross_the_exchange_as_columns(stream: DataStream[Any], told: str) -> None:
    assert f"{told}; not on" in text(stream)


UNAGGREGATED: dict[str, DataStream[Any]] = {
    "what a reduce leaves need not stand for its elements": keyed().window(WINDOW).reduce(max),
    "the function takes all elements of a window": (
        keyed().window(SESSIONS).apply(lambda key, window, elements: [len(elements)])
    ),
    "each late element fires its window": windows_of(SESSIONS, MergingCount(), lateness=FIVE),
    "sessions merge in the order of their births, and the function is not commutative": windows_of(
        SESSIONS, MergingCount()
    ),
    "the function has no merge": windows_of(WINDOW, Count()),
    "the function is opened and closed where the step runs": windows_of(WINDOW, Opened()),
    "sliding windows share slices, and the function is not commutative": windows_of(
        SlidingEventTimeWindows.of(2 * FIVE, FIVE), MergingCount()
    ),
}


@pytest.mark.parametrize("told", UNAGGREGATED)
def test_why_nothing_is_folded_before_the_exchange(told: str) -> None:
    found = text(UNAGGREGATED[told])
    assert ", elements cross the exchange as columns; not on columns: " in found
    assert found.endswith(f"{NOT_AGGREGATED}{told}")


TOLD_ONCE = "DeltaTrigger(3) is asked at each element"


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (
            readings().key_by(lambda r: str(r.sensor)).window(WINDOW).reduce(max),
            "Python, loop of tumbling windows; not on columns: not an aggregate of windrow.aggregates; "
            "elements cross the exchange one by one: the key uses str",
        ),
        (mean_by(lambda r: str(r.sensor)), "Python, loop of tumbling windows; not on columns: the key uses str"),
        (
            keyed().process(Each()),
            f"Python, element by element, {CROSS}; not on columns: a process function sees each element",
        ),
        (
            windows_of(SlidingEventTimeWindows.of(FIVE, 2 * FIVE), MergingCount()),
            f"Python, loop of sliding windows, {CROSS}; not on columns: there are gaps between windows",
        ),
        (
            windows_of(WINDOW, COUNT, DELTA),
            f"Python, general operator: {TOLD_ONCE}, {CROSS}; not on columns: {TOLD_ONCE}",
        ),
    ],
    ids=["reduce", "mean", "process", "gaps", "delta"],
)
def test_a_reason_is_told_once(stream: DataStream[Any], told: str) -> None:
    assert text(stream) == told


def test_a_source_without_columns_is_the_first_reason() -> None:
    """No change of the steps behind it would bring columns."""
    arithmetic = from_source(CollectionSource([], Reading)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda r: r.at.second * 1000
    )
    rounded = readings(CollectionSource([], Reading)).filter(lambda r: round(r.celsius) > 0)
    for stream in (arithmetic, rounded):
        assert text(mean(stream.key_by(lambda r: r.sensor))) == (
            "Python, loop of tumbling windows; not on columns: collection of 0 gives records one by one"
        )
    counts = from_source(CollectionSource([], Tagged)).key_by(lambda t: t.sensor).count_window(3).aggregate(agg.count())
    assert text(counts).endswith("not on columns: collection of 0 gives records one by one")
    pairs = rounded.join(readings()).where(lambda r: r.sensor).equal_to(lambda r: r.sensor).window(WINDOW)
    assert text(pairs.apply(lambda a, b: a)).endswith("one by one: collection of 0 gives records one by one")


def test_whole_records_of_a_topic_are_columns() -> None:
    source = KafkaRecordSource("a:1", "in", Reading)
    stamped = from_source(source).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda record: record.timestamp
    )
    hot = stamped.filter(lambda record: record.value.celsius > 10.0).key_by(lambda record: record.value.sensor)
    means = hot.window(TumblingEventTimeWindows.of(FIVE)).aggregate(agg.mean(lambda record: record.value.celsius))
    assert text(means) == "columns, partially aggregated before the exchange"
    topology = Topology(Pipeline("plan", means.sink_to(CollectSink())).steps)
    assert physical_plan(topology).columns_needed(topology.sources[0].id) == frozenset({"timestamp", "value"})


def test_a_source_of_a_type_that_no_format_reads_is_no_error_of_the_plan() -> None:
    class Odd(NamedTuple):
        sensor: str
        anything: object

    for source in (JsonFileSource("never read", Odd), CsvFileSource("never read", Odd)):
        counts = from_source(source).key_by(lambda r: r.sensor).count_window(3).aggregate(agg.count())
        assert "not on columns: this type has no column form" in text(counts)


class Mean(NamedTuple):
    sensor: str
    mean: float
    spare: float | None = None


def means(fact: Any = None) -> DataStream[Any]:
    windows = keyed().window(WINDOW)
    return windows.aggregate(fact or agg.into(Mean, agg.key(), agg.mean(lambda r: r.celsius), agg.max(spare)))


def counts_of(results: DataStream[Any], assigner: Any = WINDOW, key: Callable[[Any], Any] = lambda m: m.sensor) -> Any:
    return results.key_by(key).window(assigner).aggregate(COUNT)


BEHIND: dict[str, DataStream[Any]] = {
    f"columns, {FIRST}": counts_of(means().filter(lambda m: m.mean > 3)),
    f"columns, {WORTH_IT}": counts_of(means(), SESSIONS),
    "not on columns: the filter: .spare > 3 may meet None": counts_of(means().filter(lambda m: m.spare > 3)),
    "not on columns: window is upstream: Mean makes its results": counts_of(
        means(agg.into(Mean, agg.key(), agg.mean(lambda r: r.celsius)))
    ),
    "not on columns: window is upstream: it gives lists": counts_of(
        means(agg.combine(agg.key(), agg.collect_list(lambda r: r.celsius))), key=lambda m: m[0]
    ),
    f"{CROSS}; not on columns: MergingCount is an aggregate function of yours": (
        means().key_by(lambda m: m.sensor).window(SESSIONS).aggregate(MergingCount())
    ),
    "not on columns: window is upstream": counts_of(
        keyed().window(WINDOW).reduce(max).map(lambda r: r.celsius).returns(float), key=lambda n: n > 3
    ),
    "not on columns: the results of window carry the end of time": (
        windows_of(GlobalWindows.create_with_end_of_stream_trigger()).window_all(WINDOW).aggregate(COUNT)
    ),
}


@pytest.mark.parametrize("told", BEHIND)
def test_a_window_behind_a_window(told: str) -> None:
    topology = Topology(Pipeline("plan", BEHIND[told].sink_to(CollectSink())).steps)
    _, form = physical_plan(topology).forms().values()
    found = re.sub(r"plan\.\d+\.", "", str(form))
    assert found == told or (found.startswith("Python, ") and told in found)


def forms_before(sink: ParquetFileSink[Any], stream: DataStream[Any]) -> dict[str, str]:
    forms = physical_plan(Topology(Pipeline("plan", stream.sink_to(sink)).steps)).forms()
    return {step.rpartition(".")[2]: str(form) for step, form in forms.items()}


def test_a_sink_behind_results_on_columns_says_why_it_gets_objects() -> None:
    results = mean(keyed())
    assert forms_before(ParquetFileSink("out"), results) == {
        "window": "columns, partially aggregated before the exchange"
    }
    assert forms_before(ParquetFileSink("out"), results.map(lambda m: m * 2.0).returns(float)).keys() == {"window"}
    assert forms_before(ParquetFileSink("out"), results.map(round).returns(int)) == {
        "window": "columns, partially aggregated before the exchange",
        "sink": "Python, element by element; not on columns: the map is not a plain function",
    }


def test_a_sink_behind_a_source_says_how_it_gets_elements() -> None:
    fast = readings().map(lambda r: r.celsius * 2.0).returns(float)
    assert forms_before(ParquetFileSink("out"), fast) == {"sink": "columns, in Arrow"}
    slow = readings().flat_map(lambda r: [r.celsius]).returns(float)
    found = forms_before(ParquetFileSink("out"), slow)["sink"]
    assert found.startswith("Python, element by element; not on columns: plan.3.flat_map is upstream")


def test_columns_can_be_turned_off() -> None:
    assert text(mean(keyed()), columnar=False) == (
        "Python, loop of tumbling windows; not on columns: they are turned off"
    )


def test_explain_shows_the_form_of_an_engine() -> None:
    plan = Pipeline("plan", mean(keyed()).sink_to(CollectSink()))
    assert "runs as Python, loop of tumbling windows\n" in plan.explain(LocalRunner())
    assert "general operator: faster forms are turned off" in plan.explain(LocalRunner(fast=False))
    assert "runs as" not in plan.explain()


class CommutativeCount(MergingCount):
    commutative = True


@pytest.mark.parametrize(
    ("build", "takes_any_order"),
    [
        (mean, True),
        (step(WINDOW, agg.first(lambda r: r.copies)), False),
        (step(WINDOW, MergingCount()), False),
        (step(WINDOW, CommutativeCount()), True),
        (lambda stream: stream.window(WINDOW).reduce(lambda a, b: b), False),
        (lambda stream: stream.count_window(3).aggregate(agg.mean(lambda r: r.celsius)), False),
        (lambda stream: stream.reduce(lambda a, b: b), False),
    ],
    ids=["mean", "first", "merging", "commutative", "reduce", "count window", "rolling"],
)
def test_steps_say_whether_the_order_of_a_batch_counts(
    build: Callable[[Keyed], DataStream[Any]], takes_any_order: bool
) -> None:
    topology = Topology(Pipeline("plan", build(keyed()).sink_to(CollectSink())).steps)
    (step,) = physical_plan(topology).keyed.values()
    assert step.takes_any_order == takes_any_order
