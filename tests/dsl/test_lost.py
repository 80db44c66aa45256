"""Warnings of plans of which something never comes out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.records import Event, key_of, millis
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.connectors import HybridSource, SourceSwitch
from windrow.errors import PlanError, WindrowWarning
from windrow.failures import Failed
from windrow.kafka import KafkaSource
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource, Source
from windrow.triggers import CountTrigger
from windrow.windows import GlobalWindows, TumblingEventTimeWindows
from windrow_runtime.testing import PushSource

FAILED = OutputTag[Failed[Event]]("failed")
LATE = OutputTag[Event]("late")
IN_ORDER: WatermarkStrategy[Event] = WatermarkStrategy.for_monotonous_timestamps()
NEVER: WatermarkStrategy[Event] = WatermarkStrategy.no_watermarks()


class Endless(PushSource[Event]):
    @property
    def is_bounded(self) -> bool:
        return False


def counts(strategy: WatermarkStrategy[Event], late: OutputTag[Event] | None = None) -> DataStream[int]:
    stream = from_source(Endless(Event)).assign_timestamps_and_watermarks(strategy, lambda event: event.at)
    windows = stream.key_by(key_of).window(TumblingEventTimeWindows.of(millis(10)))
    return (windows if late is None else windows.side_output_late_data(late)).count(name="counts")


def test_a_side_output_that_nothing_reads_is_told() -> None:
    results = counts(IN_ORDER, LATE)
    with pytest.warns(
        WindrowWarning, match=r"nothing reads(.|\n)*OutputTag\('late', Event\)(.|\n)*p\.4\.counts"
    ) as told:
        pipeline = Pipeline("p", results.sink_to(CollectSink[int]()))
    assert told[0].filename == __file__
    assert "'late' is read by nothing: its elements are lost" in pipeline.explain()


def test_failed_elements_that_nothing_reads_are_told() -> None:
    mapped = from_collection([Event("a", 1, 1)]).map(key_of, on_error=FAILED)
    with pytest.warns(WindrowWarning, match=r"nothing reads(.|\n)*'failed'"):
        Pipeline("p", mapped.sink_to(CollectSink[str]()))


def test_windows_without_watermarks_on_an_endless_stream_are_told() -> None:
    with pytest.warns(WindrowWarning, match=r"end of a stream alone(.|\n)*no_watermarks\(\)(.|\n)*p\.4\.counts"):
        pipeline = Pipeline("p", counts(NEVER).sink_to(CollectSink[int]()))
    assert "no_watermarks() upstream fires these windows at the end of the stream alone" in pipeline.explain()


def history_and(last: Source[Event] | Callable[[SourceSwitch], Source[Event]]) -> Pipeline:
    source = HybridSource(CollectionSource([Event("a", 1, 1)])).then(last)
    stream = from_source(source).assign_timestamps_and_watermarks(NEVER, lambda event: event.at)
    windows = stream.key_by(key_of).window(TumblingEventTimeWindows.of(millis(10)))
    return Pipeline("p", windows.count().sink_to(CollectSink[int]()))


def test_a_history_before_an_endless_source_is_told() -> None:
    with pytest.warns(WindrowWarning, match="end of a stream alone"):
        history_and(KafkaSource("host:1", "events", Event, starting_offsets="earliest"))


def history_alone() -> Pipeline:
    return history_and(CollectionSource([Event("a", 2, 1)]))


def history_and_what_nobody_knows() -> Pipeline:
    return history_and(lambda switch: KafkaSource("host:1", "events", Event, ending_offsets="latest"))


def read_all() -> Pipeline:
    results = counts(IN_ORDER, LATE)
    return Pipeline(
        "p", results.sink_to(CollectSink[int]()), results.get_side_output(LATE).sink_to(CollectSink[Event]())
    )


def bounded() -> Pipeline:
    stream = from_collection([Event("a", 1, 1)]).assign_timestamps_and_watermarks(NEVER, lambda event: event.at)
    windows = stream.key_by(key_of).window(TumblingEventTimeWindows.of(millis(10)))
    return Pipeline("p", windows.count().sink_to(CollectSink[int]()))


def counted_windows() -> Pipeline:
    stream = from_source(Endless(Event)).assign_timestamps_and_watermarks(NEVER, lambda event: event.at)
    windows = stream.key_by(key_of).window(GlobalWindows.create()).trigger(CountTrigger.of(2))
    return Pipeline("p", windows.count().sink_to(CollectSink[int]()))


def typed_since() -> Pipeline:
    mapped = from_collection([Event("a", 1, 1)]).map(key_of, on_error=FAILED).returns(str)
    failed = mapped.get_side_output(FAILED)
    return Pipeline("p", mapped.sink_to(CollectSink[str]()), failed.sink_to(CollectSink[Failed[Event]]()))


def with_a_backfill() -> Pipeline:
    """The collection has no watermarks, and ends; the stream without an end has some."""
    past = from_collection([Event("a", 1, 1)]).assign_timestamps_and_watermarks(NEVER, lambda event: event.at)
    now = from_source(Endless(Event)).assign_timestamps_and_watermarks(IN_ORDER, lambda event: event.at)
    windows = past.union(now).key_by(key_of).window(TumblingEventTimeWindows.of(millis(10)))
    return Pipeline("p", windows.count().sink_to(CollectSink[int]()))


def with_a_second_strategy() -> Pipeline:
    stream = from_source(Endless(Event)).assign_timestamps_and_watermarks(NEVER, lambda event: event.at)
    again = stream.assign_timestamps_and_watermarks(IN_ORDER, lambda event: event.at)
    windows = again.key_by(key_of).window(TumblingEventTimeWindows.of(millis(10)))
    return Pipeline("p", windows.count().sink_to(CollectSink[int]()))


def counted_in_time() -> Pipeline:
    stream = from_source(Endless(Event)).assign_timestamps_and_watermarks(NEVER, lambda event: event.at)
    windows = stream.key_by(key_of).window(TumblingEventTimeWindows.of(millis(10))).trigger(CountTrigger.of(2))
    return Pipeline("p", windows.count().sink_to(CollectSink[int]()))


def two_results() -> Pipeline:
    """The late elements of both are the same, and are read once."""
    stream = from_source(Endless(Event)).assign_timestamps_and_watermarks(IN_ORDER, lambda event: event.at)
    windows = stream.key_by(key_of).window(TumblingEventTimeWindows.of(millis(10))).side_output_late_data(LATE)
    number, highest = windows.count(), windows.max(lambda event: event.value)
    ends = number.sink_to(CollectSink[int]()), highest.sink_to(CollectSink[int]())
    return Pipeline("p", *ends, number.get_side_output(LATE).sink_to(CollectSink[Event]()))


PLANS = [
    history_alone,
    history_and_what_nobody_knows,
    counted_in_time,
    two_results,
    read_all,
    bounded,
    counted_windows,
    typed_since,
    with_a_backfill,
    with_a_second_strategy,
]


@pytest.mark.filterwarnings("error::windrow.errors.WindrowWarning")
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.__name__)
def test_nothing_is_told_where_all_comes_out(plan: Callable[[], Pipeline]) -> None:
    assert " is read by nothing" not in plan().explain()


@pytest.mark.filterwarnings("error::windrow.errors.WindrowWarning")
def test_a_user_may_look_at_one_stream_alone() -> None:
    stream = from_collection([Event("a", 1, 1), Event("b", 2, 0)]).map(lambda event: 1 // event.value, on_error=FAILED)
    assert stream.collect() == [1]
    assert [each.element.key for each in stream.get_side_output(FAILED).collect()] == ["b"]


def test_a_tag_of_on_error_of_another_type_is_refused() -> None:
    wrong: OutputTag[Failed[Event]] = OutputTag("failed", Event)  # type: ignore[arg-type]  # what checkers refuse
    mapped = from_collection([Event("a", 1, 1)]).map(key_of, on_error=wrong)
    with pytest.raises(PlanError, match=r"'failed' of on_error is of Event(.|\n)*OutputTag\[Failed\[Event\]\]"):
        Pipeline("p", mapped.sink_to(CollectSink[str]()))
