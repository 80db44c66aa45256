"""The steps of windows that columns run, each of which tests compare with the general operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import cycle, product
from typing import Any, NamedTuple, TypeAlias

from tests.budget import for_a_night
from tests.columnar.engine import FEW, LATE, MANY, Keyed, Ran, by_key, millis, told
from tests.working_sets import small_working_sets
from windrow import DataStream
from windrow import aggregates as agg
from windrow.evictors import CountEvictor
from windrow.functions import with_pane
from windrow.panes import ClosingBehavior, OnTimeBehavior, WindowResult
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    after_count,
    after_processing_time,
    after_watermark,
    always,
    default,
    never,
    repeatedly,
)
from windrow.windows import (
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from windrow.windows.spec import UNFIRED
from windrow_runtime.operators.changes import kind_of, value_of
from windrow_runtime.operators.windows.pane_operator import CLOSED
from windrow_spark.storage.tuning import ROW_PAGES, ChunkTuning, SegmentTuning, StateTuning

# Any in this module: windows of every assigner, their triggers and their results.

Build: TypeAlias = Callable[[Any], DataStream[Any]]

TINY = StateTuning(
    row_chunks=ChunkTuning(
        tail_bytes=1500, fanout=3, fired_bytes=3_000, held_bytes=5_000, merged_rows=200, least_shared_slices=16
    ),
    join_segments=SegmentTuning(tail_bytes=1_000, fanout=3, largest_segment=20_000, page_bytes=400, pages_at_once=2),
    row_pages=replace(
        ROW_PAGES,
        small=500,
        dense=2500,
        split_budget_when_due=2500,
        inline_bytes=2500,
        pages_in_record=4,
        pages_of_a_leaf=2,
        hot_keys=small_working_sets(2_000),
    ),
)
"""Chunks of some rows, of which some are read at a time, and windows that are merged some at a time."""


class Plan(NamedTuple):
    """A step, and what is known of its run over random batches.

    Attributes:
        build: Makes the step.
        late: Whether late elements have an output.
        retracts: Whether results are changes.
        least: More results than that come out.
        stays: Whether state is left when the stream has ended.
        waits: Whether elements are left that no firing has taken.
        folds: Whether elements are aggregated before the exchange; None: that is not asked.
        batches: How many batches it takes until enough has fired.
    """

    build: Build
    late: bool = False
    retracts: bool = False
    least: int = 30
    stays: bool = False
    waits: bool = False
    folds: bool | None = None
    batches: int = FEW


def step(
    assigner: Any,
    aggregate: Any,
    trigger: Any = None,
    evictor: CountEvictor | None = None,
    *,
    lateness: int | timedelta = 0,
    late: bool = False,
    mode: str | None = None,
    on_time: OnTimeBehavior | None = None,
    closing: ClosingBehavior | None = None,
) -> Build:
    """A step of windows; a tuple of aggregates are the arguments of ``aggregate``."""

    def build(keyed: Keyed) -> DataStream[Any]:
        windows: Any = keyed.window(assigner)
        if trigger is not None:
            windows = windows.trigger(trigger, may_lose_data=mode is not None)
        if mode is not None:
            windows = getattr(windows, mode)()
        for method, argument in {
            "evictor": evictor,
            "allowed_lateness": (lateness if isinstance(lateness, timedelta) else millis(lateness)) or None,
            "side_output_late_data": LATE if late else None,
            "on_time_behavior": on_time,
            "closing_behavior": closing,
        }.items():
            if argument is not None:
                windows = getattr(windows, method)(argument)
        found: DataStream[Any] = windows.aggregate(*aggregate if isinstance(aggregate, tuple) else [aggregate])
        return found.changelog(lambda kind, result: (kind.value, result)) if mode == "retracting" else found

    return build


# Any: the arguments of a step, and what is known of it.
def planned(assigner: Any, aggregate: Any, trigger: Any = None, evictor: Any = None, **said: Any) -> Plan:
    """A step that is made of these, and what is said of it and of its run."""
    known = {name: said.pop(name) for name in Plan._fields if name in said and name != "late"}
    build = step(assigner, aggregate, trigger, evictor, **said)
    retracts = said.get("mode") == "retracting"
    return Plan(build, late=said.get("late", False) and not retracts, retracts=retracts, **known)


def agree(ran: Ran, plan: Plan, *, exactly: bool = False) -> None:
    """A run on columns has given what the general operator gives, with the same late elements and losses."""
    engine, (wanted, *late), _ = ran
    found = [(kind_of(each).value, value_of(each)) for each in engine.results] if plan.retracts else engine.results
    assert by_key(map(_shown, found)) == by_key(map(_shown, wanted))
    assert not exactly or told(found) == told(wanted)
    assert told(engine.late) == (told(late[0]) if plan.late else {})
    for loss in ("late_records_dropped", CLOSED, UNFIRED):
        assert (loss, engine.counted[loss]) == (loss, engine.wanted_counts[loss])


def _shown(result: Any) -> tuple[Any, ...]:
    """A result as a tuple that begins with its key; with its pane and the kind of its change, if it has these."""
    if isinstance(result, WindowResult):
        return result.key, result.window, result.pane, result.value
    if len(result) == 2 and isinstance(result[1], (tuple, WindowResult)):
        return (*_shown(result[1]), result[0])
    return tuple(result)


def tumbling(size: int, offset: int = 0) -> TumblingEventTimeWindows:
    return TumblingEventTimeWindows.of(millis(size), millis(offset))


def sliding(size: int, slide: int, offset: int = 0) -> SlidingEventTimeWindows:
    return SlidingEventTimeWindows.of(millis(size), millis(slide), millis(offset))


def cumulative(size: int, step: int, offset: int = 0) -> CumulativeEventTimeWindows:
    return CumulativeEventTimeWindows.of(millis(size), millis(step), millis(offset))


def sessions(gap: int) -> EventTimeSessionWindows:
    return EventTimeSessionWindows.with_gap(millis(gap))


def tumbling_clock(size: int, offset: int) -> TumblingProcessingTimeWindows:
    return TumblingProcessingTimeWindows.of(millis(size), millis(offset))


def sliding_clock(size: int, slide: int, offset: int) -> SlidingProcessingTimeWindows:
    return SlidingProcessingTimeWindows.of(millis(size), millis(slide), millis(offset))


def sessions_by_clock(gap: int) -> ProcessingTimeSessionWindows:
    return ProcessingTimeSessionWindows.with_gap(millis(gap))


_SOME: tuple[Any, ...] = (
    agg.count(),
    agg.sum(lambda e: e.number),
    agg.mean(lambda e: e.level),
    agg.max(lambda e: e.text),
    agg.first(lambda e: e.number),
    agg.collect_list(lambda e: e.number),
)
"""Aggregates that ask for the order of elements, and some that do not."""
SOME: Any = agg.combine(agg.key(), *_SOME)
FROM_START: Any = agg.combine(agg.key(), agg.window_start(), *_SOME)
WHOLE_WINDOW: Any = agg.combine(
    agg.key(), agg.window_start(), agg.window_end(), agg.last(), agg.collect_list(lambda e: e.text)
)
UNORDERED: Any = agg.combine(
    agg.key(),
    agg.window_end(),
    agg.count(lambda e: e.number),
    agg.sum(lambda e: e.number),
    agg.mean(lambda e: e.number),
    agg.stddev(lambda e: e.level),
    agg.min(lambda e: e.level),
    agg.combine(agg.count_distinct(lambda e: e.text), agg.collect_set(lambda e: e.text)),
)
TOTALS: Any = agg.combine(agg.key(), agg.count(), agg.sum(lambda e: e.number))
TO_END: Any = agg.combine(
    agg.key(), agg.window_end(), agg.count(), agg.sum(lambda e: e.number), agg.min(lambda e: e.level)
)
OF_ELEMENTS: Any = agg.combine(
    agg.key(),
    agg.window_start(),
    agg.first(),
    agg.last(lambda e: e),
    agg.collect_list(),
    agg.min_by(lambda e: e.level),
    agg.max_by(lambda e: e.number),
    agg.top_k(3, lambda e: e.level),
)
"""Aggregates that take the element itself."""
WITH_PANE: Any = (agg.combine(agg.count(), agg.sum(lambda e: e.number)), with_pane())
"""All that is known of each pane; the aggregate makes records in Python, or stays a column."""

FOR_EVER = timedelta.max
BY_HUNDREDS, ALL_TIME = tumbling(100, -7), GlobalWindows.create()

IN_TIME: dict[str, Plan] = {
    "tumbling": planned(BY_HUNDREDS, FROM_START, least=50),
    "tumbling with lateness": planned(tumbling(60), FROM_START, lateness=50, least=50),
    "tumbling with lateness and late output": planned(tumbling(60), FROM_START, lateness=30, late=True, least=50),
    "tumbling with late output": planned(tumbling(30), FROM_START, late=True, least=50),
    "tumbling for ever": planned(tumbling(200), FROM_START, lateness=FOR_EVER, least=50, stays=True, batches=MANY),
    "elements": planned(tumbling(100), OF_ELEMENTS, least=50),
    "elements with lateness and late output": planned(tumbling(60), OF_ELEMENTS, lateness=30, late=True, least=50),
    "elements in windows that slide": planned(sliding(90, 30), OF_ELEMENTS, least=50),
    "sliding": planned(sliding(90, 30, 4), UNORDERED, least=50),
    "sliding unevenly": planned(sliding(50, 20), UNORDERED, lateness=15, late=True, least=50),
    "sliding by an odd time": planned(sliding(60, 17, -5), UNORDERED, least=50),
    "sliding in order with late output": planned(sliding(50, 20), FROM_START, lateness=15, late=True, least=50),
    "sliding in order by an odd time": planned(sliding(60, 17, -5), FROM_START, least=50),
    "cumulative": planned(cumulative(90, 30, 4), UNORDERED, least=50),
    "cumulative in order with late output": planned(
        cumulative(80, 10, -7), FROM_START, lateness=15, late=True, batches=MANY
    ),
    "cumulative with lateness": planned(cumulative(60, 20), WHOLE_WINDOW, lateness=50, least=50),
    "cumulative elements with lateness": planned(cumulative(60, 15), OF_ELEMENTS, lateness=30, late=True, least=50),
    "sessions": planned(sessions(12), UNORDERED, least=50),
    "sessions with late output": planned(sessions(4), UNORDERED, late=True, least=50),
    "sessions with lateness": planned(sessions(9), UNORDERED, lateness=50, least=50),
    "sessions with lateness and late output": planned(sessions(4), UNORDERED, lateness=25, late=True, least=50),
    "sessions for ever": planned(sessions(4), UNORDERED, lateness=FOR_EVER, least=50, stays=True),
    "all time": planned(ALL_TIME, TOTALS, EndOfStreamTrigger.create(), least=20, stays=True),
}


def counted(size: int, slide: int | None = None, **said: Any) -> Plan:
    return Plan(lambda keyed: keyed.count_window(size, slide).aggregate(SOME), **{"stays": True, "least": 5, **said})


def purged(count: int) -> Any:
    return PurgingTrigger.of(CountTrigger.of(count))


def at_most(count: int) -> CountEvictor:
    return CountEvictor.of(count)


def then_at_most(count: int) -> CountEvictor:
    return CountEvictor.of(count, do_evict_after=True)


so_far = partial(planned, ALL_TIME, SOME, least=5, stays=True)
some_hundreds = partial(planned, tumbling(200, -7), WHOLE_WINDOW, late=True, least=5, waits=True)
overlapping = partial(planned, sliding(300, 70), WHOLE_WINDOW, late=True, least=5, waits=True)

COUNTED: dict[str, Plan] = {
    "count of one": counted(1, stays=False),
    "count of seven": counted(7, waits=True),
    "count of hundreds": counted(100, waits=True, batches=90),
    "count that slides": counted(6, 4, waits=True),
    "count that slides by one": counted(5, 1),
    "count that slides by its size": counted(3, 3, waits=True),
    "count of the last of many": counted(2, 9, waits=True),
    "count of nearly all": counted(1000, 3, waits=True),
    "all so far": so_far(CountTrigger.of(5), waits=True),
    "all so far at each": so_far(CountTrigger.of(1)),
    "all so far, purged and evicted": so_far(purged(6), at_most(4), waits=True),
    "all so far, purged, less than allowed": so_far(purged(3), at_most(5), waits=True),
    "all so far, evicted behind": so_far(CountTrigger.of(4), then_at_most(3), waits=True),
    "all so far, all evicted behind": so_far(CountTrigger.of(4), then_at_most(0), waits=True),
    "all so far, purged and evicted behind": so_far(purged(4), then_at_most(3), waits=True),
    "counted in windows": some_hundreds(CountTrigger.of(3)),
    "counted in windows, purged": some_hundreds(purged(2), lateness=90),
    "counted in windows for ever": some_hundreds(purged(4), lateness=FOR_EVER, stays=True),
    "counted in windows, evicted": some_hundreds(CountTrigger.of(2), at_most(3), lateness=40),
    "counted in windows that slide": overlapping(CountTrigger.of(2), lateness=30),
    "counted in windows that slide, purged": overlapping(purged(3)),
    "counted in windows that slide, evicted": overlapping(purged(3), at_most(2), lateness=20),
}


def each(interval: int) -> ContinuousEventTimeTrigger:
    return ContinuousEventTimeTrigger.of(millis(interval))


def each_by_clock(interval: int) -> ContinuousProcessingTimeTrigger:
    return ContinuousProcessingTimeTrigger.of(millis(interval))


AT_END = PurgingTrigger.of(EventTimeTrigger.create())
AT_END_OF_CLOCK = PurgingTrigger.of(ProcessingTimeTrigger.create())
ON_CLOCK = tumbling_clock(50, 11)
ENDS_WITH_BATCHES = tumbling_clock(30, 1)
"""The last millisecond of some windows is the time of a batch."""
timed = partial(planned, BY_HUNDREDS, WHOLE_WINDOW)

TIMED: dict[str, Plan] = {
    "intervals": timed(each(23)),
    "intervals, purged": timed(PurgingTrigger.of(each(23))),
    "intervals that divide windows": planned(tumbling(100), WHOLE_WINDOW, each(20)),
    "intervals longer than windows": timed(each(1000)),
    "intervals of one": planned(BY_HUNDREDS, TO_END, each(1)),
    "sliding intervals": planned(sliding(90, 30, 3), WHOLE_WINDOW, each(20)),
    "sliding intervals, purged": planned(sliding(75, 15, -7), WHOLE_WINDOW, PurgingTrigger.of(each(10))),
    "sliding intervals, short": planned(sliding(400, 50), TO_END, each(5)),
    "late intervals": timed(each(23), lateness=70, late=True),
    "late intervals, purged": timed(PurgingTrigger.of(each(23)), lateness=70, late=True),
    "late intervals, dropped": timed(each(23), late=True),
    "late intervals for ever": timed(each(23), lateness=FOR_EVER, late=True, stays=True),
    "all time at intervals": planned(ALL_TIME, SOME, each(23), stays=True),
    "all time at intervals, purged": planned(ALL_TIME, SOME, PurgingTrigger.of(each(23))),
    "purged at the end": timed(AT_END),
    "purged at the end, sliding": planned(sliding(90, 20), WHOLE_WINDOW, AT_END),
    "purged at the end, sessions": planned(sessions(12), TO_END, AT_END, batches=MANY),
    "late, purged at the end": timed(AT_END, lateness=70, late=True),
    "late, purged at the end, sliding": planned(sliding(90, 20), WHOLE_WINDOW, AT_END, lateness=40, late=True),
    "late, purged at the end, cumulative": planned(cumulative(90, 15), WHOLE_WINDOW, AT_END, lateness=40, late=True),
    "late, purged at the end, cumulative by few": planned(cumulative(60, 12), SOME, AT_END, lateness=20, late=True),
    "late, purged at the end for ever": timed(AT_END, lateness=FOR_EVER, late=True),
    "clock": planned(ON_CLOCK, WHOLE_WINDOW),
    "clock, purged": planned(ENDS_WITH_BATCHES, WHOLE_WINDOW, AT_END_OF_CLOCK),
    "clock, last millisecond": planned(ENDS_WITH_BATCHES, WHOLE_WINDOW),
    "sliding clock": planned(sliding_clock(70, 30, 1), WHOLE_WINDOW),
    "sliding clock, last millisecond": planned(sliding_clock(40, 20, 1), WHOLE_WINDOW),
    "intervals of the clock": planned(ON_CLOCK, WHOLE_WINDOW, each_by_clock(7)),
    "intervals of the clock, purged": planned(ON_CLOCK, WHOLE_WINDOW, PurgingTrigger.of(each_by_clock(7))),
    "intervals of the clock, last millisecond": planned(ENDS_WITH_BATCHES, WHOLE_WINDOW, each_by_clock(7)),
    "sliding intervals of the clock": planned(sliding_clock(70, 30, 2), WHOLE_WINDOW, each_by_clock(10)),
    "sliding intervals of the clock, purged": planned(
        sliding_clock(40, 20, 3), WHOLE_WINDOW, PurgingTrigger.of(each_by_clock(5))
    ),
    "all time by the clock": planned(ALL_TIME, SOME, each_by_clock(7), stays=True),
    "all time by the clock, purged": planned(ALL_TIME, SOME, PurgingTrigger.of(each_by_clock(7)), stays=True),
    "sessions by the clock": planned(sessions_by_clock(25), WHOLE_WINDOW, batches=MANY),
    "sessions by the clock, purged": planned(sessions_by_clock(11), WHOLE_WINDOW, AT_END_OF_CLOCK, batches=MANY),
    "sessions by the clock, last millisecond": planned(sessions_by_clock(1), WHOLE_WINDOW, batches=MANY),
    "counted on the clock": planned(ON_CLOCK, WHOLE_WINDOW, CountTrigger.of(3), waits=True),
    "counted on the sliding clock": planned(sliding_clock(70, 30, 1), WHOLE_WINDOW, purged(4), waits=True),
}

CLOCK = after_processing_time(millis(15))
ALIGNED = after_processing_time(millis(3), aligned_to=millis(25))
AT_ONCE = after_processing_time(aligned_to=millis(20))
CLOCK_AND_EACH = after_watermark(early=CLOCK, late=after_count(1))
SLIDING = sliding(90, 30, 3)
CLOSES = ClosingBehavior.FIRE_ALWAYS
FILLED = OnTimeBehavior.FIRE_IF_NON_EMPTY


# Any: what is said of a step; a plan by its accumulation mode.
def paned(assigner: Any, aggregate: Any, trigger: Any, lateness: int = 0, **said: Any) -> Callable[..., Plan]:
    known = {"folds": False, **said}
    return partial(planned, assigner, aggregate, trigger, lateness=lateness, late=lateness > 0, **known)


paned_hundreds = partial(paned, BY_HUNDREDS)

PANED: dict[str, Callable[..., Plan]] = {
    "early count": paned_hundreds(WHOLE_WINDOW, after_watermark(early=after_count(3))),
    "early count, discarding": paned_hundreds(SOME, after_watermark(early=after_count(3))),
    "early count, discarding, only filled": paned_hundreds(SOME, after_watermark(early=after_count(2)), on_time=FILLED),
    "each element": paned_hundreds(SOME, after_watermark(early=always())),
    "early clock": paned_hundreds(TO_END, after_watermark(early=CLOCK), folds=True),
    "early clock, ordered": paned_hundreds(SOME, after_watermark(early=CLOCK)),
    "early clock, discarding": paned_hundreds(TO_END, after_watermark(early=CLOCK), folds=True),
    "early clock, aligned": paned_hundreds(TO_END, after_watermark(early=ALIGNED), folds=True),
    # With a delay of none each element may fire a pane.
    "early clock, at once": paned_hundreds(TO_END, after_watermark(early=AT_ONCE)),
    "late count": paned_hundreds(SOME, after_watermark(late=after_count(2)), 70),
    "late count, filled when it closes": paned_hundreds(
        SOME, after_watermark(early=after_count(5), late=after_count(3)), 100, closing=CLOSES
    ),
    "late clock": paned_hundreds(TO_END, after_watermark(late=CLOCK), 120),
    "late each": paned_hundreds(TO_END, CLOCK_AND_EACH, 100, folds=True),
    "late each, discarding": paned_hundreds(TO_END, CLOCK_AND_EACH, 100, folds=True),
    "both clocks": paned_hundreds(TO_END, after_watermark(early=CLOCK, late=ALIGNED), 130),
    "both clocks, late first": paned_hundreds(
        SOME, after_watermark(early=ALIGNED, late=after_processing_time(millis(2))), 130
    ),
    "both clocks, sliding": paned(SLIDING, TO_END, after_watermark(early=ALIGNED, late=CLOCK), 60),
    "late never": paned_hundreds(SOME, after_watermark(early=after_count(4), late=never()), 100),
    "late lost": paned_hundreds(SOME, after_watermark(early=after_count(4)), 100),
    "late lost, closing": paned_hundreds(TO_END, after_watermark(early=CLOCK), 100, closing=CLOSES),
    "never": paned_hundreds(SOME, never(), 50),
    "default": paned_hundreds(SOME, default(), 70, closing=CLOSES),
    "repeatedly at the end": paned_hundreds(SOME, repeatedly(after_watermark()), 70, closing=CLOSES),
    "repeatedly count": paned_hundreds(SOME, repeatedly(after_count(3)), 70),
    "repeatedly count, discarding": paned_hundreds(SOME, repeatedly(after_count(3)), 100),
    "repeatedly clock": paned_hundreds(TO_END, repeatedly(CLOCK), 70),
    "repeatedly clock, no lateness": paned_hundreds(TO_END, repeatedly(ALIGNED), folds=True),
    "sliding panes": paned(SLIDING, SOME, after_watermark(early=after_count(4), late=after_count(2)), 60),
    "sliding panes, discarding": paned(SLIDING, SOME, after_watermark(early=after_count(4), late=always()), 60),
    "sliding panes by the clock": paned(SLIDING, TO_END, after_watermark(early=CLOCK), folds=True),
    "sliding panes by the clock, each late": paned(SLIDING, TO_END, after_watermark(early=CLOCK, late=always()), 60),
    "panes of all time": paned(ALL_TIME, SOME, repeatedly(after_count(7))),
    "panes of all time, discarding": paned(ALL_TIME, SOME, repeatedly(after_count(7))),
    "panes of all time by the clock": paned(ALL_TIME, SOME, repeatedly(CLOCK)),
    "panes of all time at the end": paned(ALL_TIME, SOME, after_watermark(early=after_count(9))),
}
told_hundreds, told_sliding = (partial(paned, each, WITH_PANE, folds=None) for each in (BY_HUNDREDS, SLIDING))

TOLD = {
    "early and late count": told_hundreds(after_watermark(early=after_count(3), late=after_count(2)), 70),
    "early clock, late each": told_hundreds(CLOCK_AND_EACH, 100, closing=CLOSES),
    "late lost": told_hundreds(after_watermark(early=after_count(4)), 100),
    "late clock": told_hundreds(after_watermark(late=ALIGNED), 120, closing=CLOSES),
    "at the end": told_hundreds(default(), 70, closing=CLOSES),
    "repeatedly": told_sliding(repeatedly(after_count(3)), 60, closing=CLOSES),
    "only filled": told_sliding(after_watermark(early=CLOCK), on_time=FILLED),
    "repeatedly, late": told_hundreds(repeatedly(after_count(2)), 120),
    "repeatedly by the clock": told_hundreds(repeatedly(ALIGNED), 120, closing=CLOSES),
    "only filled, late": told_hundreds(CLOCK_AND_EACH, 120, on_time=FILLED),
    "all time": paned(ALL_TIME, WITH_PANE, after_watermark(early=after_count(7)), folds=None),
}
"""Steps whose results tell all that is known of their pane."""

MODES = ("accumulating", "discarding", "retracting")
PLANS: dict[str, Plan] = {
    **IN_TIME,
    **COUNTED,
    **TIMED,
    **{name: make(mode=MODES["discarding" in name]) for name, make in PANED.items()},
    **{f"{name}, retracting": make(mode=MODES[2]) for name, make in PANED.items() if "discarding" not in name},
    **{
        f"told panes, {name}, {mode}": TOLD[name](mode=mode)
        for name, mode in for_a_night([*product(TOLD, MODES)], [*zip(TOLD, cycle(MODES), strict=False)])
    },
}

_IN_ALL_MODES = [name for name in PANED if "discarding" not in name]
BY_NIGHT = for_a_night(set[str](), {*_IN_ALL_MODES[1::2], *(f"{name}, retracting" for name in _IN_ALL_MODES[::2])})
"""Panes in another mode: by day every other step retracts, and those between do not."""
