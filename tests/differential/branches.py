"""Random steps behind an input: chains of up to three keyed steps, each with sinks for all that it puts out.

Between two steps of a chain the output is made an element of the input's kind again, with the key that it had. So
every step of a chain can be of every kind.

Where a step gets elements of one key from several upstream keys, or from streams of different depth, their order is
not fixed, in Flink neither. Such a step computes what does not depend on it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeAlias

from tests.differential import functions as f
from tests.differential import kinds as k
from tests.differential import mutating as m
from tests.differential.declared import DeclaredSteps
from tests.differential.drawn import LATE, evictor, offset, stamped_by_clock, with_late
from tests.differential.ordered import ordered_step
from tests.differential.paned import Paned, composed, said_of_panes, with_kind
from tests.spark.comparison import Event, Outputs, Seen, key_of, millis
from windrow import DataStream, KeyedStream
from windrow.builder.windowed import AllWindowedStream, MergingAllWindowedStream, MergingWindowedStream, WindowedStream
from windrow.functions import ProcessWindowFunction
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeoutTrigger,
    EventTimeTrigger,
    MergingTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    StateCleaningCountTrigger,
    Trigger,
)
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
    WindowStagger,
)

# Any in this module: windows, triggers and outputs of every kind.
Windows: TypeAlias = (
    WindowedStream[Event, Any, Any]
    | MergingWindowedStream[Event, Any, Any]
    | AllWindowedStream[Event, Any]
    | MergingAllWindowedStream[Event, Any]
)
Key: TypeAlias = Callable[[Any], Hashable]


class Branch:
    """Draws steps, and hands their outputs to ``outputs``.

    Args:
        chance: Draws.
        prefix: Begins the names of outputs and steps.
        outputs: Takes the outputs.
        clocked: Whether steps may use processing time.
        stagger: Draws which windows are staggered, apart from all else.
        mutate: Draws which steps change what they are given and what they emit, apart from all else.
        declared: Draws steps with declared aggregates; None: there are none.
        panes: Draws which windows have triggers that compose, and what is said of their panes, apart from all else.
        order: Draws patterns, and elements in event-time order, apart from all else.
        kinds: Draws the steps and windows of :mod:`tests.differential.kinds`, apart from all else.
    """

    def __init__(
        self,
        chance: random.Random,
        prefix: str,
        outputs: Outputs,
        *,
        clocked: bool,
        stagger: random.Random,
        mutate: random.Random,
        panes: random.Random,
        order: random.Random,
        kinds: random.Random,
        declared: DeclaredSteps | None = None,
    ) -> None:
        self._chance = chance
        self._panes = panes
        self._order = order
        self._kinds = kinds
        self._mode: str | None = None
        self._clocked = clocked
        self._stamped_by_clock = False
        self._stagger = stagger
        self._mutate = mutate
        self._mutates = False
        self._declared = declared
        self._prefix = prefix
        self._outputs = outputs
        self._name = prefix

    def grow(self, stream: DataStream[Event], *, behind_keyed: bool = False, ordered: bool = True) -> None:
        """Put a chain of steps behind ``stream``, which comes of a keyed step itself with ``behind_keyed``.

        Elements have no order, not even within their keys, unless they are ``ordered``.
        """
        chance, declared = self._chance, self._declared
        declares = declared is not None and declared.wanted(first=True)
        begin = declared.head(stream) if declared is not None and declares else self._head(stream)
        current, mixed = begin, False
        for level in range(chance.choice([1, 1, 2, 2, 3])):
            self._name = f"{self._prefix}.{level}"
            self._stamped_by_clock = stamped_by_clock(current)
            if level and chance.random() < 0.15:
                current, mixed = current.union(begin), True
            elif level:
                mixed = chance.random() < 0.15
            mixed, ordered = mixed or not ordered, True
            if level and declared is not None:
                declares = declared.wanted(first=False)
            if declared is not None and declares and not mixed:
                current, ordered = declared.step(current, self._name, first=level == 0 and not behind_keyed)
                continue
            if not mixed and self._kinds.random() < 0.1:
                current = k.failing(self._kinds, current, self._name, self._outputs)
            if self._clocked and not mixed and chance.random() < 0.1:
                # What its timers emit by the clock has no timestamp, so no window in event time may follow.
                self._process_by_clock(current)
                return
            self._mutates = not mixed and self._mutate.random() < 0.3
            if self._mutates:
                current = current.map(m.loosened)
            current = self._mixed(current) if mixed else self._step(current, first=level == 0 and not behind_keyed)

    def _head(self, stream: DataStream[Event]) -> DataStream[Event]:
        chance = self._chance
        match chance.randrange(8):
            case 0:
                return stream.filter(partial(f.unlike, chance.randrange(5)))
            case 1:
                return stream.map(partial(f.shifted, chance.randrange(-9, 9)))
            case 2:
                return stream.flat_map(partial(f.copies, chance.randrange(1, 4)))
            case _:
                return stream

    # Steps

    def _step(self, stream: DataStream[Event], *, first: bool) -> DataStream[Event]:
        """A step behind ``stream``, whose elements have an order within their key."""
        chance = self._chance
        if first and chance.random() < 0.1:
            assigner = self._staggered(self._assigner())
            return self._windows(stream.window_all(assigner), assigner, f.all_key)
        # Behind a keyed step there is an order within its keys alone.
        key: Key = chance.choice([f.event_key] * 4 + [f.pair_key, f.remainder_key, f.no_key] * first)
        keyed: KeyedStream[Event, Any] = stream.key_by(key)
        if key is f.event_key and not self._mutates and self._order.random() < 0.12:
            return self._emit(ordered_step(self._order, keyed, self._name, self._outputs), key_of)
        if key is f.event_key and not self._mutates and self._kinds.random() < 0.12:
            passed = k.keyed_step(self._kinds, keyed, self._name)
            self._outputs.add(self._name, passed, f.event_key)
            return passed
        match chance.randrange(10):
            case 0 | 1:
                return self._process(keyed)
            case 2:
                return self._rolling(keyed, key)
            case 3:
                slide = chance.choice([None, chance.randrange(1, 6)])
                counted = keyed.count_window(chance.randrange(1, 7), slide)
                return self._computed(counted, key, merging=False)
            case _:
                assigner = self._assigner()
                if key is f.no_key:
                    assigner = self._staggered(assigner)
                return self._windows(keyed.window(assigner), assigner, key)

    def _mixed(self, stream: DataStream[Event]) -> DataStream[Event]:
        """A step behind ``stream``, whose elements have no order."""
        chance = self._chance
        assigner = chance.choice([self._tumbling, self._sliding])()
        late, without_keys = chance.random() < 0.5, chance.random() < 0.3
        # Any: windows with keys and without, which take functions of different kinds.
        windows: Any = stream.key_by(f.coarse).window(assigner)
        everything: Any = f.Everything()
        if without_keys:
            windows, everything = stream.window_all(self._staggered(assigner)), f.AllOf(everything)
        if late:
            windows = windows.side_output_late_data(LATE)
        folds = [f.total] if chance.random() < 0.5 else []
        found: DataStream[Any] = (windows.reduce if folds else windows.process)(*folds, everything, name=self._name)
        if late:
            self._outputs.add(f"{self._name} late", found.get_side_output(LATE), None)
        return self._emit(found, key_of)

    def _process(self, keyed: KeyedStream[Event, Any]) -> DataStream[Event]:
        chance = self._chance
        if self._mutates and self._mutate.random() < 0.7:
            # Any: the elements are events that can be changed.
            holder: Any = m.Holder(self._mutate.randrange(1, 5))
            return self._emit(keyed.process(holder, name=self._name), key_of)
        timers = f.Timers(chance.randrange(1, 150), chance.randrange(2, 9), chance.randrange(4))
        found = keyed.process(timers, name=self._name)
        side = found.get_side_output(f.SIDE)
        self._outputs.add(f"{self._name} side", side)
        main = self._emit(found, key_of)
        return main if chance.random() < 0.8 else side.map(f.folded)

    def _process_by_clock(self, stream: DataStream[Event]) -> None:
        chance = self._chance
        timers = f.ClockTimers(chance.randrange(1, 200), chance.randrange(1, 200), chance.random() < 0.5)
        self._emit(stream.key_by(f.event_key).process(timers, name=self._name), key_of)

    def _rolling(self, keyed: KeyedStream[Event, Any], key: Key) -> DataStream[Event]:
        name = self._name
        kinds: list[Callable[[], DataStream[Any]]] = [
            lambda: keyed.sum(f.value_of, name=name),
            lambda: keyed.min(f.value_of, name=name),
            lambda: keyed.max(f.value_of, name=name),
        ]
        if key is f.event_key:  # what these emit does not begin with the key of the step
            kinds += [
                lambda: keyed.min_by(f.value_of, name=name),
                lambda: keyed.max_by(f.value_of, name=name),
                lambda: keyed.reduce(self._joined, name=name),
            ]
        return self._emit(self._chance.choice(kinds)(), key_of)

    # Windows

    def _assigner(self) -> WindowAssigner[Event, Any]:
        chance = self._chance
        if self._kinds.random() < 0.12:
            return k.assigner(self._kinds)
        if self._clocked and chance.random() < 0.5:
            return self._assigner_by_clock()
        match chance.randrange(8):
            case 0 | 1:
                return self._tumbling()
            case 2 | 3:
                return self._sliding()
            case 4 | 5:
                return EventTimeSessionWindows.with_gap(millis(chance.randrange(1, 90)))
            case 6:
                return EventTimeSessionWindows.with_dynamic_gap(partial(f.gap_of, chance.randrange(2, 90)))
            case _:
                if chance.random() < 0.3:
                    return GlobalWindows.create_with_end_of_stream_trigger()
                return GlobalWindows.create()

    def _assigner_by_clock(self) -> WindowAssigner[Event, Any]:
        chance = self._chance
        size = chance.randrange(1, 200)
        match chance.randrange(4):
            case 0:
                return TumblingProcessingTimeWindows.of(millis(size), offset(self._chance, size))
            case 1:
                slide = chance.randrange(10, 100)
                return SlidingProcessingTimeWindows.of(millis(size), millis(slide), offset(self._chance, slide))
            case 2:
                return ProcessingTimeSessionWindows.with_gap(millis(size))
            case _:
                return ProcessingTimeSessionWindows.with_dynamic_gap(partial(f.gap_of, 1 + size))

    def _tumbling(self) -> TumblingEventTimeWindows:
        size = self._chance.randrange(1, 200)
        return TumblingEventTimeWindows.of(millis(size), offset(self._chance, size))

    def _staggered(self, assigner: WindowAssigner[Event, Any]) -> WindowAssigner[Event, Any]:
        """Tumbling windows of one instance, shifted by the clock at its first element.

        Of several instances each has a shift of its own, and how many there are is for the engine to say.
        """
        if not isinstance(assigner, (TumblingEventTimeWindows, TumblingProcessingTimeWindows)):
            return assigner
        if not self._clocked or self._stagger.random() < 0.2:
            return assigner
        return type(assigner).of(millis(assigner.size), millis(assigner.offset), WindowStagger.NATURAL)

    def _sliding(self) -> SlidingEventTimeWindows:
        size, slide = self._chance.randrange(1, 160), self._chance.randrange(10, 100)
        return SlidingEventTimeWindows.of(millis(size), millis(slide), offset(self._chance, slide))

    def _windows(self, windows: Windows, assigner: WindowAssigner[Event, Any], key: Key) -> DataStream[Event]:
        """A step over windows that were assigned: trigger, evictor, lateness, and what is computed."""
        chance = self._chance
        merging = isinstance(assigner, MergingWindowAssigner)
        in_time = assigner.is_event_time
        global_window = isinstance(assigner, GlobalWindows)
        trigger = self._trigger(merging=merging, in_time=in_time, global_window=global_window)
        bare = windows
        if trigger is None:
            pass
        elif isinstance(windows, (MergingWindowedStream, MergingAllWindowedStream)):
            assert isinstance(trigger, MergingTrigger)
            windows = windows.trigger(trigger)
        else:
            windows = windows.trigger(trigger)
        evicting = evictor(chance, by_distance=True)
        if evicting is not None:
            windows = windows.evictor(evicting)
        windows = self._paned(windows, bare, assigner, evicts=evicting is not None)
        windows, late = with_late(chance, windows) if in_time else (windows, False)
        return self._computed(windows, key, merging=merging, late=late)

    def _paned(self, windows: Windows, bare: Windows, assigner: WindowAssigner[Event, Any], *, evicts: bool) -> Windows:
        """The windows, or some without an evictor by a trigger that composes and with something said of panes."""
        chance = self._panes
        self._mode = None
        if evicts or chance.random() > 0.35:
            return windows
        merging, global_window = isinstance(assigner, MergingWindowAssigner), isinstance(assigner, GlobalWindows)
        in_time = assigner.is_event_time or global_window
        if chance.random() < 0.8:
            others = partial(self._trigger, merging=merging, in_time=in_time, global_window=global_window)
            kept, self._chance = self._chance, chance
            trigger = composed(chance, others, in_time=in_time, clocked=self._clocked)
            self._chance = kept
            # Any: the stages of windows that merge take other triggers, and all are made of those that do.
            stage: Any = bare
            windows = stage.trigger(trigger, may_lose_data=True)
        windows, self._mode = said_of_panes(chance, windows)
        return windows

    def _trigger(self, *, merging: bool, in_time: bool, global_window: bool) -> Trigger[Event, Any] | None:
        chance = self._chance
        triggers: list[Trigger[Event, Any]] = [
            EventTimeTrigger.create(),
            CountTrigger.of(chance.randrange(1, 5)),
            EndOfStreamTrigger.create(),
        ]
        if in_time or global_window:  # from an element's timestamp to a window on the clock it can be years
            intervals = [chance.randrange(10, 80) for _ in range(2)]
            if self._stamped_by_clock:  # and so it can be from one to the watermark
                triggers += [CountTrigger.of(interval) for interval in intervals]
            else:
                triggers += [ContinuousEventTimeTrigger.of(millis(interval)) for interval in intervals]
                triggers.append(
                    EventTimeoutTrigger.of(
                        chance.choice(triggers),
                        millis(chance.randrange(1, 80)),
                        chance.random() < 0.5,
                        chance.random() < 0.5,
                    )
                )
        if self._clocked:
            timeout = chance.choice(triggers)
            triggers += [
                ProcessingTimeTrigger.create(),
                ContinuousProcessingTimeTrigger.of(millis(chance.randrange(10, 150))),
                ContinuousProcessingTimeTrigger.of(millis(chance.randrange(10, 150))),
                ProcessingTimeoutTrigger.of(
                    timeout, millis(chance.randrange(1, 200)), chance.random() < 0.5, chance.random() < 0.5
                ),
            ]
            if not merging:
                least = chance.randrange(1, 100)
                most = least + chance.randrange(100)
                triggers.append(StateCleaningCountTrigger.of(millis(least), millis(most), chance.randrange(1, 6)))
        if not merging:
            triggers += [DeltaTrigger.of(float(chance.randrange(40)), f.distance)] * 2
        if global_window:
            # It has no end at which these could fire, and plans with them are refused.
            at_end = (EventTimeTrigger, ProcessingTimeTrigger)
            triggers = [trigger for trigger in triggers if not isinstance(trigger, at_end)]
        if chance.random() < 0.02:
            triggers = [NeverTrigger.create()]
        if chance.random() < (0.1 if global_window else 0.35):
            return EndOfStreamTrigger.create() if global_window else None
        trigger = chance.choice(triggers)
        return PurgingTrigger.of(trigger) if chance.random() < 0.3 else trigger

    def _computed(self, windows: Windows, key: Key, *, merging: bool, late: bool = False) -> DataStream[Event]:
        """What a step computes from windows, with sinks for its outputs."""
        chance, name = self._chance, self._name
        # Any: the two families of stages take functions of different kinds, which `own` makes of one another.
        stage: Any = windows
        without_keys = isinstance(windows, (AllWindowedStream, MergingAllWindowedStream))

        def own(function: ProcessWindowFunction[Any, Any, Any, Any]) -> Any:
            if self._mutates:
                function = m.Spoiler(function)
            return f.AllOf(function) if without_keys else function

        mode, self._mode = self._mode, None
        function: ProcessWindowFunction[Any, Any, Any, Any] = chance.choice(
            [f.Now() if self._clocked else Seen(), f.Firings(of_window=not merging)]
        )
        function = function if mode is None else Paned()
        folds = m.Listed() if self._mutates else f.Joined()
        spread = m.spread_and_spoilt if self._mutates else f.spread
        # What these emit does not begin with the key of the step.
        simple = without_keys or key is f.event_key
        form = chance.choice(["reduce", "aggregate"] * simple + ["process"] * 2 + ["fold, then process", "apply"])
        found: DataStream[Any]
        match form:
            case "reduce":
                found = stage.reduce(self._joined, name=name)
            case "aggregate":
                found = stage.aggregate(folds, name=name)
            case "process":
                found = stage.process(own(function), name=name)
            case "apply":
                found = stage.apply(partial(spread, "all") if without_keys else spread, name=name)
            case _ if chance.random() < 0.5:
                found = stage.reduce(self._joined, own(function), name=name)
            case _:
                found = stage.aggregate(folds, own(function), name=name)
        order = f.all_key if without_keys else key_of
        if form in ("process", "fold, then process") and isinstance(function, f.Firings):
            self._outputs.add(f"{name} side", found.get_side_output(f.SIDE), order)
        main = self._emit(self._with_kinds(found) if mode == "retracting" else found, order)
        if form == "aggregate":
            # A pane may be empty, and nothing, joined, has no key, so that keys would meet in no fixed order.
            main = main.filter(f.has_key)
        if late:
            late_elements = found.get_side_output(LATE)
            self._outputs.add(f"{name} late", late_elements, key)
            if simple and chance.random() < 0.1:
                return late_elements
        return main

    # Any: results of every type.
    def _with_kinds(self, found: DataStream[Any]) -> DataStream[Any]:
        """The changes of windows that retract, and maybe windows behind those."""
        chance = self._panes
        if chance.random() < 0.5:
            windows = found.map(f.folded).key_by(f.event_key).window(TumblingEventTimeWindows.of(millis(500)))
            name = f"{self._name} behind"
            folds = chance.random() < 0.5
            behind = windows.reduce(f.total, Seen(), name=name) if folds else windows.process(Seen(), name=name)
            self._outputs.add(name, behind)
        return found.changelog(with_kind)

    def _emit(self, found: DataStream[Any], key: Key) -> DataStream[Event]:
        self._outputs.add(self._name, found, key)
        return found.map(m.folded_and_spoilt if self._mutates else f.folded)

    # Any: it reduces events of both kinds.
    @property
    def _joined(self) -> Any:
        return m.joined_in_place if self._mutates else f.joined
