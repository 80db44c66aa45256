"""Random window steps with declared aggregates, whose keys and selectors are fields: with columns, most run on them.

What depends on the order of elements is drawn where they have one. Floats that depend on it in their last bits are
rounded in the result.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from datetime import timedelta
from operator import itemgetter
from typing import Any, TypeAlias

from tests.differential import functions as f
from tests.differential.drawn import FILTERS, LATE, offset, stamped_by_clock, with_late
from tests.differential.paned import alone_with_kind, said_of_panes, with_kind
from tests.spark.comparison import Event, Outputs, key_of, millis
from windrow import DataStream, KeyedStream, OutputTag
from windrow import aggregates as agg
from windrow.aggregates import DeclaredAggregate
from windrow.aggregates.combined import Combined
from windrow.evictors import CountEvictor
from windrow.functions import AggregateFunction
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    MergingTrigger,
    PurgingTrigger,
    Trigger,
    after_count,
    after_processing_time,
    after_watermark,
    always,
    default,
    never,
    or_finally,
    repeatedly,
)
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)

# Any in this module: keys, windows, accumulators and results are of every type.
Aggregate: TypeAlias = DeclaredAggregate[Event, Any, Any]
Assigner: TypeAlias = WindowAssigner[Event, Any]

_ON_CLOCK = (TumblingProcessingTimeWindows, SlidingProcessingTimeWindows, ProcessingTimeSessionWindows)

# Plain fields, comparisons, and products of floats are columns. Arithmetic of ints is not.
_KEYS: tuple[Callable[[Event], Hashable], ...] = (
    lambda event: event.value > 60,
    lambda event: event.value,
    f.remainder_key,
)
_NUMBERS: tuple[Callable[[Event], float], ...] = (
    *(lambda event: event.value,) * 3,
    *(lambda event: event.at,) * 3,
    *(lambda event: event.value > 50,) * 2,  # it has equals
    *(lambda event: event.value * 0.5,) * 2,  # halves add up without rounding
    lambda event: event.value % 7,
)
_TIME: Callable[[Any], Any] = itemgetter(1)  # of a tuple that begins with a key and a time
_SELECTORS: tuple[Callable[[Event], Any], ...] = (*_NUMBERS, *(lambda event: event.key,) * 4)


def _is_plain(function: AggregateFunction[Any, Any, Any]) -> bool:
    """Whether results are tuples of a key, a time and more."""
    return isinstance(function, Combined) and function.target is None


class DeclaredSteps:
    """Draws steps.

    Args:
        chance: Draws, and nothing else draws from it: other steps stay what they are without these.
        behind: The same for steps right behind these, which take the results as they are.
        passing: The same for steps beside these, which leave out what repeats.
        outputs: Takes the outputs.
        clocked: Whether steps may use processing time.
    """

    def __init__(
        self, chance: random.Random, behind: random.Random, passing: random.Random, outputs: Outputs, *, clocked: bool
    ) -> None:
        self._chance = chance
        self._behind = behind
        self._passing = passing
        self._outputs = outputs
        self._clocked = clocked

    def wanted(self, *, first: bool) -> bool:
        """Whether the next step of a chain is one of these. Behind another keyed step there are no columns."""
        return self._chance.random() < (0.7 if first else 0.15)

    def head(self, stream: DataStream[Event]) -> DataStream[Event]:
        """What columns can pass in front of a step."""
        if self._chance.random() < 0.7:
            return stream
        return stream.filter(self._chance.choice(FILTERS))

    def step(self, stream: DataStream[Event], name: str, *, first: bool) -> tuple[DataStream[Event], bool]:
        """A step behind ``stream``, whose elements have an order within their key, with sinks for its outputs.

        Args:
            stream: The elements.
            name: Names the step.
            first: Whether no keyed step is in front, so that elements have an order within every key.

        Returns:
            Elements for a next step, and whether they have an order within their key.
        """
        chance = self._chance
        assigner = self._assigner()
        without_keys = first and chance.random() < 0.1
        key: Callable[[Any], Hashable] = f.all_key
        # Any: windows with keys and without, which merge or do not.
        windows: Any
        if without_keys:
            windows = stream.window_all(assigner)
        else:
            key = chance.choice([f.event_key] * 6 + [*_KEYS] * first)
            windows = stream.key_by(key).window(assigner)
            if self._passing.random() < 0.5:
                self._outputs.add(f"{name} passing", self._passed(stream.key_by(key), f"{name}.passing"), key)
        paned = self._behind.random() < 0.35 and not isinstance(assigner, _ON_CLOCK)
        mode = ""
        if paned:
            windows, mode = self._paned(windows, assigner)
        else:
            windows = self._triggered(windows, assigner, by_clock=stamped_by_clock(stream))
        bounded = not isinstance(assigner, GlobalWindows)
        windows, late = with_late(chance, windows, 0.4) if assigner.is_event_time else (windows, False)
        # Sessions run on columns for aggregates alone that need no order.
        ordered = not isinstance(assigner, EventTimeSessionWindows) or chance.random() < 0.1
        function, keyed = self._result(ordered=ordered, bounded=bounded)
        found: DataStream[Any] = windows.aggregate(function, name=name)
        if late:
            self._outputs.add(f"{name} late", found.get_side_output(LATE), key)
        if mode == "retracting":
            if keyed and bounded and _is_plain(function):
                self._chain(found, f"{name}.behind", withdrawn=True)
            found = found.changelog(with_kind if keyed else alone_with_kind)
            bounded = False
        if without_keys:
            self._outputs.add(name, found, f.all_key)
            return found.map(f.alone), True
        self._outputs.add(name, found, key_of if keyed else None)
        if keyed and bounded and _is_plain(function):
            self._chain(found, f"{name}.behind")
        return found.map(f.folded if keyed else f.alone), keyed

    def _passed(self, keyed: KeyedStream[Event, Any], name: str) -> DataStream[Event]:
        """A step that leaves out elements which repeat an earlier one."""
        chance = self._passing
        within = timedelta.max if chance.random() < 0.1 else millis(chance.randrange(1, 200))
        if chance.random() < 0.3:
            return keyed.first(within=within, name=name)
        selectors = [None, lambda event: event.value % 5, lambda event: event.value > 50, lambda event: event.key]
        return keyed.distinct(chance.choice(selectors), within=within, name=name)

    # Any: tuples that begin with a key and a time.
    def _chain(self, results: DataStream[Any], name: str, *, withdrawn: bool = False) -> None:
        """Windows right behind results, which have an order within their key; they may be withdrawn."""
        chance = self._behind
        if chance.random() < 0.4:
            return
        if chance.random() < 0.3:
            results = results.filter(lambda result: result[1] > 40)
        size = chance.randrange(1, 400)
        assigner: WindowAssigner[Any, Any] = chance.choice(
            [
                TumblingEventTimeWindows.of(millis(size)),
                SlidingEventTimeWindows.of(millis(size + 20), millis(20 + size // 3)),
                EventTimeSessionWindows.with_gap(millis(1 + size // 2)),
            ]
        )
        if withdrawn and isinstance(assigner, EventTimeSessionWindows):
            return  # a plan with them is refused
        # Any: windows that merge or do not.
        windows: Any = results.key_by(lambda result: result[0]).window(assigner)
        late = chance.random() < 0.3 and not withdrawn
        if late:
            windows = windows.side_output_late_data(OutputTag("late", tuple))
        if chance.random() < 0.4 and not withdrawn:
            windows = windows.allowed_lateness(millis(chance.randrange(90)))
        ordered = not isinstance(assigner, EventTimeSessionWindows)
        # Any: aggregates of such tuples.
        drawn: list[DeclaredAggregate[Any, Any, Any]] = (
            [agg.first(_TIME), agg.last(_TIME), agg.collect_list(_TIME)]
            if ordered
            else [agg.sum(_TIME), agg.mean(_TIME), agg.min(_TIME)]
        )
        others = [other for other in drawn if chance.random() < 0.4]
        members: list[DeclaredAggregate[Any, Any, Any]] = [agg.key(), agg.window_start(), agg.count(), agg.max(_TIME)]
        found: DataStream[Any] = windows.aggregate(agg.combine(*members, *others), name=name)
        if late:
            self._outputs.add(f"{name} late", found.get_side_output(OutputTag("late", tuple)), key_of)
        self._outputs.add(name, found, key_of)
        self._chain(found, f"{name}.behind")

    def _assigner(self) -> Assigner:
        chance = self._chance
        if self._clocked and chance.random() < 0.4:
            slide = chance.randrange(5, 200)
            if chance.random() < 0.4:
                return ProcessingTimeSessionWindows.with_gap(millis(slide))
            if chance.random() < 0.6:
                return TumblingProcessingTimeWindows.of(millis(slide), offset(chance, slide))
            size = slide + chance.choice([slide, chance.randrange(4 * slide)])
            return SlidingProcessingTimeWindows.of(millis(size), millis(slide), offset(chance, slide))
        match chance.randrange(11):
            case 0 | 1 | 2:
                size = chance.randrange(1, 200)
                return TumblingEventTimeWindows.of(millis(size), offset(chance, size))
            case 3 | 4 | 5:
                slide = chance.randrange(5, 60)
                size = slide + chance.choice([0, slide, chance.randrange(4 * slide)])
                return SlidingEventTimeWindows.of(millis(size), millis(slide), offset(chance, slide))
            case 6 | 7 | 8:
                return EventTimeSessionWindows.with_gap(millis(chance.randrange(1, 90)))
            case _ if chance.random() < 0.4:
                return GlobalWindows.create_with_end_of_stream_trigger()
            case _:
                return GlobalWindows.create()

    # Any: as in `step`.
    def _paned(self, windows: Any, assigner: Assigner) -> tuple[Any, str]:
        """Windows with a trigger that composes, mostly one that columns follow, and their mode."""
        chance = self._behind
        parts: list[MergingTrigger[Any, Any]] = [after_count(chance.randrange(1, 6)), always(), never()]
        if self._clocked:
            aligned = millis(chance.randrange(1, 90)) if chance.random() < 0.4 else None
            parts.append(after_processing_time(millis(chance.randrange(150)), aligned_to=aligned))
        ends: list[Trigger[Any, Any]] = [
            after_watermark(early=chance.choice(parts), late=chance.choice([None, *parts])),
            after_watermark(early=chance.choice(parts)),
            after_watermark(late=chance.choice(parts)),
            default(),
            repeatedly(chance.choice(parts)),
            repeatedly(after_watermark()),
            after_watermark(),
        ]
        trigger = chance.choice(ends) if chance.random() < 0.9 else or_finally(chance.choice(parts), after_count(9))
        return said_of_panes(chance, windows.trigger(trigger, may_lose_data=True))

    # Any: as in `step`.
    def _triggered(self, windows: Any, assigner: Assigner, *, by_clock: bool) -> Any:
        """Windows with a trigger, mostly that of the assigner, and some with an evictor."""
        chance = self._chance
        is_global = isinstance(assigner, GlobalWindows)
        if assigner.default_trigger().describe() != "NeverTrigger" and (is_global or chance.random() < 0.6):
            return windows
        trigger: Trigger[Event, Any] = CountTrigger.of(chance.randrange(1, 7))
        if chance.random() < 0.5:
            intervals: list[Trigger[Event, Any]] = []
            interval = millis(chance.randrange(10, 90))
            if is_global or assigner.is_event_time:
                intervals.append(trigger if by_clock else ContinuousEventTimeTrigger.of(interval))
            if self._clocked and (is_global or not assigner.is_event_time):
                intervals.append(ContinuousProcessingTimeTrigger.of(interval))
            trigger = chance.choice(intervals)
            if not is_global and chance.random() < 0.4:
                trigger = assigner.default_trigger()
        windows = windows.trigger(PurgingTrigger.of(trigger) if chance.random() < 0.5 else trigger)
        if chance.random() < 0.7:
            return windows
        return windows.evictor(CountEvictor.of(chance.randrange(9), do_evict_after=chance.random() < 0.3))

    def _result(self, *, ordered: bool, bounded: bool) -> tuple[AggregateFunction[Event, Any, Any], bool]:
        """An aggregate, and whether its results tell the key.

        Args:
            ordered: Whether it may depend on the order of elements.
            bounded: Whether windows have a start and an end.
        """
        chance = self._chance
        members = [self._aggregate(ordered=ordered) for _ in range(chance.choice([1, 1, 2, 3]))]
        facts: list[Aggregate] = [agg.window_start(), agg.window_end()] if bounded else []
        key: Aggregate = agg.key()
        match chance.randrange(8):
            case 0:
                return members[0], False
            case 1:
                return agg.combine(*members), False
            case 2 | 3:
                return agg.into(f.Summary, key=key, found=agg.combine(*members)), True
            case 4:
                named = dict(zip(("start", "end"), facts, strict=False))
                return agg.into(f.Summary, key=key, found=members[0], **named), True
            case 5:
                # The last bits of a spread depend on the order.
                return agg.into(f.rounded, key, self._spread(), *members), True
            case _:
                return agg.combine(key, *facts, *members), True

    def _aggregate(self, *, ordered: bool) -> Aggregate:
        chance = self._chance
        number, selector = chance.choice(_NUMBERS), chance.choice(_SELECTORS)
        drawn: list[Callable[[], Aggregate]] = [
            lambda: agg.count(chance.choice([None, selector])),
            lambda: agg.sum(number),
            lambda: agg.mean(number),
            lambda: agg.min(selector),
            lambda: agg.max(selector),
            lambda: agg.into(f.in_order, agg.collect_set(selector)),
            lambda: agg.count_distinct(selector),
            lambda: agg.approx_count_distinct(selector),
        ]
        if ordered and chance.random() < 0.6:
            # Whole elements are no column.
            whole = chance.random() < 0.1
            k = chance.randrange(1, 5)
            drawn = [
                lambda: agg.first() if whole else agg.first(selector),
                lambda: agg.last() if whole else agg.last(selector),
                lambda: agg.collect_list() if whole else agg.collect_list(selector),
                lambda: agg.min_by(number) if whole else agg.min_by(number, selector),
                lambda: agg.max_by(number) if whole else agg.max_by(number, selector),
                lambda: agg.top_k(k, number) if whole else agg.top_k(k, number, selector),
            ]
        return chance.choice(drawn)()

    def _spread(self) -> Aggregate:
        spread = self._chance.choice([agg.variance, agg.var_pop, agg.stddev, agg.stddev_pop])
        return spread(lambda event: event.value)
