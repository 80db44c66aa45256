"""The plan whose functions raise for some elements, in each kind of function, with side outputs of these elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.crash.elsewhere import Url
from tests.crash.records import Total
from tests.support.records import Event, add
from windrow import DataStream, DataStreamSink, OutputTag, WatermarkStrategy
from windrow.failures import Failed
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessContext,
    ProcessFunction,
)
from windrow.patterns import Pattern
from windrow.sinks import ParquetFileSink
from windrow.state import ReducingStateDescriptor
from windrow.windows import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows

# Any: streams of every kind of step.

_ONE_IN = 25


def _checked(event: Event) -> Event:
    if event.value % _ONE_IN == 7:
        raise ValueError(f"no {event.value}")
    return event


def _twice(event: Event) -> Iterator[Event]:
    yield event
    yield _checked(event)


def _several(events: Sequence[Event]) -> list[Event]:
    return [_checked(event) for event in events]


async def _awaited(event: Event) -> Event:
    return _checked(event)


class _Checked(ProcessFunction[Event, Event]):
    def process_element(self, value: Event, context: ProcessContext) -> Iterator[Event]:
        yield value
        yield _checked(value)


class _Sums(KeyedProcessFunction[str, Event, Total]):
    """Says the sum of a key's good values at each full second; adds bad ones too, before it raises."""

    _SUM = ReducingStateDescriptor("sum", add)

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[Total]:
        context.get_state(self._SUM).add(value.value)
        # A bad element alone would make the sum of another second come out.
        context.timer_service.register_event_time_timer(value.at - value.at % 1000 + 1000 + value.value % _ONE_IN)
        _checked(value)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[Total]:
        total = context.get_state(self._SUM).get() or 0
        if timestamp % 10 == 3:
            context.get_state(self._SUM).clear()
            raise ValueError(f"no timer {timestamp}")
        return [Total(f"second {timestamp}", context.key, total)]


def failing_streams(events: DataStream[Event]) -> dict[str, DataStream[Total]]:
    """The results of each kind of step, and its side output of failed elements, by names."""
    in_order = WatermarkStrategy[Event].for_bounded_out_of_orderness(timedelta(milliseconds=500))
    failed = OutputTag[Failed[Event]]("failed")
    windows_failed = OutputTag[Failed[list[Event]]]("failed")
    maybe = OutputTag[Failed[Event | None]]("failed")
    stamped = events.assign_timestamps_and_watermarks(in_order, lambda event: _checked(event).at, on_error=failed)
    good = events.assign_timestamps_and_watermarks(in_order, lambda event: event.at)
    by_key = good.key_by(lambda event: _checked(event).key, on_error=failed)
    steps: dict[str, DataStream[Event]] = {
        "map": events.map(_checked, on_error=failed),
        "filter": events.filter(lambda event: _checked(event).value % 2 == 0, on_error=failed),
        "flat_map": events.flat_map(_twice, on_error=failed),
        "map_batches": events.map_batches(_several, size=7, on_error=failed),
        "map_async": events.map_async(_awaited, capacity=4, on_error=failed),
        "process": events.process(_Checked(), on_error=failed),
        "timestamps": stamped,
    }
    streams = {name: step.map(_total_of) for name, step in steps.items()}
    for name, step in steps.items():
        streams[f"failed in {name}"] = step.get_side_output(failed).map(_failed_total)
    sums = good.key_by(lambda event: event.key).process(_Sums(), on_error=maybe)
    sevens = good.key_by(lambda event: event.key).window(TumblingEventTimeWindows.of(timedelta(milliseconds=700)))
    windows = sevens.apply(_window_total, on_error=windows_failed)
    keyed = good.key_by(lambda event: event.key)
    sessions = keyed.window(EventTimeSessionWindows.with_gap(timedelta(milliseconds=300)))
    folded = sessions.aggregate(_Values(), on_error=maybe)
    pairs_failed = OutputTag[Failed[tuple[Event, Event]]]("failed")
    near = keyed.interval_join(keyed).between(timedelta(0), timedelta(milliseconds=400))
    pairs = near.apply(_pair_total, on_error=pairs_failed)
    pattern = Pattern[Event].begin("even", lambda event: _checked(event).value % 2 == 0).next("following")
    matches = keyed.pattern(pattern).select(_match_total, on_error=windows_failed)
    return {
        **streams,
        "sessions": folded,
        "failed in sessions": folded.get_side_output(maybe).map(_failed_total),
        "pairs": pairs,
        "failed in pairs": pairs.get_side_output(pairs_failed).map(
            lambda failed: Total(failed.error, failed.element[0].key, failed.element[1].value)
        ),
        "matches": matches,
        "failed in matches": matches.get_side_output(windows_failed).map(
            lambda failed: Total(failed.error, failed.element[0].key, len(failed.element))
        ),
        "key_by": by_key.process(_Each()),
        "failed in key_by": by_key.get_side_output(failed).map(_failed_total),
        "windows": windows,
        "failed in windows": windows.get_side_output(windows_failed).map(
            lambda failed: Total(failed.error, failed.element[0].key, len(failed.element))
        ),
        "sums": sums,
        "failed in sums": sums.get_side_output(maybe).map(_failed_total),
    }


def failing_sink(events: DataStream[Event], output: Path | Url) -> list[DataStreamSink]:
    """A sink that cannot write some elements, and one of these elements."""
    failed = OutputTag[Failed[Total]]("failed")
    written = events.map(_spoilt).sink_to(ParquetFileSink(output / "spoilt"), on_error=failed)
    letters = written.get_side_output(failed).map(lambda failed: Total(failed.error, failed.element.key, 1))
    return [written, letters.sink_to(ParquetFileSink(output / "failed in spoilt"))]


def _spoilt(event: Event) -> Total:
    # Any: a value that is not of the type of its field.
    value: Any = f"{event.value}" if event.value % _ONE_IN == 7 else event.value
    return Total(f"at {event.at}", event.key, value)


class _Values(AggregateFunction[Event, list[int], Total]):
    """Adds up values, of which it keeps a list that it changes in place before it raises."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Event, accumulator: list[int]) -> list[int]:
        accumulator.append(value.value)
        _checked(value)
        return accumulator

    def merge(self, first: list[int], second: list[int]) -> list[int]:
        first += second
        return first

    def get_result(self, accumulator: list[int]) -> Total:
        return Total(f"of {len(accumulator)}", "all", sum(accumulator))


def _pair_total(first: Event, second: Event) -> Total:
    _checked(second)
    return Total(f"{first.at} and {second.at}", first.key, first.value)


def _match_total(even: Event, following: Event) -> Total:
    if (even.value + following.value) % _ONE_IN == 3:
        raise ValueError(f"no {even.value} and {following.value}")
    return Total(f"{even.at}, {following.at}", even.key, following.value)


class _Each(KeyedProcessFunction[str, Event, Total]):
    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[Total]:
        return [_total_of(value)]


def _window_total(key: str, window: TimeWindow, events: Sequence[Event]) -> list[Total]:
    total = sum(event.value for event in events)
    if total % 10 == 0:
        raise ValueError(f"no {total}")
    return [Total(f"{window}", key, total)]


def _total_of(event: Event) -> Total:
    return Total(f"at {event.at}", event.key, event.value)


def _failed_total(failed: Failed[Any]) -> Total:
    event = failed.element
    return Total(failed.error, "" if event is None else event.key, 0 if event is None else event.at)
