"""The pipelines that are killed: sessions, lateness, timers, two inputs, and sinks of files and of a database."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

from tests.crash.elsewhere import Url
from tests.crash.failing import failing_sink, failing_streams
from tests.crash.records import Total
from tests.support.iceberg import iceberg_sink
from tests.support.records import Event, add, key_of
from windrow import (
    DataStream,
    DataStreamSink,
    KeyedStream,
    OutputTag,
    Pipeline,
    WatermarkStrategy,
    as_dict,
    as_list,
    from_source,
    joins,
)
from windrow import aggregates as agg
from windrow.functions import (
    AggregateFunction,
    BroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessWindowContext,
    ProcessWindowFunction,
    ReadOnlyContext,
    ReadOnlyOnTimerContext,
)
from windrow.panes import ChangeKind
from windrow.patterns import AfterMatchSkipStrategy, Pattern
from windrow.sinks import CsvFileSink, DatabaseSink, DeltaSink, JsonFileSink, ParquetFileSink
from windrow.sources import JsonFileSource
from windrow.state import MapStateDescriptor, ReducingStateDescriptor
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    MergePartContext,
    MergingComposableTrigger,
    PartContext,
    after_count,
    after_processing_time,
    after_watermark,
)
from windrow.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    Window,
)

__all__ = [
    "ELSEWHERE",
    "MODES",
    "PLANS",
    "SPANS",
    "TWO_SOURCES",
    "Event",
    "Pane",
    "Span",
    "Total",
    "build",
    "write_input",
]

MODES = ("accumulating", "discarding", "retracting")
"""The plans with the accumulation modes of windows."""
PLANS = (
    "one",
    "watermarks",
    "parquet",
    "partitions",
    "columns",
    "panes",
    *MODES,
    "interval",
    "broadcast",
    "side_inputs",
    "patterns",
    "failing",
)
ELSEWHERE = ("parquet", "partitions", "panes", *MODES)
"""The plans whose files may lie on S3 or HDFS.

They have no database; and how often a window fires does not depend on the order
of the files of a batch, as that of "columns" does: Spark keeps none there.
"""
TWO_SOURCES = ("watermarks", "interval", "broadcast", "side_inputs")
"""The plans that read two sources."""
SPANS = ("sessions", "seconds", "fives", "intervals")
"""The folders of the sinks of the plan on columns."""


@dataclass(frozen=True)
class Span:
    key: str | None
    first_at: int | None
    n: int | None
    total: int | None


@dataclass(frozen=True)
class Pane:
    key: str | None
    end: int
    n: int
    total: int | None


class SumEverySecond(KeyedProcessFunction[str, Event, Total]):
    """Says the sum of a key's values at each full second of event time after one of its events."""

    _SUM = ReducingStateDescriptor("sum", add)

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[Total]:
        context.get_state(self._SUM).add(value.value)
        context.timer_service.register_event_time_timer(value.at - value.at % 1000 + 1000)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[Total]:
        return [Total(f"second {timestamp}", context.key, context.get_state(self._SUM).get() or 0)]


def write_input(folder: Path, files: int) -> None:
    """Add files until there are so many: a file a second or so of event time, with disorder."""
    folder.mkdir(exist_ok=True)
    for number in range(len(list(folder.iterdir())), files):
        chance = random.Random(number)
        file = folder / f"{number:04d}.json"
        events = [
            Event(f"k{chance.randrange(7)}", number * 1000 + chance.randrange(-1500, 1000), chance.randrange(100))
            for _ in range(60)
        ]
        file.write_text("".join(json.dumps(vars(event)) + "\n" for event in events), encoding="utf-8")
        os.utime(file, (1_700_000_000 + number,) * 2)


def _stamped(stream: DataStream[Event], disorder: int) -> DataStream[Event]:
    return stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=disorder)),
        timestamp=lambda event: event.at,
    )


def build(folder: Path | Url, output: Path | Url, plan: str = PLANS[0], other: Path | Url | None = None) -> Pipeline:
    """The pipeline.

    Args:
        folder: The input.
        output: Where sinks write.
        plan: "one" source with timestamps; or two, whose "watermarks" windrow has to keep itself; or one, and sinks
            that are all "parquet", so that workers write the files, or that have folders of values as "partitions", of
            which each batch gets many; or one, and steps that all run on "columns"; or
            one, and windows on columns with "panes" in all accumulation modes; or one, and windows of Python functions
            in an accumulation mode; or one, with "patterns" and elements in event-time order; or two, which an
            "interval" join and a join by window bring together, or the second one of which is "broadcast" as rules, or
            gives "side_inputs" and the versions of an as-of join; or one, and functions "failing" for some elements.
        other: The input of the second source, where there is one; by default the same.
    """
    events = from_source(JsonFileSource(folder, Event, files_per_batch=1))
    if plan == "failing":
        failing = [each.sink_to(ParquetFileSink(output / name)) for name, each in failing_streams(events).items()]
        return Pipeline("crash", *failing, *failing_sink(events, output))
    if plan in TWO_SOURCES:
        second = from_source(JsonFileSource(other or folder, Event, files_per_batch=1), name="other")
        even = _stamped(events.filter(lambda event: event.value % 2 == 0), 500)
        odd = _stamped(second.filter(lambda event: event.value % 2 == 1), 900)
        if plan == "interval":
            return _joined(even, odd, output)
        if plan == "broadcast":
            return _ruled(even, odd, output)
        if plan == "side_inputs":
            return _beside(even, odd, output)
        stamped = even.union(odd)
    else:
        stamped = _stamped(events, 500)
    keyed = stamped.key_by(lambda event: event.key)
    late = OutputTag("late", Event)
    if plan == "columns":
        return _on_columns(keyed, late, output)
    if plan == "panes":
        return _panes_on_columns(keyed, late, output)
    if plan in MODES:
        return _with_panes(keyed, plan, output)
    if plan == "patterns":
        return _with_patterns(keyed, late, output)
    sessions = (
        keyed.window(EventTimeSessionWindows.with_gap(timedelta(milliseconds=150)))
        .allowed_lateness(timedelta(milliseconds=300))
        .side_output_late_data(late)
        .apply(lambda key, window, events: [Total(f"{window}", key, sum(event.value for event in events))])
        .returns(Total)
    )
    seconds = keyed.process(SumEverySecond())
    if plan == "parquet":
        return Pipeline(
            "crash",
            sessions.sink_to(ParquetFileSink(output / "sessions")),
            seconds.sink_to(ParquetFileSink(output / "seconds")),
            # Few events are late, so many a batch has none.
            sessions.get_side_output(late).sink_to(ParquetFileSink(output / "late")),
        )
    if plan == "partitions":
        by_value = CsvFileSink[Event](
            output / "late",
            partition_by=("key", "value"),
            header=not os.fspath(output).startswith("hdfs:"),  # where Spark writes files, it writes none
        )
        return Pipeline(
            "crash",
            seconds.sink_to(ParquetFileSink(output / "seconds", partition_by=("key", "kind"))),
            sessions.sink_to(JsonFileSink(output / "sessions", partition_by="key")),
            sessions.get_side_output(late).sink_to(by_value),
        )
    url = _database(output)
    return Pipeline(
        "crash",
        sessions.sink_to(JsonFileSink(output / "sessions")),
        seconds.sink_to(ParquetFileSink(output / "seconds")),
        # Without a key, so that a row that is doubled shows.
        sessions.sink_to(DatabaseSink(url, "sessions")),
        seconds.sink_to(DatabaseSink(url, "latest", key=("key", "kind"))),
        # Beside the folder of the others, as only the log of a table says which files it has.
        sessions.sink_to(DeltaSink(delta_table(output))),
        sessions.sink_to(iceberg_sink(iceberg_folder(output))),
    )


def delta_table(output: Path | Url) -> str:
    """The Delta table that belongs to a folder of sinks."""
    return f"{os.fspath(output)}-delta"


def iceberg_folder(output: Path | Url) -> Path:
    """The folder of the Iceberg table, and of its catalog, that belong to a folder of sinks."""
    folder = Path(f"{os.fspath(output)}-iceberg")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _joined(left: DataStream[Event], right: DataStream[Event], output: Path | Url) -> Pipeline:
    """Joins, by interval with late elements of both sides, and by window. What they come to needs no order."""
    late = OutputTag("late", Event)
    pairs = (
        left.key_by(key_of)
        .interval_join(right.key_by(key_of))
        .between(timedelta(milliseconds=-700), timedelta(milliseconds=400))
        .side_output_left_late_data(late)
        .side_output_right_late_data(late)
        .apply(pair)
    )
    outer = (
        left.key_by(key_of).interval_join(right.key_by(key_of)).between(timedelta(0), timedelta(milliseconds=3)).full()
    )
    declared = outer.apply(
        joins.into(
            Span,
            joins.key(),
            joins.left_or_none(lambda event: event.at),
            joins.left_or_none(lambda event: event.value),
            joins.right_or_none(lambda event: event.value),
        )
    )
    # Without lateness: how often late elements fire a window again depends on the order of files.
    seconds = left.join(right).where(key_of).equal_to(key_of).window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    return Pipeline(
        "crash",
        pairs.sink_to(ParquetFileSink(output / "pairs")),
        # Without a key, so that a row that is doubled shows.
        pairs.sink_to(DatabaseSink(_database(output), "pairs")),
        pairs.get_side_output(late).sink_to(ParquetFileSink(output / "late")),
        seconds.apply(pair).sink_to(JsonFileSink(output / "seconds")),
        outer.apply(maybe_pair).sink_to(ParquetFileSink(output / "alone")),
        declared.sink_to(ParquetFileSink(output / "declared")),
    )


def _database(output: Path | Url) -> str:
    assert isinstance(output, Path), "a plan with a database needs a folder of this machine"
    output.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{output}/totals.db"


def maybe_pair(left: Event | None, right: Event | None) -> Total:
    """A result of an outer join, which has one of both events at least."""
    event = left or right
    assert event is not None
    return Total(f"{left and left.at} {right and right.at}", event.key, event.value)


def pair(left: Event, right: Event) -> Total:
    return Total(f"{left.at}={left.value} {right.at}", left.key, right.value)


def _ruled(stream: DataStream[Event], rules: DataStream[Event], output: Path | Url) -> Pipeline:
    """A keyed stream with rules that do not depend on the order in which those of a batch come."""
    found = stream.key_by(key_of).connect(rules.broadcast(Highest.RULES)).process(Highest())
    return Pipeline(
        "crash",
        found.sink_to(ParquetFileSink(output / "found")),
        found.sink_to(DatabaseSink(_database(output), "found")),
    )


def _beside(main: DataStream[Event], side: DataStream[Event], output: Path | Url) -> Pipeline:
    """Functions that see views of windows, and an as-of join with a retention; both keep elements that wait."""
    late = OutputTag("late", Event)
    seconds = TumblingEventTimeWindows.of(timedelta(seconds=1))
    totals = side.key_by(key_of).window(seconds).sum(_value, with_key=True)
    stage = main.with_side_input(
        as_dict(totals, itemgetter(0), itemgetter(1)),
        as_list(side, windows=TumblingEventTimeWindows.of(timedelta(milliseconds=1_700))),
        allowed_lateness=timedelta(milliseconds=200),
        late=late,
    )
    seen = stage.map(
        lambda event, by_key, others: Total(
            f"{event.at} {event.value} {len(others)}", event.key, by_key.get(event.key, -1)
        )
    )
    versions = main.key_by(key_of).left_as_of_join(side.key_by(key_of)).retention(timedelta(milliseconds=150))
    as_of = versions.side_output_left_late_data(late).apply(_with_version)
    return Pipeline(
        "crash",
        seen.sink_to(ParquetFileSink(output / "seen")),
        stage.get_side_output(late).sink_to(ParquetFileSink(output / "late")),
        as_of.sink_to(ParquetFileSink(output / "as of")),
    )


def _value(event: Event) -> int:
    return event.value


def _with_version(event: Event, version: Event | None) -> Total:
    # Of versions with one timestamp the last to arrive counts, and files of a batch have no order.
    return Total(f"{event.at} {version and version.at}", event.key, event.value)


class Highest(KeyedBroadcastProcessFunction[str, Event, Event, Total]):
    """Adds up the highest rule of a key at each of its events; some rules ask for the sums of all keys."""

    RULES = MapStateDescriptor("highest", str, int)
    _SUM = ReducingStateDescriptor("sum", add)

    def process_element(self, value: Event, context: ReadOnlyContext[str]) -> Iterable[Total]:
        rule = context.get_broadcast_state(self.RULES).get(value.key) or 0
        context.get_state(self._SUM).add(rule)
        context.timer_service.register_event_time_timer(value.at - value.at % 1000 + 1000)
        return [Total(f"element {value.at} {value.value}", value.key, rule)]

    def process_broadcast_element(self, value: Event, context: BroadcastContext[str, Total]) -> Iterable[Total]:
        rules = context.get_broadcast_state(self.RULES)
        rules.put(value.key, max(rules.get(value.key) or 0, value.value))
        if value.value % 5 == 0:
            context.apply_to_keyed_state(
                self._SUM, lambda key, held: [Total(f"asked {value.at} {value.value}", key, held.get() or 0)]
            )
        return [Total(f"rule {value.at}", value.key, value.value)]

    def on_timer(self, timestamp: int, context: ReadOnlyOnTimerContext[str]) -> Iterable[Total]:
        rule = context.get_broadcast_state(self.RULES).get(context.key) or 0
        return [Total(f"second {timestamp} {rule}", context.key, context.get_state(self._SUM).get() or 0)]


def _on_columns(keyed: KeyedStream[Event, str], late: OutputTag[Event], output: Path | Url) -> Pipeline:
    """Declared aggregates: sessions, late firings, windows behind windows, and windows that fire at intervals."""
    sessions = keyed.window(EventTimeSessionWindows.with_gap(timedelta(milliseconds=150)))
    seconds = keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    sliding = keyed.window(SlidingEventTimeWindows.of(timedelta(seconds=3), timedelta(seconds=1)))
    of_seconds = (
        seconds.allowed_lateness(timedelta(milliseconds=300))
        .side_output_late_data(late)
        .aggregate(agg.into(Span, agg.key(), agg.min(lambda e: e.at), agg.count(), agg.sum(lambda e: e.value)))
    )
    fives = of_seconds.key_by(lambda span: span.key).window(TumblingEventTimeWindows.of(timedelta(seconds=5)))
    streams: dict[str, DataStream[Span]] = {
        "sessions": sessions.aggregate(
            agg.into(Span, agg.key(), agg.min(lambda e: e.at), agg.count(), agg.sum(lambda e: e.value))
        ),
        "seconds": of_seconds,
        "fives": fives.aggregate(
            agg.into(Span, agg.key(), agg.min(lambda s: s.first_at), agg.count(), agg.sum(lambda s: s.total))
        ),
        # No count windows: what they hold depends on the order of files, which a batch of several does not keep.
        "intervals": sliding.trigger(ContinuousEventTimeTrigger.of(timedelta(milliseconds=500))).aggregate(
            agg.into(Span, agg.key(), agg.min(lambda e: e.at), agg.count(), agg.sum(lambda e: e.value))
        ),
    }
    return Pipeline(
        "crash",
        *[streams[name].sink_to(ParquetFileSink(output / name)) for name in SPANS],
        of_seconds.get_side_output(late).sink_to(ParquetFileSink(output / "late")),
    )


def value_of(event: Event) -> int:
    return event.value


def _panes_on_columns(keyed: KeyedStream[Event, str], late: OutputTag[Event], output: Path | Url) -> Pipeline:
    """Declared aggregates in each accumulation mode, refined by count and by the clock, early and late.

    Which panes there are depends on the clock, and on the order of files in a batch; what they come to does not.
    """
    # Any: what an aggregate holds is its own.
    early = {"count": after_count(3), "clock": after_processing_time(timedelta(milliseconds=300))}
    sinks: list[DataStreamSink] = []
    for name, condition in early.items():
        windows = (
            keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=2)))
            .trigger(after_watermark(early=condition, late=after_count(1)))
            .allowed_lateness(timedelta(milliseconds=300))
            .side_output_late_data(late)
        )
        pane: AggregateFunction[Event, tuple[Any, ...], Pane, Pane, str] = agg.into(
            Pane, agg.key(), agg.window_end(), agg.count(), agg.sum(value_of)
        )
        accumulating = windows.accumulating().aggregate(pane)
        sinks += [
            accumulating.sink_to(ParquetFileSink(output / f"accumulating by {name}")),
            accumulating.get_side_output(late).sink_to(ParquetFileSink(output / f"late by {name}")),
            windows.discarding().aggregate(pane).sink_to(ParquetFileSink(output / f"discarding by {name}")),
            windows.retracting().aggregate(pane).changelog().sink_to(ParquetFileSink(output / f"retracting by {name}")),
        ]
    return Pipeline("crash", *sinks)


def _with_panes(keyed: KeyedStream[Event, str], mode: str, output: Path | Url) -> Pipeline:
    """Windows with early and late panes in an accumulation mode; those that retract have windows behind them."""
    # No counts: which elements a pane holds would depend on the order of files, which a batch of several does not keep.
    trigger = after_watermark(early=EveryQuarter(), late=EveryQuarter())
    lateness = timedelta(milliseconds=300)
    seconds = (
        keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=1))).trigger(trigger).allowed_lateness(lateness)
    )
    sessions = keyed.window(EventTimeSessionWindows.with_gap(timedelta(milliseconds=150))).trigger(trigger)
    sessions = sessions.allowed_lateness(lateness)
    if mode == "discarding":
        streams = [seconds.discarding().process(Panes()), sessions.discarding().process(Panes())]
    elif mode == "accumulating":
        streams = [seconds.accumulating().process(Panes()), sessions.accumulating().process(Panes())]
    else:
        changing = [seconds.retracting().process(Panes()), sessions.retracting().process(Panes())]
        fives = [
            each.key_by(lambda total: total.key).window(TumblingEventTimeWindows.of(timedelta(seconds=5)))
            for each in changing
        ]
        streams = [
            each.changelog(lambda kind, total: Total(f"{kind.value} {total.kind}", total.key, total.value))
            for each in changing
        ]
        streams += [each.reduce(higher) for each in fives]
        streams += [
            each.aggregate(agg.into(Total, agg.key(), agg.key(), agg.sum(lambda total: total.value))) for each in fives
        ]
    names = ("seconds", "sessions", "fives of seconds", "fives of sessions", "sums of seconds", "sums of sessions")
    return Pipeline("crash", *[s.sink_to(JsonFileSink(output / name)) for name, s in zip(names, streams, strict=False)])


def _with_patterns(keyed: KeyedStream[Event, str], late: OutputTag[Event], output: Path | Url) -> Pipeline:
    """Patterns with a loop, and one that time completes; elements in order. The order of files does not matter."""
    timed_out = OutputTag("timed out", dict[str, list[Event]])
    rising = (
        Pattern[Event]
        .begin("low", lambda event: event.value < 10)
        .followed_by("high", lambda event, matched: event.value > 60 + len(matched["high"]))
        .one_or_more()
        .until(lambda event: event.value > 95)
        .followed_by("low again", lambda event: event.value < 20)
        .within(timedelta(seconds=2))
    )
    silent = (
        Pattern[Event]
        .begin("high", lambda event: event.value > 80)
        .not_followed_by("higher", lambda event, matched: event.value > matched["high"][0].value)
        .within(timedelta(milliseconds=700))
    )
    matches = keyed.pattern(rising, tie_break=value_of, timed_out=timed_out, late=late).apply(total_of)
    skip = AfterMatchSkipStrategy.skip_past_last_event()
    ordered = keyed.in_event_time_order(max_buffered=10_000).max(lambda event: event.at)
    streams = {
        "matches": matches,
        "timed out": matches.get_side_output(timed_out).map(total_of),
        "skipping": keyed.pattern(rising, tie_break=value_of, skip=skip).apply(total_of),
        "silent": keyed.pattern(silent, tie_break=value_of).apply(total_of),
        "in order": ordered.map(lambda pair: Total("in order", *pair)),
    }
    sinks = [stream.sink_to(ParquetFileSink(output / name)) for name, stream in streams.items()]
    return Pipeline("crash", *sinks, matches.get_side_output(late).sink_to(ParquetFileSink(output / "late")))


def total_of(match: dict[str, list[Event]]) -> Total:
    """A match as a record that names all its elements."""
    events = [event for part in match.values() for event in part]
    kind = " ".join(f"{name} {[event.at for event in part]}" for name, part in match.items())
    return Total(kind, events[0].key, sum(event.value for event in events))


def with_kind(kind: ChangeKind, total: Total) -> Total:
    return Total(f"{kind.value} {total.kind}", total.key, total.value)


def higher(one: Total, other: Total) -> Total:
    return max(one, other, key=lambda total: (total.value, total.kind))


class EveryQuarter(MergingComposableTrigger[object, Window]):
    """Ready when the watermark has reached the next quarter of a second."""

    _NEXT = ReducingStateDescriptor[int]("next", min)

    def observe(self, element: object, timestamp: int, window: Window, context: PartContext) -> None:
        following = context.get_state(self._NEXT)
        if following.get() is None:
            watermark = max(context.current_watermark, -10_000)
            following.add(watermark - watermark % 250 + 250)
            context.register_event_time_timer(following.get() or 0)

    def is_ready(self, window: Window, context: PartContext) -> bool:
        following = context.get_state(self._NEXT).get()
        return following is not None and following <= context.current_watermark

    def on_fire(self, window: Window, context: PartContext) -> bool:
        self.forget(window, context)
        return True

    def forget(self, window: Window, context: PartContext) -> None:
        following = context.get_state(self._NEXT)
        if (time := following.get()) is not None:
            context.delete_event_time_timer(time)
            following.clear()

    def merge(self, window: Window, finished: Sequence[bool], context: MergePartContext) -> bool:
        context.merge_partitioned_state(self._NEXT)
        if (time := context.get_state(self._NEXT).get()) is not None:
            context.register_event_time_timer(time)
        return False


class Panes(ProcessWindowFunction[Event, Total, str, TimeWindow]):
    """Gives the sum of a pane with its place."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Event]
    ) -> Iterable[Total]:
        pane = context.pane
        return [
            Total(
                f"{context.window} {pane.timing.value} {pane.index} {pane.is_last}", key, sum(e.value for e in elements)
            )
        ]
