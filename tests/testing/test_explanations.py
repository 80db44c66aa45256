"""Why a window fired then, why not yet, and why an element was late: what the harness says about it.

Above each test stands its time line, in seconds. ``^`` is the watermark, ``c`` the clock, ``*`` a firing.
"""

from __future__ import annotations

from datetime import timedelta
from operator import sub
from typing import Any

import pytest

from tests.support.records import add
from windrow import DataStream, OutputTag, from_source, triggers
from windrow.aggregates import count
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, UserFunctionError
from windrow.failures import Failed
from windrow.functions import AggregateFunction
from windrow.panes import PaneTiming
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.triggers import (
    ComposableTrigger,
    CountTrigger,
    EventTimeTrigger,
    PartContext,
    Trigger,
    TriggerContext,
    TriggerResult,
    after_count,
    after_watermark,
    repeatedly,
)
from windrow.windows import (
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
from windrow_runtime.testing import Cause, Fate, Moment, Outcome, PushSource, Standing, StreamHarness

LATE = OutputTag("late", int)
FIRST, SECOND = TimeWindow(0, 10_000), TimeWindow(10_000, 20_000)
NUMBERS = PushSource(int)


def seconds(number: int) -> timedelta:
    return timedelta(seconds=number)


# Any: the stages between a key and a result differ by their windows.
def tumbling(trigger: Trigger[Any, Any] | None = None, lateness: int = 0) -> Any:
    windows = from_source(NUMBERS).key_by(lambda number: "even" if number % 2 == 0 else "odd")
    stage = windows.window(TumblingEventTimeWindows.of(seconds(10))).allowed_lateness(seconds(lateness))
    return stage if trigger is None else stage.trigger(trigger)


def of_all(assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any] | None = None) -> DataStream[int]:
    """Sums of all elements by the windows of an assigner."""
    stage: Any = from_source(NUMBERS).key_by(lambda number: "all").window(assigner)
    sums: DataStream[int] = (stage if trigger is None else stage.trigger(trigger)).reduce(add)
    return sums


def counted(trigger: Trigger[Any, GlobalWindow]) -> DataStream[int]:
    return of_all(GlobalWindows.create(), trigger)


def driven(stream: DataStream[Any], *steps: tuple[int, int | None] | int) -> StreamHarness[int, Any]:
    """A harness behind some steps: an element with its timestamp, or a watermark."""
    harness = StreamHarness(stream, NUMBERS)
    for step in steps:
        if isinstance(step, tuple):
            harness.process_element(*step)
        else:
            harness.process_watermark(step)
    return harness


# time      0         10
#           |---------|
# elements   2 4
#              ^4
def test_not_yet_by_the_watermark() -> None:
    found = driven(tumbling().reduce(add), (2, 1_000), (4, 2_500), 4_000).explain_window("even", FIRST)
    assert str(found).splitlines() == [
        "Window 0 to 10,000 of key 'even' is open: it holds 2 elements, and has not fired yet.",
        "The watermark is 4,000.",
        "Its trigger now: EventTimeTrigger: waits for the watermark to reach 9,999; it is 4,000",
        "Its timers: watermark 9,999 (its end and cleanup).",
    ]
    assert (found.standing, found.elements, found.firings, found.watermark) == (Standing.OPEN, 2, (), 4_000)
    assert (found.event_timers, found.processing_timers, found.clock) == ((9_999,), (), MIN_TIMESTAMP)
    assert found.trigger == "EventTimeTrigger: waits for the watermark to reach 9,999; it is 4,000"
    assert found.merged_into is None


# time      0         10
#           |---------|
# elements   2
#                       ^12
#                       *    and cleaned up
def test_on_time_and_cleaned_up() -> None:
    harness = driven(tumbling().reduce(add), (2, 1_000), 12_000)
    found = harness.explain_window("even", FIRST)
    timer = "by the timer for watermark 9,999, its cleanup, when the watermark came to 12,000"
    assert found.sentences == (
        "Window 0 to 10,000 of key 'even' was cleaned up; it fired 1 time.",
        f"It fired on time (pane 0, the last) {timer}: it emitted 1 result.",
        "  EventTimeTrigger: the watermark has reached 9,999; it is 12,000; and it answered FIRE",
        f"It was cleaned up {timer}.",
    )
    (firing,) = found.firings
    assert (firing.at.cause, firing.at.timer, firing.at.watermark) == (Cause.EVENT_TIMER, 9_999, 12_000)
    assert (firing.answer, firing.results, firing.purged) == (TriggerResult.FIRE, 1, False)
    assert firing.at.closes
    assert found.standing is Standing.CLEANED_UP
    assert harness.explain_element(2).sentences == (
        "2 at 1,000 came to harness.3.window as element 1, with key 'even', before any watermark.",
        "It joined window 0 to 10,000, on time: there was no watermark yet when it came.",
        f"  Its window fired next on time (pane 0, the last) {timer}.",
    )


# time      0         10
#           |---------|
# elements     4             late: 9.999 <= 12
#                       ^12
def test_late_and_dropped() -> None:
    harness = driven(tumbling().reduce(add), 12_000, (4, 3_000))
    found, window = harness.explain_element(4, 3_000), harness.explain_window("even", FIRST)
    assert found.sentences == (
        "4 at 3,000 came to harness.3.window as element 1, with key 'even', under watermark 12,000.",
        "It was too late for window 0 to 10,000: its last timestamp 9,999 + lateness 0 <= watermark 12,000 when it "
        "came.",
        "It was dropped, and counted in late_records_dropped.",
    )
    assert found.fate is Fate.DROPPED_LATE
    assert [(each.window, each.outcome) for each in found.windows] == [(FIRST, Outcome.LATE)]
    assert (found.at and found.at.watermark, found.key, found.value, found.timestamp) == (12_000, "even", 4, 3_000)
    assert window.standing is Standing.NEVER
    assert window.sentences[1].startswith("Element 1 (4 at 3,000) came too late: its last timestamp 9,999")


# time      0         10   15
#           |---------|....|      lateness 5
# elements   2 4
#                       ^12       4 comes behind it, and fires again
#                       *,*
def test_late_within_the_lateness() -> None:
    harness = driven(tumbling(lateness=5).reduce(add), (2, 1_000), 12_000, (4, 3_000))
    element, found = harness.explain_element(4), harness.explain_window("even", FIRST)
    assert element.sentences[1:] == (
        "It joined window 0 to 10,000 after its end, within the allowed lateness: its last timestamp 9,999 + lateness "
        "5,000 = 14,999 > watermark 12,000 when it came.",
        "  Its window fired next at once.",
    )
    assert element.fate is Fate.TAKEN
    assert [firing.at.cause for firing in found.firings] == [Cause.EVENT_TIMER, Cause.ELEMENT]
    assert found.sentences[3:] == (
        "It fired when element 2 (4 at 3,000) came, under watermark 12,000: it emitted 1 result.",
        "  EventTimeTrigger: the watermark has reached 9,999; it is 12,000; "
        "then element 2 (4 at 3,000) came, and it answered FIRE",
        "The watermark is 12,000.",
        "Its trigger now: EventTimeTrigger: the watermark has reached 9,999; it is 12,000",
        "Its timers: watermark 14,999 (its cleanup).",
    )
    assert found.sentences[0].endswith("it holds 2 elements, 0 of them new, and has fired 2 times.")


# time      0         10   15
#           |---------|....|      lateness 5
# elements     4
#                          ^15
def test_late_to_the_side_output() -> None:
    late = tumbling(lateness=5).side_output_late_data(LATE).reduce(add)
    found = driven(late, 15_000, (4, 3_000)).explain_element(4)
    assert "= 14,999 <= watermark 15,000 when it came." in found.sentences[1]
    assert found.sentences[2] == "It went to the side output 'late' of late elements."
    assert found.fate is Fate.SIDE_OUTPUT


# elements  1 2 3
#             *
def test_a_count() -> None:
    harness = driven(counted(CountTrigger.of(2)), (1, None), (2, None), (3, None))
    assert harness.explain_window("all", GlobalWindow()).sentences == (
        "The global window of key 'all' is open: it holds 3 elements, 1 of them new, and has fired 1 time.",
        "It fired when element 2 (2 without a timestamp) came, before any watermark: it emitted 1 result.",
        "  CountTrigger(2): 1 of 2 elements have come; then element 2 (2 without a timestamp) came, and it answered "
        "FIRE",
        "There is no watermark yet.",
        "Its trigger now: CountTrigger(2): 1 of 2 elements have come",
        "No timer is set for it: only an element can fire it.",
        "The state of its trigger: count = 1.",
    )
    assert harness.explain_element(1).sentences[1:] == (
        "It joined the global window: no element is late for windows that the watermark does not end.",
        "  Its window fired next when element 2 (2 without a timestamp) came, before any watermark.",
    )


# elements  1 2
#             * and purged
def test_purged() -> None:
    purging = counted(triggers.PurgingTrigger.of(CountTrigger.of(2)))
    found = driven(purging, (1, None), (2, None)).explain_window("all", GlobalWindow())
    assert found.sentences[0] == (
        "The global window of key 'all' is empty, as its elements were dropped; it has fired 1 time."
    )
    assert found.sentences[1].endswith("it emitted 1 result, and dropped its contents.")
    assert (found.standing, found.elements) == (Standing.EMPTY, 0)
    assert (found.firings[0].purged, found.firings[0].answer) == (True, TriggerResult.FIRE_AND_PURGE)


class DropsNegative(Trigger[int, Window]):
    """Drops the contents at a negative number, and fires at the end of the window."""

    def on_element(self, element: int, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        context.register_event_time_timer(window.max_timestamp())
        return TriggerResult.PURGE if element < 0 else TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE


# time      0         10
#           |---------|
# elements   2 -2              purged by -2
#                     ^9.999   ready, but empty
def test_purged_without_firing() -> None:
    harness = driven(tumbling(DropsNegative()).reduce(add), (2, 1_000), (-2, 2_000))
    assert harness.explain_element(2).sentences[-1] == (
        "  No result holds it: its window was purged when element 2 (-2 at 2,000) came, before any watermark."
    )
    harness.process_watermark(9_999)
    timer = "by the timer for watermark 9,999, its cleanup, when the watermark came to 9,999"
    assert harness.explain_window("even", FIRST).sentences == (
        "Window 0 to 10,000 of key 'even' was cleaned up; it never fired.",
        "Its trigger dropped its contents without firing it when element 2 (-2 at 2,000) came, before any watermark.",
        f"Its trigger was ready {timer}, but it was empty, so nothing was output.",
        f"It was cleaned up {timer}.",
    )


# time      0         10             60
#           |---------|..............|    lateness 50
# elements   2 4 6     8 behind 12
#             *e        *o            *l  early, on time, and late at the cleanup
#                       ^12          ^60
def test_early_on_time_and_late() -> None:
    trigger = after_watermark(early=after_count(2), late=after_count(2))
    sums = tumbling(trigger, lateness=50).accumulating().reduce(add)
    harness = driven(sums, (2, 1_000), (4, 1_000), (6, 1_000))
    name = "after_watermark(early=after_count(2), late=after_count(2))"
    assert harness.explain_window("even", FIRST).sentences == (
        "Window 0 to 10,000 of key 'even' is open: it holds 3 elements, 1 of them new, and has fired 1 time.",
        "It fired early (pane 0) when element 2 (4 at 1,000) came, before any watermark: it emitted 1 result.",
        f"  {name}: waits for the watermark to reach 9,999; there is none yet",
        "    early: after_count(2): 2 of 2 elements have come",
        "There is no watermark yet.",
        f"Its trigger now: {name}: waits for the watermark to reach 9,999; there is none yet",
        "  early: after_count(2): 1 of 2 elements have come",
        "Its timers: watermark 9,999 (its end), watermark 59,999 (its cleanup).",
    )
    harness.process_watermark(12_000)
    harness.process_element(8, 1_000)
    assert harness.explain_window("even", FIRST).trigger.splitlines() == [
        f"{name}: it has fired at the end of the window, 9,999; its late part is at work",
        "  late: after_count(2): 1 of 2 elements have come",
    ]
    harness.process_watermark(60_000)
    closed = harness.explain_window("even", FIRST)
    timings = [firing.pane and firing.pane.timing for firing in closed.firings]
    assert timings == [PaneTiming.EARLY, PaneTiming.ON_TIME, PaneTiming.LATE]
    assert closed.firings[2].answer is None
    assert "It closed late (pane 2, the last) by the timer for watermark 59,999, its cleanup" in str(closed)
    assert "A window that is cleaned up outputs what is new in it" in str(closed)


# time      0         10
#           |---------|
# elements   2 4
#            *            and finished: 4 is dropped
def test_the_trigger_has_finished() -> None:
    stream = tumbling().trigger(after_count(1), may_lose_data=True).accumulating().reduce(add)
    harness = driven(stream, (2, 1_000), (4, 2_000))
    found, element = harness.explain_window("even", FIRST), harness.explain_element(4)
    assert found.standing is Standing.FINISHED
    assert found.firings[0].finished
    assert found.sentences == (
        "Window 0 to 10,000 of key 'even' takes no more elements, as its trigger has finished; it has fired 1 time.",
        "It fired early (pane 0, the last) when element 1 (2 at 1,000) came, before any watermark: it emitted 1 "
        "result, and dropped its contents. With that its trigger was finished.",
        "  after_count(1): 1 of 1 elements have come",
        "Element 2 (4 at 2,000) came after its trigger had finished, and was dropped.",
        "There is no watermark yet.",
        "Its timers: watermark 9,999 (its end and cleanup).",
    )
    assert element.sentences[1:] == (
        "Window 0 to 10,000 did not take it: its trigger had finished, when element 1 (2 at 1,000) came, before any "
        "watermark.",
        "It was dropped, and counted in closed_window_records_dropped.",
    )
    assert element.fate is Fate.DROPPED_FINISHED


SESSIONS = EventTimeSessionWindows.with_gap(seconds(5))


# time      1    5 6   9 10   14
# 1         |------|
# 2                    |-------|
# 3              |--------|           makes one of both
# ...       |------------------|
@pytest.mark.parametrize("trigger", [None, repeatedly(after_watermark())])
def test_sessions_that_merge(trigger: Trigger[Any, Any] | None) -> None:
    whole = TimeWindow(1_000, 14_000)
    harness = driven(of_all(SESSIONS, trigger), (1, 1_000), (2, 9_000), (3, 5_000))
    first, third = (harness.explain_window("all", TimeWindow(at, at + 5_000)) for at in (1_000, 5_000))
    assert first.sentences == (
        "Window 1,000 to 6,000 of key 'all' merged into another window.",
        "It became a part of window 1,000 to 14,000 when element 3 (3 at 5,000) came, before any watermark.",
    )
    assert (first.standing, first.merged_into, first.elements) == (Standing.MERGED, whole, 0)
    assert third.merged_into == whole
    found = harness.explain_window("all", whole)
    assert found.sentences[1] == (
        "It was merged of window 1,000 to 6,000 and window 9,000 to 14,000 when element 3 (3 at 5,000) came, "
        "before any watermark."
    )
    assert (found.elements, found.standing, 13_999 in found.event_timers) == (3, Standing.OPEN, True)
    assert harness.explain_element(1).sentences[2:] == (
        "Later that became a part of window 1,000 to 14,000.",
        "  Its window has not fired since.",
    )
    three = harness.explain_element(3)
    assert three.sentences[1] == "Its own window 5,000 to 10,000 merged into window 1,000 to 14,000."
    assert three.windows[0].assigned == TimeWindow(5_000, 10_000)


# time      1   2   3      8
# 1         |------|
# 2             |------|
# 3                 |------|      each prolongs the session
#                          ^8
#                          *
def test_a_session_that_grows_twice() -> None:
    harness = driven(of_all(SESSIONS), (1, 1_000), (2, 2_000), (3, 3_000), 8_000)
    first, last = (harness.explain_window("all", TimeWindow(1_000, end)) for end in (6_000, 8_000))
    assert first.sentences[1] == (
        "It became a part of window 1,000 to 7,000 when element 2 (2 at 2,000) came, before any watermark. "
        "That became a part of window 1,000 to 8,000."
    )
    assert last.sentences[1].startswith("It grew out of window 1,000 to 7,000 when element 3 (3 at 3,000) came")
    assert last.standing is Standing.CLEANED_UP
    assert harness.explain_element(1).sentences[2:] == (
        "Later that became a part of window 1,000 to 7,000.",
        "Later that became a part of window 1,000 to 8,000.",
        "  Its window fired next on time (pane 0, the last) by the timer for watermark 7,999, its cleanup, when the "
        "watermark came to 8,000.",
    )


# time      0         10
#           |---------|
# elements   2
#             c1       c11
#                      *
def test_processing_time() -> None:
    harness = driven(of_all(TumblingProcessingTimeWindows.of(seconds(10))))
    harness.set_processing_time(1_000)
    harness.process_element(2)
    before = harness.explain_window("all", FIRST)
    assert before.sentences[1:] == (
        "There is no watermark yet; the clock is 1,000.",
        "Its trigger now: ProcessingTimeTrigger: waits for the clock to reach 9,999; it is 1,000",
        "Its timers: clock 9,999 (its end and cleanup).",
    )
    assert (before.processing_timers, before.clock) == ((9_999,), 1_000)
    harness.set_processing_time(11_000)
    assert harness.explain_window("all", FIRST).sentences[1:] == (
        "It fired by the timer for clock 9,999, its cleanup, when the clock came to 11,000: it emitted 1 result.",
        "  ProcessingTimeTrigger: the clock has reached 9,999; it is 11,000; and it answered FIRE",
        "It was cleaned up by the timer for clock 9,999, its cleanup, when the clock came to 11,000.",
    )


# clock     12:00:00            12:01:00
# elements  1
class Halves(AggregateFunction[int, list[int], list[int]]):
    """Raises for the element 0, and for a window with one element."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [*accumulator, 10 // value]

    def get_result(self, accumulator: list[int]) -> list[int]:
        _, *others = accumulator
        return [others[0]]


#        0    4    6      ^10
#  even  0    4
def test_the_policy_that_took_an_element_is_named() -> None:
    failed = OutputTag[Failed[int | None]]("failed")
    harness = driven(tumbling().aggregate(Halves(), on_error=failed), (0, 4_000), (4, 4_000), 10_000)
    left_out, fired = harness.explain_element(0), harness.explain_element(4)
    window = harness.explain_window("even", FIRST)
    assert left_out.fate is Fate.LEFT_OUT
    assert left_out.sentences[1] == (
        "No window took it, as a function of the step raised an error: "
        "it went to the side output 'failed' of failed elements (on error: to 'failed')."
    )
    assert "Its window fired next" in fired.sentences[2]
    taken = "went to the side output 'failed' of failed elements (on error: to 'failed')."
    assert fired.sentences[2].endswith(f"; its function raised an error, and what it got {taken}")
    assert window.firings[0].failed is not None
    assert (
        "it emitted 0 results, its function raised an error, and what it got went to the side output 'failed'"
        in window.sentences[1]
    )


def test_the_pairs_of_a_join_that_failed_are_counted() -> None:
    left, right = PushSource(int), PushSource(int)
    joined = from_source(left).join(from_source(right)).where(lambda _: "all").equal_to(lambda _: "all")
    stream = joined.window(TumblingEventTimeWindows.of(seconds(10))).apply(lambda a, b: b // a, on_error="drop")
    harness = StreamHarness(stream, left)
    for value in (0, 1, 2):
        harness.process_element(value, 1_000)
    for value in (6, 8):
        harness.process_element(value, 2_000, source=right)
    harness.process_watermark(10_000)
    failed = "its function raised an error for 2 of its 6 pairs, and each of them was dropped"
    window = harness.explain_window("all", FIRST)
    assert failed in window.sentences[1]
    assert failed in harness.explain_element(1).sentences[-1]
    assert window.firings[0].failures == 2


def test_a_policy_upstream_is_named_for_an_element_that_did_not_come() -> None:
    source = PushSource(int)
    keyed = from_source(source).key_by(lambda value: 10 // value, on_error="drop")
    stream = keyed.window(TumblingEventTimeWindows.of(seconds(10))).reduce(add)
    harness = StreamHarness(stream, source)
    harness.process_element(0, 1_000)
    assert "the function of harness.2.key_by (on error: drop) raised an error for it" in str(harness.explain_element(0))


def test_a_clock_of_our_days_is_shown_as_a_date() -> None:
    harness = driven(counted(repeatedly(triggers.after_processing_time(seconds(60)))))
    harness.set_processing_time(1_704_110_400_000)
    harness.process_element(1)
    found = harness.explain_window("all", GlobalWindow())
    assert found.trigger.splitlines()[1] == (
        "  after_processing_time(1 min): waits for the clock to reach 1,704,110,460,000 (2024-01-01 12:01:00.000 "
        "UTC); it is 1,704,110,400,000 (2024-01-01 12:00:00.000 UTC)"
    )
    assert found.event_timers == (MAX_TIMESTAMP,)
    assert "watermark the end of the stream (its cleanup)" in found.sentences[-1]


# time      0         10
#           |---------|
# elements   2 4
#            *+ *-+         the second pane withdraws the first
def test_a_pane_that_retracts() -> None:
    stream = tumbling(repeatedly(after_count(1)), lateness=5).retracting().reduce(add)
    harness = driven(stream.changelog(lambda kind, total: (kind.value, total)), (2, 1_000), (4, 2_000))
    found = harness.explain_window("even", FIRST)
    assert harness.take_values() == [("+I", 2), ("-U", 2), ("+U", 6)]
    assert [(firing.results, firing.withdrawn) for firing in found.firings] == [(1, 0), (1, 1)]
    assert any(text.endswith("it withdrew 1 result and emitted 1 result.") for text in found.sentences)


# time      0         10   15
#           |---------|....|
# elements   2
#                     ^10  ^15   on time, and asked again at the cleanup, with nothing new
#                     *
def test_ready_with_nothing_new() -> None:
    # A function that may look at the pane, so that panes are counted.
    sums = tumbling(triggers.default(), lateness=5).accumulating().apply(lambda key, window, numbers: [sum(numbers)])
    harness = driven(sums, (2, 1_000), 10_000)
    assert harness.explain_window("even", FIRST).trigger == (
        "default(): the watermark has reached 9,999; it is 10,000, so each element fires"
    )
    harness.process_watermark(15_000)
    found = harness.explain_window("even", FIRST)
    assert "but nothing new had come, so nothing was output." in str(found)
    assert len(found.firings) == 1


# time      0         10        20
# sums      |---------|---------|       by key, of 10 seconds
# totals    |-------------------|       of the sums, of 20 seconds
# elements   1         3
#                       ^12
def test_several_steps() -> None:
    further = tumbling().reduce(add, name="sums").key_by(lambda total: "all")
    totals = further.window(TumblingEventTimeWindows.of(seconds(20))).reduce(add, name="totals")
    harness, whole = driven(totals, (1, 1_000), (3, 11_000), 12_000), TimeWindow(0, 20_000)
    assert harness.explain_window("odd", FIRST, step="sums").standing is Standing.CLEANED_UP
    total = harness.explain_window("all", whole, step="totals")
    assert (total.standing, total.elements) == (Standing.OPEN, 1)
    assert harness.explain_window("all", whole, step=total.step) == total
    with pytest.raises(InvalidArgumentError, match=r"(?s)no step.*harness\.3\.sums, harness\.5\.totals"):
        harness.explain_window("all", whole)
    with pytest.raises(InvalidArgumentError, match=r"(?s)step='sum'.*harness\.3\.sums"):
        harness.explain_element(1, step="sum")
    assert harness.explain_element(1, step="totals").sentences[0] == (
        "1 at 9,999 came to harness.5.totals as element 1, with key 'all', before any watermark."
    )


# time      0         10        20
#           |---------|
# elements   2
def test_windows_and_keys_that_do_not_exist() -> None:
    harness = driven(tumbling().reduce(add))
    with pytest.raises(InvalidArgumentError, match=r"(?s)no element of this key.*an element that was pushed"):
        harness.explain_window("even", FIRST)
    harness.process_element(2, 1_000)
    with pytest.raises(InvalidArgumentError, match=r"(?s)given: +'odd'.*expected: one of 'even'"):
        harness.explain_window("odd", FIRST)
    for element in ((7,), (2, 1_001)):
        with pytest.raises(InvalidArgumentError, match="no such element has come"):
            harness.explain_element(*element)
    with pytest.raises(InvalidArgumentError, match="it is no window"):
        harness.explain_window("even", (0, 10_000))
    found = harness.explain_window("even", SECOND)
    assert found.standing is Standing.NEVER
    assert found.sentences == (
        "Window 10,000 to 20,000 of key 'even' does not exist: no element has been in it.",
        "The windows of key 'even' so far: window 0 to 10,000.",
    )


# time      0  5  10  15
#           |------|
#              |------|
# elements      2  (7)
#                  ^10      2 is late for the first window alone
def test_sliding_windows() -> None:
    found = driven(of_all(SlidingEventTimeWindows.of(seconds(10), seconds(5))), 10_000, (2, 7_000)).explain_element(2)
    assert [(each.window.start, each.outcome) for each in found.windows] == [(5_000, Outcome.JOINED), (0, Outcome.LATE)]
    assert found.fate is Fate.TAKEN
    assert "last timestamp 14,999 + lateness 0 > watermark 10,000" in found.sentences[1]
    assert "last timestamp 9,999 + lateness 0 <= watermark 10,000" in found.sentences[3]


# elements  1 -> 10, -1 -> nothing, 2 -> 20; then 2 -> 20 again
def test_elements_are_found_by_what_was_pushed() -> None:
    stream = from_source(NUMBERS).filter(lambda number: number > 0).map(lambda number: 10 * number)
    sums = stream.key_by(lambda number: "all").window(TumblingEventTimeWindows.of(seconds(10))).reduce(add)
    harness = driven(sums, (1, 1_000), (-1, 1_000), (2, 2_000), (2, 2_000))
    assert harness.explain_element(1) == harness.explain_element(10)
    dropped = harness.explain_element(-1)
    assert (dropped.at, dropped.fate, dropped.windows) == (None, None, ())
    assert dropped.sentences[0].startswith("-1 was pushed, but nothing of it came to harness.5.window: a filter")
    twice, once = harness.explain_element(2), harness.explain_element(2, which=0)
    assert twice.sentences[1] == "2 elements equal to it came; this is number 2 of them."
    assert (twice.at and twice.at.element, once.at and once.at.element) == (3, 2)
    assert harness.explain_element(2, key="all") == twice
    with pytest.raises(InvalidArgumentError, match="no such element"):
        harness.explain_element(2, key="other")
    with pytest.raises(InvalidArgumentError, match="fewer elements"):
        harness.explain_element(2, which=2)


# time      0         10
#           |---------|
# elements   2 | 4            a restart between
def test_the_journal_goes_on_behind_a_restart() -> None:
    harness = driven(tumbling().reduce(add), (2, 1_000))
    harness.snapshot_restore()
    harness.process_element(4, 1_000)
    assert harness.explain_window("even", FIRST).elements == 2
    assert harness.explain_element(2).fate is Fate.TAKEN


# time      0 1 2 ... 60
# elements  2
#           * * * ... *        every second
def test_many_firings_are_cut_in_the_text_alone() -> None:
    every_second = triggers.ContinuousEventTimeTrigger.of(seconds(1))
    harness = driven(of_all(TumblingEventTimeWindows.of(seconds(60)), every_second), (2, 0), 58_500)
    found = harness.explain_window("all", TimeWindow(0, 60_000))
    assert len(found.firings) == 58
    assert "... 46 more events ..." in found.sentences
    assert found.trigger == ("ContinuousEventTimeTrigger(1 s): waits for the watermark to reach 59,000; it is 58,500")


class OwnTrigger(ComposableTrigger[int, Window]):
    """Is ready when the clock is even, and never finishes."""

    def is_ready(self, window: Window, context: PartContext) -> bool:
        return context.current_processing_time % 2 == 0

    def on_fire(self, window: Window, context: PartContext) -> bool:
        return False


class Silent(Trigger[int, Window]):
    """Cannot explain itself."""

    def explain(self, window: Window, context: PartContext) -> str:
        raise RuntimeError("no words")


SECOND_ON_CLOCK = triggers.after_processing_time(seconds(1))
END, SOON = "waits for the watermark to reach 9,999; there is none yet", "waits for the clock to reach 1,001; it is 1"


# clock     c1
# elements  2
@pytest.mark.parametrize(
    ("trigger", "name", "states"),
    [
        (OwnTrigger(), "OwnTrigger", ["not ready"]),
        (Silent(), "Silent", ["its method explain raised RuntimeError: no words"]),
        (triggers.never(), "never()", ["does not fire"]),
        (triggers.always(), "always()", ["fires at each element and each timer"]),
        (triggers.after_each(after_count(1), after_count(3)), "after_each(after_count(1), after_count(3))",
         ["part 2 of 2 is at work", "  after_count(1): finished", "  after_count(3): 0 of 3 elements have come"]),
        (triggers.after_all(after_count(2), after_watermark()), "after_all(after_count(2), after_watermark())",
         ["0 of 2 parts are ready", "  after_count(2): 1 of 2 elements have come", f"  after_watermark(): {END}"]),
        (triggers.or_finally(repeatedly(after_count(2)), SECOND_ON_CLOCK),
         "or_finally(repeatedly(after_count(2)), after_processing_time(1 s))",
         ["the first part fires until the second one does",
          "  repeatedly(after_count(2)): its part begins anew whenever it has fired",
          "    after_count(2): 1 of 2 elements have come", f"  after_processing_time(1 s): {SOON}"]),
        (triggers.after_any(CountTrigger.of(2), triggers.DeltaTrigger.of(3, sub)),
         "after_any(CountTrigger(2), DeltaTrigger(3))",
         ["waits for one of its parts", "  CountTrigger(2): 1 of 2 elements have come",
          "  DeltaTrigger(3): waits for an element further than 3 from 2"]),
        (triggers.ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), seconds(1)),
         "ProcessingTimeoutTrigger(EventTimeTrigger, 1 s)", [SOON, f"  EventTimeTrigger: {END}"]),
        (triggers.EventTimeoutTrigger.of(EventTimeTrigger.create(), seconds(1)),
         "EventTimeoutTrigger(EventTimeTrigger, 1 s)",
         ["waits for the watermark to reach 2,000; there is none yet", f"  EventTimeTrigger: {END}"]),
        (triggers.StateCleaningCountTrigger.of(seconds(1), seconds(2), 5),
         "StateCleaningCountTrigger(5, retention 1 s to 2 s)",
         ["1 of 5 elements have come; to forget them it waits for the clock to reach 2,001; it is 1"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_state_of_triggers_in_words(trigger: Trigger[Any, Any], name: str, states: list[str]) -> None:
    stage = tumbling().trigger(trigger, may_lose_data=True)
    stage = stage.accumulating() if isinstance(trigger, ComposableTrigger) else stage
    harness = driven(stage.reduce(add))
    harness.set_processing_time(1)
    harness.process_element(2, 1_000)
    assert harness.explain_window("even", FIRST).trigger.splitlines() == [f"{name}: {states[0]}", *states[1:]]


def test_a_stream_without_windows() -> None:
    with pytest.raises(InvalidArgumentError, match="a stream with windows"):
        driven(from_source(NUMBERS)).explain_element(1)


# elements  2, whose sum fails
def test_an_element_whose_function_fails() -> None:
    def fails(a: int, b: int) -> int:
        raise ValueError("no sum")

    harness = driven(tumbling().reduce(fails), (2, 1_000))
    with pytest.raises(UserFunctionError):
        harness.process_element(4, 1_000)
    harness.process_element(6, 11_000)
    assert harness.explain_element(4).sentences[-1] == "A function of the step raised an error for it."
    assert harness.explain_element(6).at == Moment(Cause.ELEMENT, None, 3, MIN_TIMESTAMP, MIN_TIMESTAMP)


# time      0         10
#           |---------|
# elements   2            sums of one element each, withdrawn by a second one
#            *+ *-+
def test_withdrawn_elements() -> None:
    pairs = tumbling(repeatedly(after_count(1)), lateness=5).retracting().reduce(add)
    totals = pairs.key_by(lambda total: total).window(GlobalWindows.create()).trigger(CountTrigger.of(9))
    harness = driven(totals.retracting().aggregate(count()).changelog(), (2, 1_000), (4, 2_000))
    step = harness.open_windows()[-1].step
    withdrawn = harness.explain_element(2, step=step)
    assert withdrawn.sentences[0].startswith(f"The withdrawal of 2 at 9,999 came to {step} as element 2, with key 2")
    empty, full = (harness.explain_window(key, GlobalWindow(), step=step) for key in (2, 6))
    assert (empty.standing, empty.elements) == (Standing.EMPTY, 0)
    assert (full.standing, full.elements) == (Standing.OPEN, 1)


def test_a_harness_without_journals() -> None:
    with StreamHarness(tumbling().reduce(add), NUMBERS, explains=False) as harness:
        harness.process_element(2, 1_000)
        with pytest.raises(UnsupportedOperationError, match="keeps no journals"):
            harness.explain_window("even", FIRST)
        harness.process_watermark(9_999)
        assert harness.take_values() == [2]
