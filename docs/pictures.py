"""The pictures of these pages. Each is drawn from a run while the pages are built, so that none can be wrong.

A function gives one picture; its name is that of the file in ``docs/_pictures``. A title is what the drawn part says of
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from examples import dataflow_paper, dead_letters, leaderboard, orders_and_payments
from windrow import (
    DataStream,
    KeyedStream,
    OutputTag,
    Pipeline,
    WatermarkStrategy,
    as_singleton,
    from_collection,
    from_source,
)
from windrow.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from windrow.functions import (
    BroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    OnTimerContext,
    ReadOnlyContext,
    with_pane,
)
from windrow.panes import WindowResult
from windrow.patterns import Pattern
from windrow.sinks import CollectSink
from windrow.state import MapStateDescriptor, ValueStateDescriptor
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeoutTrigger,
    EventTimeTrigger,
    MergingComposableTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    StateCleaningCountTrigger,
    Trigger,
    after_all,
    after_any,
    after_count,
    after_each,
    after_processing_time,
    after_watermark,
    always,
    default,
    never,
    or_finally,
    repeatedly,
)
from windrow.windows import (
    CalendarWindows,
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
)
from windrow_runtime.pictures import Lane, Recording, Timeline, lanes, timeline
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: a picture shows results of every type.

Numbers = KeyedStream[int, str]
Build = Callable[[Numbers], DataStream[Any]]

FOLDER: Final = Path(__file__).parent / "_pictures"
SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
NOON: Final = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()) * 1000


class Came(NamedTuple):
    """An element that comes; times are seconds since noon."""

    clock: float
    value: int
    time: float


class Passed(NamedTuple):
    """The watermark passes a time: that of the last millisecond before it is reached. None is the end of the stream."""

    clock: float
    time: float | None


@dataclass(frozen=True)
class Picture:
    """A recording, and how it is drawn."""

    title: str
    recording: Recording
    values: Callable[[Any], str] = str
    step: str | None = None
    width: int = 680
    height: int | None = 230
    numbers: bool = False

    def draw(self) -> Timeline:
        return timeline(
            self.recording,
            step=self.step,
            title=self.title,
            width=self.width,
            height=self.height,
            values=self.values,
            circles="number" if self.numbers else "value",
        )

    def results(self) -> list[str]:
        """What the panes output, in order; what is withdrawn has a minus sign."""
        return [
            ("\N{MINUS SIGN}" if pane.kind.is_withdrawal else "") + (", ".join(map(self.values, pane.values)) or "∅")
            for pane in self.recording.of(self.step).panes
        ]


@dataclass(frozen=True)
class LanesPicture(Picture):
    """A recording of a step without windows, with the names of its lanes."""

    names: Mapping[Lane, str] | None = None

    def draw(self) -> Timeline:
        return lanes(
            self.recording, step=self.step, title=self.title, width=self.width, values=self.values, names=self.names
        )

    def results(self) -> list[str]:
        return [
            self.values(result) for event in self.recording.of_process(self.step).events for result in event.results
        ]


@dataclass(frozen=True)
class PlanPicture:
    """The plan of a pipeline, which has no results."""

    pipeline: Pipeline

    def draw(self) -> Timeline:
        svg = self.pipeline.explain(format="svg")
        return Timeline(self.pipeline.name, svg, svg)

    def results(self) -> list[str]:
        return []


AnyPicture = Picture | PlanPicture

PICTURES: Final[dict[str, Callable[[], AnyPicture]]] = {}
"""The function of each picture, by the name of its file."""


def drawn(picture: Callable[[], AnyPicture]) -> Callable[[], AnyPicture]:
    PICTURES[picture.__name__.replace("_", "-")] = picture
    return picture


def draw_all(folder: Path = FOLDER) -> None:
    """Draw all pictures into a folder, and remove others from it.

    Raises:
        RuntimeError: If a picture raises.
    """
    folder.mkdir(exist_ok=True)
    for name, picture in PICTURES.items():
        try:
            file, svg = folder / f"{name}.svg", picture().draw().svg
        except Exception as error:
            raise RuntimeError(f"the picture {name} cannot be drawn: {error}") from error
        # A file that stays the same keeps its time, so that a second build has less to do.
        if not file.exists() or file.read_text(encoding="utf-8") != svg:
            file.write_text(svg, encoding="utf-8")
    for file in folder.glob("*.svg"):
        if file.stem not in PICTURES:
            file.unlink()


# Running


def record(build: Build, events: Iterable[Came | Passed], until: float) -> Recording:
    """Run a stream of numbers under one key, and let the clock go on to ``until`` seconds since noon."""
    source = PushSource(int)
    stream = build(from_source(source).key_by(lambda number: "all"))
    with StreamHarness(stream, source, record=True) as harness:
        now = 0
        for event in events:
            now = go_on(harness, now, event.clock)
            match event:
                case Came(_, value, time):
                    harness.process_element(value, timestamp=millis(time))
                case Passed(_, watermark):
                    harness.process_watermark(MAX_TIMESTAMP if watermark is None else millis(watermark) - 1)
        go_on(harness, now, until)
        return harness.recording


def go_on(harness: StreamHarness[Any, Any], now: int, clock: float) -> int:
    """Let the clock go on second by second, so that what it fires comes out when it is due."""
    for second in range(now, int(clock) + 1):
        harness.set_processing_time(millis(second))
    harness.set_processing_time(millis(clock))
    return int(clock)


def millis(seconds: float) -> int:
    return NOON + round(seconds * 1000)


def add(a: int, b: int) -> int:
    return a + b


def gap_of(number: int) -> timedelta:
    return number * SECOND


def value_of(found: int | WindowResult[str, TimeWindow, int]) -> str:
    return str(found.value if isinstance(found, WindowResult) else found)


def contents(key: str, window: Window, elements: Sequence[int]) -> list[str]:
    return [" ".join(map(str, elements))]


PLAIN: Final = (
    Came(2, 3, 1),
    Came(6, 5, 4),
    Came(9, 2, 8),
    Came(11, 4, 6),
    Came(13, 2, 12),
    Passed(16, 10),
    Came(18, 3, 15),
    Came(21, 1, 7),
    Came(22.5, 4, 18),
    Came(24, 6, 9),
    Passed(27, 20),
    Passed(29, 30),
)
"""Two windows of ten seconds. The 1 and the 6 of the first one come behind the watermark."""


def composed(trigger: MergingComposableTrigger[object, Window], *, may_lose_data: bool = False) -> Picture:
    """A trigger that composes, on the same windows; panes are counted."""

    def sums(numbers: Numbers) -> DataStream[WindowResult[str, TimeWindow, int]]:
        windows = numbers.window(TumblingEventTimeWindows.of(10 * SECOND))
        lasting = windows.trigger(trigger, may_lose_data=may_lose_data).allowed_lateness(10 * SECOND)
        return lasting.accumulating().reduce(add, with_pane())

    return Picture(trigger.describe(), record(sums, PLAIN, 29), value_of)


def on_global(trigger: Trigger[int, GlobalWindow], *events: Came | Passed, until: float) -> Picture:
    """A trigger on the global window, with the elements that a pane holds."""

    def lists(numbers: Numbers) -> DataStream[str]:
        return numbers.window(GlobalWindows.create()).trigger(trigger).apply(contents)

    return Picture(trigger.describe(), record(lists, events, until))


def assigned(assigner: WindowAssigner[int, TimeWindow], *events: Came | Passed, until: float) -> Picture:
    """An assigner with its own trigger, with the elements that a pane holds."""

    def lists(numbers: Numbers) -> DataStream[str]:
        return numbers.window(assigner).apply(contents)

    return Picture(assigner.describe(), record(lists, events, until))


def evicted(evictor: Evictor[int, GlobalWindow]) -> Picture:
    """An evictor at every second of six elements, with the elements that it leaves to the function."""

    def lists(numbers: Numbers) -> DataStream[str]:
        return numbers.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).evictor(evictor).apply(contents)

    return Picture(evictor.describe(), record(lists, ONE_TO_SIX, 6))


ONE_TO_SIX: Final = tuple(Came(number, number, number) for number in range(1, 7))


# Windows


@drawn
def tumbling_windows() -> Picture:
    events = (Came(1, 1, 1), Came(4, 2, 4), Passed(5.5, 5), Came(6, 3, 6), Passed(10, 10))
    return assigned(TumblingEventTimeWindows.of(5 * SECOND), *events, until=11)


@drawn
def tumbling_windows_with_offset() -> Picture:
    events = (Came(1, 1, 1), Came(4, 2, 4), Passed(5.5, 5), Came(6, 3, 6), Passed(9, 9), Passed(12, 12))
    return assigned(TumblingEventTimeWindows.of(5 * SECOND, offset=2 * SECOND), *events, until=12)


@drawn
def sliding_windows() -> Picture:
    events = (Came(3, 1, 2), Came(7, 2, 7), Passed(11, 10), Came(13, 3, 12), Passed(16, 15), Passed(21, 20))
    return assigned(SlidingEventTimeWindows.of(10 * SECOND, 5 * SECOND), *events, until=21)


@drawn
def sliding_windows_with_gaps() -> Picture:
    events = (Came(3, 1, 2), Came(7, 2, 6), Came(12, 3, 12), Passed(14, 13), Came(19, 4, 18), Passed(21, 20))
    return assigned(SlidingEventTimeWindows.of(3 * SECOND, 10 * SECOND), *events, until=21)


@drawn
def cumulative_windows() -> Picture:
    events = (Came(1, 1, 1), Came(4, 2, 4), Passed(6, 5), Came(8, 3, 7), Passed(11, 10), Passed(16, 15))
    return assigned(CumulativeEventTimeWindows.of(15 * SECOND, 5 * SECOND), *events, until=16)


@drawn
def calendar_windows() -> Picture:
    """Days of Berlin around the night in which the clock is put back; the axis is that of UTC."""
    source = PushSource(int)
    moments = ("2025-10-24T20:00Z", "2025-10-25T08:00Z", "2025-10-25T21:30Z", "2025-10-26T22:30Z", "2025-10-26T23:15Z")
    windows = CalendarWindows.days("Europe/Berlin")
    days = from_source(source).key_by(lambda number: "all").window(windows).apply(contents)
    with StreamHarness(days, source, record=True) as harness:
        for number, moment in enumerate(map(datetime.fromisoformat, moments), start=1):
            harness.process_element(number, timestamp=moment)
            harness.process_watermark(moment - timedelta(hours=1))
        harness.process_watermark(datetime.fromisoformat("2025-10-27T23:00Z"))
        return Picture(windows.describe(), harness.recording)


@drawn
def session_windows() -> Picture:
    events = (Came(1, 1, 0), Came(6.5, 3, 6), Came(7, 2, 1), Passed(8, 3), Passed(9, 8))
    return assigned(EventTimeSessionWindows.with_gap(2 * SECOND), *events, until=9)


@drawn
def session_windows_with_dynamic_gap() -> Picture:
    events = (Came(1, 1, 0), Came(3, 4, 2), Came(5.5, 2, 5), Passed(8, 7), Came(10, 1, 9), Passed(12, 10))
    return assigned(EventTimeSessionWindows.with_dynamic_gap(gap_of), *events, until=12)


@drawn
def processing_time_windows() -> Picture:
    events = (Came(1, 1, 0), Came(3, 2, 0), Came(6, 3, 0))
    return assigned(TumblingProcessingTimeWindows.of(5 * SECOND), *events, until=10)


@drawn
def global_window() -> Picture:
    def lists(numbers: Numbers) -> DataStream[str]:
        return numbers.window(GlobalWindows.create_with_end_of_stream_trigger()).apply(contents)

    assigner = GlobalWindows.create_with_end_of_stream_trigger()
    events: tuple[Came | Passed, ...] = (*ONE_TO_SIX, Passed(7, None))
    return Picture(assigner.describe(), record(lists, events, 8))


@drawn
def count_window() -> Picture:
    def lists(numbers: Numbers) -> DataStream[str]:
        return numbers.count_window(2).apply(contents)

    return Picture("count_window(2)", record(lists, ONE_TO_SIX[:5], 6))


@drawn
def count_window_with_slide() -> Picture:
    def lists(numbers: Numbers) -> DataStream[str]:
        return numbers.count_window(3, slide=1).apply(contents)

    return Picture("count_window(3, slide=1)", record(lists, ONE_TO_SIX[:4], 5))


# Triggers of Flink's kind


@drawn
def event_time_trigger() -> Picture:
    trigger = EventTimeTrigger.create()

    def sums(numbers: Numbers) -> DataStream[int]:
        windows = numbers.window(TumblingEventTimeWindows.of(10 * SECOND))
        return windows.trigger(trigger).allowed_lateness(10 * SECOND).reduce(add)

    return Picture(trigger.describe(), record(sums, PLAIN, 29))


@drawn
def continuous_event_time_trigger() -> Picture:
    trigger = ContinuousEventTimeTrigger.of(SECOND)

    def sums(numbers: Numbers) -> DataStream[int]:
        return numbers.window(TumblingEventTimeWindows.of(5 * SECOND)).trigger(trigger).reduce(add)

    one, two, three = Came(1, 1, 0.5), Came(3, 2, 2.2), Came(5, 3, 3.6)
    events = (one, Passed(2, 1.001), two, Passed(4, 3.001), three, Passed(6, 5.001))
    return Picture(trigger.describe(), record(sums, events, 6.5))


@drawn
def continuous_processing_time_trigger() -> Picture:
    trigger = ContinuousProcessingTimeTrigger.of(5 * SECOND)

    def sums(numbers: Numbers) -> DataStream[int]:
        return numbers.window(TumblingEventTimeWindows.of(30 * SECOND)).trigger(trigger).reduce(add)

    events = (Came(2, 3, 1), Came(6, 5, 4), Came(9, 2, 8), Came(12, 4, 11), Came(23, 1, 20))
    return Picture(trigger.describe(), record(sums, events, 27))


@drawn
def count_trigger() -> Picture:
    return on_global(CountTrigger.of(2), *ONE_TO_SIX[:5], until=6)


@drawn
def purging_count_trigger() -> Picture:
    return on_global(PurgingTrigger.of(CountTrigger.of(2)), *ONE_TO_SIX[:5], until=6)


@drawn
def delta_trigger() -> Picture:
    events = tuple(Came(at, number, at) for at, number in enumerate([1, 5, 12, 20, 30], 1))
    return on_global(DeltaTrigger.of(10.0, lambda last, number: number - last), *events, until=6)


@drawn
def processing_timeout_trigger() -> Picture:
    trigger = PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(3), 20 * SECOND))
    events = (Came(0, 1, 0), Came(5, 2, 5), Came(25, 3, 25), Came(50, 4, 50), Came(55, 5, 55), Came(62, 6, 62))
    return on_global(trigger, *events, until=64)


@drawn
def event_timeout_trigger() -> Picture:
    trigger = PurgingTrigger.of(EventTimeoutTrigger.of(CountTrigger.of(3), 20 * SECOND))
    alone = (Came(4, 2, 5), Came(7, 1, 2), Passed(24, 22.001), Came(28, 3, 25), Passed(47, 45.001))
    return on_global(trigger, *alone, Came(52, 4, 50), Came(57, 5, 55), Came(64, 6, 62), until=66)


@drawn
def state_cleaning_count_trigger() -> Picture:
    trigger = StateCleaningCountTrigger.of(MINUTE, 2 * MINUTE, 2)
    events = (Came(0, 1, 0), Came(30, 2, 30), Came(55, 3, 55), Came(160, 4, 160), Came(190, 5, 190))
    return on_global(trigger, *events, until=210)


# Triggers that compose


@drawn
def after_watermark_alone() -> Picture:
    return composed(after_watermark(), may_lose_data=True)


@drawn
def after_watermark_early_and_late() -> Picture:
    return composed(after_watermark(early=after_count(3), late=after_count(1)))


@drawn
def after_count_alone() -> Picture:
    return composed(after_count(3), may_lose_data=True)


@drawn
def after_processing_time_delayed() -> Picture:
    return composed(repeatedly(after_processing_time(5 * SECOND)))


@drawn
def after_processing_time_aligned() -> Picture:
    return composed(repeatedly(after_processing_time(aligned_to=5 * SECOND)))


@drawn
def default_trigger() -> Picture:
    return composed(default())


@drawn
def always_trigger() -> Picture:
    return composed(always())


@drawn
def never_trigger() -> Picture:
    return composed(never())


@drawn
def repeatedly_trigger() -> Picture:
    return composed(repeatedly(after_count(2)))


@drawn
def after_any_trigger() -> Picture:
    return composed(repeatedly(after_any(after_count(2), after_processing_time(4 * SECOND))))


@drawn
def after_all_trigger() -> Picture:
    return composed(repeatedly(after_all(after_count(2), after_processing_time(8 * SECOND))))


@drawn
def after_each_trigger() -> Picture:
    return composed(after_each(after_count(1), after_watermark(), repeatedly(after_count(2))))


@drawn
def or_finally_trigger() -> Picture:
    return composed(or_finally(repeatedly(after_count(2)), after_watermark()), may_lose_data=True)


# Panes


def refined(build: Callable[[Numbers], DataStream[Any]], title: str) -> Picture:
    """The minute of the page about panes, on a clock of seconds."""
    events = (Came(5, 3, 5), Came(20, 4, 30), Came(40, 5, 45), Passed(65, 60), Came(80, 7, 20))
    return Picture(title, record(build, events, 90))


@drawn
def accumulating() -> Picture:
    def sums(numbers: Numbers) -> DataStream[int]:
        minutes = numbers.window(TumblingEventTimeWindows.of(MINUTE))
        often = minutes.trigger(after_watermark(early=after_count(2), late=after_count(1)))
        return often.allowed_lateness(60 * MINUTE).accumulating().reduce(add)

    return refined(sums, "accumulating()")


@drawn
def discarding() -> Picture:
    def sums(numbers: Numbers) -> DataStream[int]:
        minutes = numbers.window(TumblingEventTimeWindows.of(MINUTE))
        often = minutes.trigger(after_watermark(early=after_count(2), late=after_count(1)))
        return often.allowed_lateness(60 * MINUTE).discarding().reduce(add)

    return refined(sums, "discarding()")


@drawn
def retracting() -> Picture:
    def sums(numbers: Numbers) -> DataStream[Any]:
        minutes = numbers.window(TumblingEventTimeWindows.of(MINUTE))
        often = minutes.trigger(after_watermark(early=after_count(2), late=after_count(1)))
        return often.allowed_lateness(60 * MINUTE).retracting().reduce(add).changelog()

    return refined(sums, "retracting()")


@drawn
def sessions_retracting() -> Picture:
    assigner = EventTimeSessionWindows.with_gap(10 * SECOND)

    def sums(numbers: Numbers) -> DataStream[Any]:
        sessions = numbers.window(assigner).trigger(repeatedly(after_count(1)))
        return sessions.retracting().reduce(add).changelog()

    events = (Came(6, 3, 0), Came(31, 4, 30), Came(40, 5, 15), Came(50, 1, 8))
    return Picture(f"{assigner.describe()}, retracting()", record(sums, events, 60))


# Evictors


@drawn
def count_evictor() -> Picture:
    return evicted(CountEvictor.of(3))


@drawn
def count_evictor_after() -> Picture:
    return evicted(CountEvictor.of(1, do_evict_after=True))


@drawn
def time_evictor() -> Picture:
    return evicted(TimeEvictor.of(2 * SECOND))


@drawn
def delta_evictor() -> Picture:
    return evicted(DeltaEvictor.of(4.0, lambda number, last: last - number))


# Lateness


@drawn
def late_element() -> Picture:
    """The pipeline of README.md: a window fires, and fires again for an element that comes late."""

    def coldest(numbers: Numbers) -> DataStream[int]:
        return numbers.window(TumblingEventTimeWindows.of(5 * SECOND)).allowed_lateness(5 * SECOND).reduce(min)

    events = (Came(1, 4, 1), Came(4, 3, 4), Came(7, 2, 7), Passed(7, 7), Came(9, 1, 2), Passed(11, None))
    recorded = record(coldest, events, 11)
    return Picture("Coldest of 5 s: the late 1 fires its window again", recorded, width=460, height=210)


@drawn
def tutorial() -> Picture:
    """The patient windows of the tutorial: tenths of a degree, and a watermark three seconds behind."""

    def coldest(numbers: Numbers) -> DataStream[int]:
        return numbers.window(TumblingEventTimeWindows.of(5 * SECOND)).allowed_lateness(5 * SECOND).reduce(min)

    readings = (Came(1, 35, 1), Came(2, 31, 4), Came(3, 29, 7), Passed(3.5, 4), Came(4, 25, 3))
    later = (Came(5, 40, 12), Passed(6, 9), Came(7, 10, 2), Passed(8, None))
    recorded = record(coldest, (*readings, *later), 8)
    return Picture("Coldest of 5 s, allowed_lateness of 5 s", recorded, lambda tenths: f"{tenths / 10}")


@drawn
def lateness() -> Picture:
    def sums(numbers: Numbers) -> DataStream[int]:
        windows = numbers.window(TumblingEventTimeWindows.of(5 * SECOND)).allowed_lateness(2 * SECOND)
        return windows.side_output_late_data(OutputTag("late", int)).reduce(add)

    events = (Came(2, 1, 1), Passed(5, 5), Came(6, 10, 2), Passed(8, 7), Came(9, 100, 3))
    return Picture("allowed_lateness of 2 s, windows of 5 s", record(sums, events, 10))


# Two streams


@drawn
def window_join() -> Picture:
    """Letters are elements of the left stream, numbers those of the right one."""
    letters, numbers = PushSource(str), PushSource(int)
    pairs = (
        from_source(letters)
        .join(from_source(numbers))
        .where(lambda letter: "all")
        .equal_to(lambda number: "all")
        .window(TumblingEventTimeWindows.of(5 * SECOND))
        .allowed_lateness(2 * SECOND)
        .apply(lambda letter, number: f"{letter}{number}")
    )
    with StreamHarness(pairs, letters, record=True) as harness:
        now = go_on(harness, 0, 1)
        harness.process_element("a", timestamp=millis(0.5))
        now = go_on(harness, now, 3)
        harness.process_element(1, timestamp=millis(2), source=numbers)
        now = go_on(harness, now, 4)
        harness.process_element("b", timestamp=millis(3.5))
        now = go_on(harness, now, 5)
        harness.process_element("c", timestamp=millis(6))
        now = go_on(harness, now, 6)
        harness.process_watermark(millis(5) - 1)
        now = go_on(harness, now, 8)
        harness.process_element(2, timestamp=millis(1.5), source=numbers)
        go_on(harness, now, 10)
        return Picture("A join in windows of 5 s, allowed_lateness of 2 s", harness.recording)


class Unpaid(KeyedCoProcessFunction[int, str, int, str]):
    """Waits ten seconds for a payment, as on the page: an order is the number and what was bought."""

    DUE = ValueStateDescriptor("due", int)
    PAID = ValueStateDescriptor("paid", int)

    def process_element1(self, value: str, context: KeyedProcessContext[int]) -> None:
        assert context.timestamp is not None, "the harness gives timestamps"
        context.get_state(self.DUE).update(context.timestamp + 10_000)
        context.timer_service.register_event_time_timer(context.timestamp + 10_000)

    def process_element2(self, value: int, context: KeyedProcessContext[int]) -> None:
        assert context.timestamp is not None, "the harness gives timestamps"
        context.get_state(self.PAID).update(context.timestamp)

    def on_timer(self, timestamp: int, context: OnTimerContext[int]) -> Iterable[str]:
        paid = context.get_state(self.PAID).value()
        if context.get_state(self.DUE).value() == timestamp and (paid is None or paid > timestamp):
            yield f"order {context.key} is not paid"


@drawn
def distinct_elements() -> Picture:
    pages = PushSource(str)
    once = from_source(pages).key_by(lambda page: "ann").distinct(within=10 * SECOND)
    with StreamHarness(once, pages, record=True) as harness:
        for page, second in (("/a", 1), ("/b", 2), ("/a", 5), ("/a", 10.9), ("/a", 11)):
            harness.process_element(page, timestamp=millis(second))
        return LanesPicture("distinct(within=10 s)", harness.recording)


@drawn
def connected_streams() -> Picture:
    placed, paid = PushSource(str), PushSource(int)
    both = from_source(placed).connect(from_source(paid))
    unpaid = both.key_by(lambda order: int(order.split()[0]), lambda number: number).process(Unpaid())
    with StreamHarness(unpaid, placed, record=True) as harness:
        harness.process_element("1 tea", timestamp=millis(1))
        harness.process_element(1, timestamp=millis(3), source=paid)
        harness.process_element("2 cup", timestamp=millis(4))
        # The timer of the first order fires, and finds it paid.
        harness.process_watermark(millis(12))
        harness.process_watermark(millis(20))
        names = {Lane.FIRST: "orders", Lane.SECOND: "payments"}
        return LanesPicture("Orders that nobody pays within 10 s", harness.recording, names=names)


LIMITS: Final = MapStateDescriptor("limits", str, int)


class Held(KeyedBroadcastProcessFunction[int, tuple[int, str, int], tuple[str, int], str]):
    """Holds orders above the limit of their country, as on the page."""

    def process_element(self, value: tuple[int, str, int], context: ReadOnlyContext[int]) -> Iterable[str]:
        number, country, amount = value
        limit = context.get_broadcast_state(LIMITS).get(country)
        if limit is not None and amount > limit:
            yield f"{number} above {limit}"

    def process_broadcast_element(self, value: tuple[str, int], context: BroadcastContext[int, str]) -> None:
        context.get_broadcast_state(LIMITS).put(*value)


def words_of(found: object) -> str:
    return " ".join(map(str, found)) if isinstance(found, tuple) else str(found)


@drawn
def broadcast_rules() -> Picture:
    orders, limits = PushSource(tuple[int, str, int]), PushSource(tuple[str, int])
    by_number = from_source(orders).key_by(lambda order: order[0])
    held = by_number.connect(from_source(limits).broadcast(LIMITS)).process(Held())
    with StreamHarness(held, orders, record=True) as harness:
        harness.process_element(("DE", 100), source=limits)
        harness.process_element((1, "DE", 120))
        harness.process_element((2, "FR", 70))
        harness.process_element(("FR", 50), source=limits)
        harness.process_element((3, "FR", 70))
        harness.process_element((4, "DE", 80))
        names = {Lane.ELEMENTS: "orders", Lane.BROADCAST: "limits"}
        return LanesPicture("Orders above the limit of their country", harness.recording, words_of, names=names)


@drawn
def side_input() -> Picture:
    """Orders wait for the rate of their ten seconds; a late one still finds it."""
    source, rates = PushSource(int), PushSource(int)
    rate = as_singleton(from_source(rates), default=1, windows=TumblingEventTimeWindows.of(10 * SECOND))
    stage = from_source(source).with_side_input(rate, allowed_lateness=5 * SECOND)
    with StreamHarness(stage.map(lambda amount, rate: amount * rate), source, record=True) as harness:
        harness.process_element(30, timestamp=millis(2))
        harness.process_element(2, timestamp=millis(3), source=rates)
        harness.process_element(10, timestamp=millis(7))
        harness.process_element(50, timestamp=millis(12))
        harness.process_watermark(millis(11))
        harness.process_element(20, timestamp=millis(4))
        harness.process_watermark(millis(21))
        names = {Lane.ELEMENTS: "orders", Lane.BROADCAST: "rates"}
        return LanesPicture("Orders and the rate of their window", harness.recording, first_of, names=names)


def first_of(found: object) -> str:
    return str(found[0] * found[1]) if isinstance(found, tuple) else str(found)


# Patterns


@drawn
def pattern() -> Picture:
    """Payments of a card: a small one, and a large one within ten seconds; the 2 comes out of order."""
    probe = (
        Pattern[int]
        .begin("small", lambda amount: amount < 10)
        .followed_by("large", lambda amount: amount > 500)
        .within(10 * SECOND)
    )
    source = PushSource(int)
    keyed = from_source(source).key_by(lambda amount: "card")
    probes = keyed.pattern(probe).select(lambda small, large: f"{small} then {large}")
    with StreamHarness(probes, source, record=True) as harness:
        for amount, second in ((5, 3), (2, 1), (900, 9), (7, 12), (600, 23)):
            harness.process_element(amount, timestamp=millis(second))
        harness.process_watermark(millis(12))
        harness.process_watermark(millis(30))
        return LanesPicture("small followed_by large, within 10 s", harness.recording)


# The examples


def of_the_paper(figure: dataflow_paper.Figure) -> Callable[[], Picture]:
    def picture() -> Picture:
        return Picture(figure.title, dataflow_paper.record(figure), width=760, height=None)

    picture.__name__ = f"figure_{figure.number:02d}"
    return picture


@drawn
def team_scores() -> Picture:
    source = PushSource(leaderboard.Play)
    with StreamHarness(leaderboard.team_scores(from_source(source)), source, record=True) as harness:
        leaderboard.play_on(harness)
        return Picture("Team scores", harness.recording, leaderboard.points, width=760, height=None)


@drawn
def plan_of_a_join() -> PlanPicture:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    orders = from_collection(orders_and_payments.ORDERS).assign_timestamps_and_watermarks(
        strategy, timestamp=lambda order: order.at
    )
    payments = from_collection(orders_and_payments.PAYMENTS).assign_timestamps_and_watermarks(
        strategy, timestamp=lambda payment: payment.at
    )
    joined = orders_and_payments.build(orders, payments)
    late = joined.get_side_output(orders_and_payments.LATE)
    return PlanPicture(Pipeline("orders", joined.sink_to(CollectSink()), late.sink_to(CollectSink("too late"))))


@drawn
def plan_of_dead_letters() -> PlanPicture:
    accounts, letters = CollectSink[dead_letters.Account]("accounts"), CollectSink[str]("letters")
    return PlanPicture(dead_letters.build(dead_letters.LINES, accounts, letters))


for _figure in dataflow_paper.FIGURES:
    drawn(of_the_paper(_figure))
