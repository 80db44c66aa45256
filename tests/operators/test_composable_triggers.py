"""Triggers that compose and the panes that they fire, case by case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.operators.stories import KEYED, NUMBERS, Shown, feed, story
from tests.support.records import add, millis
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.aggregates import count
from windrow.aggregates import min as lowest
from windrow.aggregates import sum as total
from windrow.errors import InvalidArgumentError, PlanError, UnsupportedOperationError
from windrow.evictors import CountEvictor
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.panes import Change, ChangeKind, ClosingBehavior, OnTimeBehavior, TimestampCombiner
from windrow.sinks import CollectSink
from windrow.state import ValueStateDescriptor
from windrow.triggers import (
    ComposableTrigger,
    ContinuousEventTimeTrigger,
    CountTrigger,
    Finish,
    PartContext,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    Trigger,
    TriggerContext,
    TriggerResult,
    after_all,
    after_any,
    after_count,
    after_each,
    after_processing_time,
    after_watermark,
    default,
    never,
    or_finally,
    repeatedly,
)
from windrow.triggers.composable import AfterWatermark
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Window,
)
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: stages of all kinds, and arguments that type checkers refuse.

SOON = after_processing_time(millis(5))


class Sets(Trigger[int, TimeWindow]):
    """Fires at a time of its own."""

    def __init__(self, time: int) -> None:
        self.time = time

    def on_element(self, element: int, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        context.register_event_time_timer(self.time)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        assert time == self.time, "timers of others are not its own"
        return TriggerResult.FIRE


class TakesBack(Sets):
    """The same, until an even element comes."""

    def on_element(self, element: int, timestamp: int, window: TimeWindow, context: TriggerContext) -> TriggerResult:
        if element % 2 == 0:
            context.delete_event_time_timer(self.time)
            return TriggerResult.CONTINUE
        return super().on_element(element, timestamp, window, context)


class Rises(ComposableTrigger[int, Window]):
    """Ready when an element is higher than any before; never finished."""

    HIGHEST = ValueStateDescriptor("finished", int)  # as if it were the mark of a part that has finished
    RISEN = ValueStateDescriptor("risen", bool)

    @property
    def finish(self) -> Finish:
        return Finish.NEVER

    def observe(self, element: int, timestamp: int, window: Window, context: PartContext) -> None:
        highest = context.get_state(self.HIGHEST)
        before = highest.value()
        if before is None or element > before:
            highest.update(element)
            context.get_state(self.RISEN).update(True)

    def is_ready(self, window: Window, context: PartContext) -> bool:
        return context.get_state(self.RISEN).value() is True

    def on_fire(self, window: Window, context: PartContext) -> bool:
        context.get_state(self.RISEN).clear()
        return False


class AlwaysReady(AfterWatermark[Any, Any]):
    """Does what no trigger of its base does."""

    def is_ready(self, window: Any, context: PartContext) -> bool:
        return True


def tens(late: int = 0, size: int = 10) -> Any:
    return KEYED.window(TumblingEventTimeWindows.of(millis(size))).allowed_lateness(millis(late))


def fired(trigger: Trigger[int, TimeWindow]) -> Any:
    return tens().trigger(trigger, may_lose_data=True).discarding().process(Shown())


def sessions(trigger: Any, gap: int = 5, late: int = 50) -> Any:
    stage = KEYED.window(EventTimeSessionWindows.with_gap(millis(gap))).trigger(trigger, may_lose_data=True)
    return stage.allowed_lateness(millis(late))


def early(late: Any = None) -> Any:
    return tens(0 if late is None else 50).trigger(after_watermark(early=after_count(1), late=late))


def closing(behavior: ClosingBehavior) -> Any:
    return tens(20).trigger(default()).discarding().closing_behavior(behavior).process(Shown())


def seconds_of(mode: str) -> Any:
    """A pane at each second element."""
    return getattr(tens(50).trigger(repeatedly(after_count(2))), mode)().process(Shown())


def retracted(late: int = 0) -> Any:
    """Sums of sessions, refined at each element."""
    return sessions(repeatedly(after_count(1)), late=late).retracting().reduce(add)


ALL_TIME = KEYED.window(GlobalWindows.create())
STORIES: dict[str, tuple[DataStream[Any], str, dict[str, list[Any]]]] = {
    "a part forgets what another one has fired": (
        fired(repeatedly(after_any(after_count(3), SOON))),
        "@0 1 @1 2 @5 3 4 5",
        {"@5": ["EARLY 1 2"], "5": ["EARLY 3 4 5"]},
    ),
    "or_finally counts on while its main trigger fires": (
        fired(or_finally(repeatedly(after_count(2)), after_count(5))),
        "1 2 3 4 5 6 ^",
        {"2": ["EARLY 1 2"], "4": ["EARLY 3 4"], "5": ["EARLY 5"], "6": ["1 closed"]},
    ),
    "after_all waits for all at once": (
        fired(after_all(after_count(2), SOON)),
        "@0 1 2 @5 3",
        {"@5": ["EARLY 1 2"], "3": ["1 closed"]},
    ),
    "after_each goes on to the next": (
        fired(after_each(after_count(1), after_count(3))),
        "1 2 3 4 5",
        {"1": ["EARLY 1"], "4": ["EARLY 2 3 4"], "5": ["1 closed"]},
    ),
    "a session that grows begins anew, and ends where its end is past": (
        sessions(after_watermark()).accumulating().process(Shown()),
        "1 4 ^8 8 ^13 2",
        {"^8": ["ON_TIME 1 4"], "^13": ["ON_TIME 1 4 8"], "2": ["1 closed"]},
    ),
    "a session is finished where both that merge were": (
        sessions(after_watermark()).accumulating().process(Shown()),
        "1 10 ^30 5",
        {"^30": ["ON_TIME 1", "ON_TIME 10"], "5": ["1 closed"]},
    ),
    "a session is not finished where one of both was": (
        sessions(after_watermark()).accumulating().process(Shown()),
        "1 ^5 10 ^13 6 ^20",
        {"^5": ["ON_TIME 1"], "^20": ["ON_TIME 1 10 6"]},
    ),
    "a part takes back its own timer alone": (
        fired(repeatedly(after_any(Sets(5), TakesBack(5)))),
        "1 2 ^5",
        {"^5": ["EARLY 1 2"]},
    ),
    "a part is called for its own timers alone": (
        fired(repeatedly(after_any(Sets(5), Sets(7)))),
        "1 ^5 6 ^7 ^",
        {"^5": ["EARLY 1"], "^7": ["EARLY 6"], "^": ["ON_TIME"]},
    ),
    "a trigger that purges drops the contents when the window fires": (
        tens()
        .trigger(repeatedly(after_any(PurgingTrigger.of(CountTrigger.of(2)), after_count(3))))
        .accumulating()
        .process(Shown()),
        "1 2 3 4",
        {"2": ["EARLY 1 2"], "4": ["EARLY 3 4"]},
    ),
    "a trigger that composes goes into one of Flink's": (
        tens()
        .trigger(PurgingTrigger.of(ProcessingTimeoutTrigger.of(repeatedly(after_count(2)), millis(5))))
        .reduce(add),
        "@0 1 2 3 @5",
        {"2": [3], "@5": [3]},
    ),
    "a trigger of one's own is a whole": (fired(Rises()), "3 1 4 2", {"3": ["EARLY 3"], "4": ["EARLY 1 4"]}),
    "a trigger of one's own is a part": (
        fired(after_all(Rises(), Rises())),
        "3 1 4 2",
        {"3": ["EARLY 3"], "4": ["EARLY 1 4"]},
    ),
    "a trigger that is derived from one of windrow is asked": (
        tens(5).trigger(AlwaysReady(late=after_count(1))).accumulating().reduce(add),
        "1 2",
        {"1": [1], "2": [3]},
    ),
    "an empty pane on time comes": (early().discarding().process(Shown()), "1 ^", {"1": ["EARLY 1"], "^": ["ON_TIME"]}),
    "an empty pane on time comes unless somebody says otherwise": (
        early().discarding().on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY).process(Shown()),
        "1 ^",
        {"1": ["EARLY 1"]},
    ),
    "an empty last pane does not come": (closing(ClosingBehavior.FIRE_IF_NON_EMPTY), "1 ^9 ^29", {"^9": ["ON_TIME 1"]}),
    "an empty last pane comes if somebody says so": (
        closing(ClosingBehavior.FIRE_ALWAYS),
        "1 ^9 ^29",
        {"^9": ["ON_TIME 1"], "^29": ["LATE"]},
    ),
    "what a trigger has not output comes when the window closes": (
        ALL_TIME.trigger(never()).accumulating().process(Shown()),
        "1 2 ^",
        {"^": ["ON_TIME 1 2"]},
    ),
    "windows on the clock are over by the clock": (
        KEYED.window(TumblingProcessingTimeWindows.of(millis(10)))
        .trigger(repeatedly(after_count(2)))
        .discarding()
        .process(Shown()),
        "@0 1 2 3 @9",
        {"2": ["EARLY 1 2"], "@9": ["ON_TIME 3"]},
    ),
    "the count of an empty pane": (early().discarding().aggregate(count()), "4 ^", {"4": [1], "^": [0]}),
    "the lowest of an empty pane": (
        early().discarding().aggregate(lowest(lambda value: value)),
        "4 ^",
        {"4": [4], "^": [None]},
    ),
    "an empty pane has no reduced element": (early().discarding().reduce(max), "4 ^", {"4": [4]}),
    "a pane behind the end is late if all that is new in it is late": (
        seconds_of("accumulating"),
        "1 2 ^9 | 3 4 6 7 8",
        {"2": ["EARLY 1 2"], "4": ["LATE 1 2 3 4"], "7": ["LATE 1 2 3 4 6 7"]},
    ),
    "a pane behind the end is on time if an element in it was": (
        seconds_of("accumulating"),
        "1 2 3 ^9 | 4 5 6 7 8",
        {"2": ["EARLY 1 2"], "4": ["ON_TIME 1 2 3 4"], "6": ["LATE 1 2 3 4 5 6"], "8": ["LATE 1 2 3 4 5 6 7 8"]},
    ),
    "a pane that discards is late if all that is in it is late": (
        seconds_of("discarding"),
        "1 2 ^9 | 3 4 6 7 8",
        {"2": ["EARLY 1 2"], "4": ["LATE 3 4"], "7": ["LATE 6 7"]},
    ),
    "a pane that discards is on time if an element in it was": (
        seconds_of("discarding"),
        "1 2 3 ^9 | 4 5 6 7 8",
        {"2": ["EARLY 1 2"], "4": ["ON_TIME 3 4"], "6": ["LATE 5 6"], "8": ["LATE 7 8"]},
    ),
    "a late pane is late where the empty one on time was left out": (
        early(after_count(1)).accumulating().on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY).process(Shown()),
        "1 ^9 2",
        {"1": ["EARLY 1"], "2": ["LATE 1 2"]},
    ),
    "a session that grows by a late element behind its pane on time is late": (
        sessions(default(), gap=10).accumulating().process(Shown()),
        "1 ^20 3",
        {"^20": ["ON_TIME 1"], "3": ["LATE 1 3"]},
    ),
    "the pane of a window that fires once is known everywhere": (
        tens().process(Shown()),
        "1 ^9",
        {"^9": ["ON_TIME 1"]},
    ),
    "a pane is withdrawn before the next and with its session": (
        sessions(default()).retracting().reduce(add).changelog(),
        "1 ^6 4 ^8 3",
        {
            "^6": [Change(ChangeKind.INSERT, 1)],
            "^8": [Change(ChangeKind.DELETE, 1), Change(ChangeKind.INSERT, 5)],
            "3": [Change(ChangeKind.UPDATE_BEFORE, 5), Change(ChangeKind.UPDATE_AFTER, 8)],
        },
    ),
    "functions see values, and changes keep their kind": (
        retracted()
        .map(lambda value: value * 10)
        .filter(lambda value: value > 20)
        .flat_map(lambda value: [value, value + 1])
        .changelog(lambda kind, value: f"{kind.value}{value}"),
        "1 3 5",
        {"3": ["+I40", "+I41"], "5": ["-D40", "-D41", "+I90", "+I91"]},
    ),
    # The session of 7 alone ends in [8, 12), and is withdrawn there; the sum of both is in [12, 16).
    "a window from which everything was withdrawn has no sum": (
        retracted().window_all(TumblingEventTimeWindows.of(millis(4))).aggregate(total(lambda value: value)),
        "7 11 ^",
        {"^": [18]},
    ),
    "a window from which everything was withdrawn has no reduced element": (
        retracted().window_all(TumblingEventTimeWindows.of(millis(4))).reduce(add),
        "7 11 ^",
        {"^": [18]},
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_fires_when(name: str) -> None:
    stream, moves, expected = STORIES[name]
    assert story(stream, moves) == expected


def test_a_timer_that_no_part_has_any_more_is_deleted() -> None:
    with StreamHarness(fired(repeatedly(after_any(TakesBack(5), after_count(9)))), NUMBERS) as harness:
        feed(harness, "1")
        assert 5 in [timer.time for timer in harness.event_timers()]
        feed(harness, "2")
        assert 5 not in [timer.time for timer in harness.event_timers()]


def test_nothing_is_left_of_a_window_that_is_over() -> None:
    trigger = repeatedly(after_any(Sets(50), after_processing_time(millis(99)), CountTrigger.of(7)))
    with StreamHarness(fired(trigger), NUMBERS) as harness:
        feed(harness, "1 2 ^")
        assert harness.take_values() == ["ON_TIME 1 2"]
        assert harness.event_timers() == harness.processing_timers() == []
        assert harness.open_windows() == []


def test_a_wrong_answer_of_a_part_is_refused() -> None:
    class Wrong(Trigger[int, TimeWindow]):
        def on_element(self, element: int, timestamp: int, window: TimeWindow, context: TriggerContext) -> Any:
            return True

    with pytest.raises(InvalidArgumentError, match="a trigger answers with a TriggerResult"):
        story(fired(repeatedly(Wrong())), "1")


#  watermark      2
#  elements       |  1  5  7      the first came behind the watermark
@pytest.mark.parametrize(
    ("combiner", "expected"),
    [(TimestampCombiner.EARLIEST, 5), (TimestampCombiner.LATEST, 7), (TimestampCombiner.END_OF_WINDOW, 9)],
)
def test_results_carry_the_timestamp_that_was_asked_for(combiner: TimestampCombiner, expected: int) -> None:
    with StreamHarness(tens().timestamp_combiner(combiner).reduce(max), NUMBERS) as harness:
        feed(harness, "^2 1 5 7 ^9")
        assert [result.timestamp for result in harness.take_output()] == [expected]


def explained(stream: DataStream[Any]) -> str:
    return Pipeline("plan", stream.sink_to(CollectSink[Any]())).explain()


# The front window ends at 9, the one behind at 4.
@pytest.mark.parametrize("combiner", TimestampCombiner)
@pytest.mark.parametrize("lateness", [0, 10])
def test_windows_behind_drop_results_with_timestamps_that_the_watermark_has_passed(
    combiner: TimestampCombiner, lateness: int
) -> None:
    drops = not lateness and combiner is not TimestampCombiner.END_OF_WINDOW
    front = tens().timestamp_combiner(combiner).reduce(max).key_by(lambda value: "key")
    stream = front.window(TumblingEventTimeWindows.of(millis(5))).allowed_lateness(millis(lateness)).reduce(max)
    assert ("results of step 3 may be late here, and are dropped then" in explained(stream)) == drops
    (result,) = story(stream, "1 3 ^7 ^9 ^100").values()
    assert result == (["1 late"] if drops else [3])


def test_results_that_get_timestamps_anew_are_not_said_to_be_late() -> None:
    front = tens().timestamp_combiner(TimestampCombiner.EARLIEST).reduce(max)
    anew = front.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps(), timestamp=int)
    for stream, said in ((front.map(abs).filter(bool), True), (anew, False)):
        behind = stream.window_all(TumblingEventTimeWindows.of(millis(5))).reduce(max)
        assert ("may be late here" in explained(behind)) == said


def test_panes_that_are_not_counted_are_an_error() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"call accumulating\(\) or discarding\(\)"):
        story(tens().trigger(CountTrigger.of(1)).process(Shown()), "1")


def test_a_withdrawn_nan_is_taken_out_again() -> None:
    means = tens().trigger(repeatedly(after_count(1))).retracting()
    first = means.aggregate(total(lambda value: math.nan if value == 1 else float(value)))
    again = first.window_all(TumblingEventTimeWindows.of(millis(10))).apply(lambda window, found: [sorted(found)])
    ((first_window, second),) = story(again, "1 3 13 ^").values()
    assert len(first_window) == 1, "the sum of the first element alone was withdrawn"
    assert math.isnan(first_window[0])
    assert second == [13.0]


def test_late_withdrawals_go_to_the_side_output() -> None:
    late = OutputTag[int]("late")
    outer = retracted(50).window_all(TumblingEventTimeWindows.of(millis(1))).side_output_late_data(late)
    sums = outer.aggregate(total(lambda value: value))
    log = sums.get_side_output(late).changelog(lambda kind, value: f"{kind.value}{value}")
    with StreamHarness(sums, NUMBERS, also=(log,)) as harness:
        feed(harness, "1 ^5 3")
        assert [each.value for each in harness.take(log)] == ["-D1"]


# Refusals


class Process(KeyedProcessFunction[str, int, int]):
    def process_element(self, value: int, context: KeyedProcessContext[str]) -> Iterable[int]:
        return [value]


ONE = after_count(1)
PURGING: Any = PurgingTrigger.of(CountTrigger.of(1))
PURGING_LATER = after_any(after_count(2), ProcessingTimeoutTrigger.of(PURGING, millis(1)))
BEHIND = retracted().window_all(TumblingEventTimeWindows.of(millis(100)))
AGAIN = "because {} drops what they have output: where windows that retract upstream withdraw it, it would count"
KEPT = "a group would keep its result where its last row is withdrawn, as windows that retract upstream may do"
RETRACTED_KEYS = retracted().key_by(lambda value: "key")
NEVER_ON_THE_CLOCK: Any = repeatedly(after_watermark())

REFUSED: list[tuple[Any, list[str]]] = [
    (
        tens().trigger(after_count(3)).reduce(max),
        ["after_count(3) may be finished while the window is open", "repeatedly(after_count(3))"],
    ),
    (
        tens(5).trigger(after_watermark()).reduce(max),
        ["elements that arrive within the allowed lateness of 5 ms would be lost"],
    ),
    (
        KEYED.window(TumblingProcessingTimeWindows.of(millis(10))).trigger(NEVER_ON_THE_CLOCK).reduce(max),
        ["after_watermark() waits for the watermark"],
    ),
    # Steps that would take a withdrawal for a result.
    (retracted(), ["would write withdrawals as results"]),
    (RETRACTED_KEYS.process(Process()), ["takes elements for good"]),
    (RETRACTED_KEYS.reduce(max), ["takes elements for good"]),
    (
        RETRACTED_KEYS.window(TumblingEventTimeWindows.of(millis(10))).evictor(CountEvictor.of(1)).reduce(max),
        ["removes elements for good"],
    ),
    (retracted().union(from_source(PushSource(int))), ["would write"]),
    # Windows that drop what they have output, behind withdrawals.
    (
        BEHIND.trigger(repeatedly(ONE)).discarding().aggregate(count()),
        [AGAIN.format("discarding()"), "retracting() keeps the elements; or let the windows fire once"],
    ),
    *(
        (
            BEHIND.trigger(trigger, may_lose_data=True).aggregate(count()),
            [AGAIN.format(trigger.describe()), "a trigger that does not purge, with retracting(), keeps the elements"],
        )
        for trigger in (PURGING, repeatedly(PURGING), PURGING_LATER)
    ),
    # Windows that fire again and withdraw nothing, behind withdrawals.
    *(
        (windows.aggregate(count()), [KEPT, "retracting() withdraws the result before the next one"])
        for windows in (
            BEHIND.trigger(repeatedly(ONE)),
            BEHIND.trigger(repeatedly(ONE)).accumulating(),
            BEHIND.trigger(CountTrigger.of(2)),
            BEHIND.trigger(ContinuousEventTimeTrigger.of(millis(10))),
            BEHIND.allowed_lateness(millis(5)),
            BEHIND.trigger(after_watermark(early=ONE)),
            RETRACTED_KEYS.window(GlobalWindows.create()).trigger(repeatedly(ONE)),
        )
    ),
    (
        retracted().window_all(TumblingProcessingTimeWindows.of(millis(10))).aggregate(count()),
        ["would take a row out of the window of the moment", "use windows in event time, or GlobalWindows"],
    ),
]


@pytest.mark.parametrize(("stream", "messages"), REFUSED, ids=range(len(REFUSED)))
def test_plans_that_are_refused(stream: DataStream[Any], messages: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        explained(stream)
    assert [message for message in messages if message not in str(caught.value)] == []


@pytest.mark.parametrize(
    "windows",
    [
        tens(5).trigger(after_watermark(late=after_count(1))),
        tens(5).trigger(default()),
        tens().trigger(after_watermark()),
        tens().trigger(after_all(after_count(3), after_watermark())),
        tens().trigger(after_count(3), may_lose_data=True),
        tens().trigger(or_finally(repeatedly(after_count(3)), never())),
        BEHIND,
        BEHIND.discarding(),
        BEHIND.allowed_lateness(millis(5)).trigger(after_watermark(), may_lose_data=True),
        retracted().window_all(GlobalWindows.create_with_end_of_stream_trigger()),
    ],
    ids=range(10),
)
def test_plans_that_are_accepted(windows: Any) -> None:
    explained(windows.aggregate(count()))


TRIGGER: Any = after_watermark  # not called
TEXT: Any = "at the end"
PARTS: Any = [after_count(1), after_count(2)]
UNPACKED = [(several, given) for several in (after_any, after_all, after_each) for given in (PARTS, tuple(PARTS))]
OF_TRIGGERS = "a composite trigger is made of triggers"


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda: after_any(TRIGGER), OF_TRIGGERS, None),
        (lambda: repeatedly(TEXT), OF_TRIGGERS, None),
        (lambda: or_finally(default(), TEXT), OF_TRIGGERS, None),
        *(
            (lambda several=several, given=given: several(given), None, f"unpack it: {several.__name__}(*triggers)")
            for several, given in UNPACKED
        ),
        (lambda: repeatedly(PARTS), None, "after_any(*triggers) makes one trigger of several"),
        (lambda: after_watermark(early=PARTS), None, "after_any(*triggers) makes one trigger of several"),
        (lambda: repeatedly(TRIGGER), None, "call it: after_watermark(...)"),
        (lambda: PurgingTrigger.of(CountTrigger), None, "an instance, not the class"),  # type: ignore[call-overload]
        (lambda: or_finally(default(), None), "given:    None\n", None),  # type: ignore[call-overload]
        (lambda: after_watermark(early=TEXT), "early must be a trigger", None),
        (after_any, "after_any has no trigger", None),
    ],
    ids=range(16),
)
def test_an_argument_that_is_no_trigger_is_refused(
    call: Callable[[], object], message: str | None, hint: str | None
) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        call()
    assert hint is None or caught.value.hint == hint
