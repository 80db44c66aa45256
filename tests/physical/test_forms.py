"""Which steps run on columns, and what explain() says of those that do not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from tests.counting import Count, MergingCount
from windrow import DataStream, KeyedStream, OutputTag, Pipeline, WatermarkStrategy, from_source
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
LATE = OutputTag("late", Reading)
Keyed = KeyedStream[Reading, str]


def readings(source: Source[Reading] | None = None) -> DataStream[Reading]:
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

COLUMNS: dict[str, Callable[[], DataStream[Any]]] = {
    "columns, partially aggregated before the exchange": lambda: mean(keyed()),
    "columns, slices shared by windows, partially aggregated before the exchange": lambda: (
        keyed().window(SlidingEventTimeWindows.of(FIVE, timedelta(seconds=1))).aggregate(agg.count())
    ),
    f"columns, slices shared by windows{NOT_AGGREGATED}the result depends on the order of arrival": lambda: (
        keyed()
        .window(SlidingEventTimeWindows.of(FIVE, timedelta(seconds=1)))
        .aggregate(agg.top_k(3, lambda r: r.celsius))
    ),
    f"columns, elements counted{NOT_AGGREGATED}each element is counted": lambda: (
        from_source(ParquetFileSource("never read", Reading))
        .key_by(lambda r: r.sensor)
        .count_window(100)
        .aggregate(agg.count())
    ),
    f"columns, elements counted, runs shared by firings{NOT_AGGREGATED}each element is counted": lambda: (
        keyed().count_window(10, 5).aggregate(agg.count())
    ),
    "columns, in processing time, partially aggregated before the exchange": lambda: (
        keyed().window(SlidingProcessingTimeWindows.of(FIVE, timedelta(seconds=1))).aggregate(agg.count())
    ),
    f"columns, in processing time{NOT_AGGREGATED}the result depends on the order of arrival": lambda: (
        keyed().window(ProcessingTimeSessionWindows.with_gap(FIVE)).aggregate(agg.last(lambda r: r.celsius))
    ),
    f"columns, in processing time{NOT_AGGREGATED}elements of sessions in processing time have no timestamps": (
        lambda: keyed().window(ProcessingTimeSessionWindows.with_gap(FIVE)).aggregate(agg.count())
    ),
    f"columns, firings at intervals{NOT_AGGREGATED}late elements leave one by one": lambda: (
        keyed()
        .window(TumblingEventTimeWindows.of(FIVE))
        .trigger(ContinuousEventTimeTrigger.of(timedelta(seconds=1)))
        .side_output_late_data(LATE)
        .aggregate(agg.count())
    ),
    f"columns, firings at intervals{NOT_AGGREGATED}each element fires at the end of the stream": lambda: (
        keyed().window(GlobalWindows.create()).trigger(ContinuousEventTimeTrigger.of(FIVE)).aggregate(agg.count())
    ),
    "columns, in processing time, firings at intervals, partially aggregated before the exchange": lambda: (
        keyed()
        .window(GlobalWindows.create())
        .trigger(PurgingTrigger.of(ContinuousProcessingTimeTrigger.of(FIVE)))
        .aggregate(agg.count())
    ),
    f"columns{NOT_AGGREGATED}each late element fires its window": lambda: (
        keyed().window(EventTimeSessionWindows.with_gap(FIVE)).allowed_lateness(FIVE).aggregate(agg.count())
    ),
    "columns, firings at intervals, partially aggregated before the exchange": lambda: (
        keyed()
        .window(SlidingEventTimeWindows.of(FIVE, timedelta(seconds=1)))
        .trigger(ContinuousEventTimeTrigger.of(FIVE))
        .aggregate(agg.count())
    ),
    "columns, partially aggregated before the exchange where on time and worth it": lambda: (
        keyed().window(TumblingEventTimeWindows.of(FIVE)).side_output_late_data(LATE).aggregate(agg.count())
    ),
}


@pytest.mark.parametrize(("size", "slide"), [(60_000, 7_001), (86_400_000, 10_000), (86_400_000, 100)])
def test_sliding_windows_share_slices_whatever_their_sizes_are(size: int, slide: int) -> None:
    windows = SlidingEventTimeWindows.of(timedelta(milliseconds=size), timedelta(milliseconds=slide))
    told = "columns, slices shared by windows, partially aggregated before the exchange"
    assert text(keyed().window(windows).aggregate(agg.count())) == told


@pytest.mark.parametrize("told", COLUMNS)
def test_columns(told: str) -> None:
    assert text(COLUMNS[told]()) == told


def test_sessions_are_folded_where_no_element_fires_one_again() -> None:
    windows = keyed().window(EventTimeSessionWindows.with_gap(FIVE))
    told = "columns, partially aggregated before the exchange where on time and worth it"
    assert text(windows.aggregate(agg.count())) == told
    assert text(windows.side_output_late_data(LATE).aggregate(agg.count())) == told
    assert text(windows.aggregate(agg.last(lambda r: r.celsius))) == (
        f"columns{NOT_AGGREGATED}the result depends on the order of arrival"
    )


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


WINDOW = TumblingEventTimeWindows.of(FIVE)
DELTA: DeltaTrigger[Reading] = DeltaTrigger.of(3, lambda a, b: b.celsius - a.celsius)
OTHERS: dict[str, Callable[[], DataStream[Any]]] = {
    "the key: .sensor.title() is computed in Python": lambda: mean(readings().key_by(lambda r: r.sensor.title())),
    "the key: .copies + 1 may outgrow 64 bits": (
        lambda: readings().key_by(lambda r: r.copies + 1).window(WINDOW).aggregate(agg.count())
    ),
    "the key uses str": lambda: mean(readings().key_by(lambda r: str(r.sensor))),
    "the key is a datetime": lambda: readings().key_by(lambda r: r.at).window(WINDOW).aggregate(agg.count()),
    "the filter: .celsius / .copies is computed in Python: a division may fail": (
        lambda: mean(readings().filter(lambda r: r.celsius / r.copies > 1).key_by(lambda r: r.sensor))
    ),
    "the filter: .copies > .celsius compares an int with a float": (
        lambda: mean(readings().filter(lambda r: r.copies > r.celsius).key_by(lambda r: r.sensor))
    ),
    "the filter: .spare > 3 may meet None": (
        lambda: mean(readings().filter(lambda r: r.spare > 3).key_by(lambda r: r.sensor))  # type: ignore[operator]
    ),
    "the filter: .copies / .copies is computed in Python: a division may fail": (
        lambda: mean(readings().filter(lambda r: r.copies / r.copies > 3).key_by(lambda r: r.sensor))
    ),
    "an evictor sees each element": lambda: keyed().window(WINDOW).evictor(CountEvictor.of(3)).aggregate(agg.count()),
    "DeltaTrigger": lambda: keyed().window(WINDOW).trigger(DELTA).aggregate(agg.count()),
    "sessions that count": lambda: (
        keyed().window(EventTimeSessionWindows.with_gap(FIVE)).trigger(CountTrigger.of(3)).aggregate(agg.count())
    ),
    "ContinuousProcessingTimeTrigger(5 s) goes by another time than the windows": lambda: (
        keyed().window(WINDOW).trigger(ContinuousProcessingTimeTrigger.of(FIVE)).aggregate(agg.count())
    ),
    "a late element fires some of its windows at once, and others at intervals": lambda: (
        keyed()
        .window(SlidingEventTimeWindows.of(FIVE, timedelta(seconds=1)))
        .trigger(ContinuousEventTimeTrigger.of(FIVE))
        .allowed_lateness(FIVE)
        .aggregate(agg.count())
    ),
    "windows that slide may end when others fire at intervals": lambda: (
        keyed()
        .window(SlidingEventTimeWindows.of(FIVE, timedelta(seconds=1)))
        .trigger(ContinuousEventTimeTrigger.of(timedelta(milliseconds=7)))
        .aggregate(agg.count())
    ),
    "the evictor leaves no element": lambda: (
        keyed().window(WINDOW).trigger(CountTrigger.of(3)).evictor(CountEvictor.of(0)).aggregate(agg.count())
    ),
    "not an aggregate of windrow.aggregates": lambda: keyed().window(WINDOW).reduce(max),
    "gives records one by one": lambda: mean(readings(CollectionSource([], Reading)).key_by(lambda r: r.sensor)),
    "json never read is read row by row: the encoding is utf-16": lambda: mean(
        readings(JsonFileSource("never read", Reading, encoding="utf-16")).key_by(lambda r: r.sensor)
    ),
    "csv never read is read row by row: the delimiter '§' is more than a byte": lambda: mean(
        readings(CsvFileSource("never read", Reading, delimiter="§")).key_by(lambda r: r.sensor)
    ),
    "there are gaps between windows": lambda: (
        keyed().window(SlidingEventTimeWindows.of(FIVE, 2 * FIVE)).aggregate(agg.count())
    ),
    "flat_map is upstream": lambda: mean(
        readings().flat_map(lambda r: [r, r]).returns(Reading).key_by(lambda r: r.sensor)
    ),
    "the selector of mean uses round": lambda: keyed().window(WINDOW).aggregate(agg.mean(lambda r: round(r.celsius))),
}


@pytest.mark.parametrize("told", OTHERS)
def test_why_not_on_columns(told: str) -> None:
    found = text(OTHERS[told]())
    assert found.startswith("Python, ")
    assert told in found.partition("not on columns: ")[2]


@pytest.mark.parametrize(
    ("record", "told"), [(Tagged, "Tagged.tags is a list[str]"), (Checked, "Checked has a __post_init__")]
)
def test_records_that_have_to_be_made(record: Any, told: str) -> None:
    stream = (
        from_source(ParquetFileSource("never read", record))
        .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda r: r.at)
        .key_by(lambda r: r.sensor)
        .window(WINDOW)
        .aggregate(agg.count())
    )
    assert text(stream).endswith(f"not on columns: {told}")


@pytest.mark.parametrize(
    "condition", [lambda r: r.sensor == "\ud800", lambda r: r.sensor < "a\udfff"], ids=["equal", "less"]
)
def test_a_text_that_is_no_utf_8_is_compared_in_python(condition: Callable[[Reading], bool]) -> None:
    found = text(mean(readings().filter(condition).key_by(lambda r: r.sensor)))
    assert found.endswith("', which is no text of UTF-8")
    assert "not on columns: the filter: uses '" in found
    assert found.isascii(), "it can be printed"


def test_elements_of_python_functions_cross_the_exchange_as_columns() -> None:
    told = "elements cross the exchange as columns"
    folded = "partially aggregated before where that pays"
    assert f"loop of tumbling windows, {told}, {folded}; not on" in text(
        keyed().window(WINDOW).aggregate(MergingCount())
    )
    late = text(keyed().window(WINDOW).allowed_lateness(FIVE).aggregate(MergingCount()))
    assert f"loop of tumbling windows, {told}, partially aggregated before where on time and worth it; not on" in late
    # What is left of a reduce need not stand for the elements that it was made of.
    assert f"loop of tumbling windows, {told}; not on" in text(keyed().window(WINDOW).reduce(max))
    of_sessions = keyed().window(EventTimeSessionWindows.with_gap(FIVE)).aggregate(Shared())
    assert f"loop of sessions, {told}, {folded}; not on" in text(of_sessions)


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


HOURS = SlidingEventTimeWindows.of(2 * FIVE, FIVE)
UNAGGREGATED: dict[str, Callable[[], DataStream[Any]]] = {
    "what a reduce leaves need not stand for its elements": lambda: keyed().window(WINDOW).reduce(max),
    "the function takes all elements of a window": lambda: (
        keyed().window(EventTimeSessionWindows.with_gap(FIVE)).apply(lambda key, window, elements: [len(elements)])
    ),
    "each late element fires its window": lambda: (
        keyed().window(EventTimeSessionWindows.with_gap(FIVE)).allowed_lateness(FIVE).aggregate(MergingCount())
    ),
    "sessions merge in the order of their births, and the function is not commutative": lambda: (
        keyed().window(EventTimeSessionWindows.with_gap(FIVE)).aggregate(MergingCount())
    ),
    "the function has no merge": lambda: keyed().window(WINDOW).aggregate(Count()),
    "the function is opened and closed where the step runs": lambda: keyed().window(WINDOW).aggregate(Opened()),
    "sliding windows share slices, and the function is not commutative": lambda: (
        keyed().window(HOURS).aggregate(MergingCount())
    ),
}


@pytest.mark.parametrize("told", UNAGGREGATED)
def test_why_nothing_is_folded_before_the_exchange(told: str) -> None:
    found = text(UNAGGREGATED[told]())
    assert ", elements cross the exchange as columns; not on columns: " in found
    assert found.endswith(f"{NOT_AGGREGATED}{told}")


def test_why_elements_do_not_cross_the_exchange_as_columns() -> None:
    called = readings().key_by(lambda r: str(r.sensor)).window(WINDOW).reduce(max)
    assert text(called) == (
        "Python, loop of tumbling windows; not on columns: not an aggregate of windrow.aggregates; "
        "elements cross the exchange one by one: the key uses str"
    )


def test_a_reason_is_told_once() -> None:
    assert text(mean(readings().key_by(lambda r: str(r.sensor)))) == (
        "Python, loop of tumbling windows; not on columns: the key uses str"
    )
    assert text(keyed().process(Each())) == (
        "Python, element by element, elements cross the exchange as columns; "
        "not on columns: a process function sees each element"
    )
    gaps = keyed().window(SlidingEventTimeWindows.of(FIVE, 2 * FIVE)).aggregate(MergingCount())
    assert text(gaps).endswith("cross the exchange as columns; not on columns: there are gaps between windows")
    told = "DeltaTrigger(3) is asked at each element"
    assert text(keyed().window(WINDOW).trigger(DELTA).aggregate(agg.count())) == (
        f"Python, general operator: {told}, elements cross the exchange as columns; not on columns: {told}"
    )


def test_a_source_without_columns_is_the_first_reason() -> None:
    """No change of the steps behind it would bring columns."""
    arithmetic = from_source(CollectionSource([], Reading)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda r: r.at.second * 1000
    )
    rounded = readings(CollectionSource([], Reading)).filter(lambda r: round(r.celsius) > 0)
    told = "Python, loop of tumbling windows; not on columns: collection of 0 gives records one by one"
    assert text(mean(arithmetic.key_by(lambda r: r.sensor))) == told
    assert text(mean(rounded.key_by(lambda r: r.sensor))) == told
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


BEHIND: dict[str, Callable[[], DataStream[Any]]] = {
    "columns, partially aggregated before the exchange": lambda: (
        means().filter(lambda m: m.mean > 3).key_by(lambda m: m.sensor).window(WINDOW).aggregate(agg.count())
    ),
    "columns, partially aggregated before the exchange where on time and worth it": lambda: (
        means().key_by(lambda m: m.sensor).window(EventTimeSessionWindows.with_gap(FIVE)).aggregate(agg.count())
    ),
    "not on columns: the filter: .spare > 3 may meet None": lambda: (
        means().filter(lambda m: m.spare > 3).key_by(lambda m: m.sensor).window(WINDOW).aggregate(agg.count())
    ),
    "not on columns: window is upstream: Mean makes its results": lambda: (
        means(agg.into(Mean, agg.key(), agg.mean(lambda r: r.celsius)))
        .key_by(lambda m: m.sensor)
        .window(WINDOW)
        .aggregate(agg.count())
    ),
    "not on columns: window is upstream: it gives lists": lambda: (
        means(agg.combine(agg.key(), agg.collect_list(lambda r: r.celsius)))
        .key_by(lambda m: m[0])
        .window(WINDOW)
        .aggregate(agg.count())
    ),
    "elements cross the exchange as columns; not on columns: MergingCount is an aggregate function of yours": lambda: (
        means().key_by(lambda m: m.sensor).window(EventTimeSessionWindows.with_gap(FIVE)).aggregate(MergingCount())
    ),
    "not on columns: window is upstream": lambda: (
        keyed()
        .window(WINDOW)
        .reduce(max)
        .map(lambda r: r.celsius)
        .returns(float)
        .key_by(lambda n: n > 3)
        .window(WINDOW)
        .aggregate(agg.count())
    ),
    "not on columns: the results of window carry the end of time": lambda: (
        keyed()
        .window(GlobalWindows.create_with_end_of_stream_trigger())
        .aggregate(agg.count())
        .window_all(WINDOW)
        .aggregate(agg.count())
    ),
}


@pytest.mark.parametrize("told", BEHIND)
def test_a_window_behind_a_window(told: str) -> None:
    topology = Topology(Pipeline("plan", BEHIND[told]().sink_to(CollectSink())).steps)
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
        (
            lambda stream: stream.window(TumblingEventTimeWindows.of(FIVE)).aggregate(agg.first(lambda r: r.copies)),
            False,
        ),
        (lambda stream: stream.window(TumblingEventTimeWindows.of(FIVE)).aggregate(MergingCount()), False),
        (lambda stream: stream.window(TumblingEventTimeWindows.of(FIVE)).aggregate(CommutativeCount()), True),
        (lambda stream: stream.window(TumblingEventTimeWindows.of(FIVE)).reduce(lambda a, b: b), False),
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
