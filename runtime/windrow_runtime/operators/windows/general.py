"""The general window operator: the reference for every faster form."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from copy import copy
from functools import reduce
from operator import attrgetter
from random import Random
from typing import Any, ClassVar, Final

from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.evictors import TimestampedValue
from windrow.panes import PaneInfo, PaneTiming
from windrow.plan import ReduceSpec, Step, WindowNode
from windrow.plan.emitting import records_of
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, duration_text
from windrow.triggers import MergingTrigger, TriggerResult
from windrow.windows import (
    MergingWindowAssigner,
    SessionWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from windrow.windows.spec import UNFIRED
from windrow_runtime.operators.copies import own, own_all
from windrow_runtime.operators.errors import USER_ERRORS, call_description, no_timestamp, raise_call_error, shortened
from windrow_runtime.operators.observer import Observer
from windrow_runtime.operators.operator import KeyedOperator, OperatorOutput, TimeContext, WindowContextImpl
from windrow_runtime.operators.state.live_sessions import MANY_SESSIONS, LiveSessions
from windrow_runtime.operators.state.model import NOTHING, GrowingList, KeyState, OperatorState, WindowEntry
from windrow_runtime.operators.trigger_context import PartContextImpl, TriggerContextImpl
from windrow_runtime.operators.windows.contents import Exposure, computed, contents_for, evicted_positions, is_own
from windrow_runtime.operators.windows.merging import Merged, add_session, add_window

# Any in this module: windows, elements and results of every type pass through.

ONLY_PANE: Final = PaneInfo(PaneTiming.ON_TIME, 0, 0, True, True)
"""The pane of a window that fires once."""

_CONTINUE: Final = TriggerResult.CONTINUE
_TUMBLING: Final = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)


class WindowOperator(KeyedOperator):
    """Assigns elements to windows, asks the trigger, evaluates and cleans up: Flink's window operator in meaning.

    Counts ``late_records_dropped`` and ``unfired_window_records_dropped``. ``form`` is its name for ``explain()``; a
    loop that works on the windows that lie in tables or in :attr:`OperatorState.sessions` says so by ``keeps_tables``.
    """

    form: str = "general operator"
    keeps_tables: ClassVar[bool] = False
    # Whether elements that no firing has output are counted; set on the instance where it is true, as few need it.
    counts_unfired: bool = False

    def __init__(self, step: Step, node: WindowNode) -> None:
        self.assigner = node.assigner
        # The shift of staggered windows belongs to the state: a restored instance must go on with the same windows.
        self._staggered: TumblingEventTimeWindows | TumblingProcessingTimeWindows | None = None
        assigner = node.assigner
        if isinstance(assigner, _TUMBLING) and assigner.stagger is not WindowStagger.ALIGNED:
            # It fixes its shift at the first element, and the plan must not change.
            self.assigner = self._staggered = copy(assigner)
        spec = node.function
        fold = spec.reduce if isinstance(spec, ReduceSpec) else getattr(spec, "aggregate", None)
        super().__init__(step, (spec.process, self.assigner, node.spec.asked_trigger, node.evictor, fold))
        self.step = step
        self.node = node
        self.trigger = node.spec.asked_trigger
        self.is_event_time = self.assigner.is_event_time
        self.lateness = (node.allowed_lateness or 0) if self.is_event_time else 0
        self.process = node.function.process
        self._result_type = node.element_type
        self.merging = self.assigner if isinstance(self.assigner, MergingWindowAssigner) else None
        self._are_sessions = (
            isinstance(self.assigner, SessionWindows)
            and type(self.assigner).merge_windows is SessionWindows.merge_windows
        )
        self.contents = contents_for(node.function, evicting=node.evictor is not None, merging=self.merging is not None)
        if node.spec.may_leave_unfired:
            self.counts_unfired = True
        # One attribute: beyond thirty of them Python finds each one slower.
        self.exposure = Exposure.of(node, self.contents)
        self._time = TimeContext(self)
        self._trigger_context = TriggerContextImpl(self)
        self._window_context = WindowContextImpl(
            self, self.merging is not None, ONLY_PANE if node.spec.fires_once and node.evictor is None else None
        )

    # The life of the step

    def bind(self, state: OperatorState, output: OperatorOutput) -> None:
        super().bind(state, output)
        if not self.keeps_tables:
            state.sessions_from_columns()
            if state.tables or state.fired or state.sessions:
                self._take_from_tables()
        if self._staggered is not None:
            self._staggered.shift = state.shared.get("shift")

    def _take_from_tables(self) -> None:
        """Make entries and timers of the windows that a faster form kept without."""
        state = self.state
        for start in sorted(state.tables):
            window = TimeWindow(start, start + state.table_size)
            for key, contents in state.tables[start].items():
                self.open_entry(key, window, contents)
                state.event_timers.register(key, window, window.max_timestamp())
        for start, table in state.fired.items():
            for key, contents in table.items():
                self.open_entry(key, TimeWindow(start, start + state.table_size), contents)
        state.tables, state.fired = {}, {}
        for key in list(state.sessions):
            self.open_sessions(key)

    def open_sessions(self, key: Hashable) -> None:
        """Make entries and timers of the sessions of a key that a faster form kept without."""
        items = self.state.sessions.pop(key, ())
        for start, end, contents in zip(items[::3], items[1::3], items[2::3], strict=True):
            window = TimeWindow(start, end)
            self.open_entry(key, window, contents)
            self.state.event_timers.register(key, window, window.max_timestamp())

    def open_entry(self, key: Hashable, window: TimeWindow, contents: Any) -> None:
        """Give ``key`` a window with ``contents``, which is cleaned up in its time."""
        key_state = self.state.keys.get(key)
        if key_state is None:
            key_state = self.state.keys[key] = KeyState()
        key_state.windows[window] = WindowEntry(contents, key_state.arrivals)
        if self.merging is not None:
            key_state.live.append(window)
            key_state.arrivals += 1  # the windows that come to be later have larger numbers
        self._register_cleanup(key, window)

    # Elements

    def _assign(self) -> Callable[[Any, int, TimeContext], Iterable[Any]]:
        return self.assigner.assign_windows if is_own(self.assigner) else self._checked_windows

    def _checked_windows(self, element: Any, timestamp: int, context: TimeContext) -> Iterator[Any]:
        """Yields the windows that an assigner of the user's gives; refuses those whose last timestamp is no moment."""
        for window in self.assigner.assign_windows(element, timestamp, context):
            last = window.max_timestamp()
            if type(last) is not int or not MIN_TIMESTAMP <= last <= MAX_TIMESTAMP:
                raise _no_window(window, last)
            yield window

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        assigner = self._staggered
        if assigner is None:
            self._process(keys, values, timestamps)
            return
        if keys and assigner.stagger is WindowStagger.RANDOM and assigner.shift is None:
            # Drawn from what a batch that is run again finds again, so that the shift stays.
            key_group = None if self._runtime is None else self._runtime.key_group
            chance = Random(f"{self.step.id}, {key_group}, {self.current_processing_time}")
            assigner.shift = chance.randrange(assigner.size)
        self._process(keys, values, timestamps)
        if assigner.shift is not None:
            self.state.shared["shift"] = assigner.shift

    def process_element(self, key: Hashable, value: Any, timestamp: int | None) -> None:
        self._process((key,), (value,), (timestamp,))

    def _process(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        key_states, time, merging, is_event_time = self.state.keys, self._time, self.merging, self.is_event_time
        # The same calls, told to the observer. A call of a method in a variable would take longer.
        calls = self if self.observer is None else _Observed(self, self.observer)
        assign, add = calls._assign(), calls._add
        watermark, lateness, shows_copy = self.current_watermark, self.lateness, self.exposure.assigner
        key: Hashable = None
        value: Any = None
        try:
            for key, value, timestamp in zip(keys, values, timestamps, strict=True):
                if timestamp is None and is_event_time:
                    raise no_timestamp(value, "an event-time window")
                stamp = MIN_TIMESTAMP if timestamp is None else timestamp
                stored = key_states.get(key)
                key_state = KeyState() if stored is None else stored
                skipped = True
                for assigned in assign(own(value) if shows_copy else value, stamp, time):
                    window = assigned
                    if merging is not None:
                        window = calls._add_to_live(key, key_state, assigned, value)
                    if is_event_time and window.max_timestamp() + lateness <= watermark:
                        if merging is not None:
                            key_state.live.remove(window)
                        continue
                    skipped = False
                    try:
                        add(key, key_state, window, value, timestamp, stamp)
                    except USER_ERRORS as error:
                        raise_call_error(self.step, error, call_description(key, window=window, element=value))
                if stored is None:
                    if not key_state.is_empty:
                        key_states[key] = key_state
                elif not key_state.windows and key_state.is_empty:
                    del key_states[key]
                if skipped and is_event_time and stamp + lateness <= watermark:
                    calls._late(value, timestamp)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, element=value))

    def _add(
        self, key: Hashable, key_state: KeyState, window: Any, value: Any, timestamp: int | None, stamp: int
    ) -> None:
        """Add an element to a live window, and ask the trigger."""
        state, exposure, windows = self.state, self.exposure, key_state.windows
        timers = state.event_timers if self.is_event_time else state.processing_timers
        deletions = timers.deletions
        entry = windows.get(window)
        is_new = entry is None
        if entry is None:
            entry = windows[window] = WindowEntry()
        contents = entry.contents
        if contents is NOTHING:
            entry.born = key_state.arrivals
        shown = own(value) if exposure.trigger else value
        mine = own(value) if exposure.windows else value
        entry.contents = self.contents.add(contents, mine, timestamp, key_state.arrivals)
        key_state.arrivals += 1
        if self.counts_unfired:
            entry.unfired += 1
        result = self.trigger.on_element(shown, stamp, window, self._trigger_context.at(key, window, entry))
        if result is not _CONTINUE:
            self._heed(result, key, key_state, window, entry)
            if result.is_purge and entry.is_empty:
                del windows[window]
        if is_new or timers.deletions != deletions:
            # Else the cleanup timer is set: a trigger may have taken it back as one of its own.
            self._register_cleanup(key, window)

    def _heed(self, answer: object, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry) -> None:
        """Fires and purges a window as its trigger has answered."""
        if not isinstance(answer, TriggerResult):
            raise _no_answer(answer)
        if self.counts_unfired:
            entry.unfired = 0
        has_contents = entry.contents is not NOTHING
        if answer.is_fire and has_contents:
            if self.observer is not None:
                self.observer.fired(self._window_context.pane_info)
            self._fire(key, key_state, window, entry)
        if answer.is_purge:
            entry.contents = NOTHING
        if self.observer is not None:
            self.observer.answered(answer, held=has_contents, purged=answer.is_purge)

    def _late(self, value: Any, timestamp: int | None) -> None:
        self.metrics.late += 1
        tag, element = self.node.late_output(value)
        if tag is not None:
            self.output.side_output(tag.name, element, timestamp)
        else:
            self.metrics.count("late_records_dropped")

    # Merging

    def _add_to_live(self, key: Hashable, key_state: KeyState, window: Any, value: Any) -> Any:
        assert self.merging is not None
        live = key_state.live
        if self._are_sessions and len(live) >= MANY_SESSIONS and isinstance(live, list):
            live = key_state.live = LiveSessions(live)
        if isinstance(live, list) and not self._are_sessions:
            result, merges = add_window(live, window, self.merging)
        elif live:
            result, merges = add_session(live, window)
        else:
            live.append(window)
            return window
        for merge in merges:
            try:
                if len(merge.sources) == 1:
                    self._move(key, key_state, merge.sources[0], merge.into)
                else:
                    self._merge(key, key_state, merge)
            except USER_ERRORS as error:
                raise_call_error(self.step, error, call_description(key, window=merge.into, element=value))
        return result

    def _move(self, key: Hashable, key_state: KeyState, source: Any, into: Any) -> None:
        """Renames a window when an element prolongs its session; does what :meth:`_merge` does for one source."""
        windows = key_state.windows
        entry = windows.get(source)
        if entry is None or entry.trigger_state or into in windows:
            self._merge(key, key_state, Merged(into, [source]))
            return
        cleanup = self._cleanup_of_merged(into)
        context, trigger = self._trigger_context, self.trigger
        assert isinstance(trigger, MergingTrigger)
        # The entry has no state that would have to be merged, so it goes on as that of the result.
        trigger.on_merge(into, context.at(key, into, entry))
        trigger.clear(source, context.at(key, source, WindowEntry()))
        timers = self.state.event_timers if self.is_event_time else self.state.processing_timers
        timers.delete(key, source, self.cleanup_time(source))
        del windows[source]
        if not entry.is_empty:
            windows[into] = entry
        if cleanup < MAX_TIMESTAMP:
            timers.register(key, into, cleanup)
        if self.observer is not None:
            self.observer.merged(key, [source], into)

    def _cleanup_of_merged(self, into: Any) -> int:
        """The time at which the result of a merge is cleaned up; refuses one that is past."""
        cleanup = self.cleanup_time(into)
        if cleanup <= (self.current_watermark if self.is_event_time else self.current_processing_time):
            raise self._past(into)
        return cleanup

    def _merge(self, key: Hashable, key_state: KeyState, merge: Merged[Any]) -> None:
        into, windows = merge.into, key_state.windows
        cleanup = self._cleanup_of_merged(into)
        merged = [(source, windows.get(source)) for source in merge.sources]
        entries = [entry for _, entry in merged if entry is not None]
        target = windows.get(into)
        if target is None:
            target = WindowEntry()
        context = self._trigger_context.at(key, into, target)
        context.merged = entries
        assert isinstance(self.trigger, MergingTrigger)
        try:
            self.trigger.on_merge(into, context)
        finally:
            context.merged = []  # a harness may go on after an error
        timers = self.state.event_timers if self.is_event_time else self.state.processing_timers
        for source, entry in merged:
            if source != into:
                self.trigger.clear(source, context.at(key, source, WindowEntry() if entry is None else entry))
                timers.delete(key, source, self.cleanup_time(source))
        filled = sorted((entry for entry in entries if entry.contents is not NOTHING), key=attrgetter("born"))
        if filled:
            target.contents = reduce(self.contents.merge, [entry.contents for entry in filled])
            target.born = filled[0].born
        if self.counts_unfired:
            unfired = sum(entry.unfired for entry in entries)
            for entry in entries:
                entry.unfired = 0
            target.unfired = unfired
        for source in merge.sources:
            windows.pop(source, None)
        if not target.is_empty:
            windows[into] = target
        # An assigner may merge windows that the new element is not in; nothing else would clean up the result.
        if cleanup < MAX_TIMESTAMP:
            timers.register(key, into, cleanup)
        if self.observer is not None:
            self.observer.merged(key, merge.sources, into)

    def _past(self, into: Any) -> UnsupportedOperationError:
        """The error for windows that merged into one whose time is over."""
        if self.is_event_time:
            return UnsupportedOperationError(
                "windows merged into one that is already past the watermark",
                given=f"{into}, watermark {self.current_watermark}, lateness {duration_text(self.lateness)}",
                expected="a merged window whose last timestamp, with the lateness, is after the watermark",
            )
        return UnsupportedOperationError(
            "windows merged into one that is already past the clock",
            given=f"{into}, processing time {self.current_processing_time}",
            expected="a merged window whose last timestamp is after the processing time",
        )

    # Timers

    def ending_round(self) -> Iterator[None]:
        yield from super().ending_round()
        if self.counts_unfired and self.current_watermark == MAX_TIMESTAMP:
            # Windows of all time are not cleaned up, nor those whose lateness is for ever. For windows that wait for
            # the clock no time passes any more.
            unfired = self.state.take_unfired()
            if unfired:
                self.metrics.count(UNFIRED, unfired)

    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        try:
            self._fire_timer(time, key, namespace, event_time)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, window=namespace))

    def _fire_timer(self, time: int, key: Hashable, window: Any, event_time: bool) -> None:
        key_state = self.state.keys.get(key)
        if self.merging is not None and (key_state is None or window not in key_state.live):
            # A timer that the trigger left behind when its window merged away or was cleaned up.
            return
        if key_state is None:
            key_state = KeyState()
        entry = key_state.windows.get(window)
        if entry is None:
            entry = WindowEntry()
        if self.observer is not None:
            self.observer.asked(key, window, entry)
        context = self._trigger_context.at(key, window, entry)
        if event_time:
            result = self.trigger.on_event_time(time, window, context)
        else:
            result = self.trigger.on_processing_time(time, window, context)
        if result is not _CONTINUE:
            self._heed(result, key, key_state, window, entry)
        if event_time == self.is_event_time and time == self.cleanup_time(window):
            self._clear(key, key_state, window, entry)
        elif self.merging is not None or not entry.is_empty:
            # A trigger may have deleted a timer of its own that was the cleanup timer as well.
            self._register_cleanup(key, window)
        self._keep(key, key_state, window, entry)

    def _keep(self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry) -> None:
        """Stores the entry of a window and the state of its key, or drops those that are empty."""
        if entry.is_empty:
            key_state.windows.pop(window, None)
        else:
            key_state.windows[window] = entry
        if key_state.is_empty:
            self.state.keys.pop(key, None)
        else:
            self.state.keys[key] = key_state

    def _clear(self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry) -> None:
        entry.contents = NOTHING
        if entry.unfired:
            self.metrics.count(UNFIRED, entry.unfired)
            entry.unfired = 0
        self.trigger.clear(window, self._trigger_context.at(key, window, entry))
        if self.process is not None:
            self.process.clear(self._window_context.at(window, entry, key_state.state))
        entry.window_state = None
        entry.trigger_state = None
        if self.merging is not None:
            key_state.live.remove(window)
        if self.observer is not None:
            self.observer.cleaned(key, window)

    # Firing

    def _fire(self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry) -> None:
        evictor = self.node.evictor
        if evictor is None:
            elements = self.contents.elements(entry.contents)
            if self.exposure.process:
                elements = own_all(list(elements))
            self._evaluate(key, key_state, window, entry, elements)
            return
        kept = self._without_evicted(entry.contents, window, evictor.evict_before, "evict_before")
        results = computed(self.node.function, own_all([value for _, _, value in kept]))
        if results is not None:
            self._evaluate(key, key_state, window, entry, results)
        entry.contents = self._without_evicted(kept, window, evictor.evict_after, "evict_after") or NOTHING

    def _without_evicted(
        self, entries: Iterable[Any], window: Any, evict: Callable[..., Iterable[Any]], method: str
    ) -> GrowingList:
        """The arrivals in a window without those that a method of the evictor chooses."""
        assert self.node.evictor is not None
        shows_copy = self.exposure.evictor
        elements = [TimestampedValue(own(value) if shows_copy else value, timestamp) for _, timestamp, value in entries]
        chosen = evict(elements, len(elements), window, self._time)
        evicted = evicted_positions(chosen, len(elements), self.node.evictor, method, window)
        return GrowingList(entry for position, entry in enumerate(entries) if position not in evicted)

    def _evaluate(
        self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry, elements: Sequence[Any]
    ) -> None:
        collect = self.output.collect
        timestamp = window.max_timestamp()
        if self.process is None:
            for element in elements:
                collect(element, timestamp)
            return
        context = self._window_context.at(window, entry, key_state.state)
        results = self.process.process(key, context, elements)
        if results is not None:
            for result in records_of(results, self._result_type):
                collect(result, timestamp)

    # Cleanup

    def cleanup_time(self, window: Any) -> int:
        """The time at which a window is cleaned up; one beyond the highest timestamp means never."""
        end: int = window.max_timestamp()
        return end + self.lateness

    def _register_cleanup(self, key: Hashable, window: Any) -> None:
        time = self.cleanup_time(window)
        if time < MAX_TIMESTAMP:
            timers = self.state.event_timers if self.is_event_time else self.state.processing_timers
            timers.register(key, window, time)

    # What observers see

    def has_finished(self, key: Hashable, window: Any, entry: WindowEntry) -> bool:
        """Returns whether the trigger of a window takes no more elements."""
        return False

    def closing_timer(self, window: Any) -> tuple[bool, int]:
        """The timer at which a window is cleaned up: whether it waits for the watermark, and its time."""
        return self.is_event_time, self.cleanup_time(window)

    def trigger_in_words(self, key: Hashable, window: Any, entry: WindowEntry) -> str:
        """The state of the trigger of a window in words."""
        try:
            return self._explained(window, self._trigger_context.at(key, window, entry))
        except Exception as error:  # a user's method may raise anything, and no firing must fail for it
            return f"{type(self.trigger).__name__}: its method explain raised {type(error).__name__}: {error}"

    def _explained(self, window: Any, context: TriggerContextImpl) -> str:
        words = self.trigger.explain(window, PartContextImpl(context, context, ""))
        # As the program names the trigger: windows that fire once are run by a trigger of Flink's kind.
        return self.node.effective_trigger.describe() + words.removeprefix(self.trigger.describe())


class _Observed:
    """Calls an operator's methods for an element, and tells the observer."""

    def __init__(self, operator: WindowOperator, observer: Observer) -> None:
        self._operator, self._observer = operator, observer

    def _assign(self) -> Callable[[Any, int, TimeContext], Iterator[Any]]:
        return self._assign_windows

    def _assign_windows(self, element: Any, timestamp: int, context: TimeContext) -> Iterator[Any]:
        for window in self._operator._assign()(element, timestamp, context):
            self._observer.assigned(window)
            yield window

    def _add_to_live(self, key: Hashable, key_state: KeyState, window: Any, value: Any) -> Any:
        into = self._operator._add_to_live(key, key_state, window, value)
        self._observer.became(into)
        return into

    def _add(self, key: Hashable, key_state: KeyState, window: Any, *element: Any) -> None:
        entry = key_state.windows.get(window, WindowEntry())
        self._observer.placed(refused=self._operator.has_finished(key, window, entry))
        self._observer.asked(key, window, entry)
        self._operator._add(key, key_state, window, *element)

    def _late(self, value: Any, timestamp: int | None) -> None:
        tag, _ = self._operator.node.late_output(value)
        self._observer.dropped(None if tag is None else tag.name)
        self._operator._late(value, timestamp)


def _no_window(window: object, last: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the last timestamp of a window is no moment",
        given=f"{shortened(last)} by max_timestamp of {shortened(window)}",
        expected="milliseconds in the signed 64-bit range, as an int",
    )


def _no_answer(answer: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        "a trigger answers with a TriggerResult",
        given=repr(answer),
        expected="CONTINUE, FIRE, PURGE or FIRE_AND_PURGE",
        hint="return TriggerResult.CONTINUE where nothing is to happen",
    )
