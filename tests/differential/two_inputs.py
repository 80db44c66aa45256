"""Random steps of two inputs: joins by window and by time, co-groups, connected streams, rules, and side inputs.

With columns many of the joins are declared, of fields, and keep to what runs on columns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from tests.differential import functions as f
from tests.differential.aside import with_views
from tests.differential.drawn import FILTERS, LATE, evictor, with_late
from tests.spark.comparison import Event, Outputs, key_of, millis
from windrow import DataStream, OutputTag, joins
from windrow.functions import (
    BroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    OnTimerContext,
    ReadOnlyContext,
    ReadOnlyOnTimerContext,
    TimeDomain,
)
from windrow.state import ListStateDescriptor, MapStateDescriptor, ValueState, ValueStateDescriptor
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)

_LATE_RIGHT = OutputTag("late of the right", Event)
_SIDE = OutputTag[tuple[str, str, int]]("side")

# Any in this module: windows, triggers and stages of every kind.
Found: TypeAlias = DataStream[Any]


class Joined(NamedTuple):
    """The result of a declared join."""

    key: str
    left_at: int | None
    left_value: float | None
    right_at: int | None
    right_value: int | None


class TwoInputs:
    """Draws a step of two inputs, and hands its outputs to ``outputs``.

    Args:
        chance: Draws.
        name: Names the step, and begins the names of outputs.
        outputs: Takes the outputs.
        clocked: Whether steps may use processing time.
        declare: Draws which joins are declared, apart from all else; None: none is.
        aside: Draws side inputs in place of another step, apart from all else.
        retain: Draws which as-of joins have a retention, apart from all else.
    """

    def __init__(
        self,
        chance: random.Random,
        name: str,
        outputs: Outputs,
        *,
        clocked: bool,
        aside: random.Random,
        retain: random.Random,
        declare: random.Random | None = None,
    ) -> None:
        self._chance = chance
        self._name = name
        self._outputs = outputs
        self._clocked = clocked
        self._declare = declare
        self._aside = aside
        self._retain = retain
        # Whether the step is kept to what runs on columns: without triggers, evictors and late elements.
        self._is_plain = declare is not None and declare.random() < 0.7
        self.ordered = True  # whether results have an order within their key; on columns pairs have another one

    def step(self, left: DataStream[Event], right: DataStream[Event]) -> DataStream[Event]:
        """Put a step behind two streams; gives what it puts out as elements of the kind that these have."""
        chance = self._chance
        if chance.random() < 0.3:
            dropped = chance.randrange(5)
            declare = self._declare
            right = right.filter(partial(f.unlike, dropped) if declare is None else declare.choice(FILTERS))
        kinds: list[Callable[[DataStream[Event], DataStream[Event]], Found]] = [
            self._window_join,
            self._window_join,
            self._co_group,
            self._interval_join,
            self._interval_join,
            self._as_of_join,
            self._connected,
            self._connected,
            self._ruled,
        ]
        if self._is_plain:
            kinds = [self._window_join, self._window_join, self._interval_join]
        found = (self._side_input if self._aside.random() < 0.2 else chance.choice(kinds))(left, right)
        self._outputs.add(self._name, found, key_of if self.ordered else None)
        return found.map(f.folded)

    # Joins by window

    def _window_join(self, left: DataStream[Event], right: DataStream[Event]) -> Found:
        kind = self._chance.randrange(4)
        joined: Any = [left.join, left.left_join, left.full_join, left.right_join][kind](right)
        return self._windows(joined, self._function(may_lack_left=kind >= 2, may_lack_right=kind in {1, 2}))

    def _function(self, *, may_lack_left: bool = False, may_lack_right: bool = False) -> Callable[..., Any]:
        """What makes the results of a join."""
        declare = self._declare
        if declare is None or not (self._is_plain or declare.random() < 0.3):
            return _pair
        self.ordered = False
        # Any: the fields of a full join are others to the type checker than those of an inner one.
        left: Any = joins.left_or_none if may_lack_left else joins.left
        right: Any = joins.right_or_none if may_lack_right else joins.right
        function: Callable[..., Any] = joins.into(
            Joined,
            joins.key(),
            left(lambda event: event.at),
            left(declare.choice([lambda event: event.value, lambda event: event.value * 0.5])),
            right(lambda event: event.at),
            right(lambda event: event.value),
        )
        return function

    def _co_group(self, left: DataStream[Event], right: DataStream[Event]) -> Found:
        return self._windows(left.co_group(right), _group)

    def _windows(self, together: Any, function: Callable[..., Any]) -> Found:
        chance = self._chance
        assigner = self._assigner(kinds=4 if self._is_plain else 7)
        merging, is_global = isinstance(assigner, MergingWindowAssigner), isinstance(assigner, GlobalWindows)
        stage = together.where(f.event_key).equal_to(f.event_key).window(assigner)
        if self._is_plain:
            plain: Found = stage.apply(function, name=self._name)
            return plain
        trigger = self._trigger(merging=merging, is_global=is_global)
        stage = stage if trigger is None else stage.trigger(trigger)
        evicting = evictor(chance)
        stage = stage if evicting is None else stage.evictor(evicting)
        stage, late = (stage, False) if is_global else with_late(chance, stage)
        found: Found = stage.apply(function, name=self._name)
        if late:
            self._outputs.add(f"{self._name} late", found.get_side_output(LATE), f.event_key)
        # Where an evictor has taken all elements, nobody knows their key, so their order is not fixed.
        return found if evicting is None else found.filter(_has_key)

    def _assigner(self, kinds: int) -> WindowAssigner[Event, Any]:
        """Draws one of the first kinds."""
        chance = self._chance
        match chance.randrange(kinds):
            case 0 | 1 | 2:
                return TumblingEventTimeWindows.of(millis(chance.randrange(1, 200)))
            case 3:
                return SlidingEventTimeWindows.of(millis(chance.randrange(1, 160)), millis(chance.randrange(10, 100)))
            case 4:
                return EventTimeSessionWindows.with_gap(millis(chance.randrange(1, 60)))
            case 5:
                return EventTimeSessionWindows.with_dynamic_gap(partial(f.gap_of, chance.randrange(2, 60)))
            case _:
                return GlobalWindows.create()

    def _trigger(self, *, merging: bool, is_global: bool) -> Trigger[Event, Any] | None:
        chance = self._chance
        if not is_global and chance.random() < 0.5:
            return None
        triggers: list[Trigger[Event, Any]] = [
            CountTrigger.of(chance.randrange(1, 6)),
            ContinuousEventTimeTrigger.of(millis(chance.randrange(10, 80))),
        ]
        if not is_global:
            triggers.append(EventTimeTrigger.create())
        if not merging:
            triggers.append(DeltaTrigger.of(float(chance.randrange(40)), f.distance))
        trigger = chance.choice(triggers)
        # What a global window holds would be paired again and again.
        return PurgingTrigger.of(trigger) if is_global or chance.random() < 0.3 else trigger

    # Joins by time

    def _interval_join(self, left: DataStream[Event], right: DataStream[Event]) -> Found:
        chance = self._chance
        lower = chance.randrange(-80, 60)
        stage = left.key_by(f.event_key).interval_join(right.key_by(f.event_key))
        bounded = stage.between(millis(lower), millis(lower + chance.randrange(100)))
        if chance.random() < 0.3:
            bounded = bounded.lower_bound_exclusive()
        if chance.random() < 0.3:
            bounded = bounded.upper_bound_exclusive()
        kind = chance.randrange(6)
        # Any: outer joins have functions of other types.
        outer: Any = [bounded.left, bounded.full, bounded.right][kind]() if kind < 3 else bounded
        return self._late_by_time(outer, self._function(may_lack_left=kind in {1, 2}, may_lack_right=kind < 2))

    def _as_of_join(self, left: DataStream[Event], right: DataStream[Event]) -> Found:
        chance = self._chance
        keyed, versions = left.key_by(f.event_key), right.key_by(f.event_key)
        # Any: both kinds of joins have the same calls.
        joined: Any = keyed.as_of_join(versions) if chance.random() < 0.5 else keyed.left_as_of_join(versions)
        if self._retain.random() < 0.6:
            joined = joined.retention(millis(self._retain.choice([0, self._retain.randrange(150)])))
        return self._late_by_time(joined, _pair)

    def _late_by_time(self, stage: Any, function: Callable[..., Any]) -> Found:
        """A join by time, maybe with lateness and with outputs of late elements."""
        chance = self._chance
        if chance.random() < 0.4:
            stage = stage.allowed_lateness(millis(chance.randrange(90)))
        late_left, late_right = (not self._is_plain and chance.random() < 0.5 for _ in range(2))
        if late_left:
            stage = stage.side_output_left_late_data(LATE)
        if late_right:
            stage = stage.side_output_right_late_data(_LATE_RIGHT)
        found: Found = stage.apply(function, name=self._name)
        if late_left:
            self._outputs.add(f"{self._name} late", found.get_side_output(LATE), f.event_key)
        if late_right:
            self._outputs.add(f"{self._name} late of the right", found.get_side_output(_LATE_RIGHT), f.event_key)
        return found

    # Functions

    def _side_input(self, left: DataStream[Event], right: DataStream[Event]) -> Found:
        self.ordered = False
        return with_views(self._aside, left, right, self._name, self._outputs)

    def _connected(self, left: DataStream[Event], right: DataStream[Event]) -> Found:
        chance = self._chance
        function = Paired(chance.randrange(1, 150), chance.randrange(2, 6), by_clock=self._clocked)
        connected = left.connect(right).key_by(f.event_key, f.event_key)
        found = connected.process(function, name=self._name)
        self._outputs.add(f"{self._name} side", found.get_side_output(_SIDE), key_of)
        return found

    def _ruled(self, left: DataStream[Event], right: DataStream[Event]) -> Found:
        chance = self._chance
        function = Ruled(chance.randrange(1, 150), chance.randrange(2, 6))
        rules = right.broadcast(Ruled.RULES)
        found = left.key_by(f.event_key).connect(rules).process(function, name=self._name)
        self._outputs.add(f"{self._name} side", found.get_side_output(_SIDE), key_of)
        return found


def _pair(left: Event | None, right: Event | None) -> tuple[Any, ...]:
    one = left if left is not None else right
    assert one is not None, "one of them is there"
    return one.key, _told(left), _told(right)


def _told(event: Event | None) -> tuple[int, int] | None:
    return None if event is None else (event.at, event.value)


def _group(left: Sequence[Event], right: Sequence[Event]) -> Iterator[tuple[Any, ...]]:
    key = next((event.key for event in (*left, *right)), None)
    yield key, [event.value for event in left], [event.value for event in right]


def _has_key(record: tuple[Any, ...]) -> bool:
    return record[0] is not None


class Paired(KeyedCoProcessFunction[Any, Event, Event, tuple[Any, ...]]):
    """Pairs elements with what the other stream has left in state, and sets timers of both domains.

    Args:
        delay: How long behind an element its timers are due, in milliseconds.
        forget: Elements of the second stream whose value this number divides clear the state.
        by_clock: Whether it sets timers of the clock, some of them behind it.
    """

    def __init__(self, delay: int, forget: int, *, by_clock: bool) -> None:
        self._delay = delay
        self._forget = forget
        self._by_clock = by_clock
        self.uses_processing_time = by_clock
        self._first = ListStateDescriptor("first", type_=int)
        self._second = ValueStateDescriptor("second", type_=int)

    def process_element1(self, value: Event, context: KeyedProcessContext[Any]) -> Iterator[tuple[Any, ...]]:
        timers = context.timer_service
        context.get_state(self._first).add(value.value)
        assert context.timestamp is not None
        timers.register_event_time_timer(min(context.timestamp + self._delay, MAX_TIMESTAMP))
        if self._by_clock:
            timers.register_processing_time_timer(timers.current_processing_time + self._delay - 20)
        yield context.key, "first", value.value, context.get_state(self._second).value(), timers.current_watermark

    def process_element2(self, value: Event, context: KeyedProcessContext[Any]) -> Iterator[tuple[Any, ...]]:
        first = context.get_state(self._first)
        yield context.key, "second", value.value, first.get(), context.timer_service.current_watermark
        context.get_state(self._second).update(value.value)
        if value.value % self._forget == 0:
            first.clear()
            context.timer_service.delete_event_time_timer(value.at + self._delay)
        elif value.value % 2:
            context.output(_SIDE, (context.key, "second", value.value))

    def on_timer(self, timestamp: int, context: OnTimerContext[Any]) -> Iterator[tuple[Any, ...]]:
        held = len(context.get_state(self._first).get())
        if context.time_domain is TimeDomain.PROCESSING_TIME:
            # Its records would have no timestamp, which windows in event time behind this step need.
            context.output(_SIDE, (context.key, "clock", held))
            return
        yield context.key, "timer", timestamp, held, context.timer_service.current_watermark


class Ruled(KeyedBroadcastProcessFunction[Any, Event, Event, tuple[Any, ...]]):
    """Looks rules up, and changes them by elements of the second stream, some of which visit the state of all keys.

    Args:
        delay: How long behind an element its timer is due, in milliseconds.
        forget: Rules whose value this number divides remove one, and visit all keys.
    """

    RULES = MapStateDescriptor("rules", str, int)

    def __init__(self, delay: int, forget: int) -> None:
        self._delay = delay
        self._forget = forget
        self._last = ValueStateDescriptor("last", type_=int)

    def process_element(self, value: Event, context: ReadOnlyContext[Any]) -> Iterator[tuple[Any, ...]]:
        rules = context.get_broadcast_state(self.RULES)
        last = context.get_state(self._last)
        assert context.timestamp is not None
        context.timer_service.register_event_time_timer(min(context.timestamp + self._delay, MAX_TIMESTAMP))
        yield context.key, "element", value.value, last.value(), sorted(rules.items())
        last.update(value.value)

    def process_broadcast_element(
        self, value: Event, context: BroadcastContext[Any, tuple[Any, ...]]
    ) -> Iterator[tuple[Any, ...]]:
        rules = context.get_broadcast_state(self.RULES)
        if value.value % self._forget == 0:
            rules.remove(value.key)

            def visit(key: Any, last: ValueState[int]) -> list[tuple[Any, ...]]:
                seen = last.value()
                if seen is not None and seen % 2:
                    last.clear()
                return [(key, "visited", value.value, seen)]

            context.apply_to_keyed_state(self._last, visit)
        else:
            rules.put(value.key, value.value)
            context.output(_SIDE, ("rules", value.key, value.value))
        yield "rules", value.value, context.current_watermark

    def on_timer(self, timestamp: int, context: ReadOnlyOnTimerContext[Any]) -> Iterator[tuple[Any, ...]]:
        rules = context.get_broadcast_state(self.RULES)
        yield context.key, "timer", timestamp, rules.get("a"), context.timer_service.current_watermark
