"""Runs windows whose trigger is composable, or whose panes are counted, discarded or withdrawn."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

from windrow.panes import AccumulationMode, ChangeKind, ClosingBehavior, OnTimeBehavior, PaneTiming, TimestampCombiner
from windrow.plan import Step, WindowNode
from windrow.plan.emitting import records_of
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import TriggerResult
from windrow.triggers.composable import composable
from windrow.triggers.composable.contract import WHOLE, Part
from windrow.windows import GlobalWindows
from windrow_runtime.operators.changes import Changed
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.state.model import NOTHING, KeyState, WindowEntry
from windrow_runtime.operators.trigger_context import TriggerContextImpl
from windrow_runtime.operators.windows.contents import computed
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_runtime.operators.windows.merging import Merged
from windrow_runtime.operators.windows.pane_state import PANES, PaneState

# Any in this module: windows, elements and results of every type pass through.

CLOSED: Final = "closed_window_records_dropped"
"""The counter of elements that came after the trigger of their window had finished."""

_COMBINE: Final = {TimestampCombiner.EARLIEST: min, TimestampCombiner.LATEST: max}


class PaneOperator(WindowOperator):
    """Asks triggers whether they are ready, and counts the panes of each window.

    A trigger is asked after each element and each timer of a window, and the end of each window is such a timer. A
    window whose trigger has finished takes no more elements. One that is cleaned up earlier fires what is new in it.
    """

    form = "panes"

    def __init__(self, step: Step, node: WindowNode) -> None:
        super().__init__(step, node)
        self.trigger = composable(self.trigger)
        self._whole = Part(self.trigger, WHOLE)
        settings = node.panes
        self._retracts = settings.mode is AccumulationMode.RETRACTING
        self._discards = settings.mode is AccumulationMode.DISCARDING
        self._always_on_time = settings.on_time is not OnTimeBehavior.FIRE_IF_NON_EMPTY
        self._always_closes = settings.closing is ClosingBehavior.FIRE_ALWAYS
        self._combine = _COMBINE.get(settings.timestamp) if settings.timestamp is not None else None
        # The window of all time ends with the stream, as the watermark says it; others by the time of their assigner.
        self._by_watermark = self.is_event_time or isinstance(self.assigner, GlobalWindows)
        # Whether the timer for the end of a window fires now, or that for its clean-up.
        self._at_end = False

    # Elements

    def _add(
        self, key: Hashable, key_state: KeyState, window: Any, value: Any, timestamp: int | None, stamp: int
    ) -> None:
        entry = key_state.windows.get(window)
        if entry is None:
            entry = key_state.windows[window] = WindowEntry()
        elif self._whole.is_finished(self._trigger_context.at(key, window, entry)):
            self.metrics.count(CLOSED)
            return
        panes, contents = PaneState.of(entry), entry.contents
        if contents is NOTHING:
            entry.born = key_state.arrivals
        shown = own(value) if self.exposure.trigger else value
        mine = own(value) if self.exposure.windows else value
        entry.contents = self.contents.add(contents, mine, timestamp, key_state.arrivals)
        key_state.arrivals += 1
        panes.fresh = True
        if self.counts_unfired:
            entry.unfired += 1
        panes.in_time = panes.in_time or not self._is_over(window)
        if self._combine is not None and timestamp is not None and timestamp > self.current_watermark:
            # One that came behind the watermark would pull the result behind it, too.
            panes.stamp = timestamp if panes.stamp is None else self._combine(panes.stamp, timestamp)
        self._whole.observe(shown, stamp, window, self._trigger_context.at(key, window, entry))
        self._ask(key, key_state, window, entry)
        self._register_cleanup(key, window)

    # Merging

    def _merge(self, key: Hashable, key_state: KeyState, merge: Merged[Any]) -> None:
        windows = key_state.windows
        entries = [(source, windows[source]) for source in merge.sources if source in windows]
        before = [(source, PaneState.of(entry)) for source, entry in entries]
        # The panes of all sources are taken over below.
        for _, entry in entries:
            entry.trigger_cells().pop(PANES)
        super()._merge(key, key_state, merge)
        entry = windows.setdefault(merge.into, WindowEntry())
        panes = PaneState.of(entry)
        for source, other in before:
            panes.absorb(other, same_window=source == merge.into)
        context = self._trigger_context.at(key, merge.into, entry)
        if panes.fresh and self._whole.is_finished(context):
            # The elements that wait in one of the windows would wait for ever.
            self._whole.begin_anew(merge.into, context)
        if self._combine is not None:
            stamps = [other.stamp for _, other in before if other.stamp is not None]
            panes.stamp = self._combine(stamps, default=None)
        self._register_cleanup(key, merge.into)

    # Timers

    def _fire_timer(self, time: int, key: Hashable, window: Any, event_time: bool) -> None:
        key_state = self.state.keys.get(key)
        entry = None if key_state is None else key_state.windows.get(window)
        if key_state is None or entry is None:
            # The window merged away or was cleaned up, and the trigger left the timer behind.
            return
        by_own_time = event_time == self._by_watermark
        end, closing = window.max_timestamp(), self._closing_time(window)
        # Time may leap over the end of a window and over its clean-up at once: the pane at its end is the last one.
        closes = by_own_time and (time == closing or (time == end and self._has_come(closing)))
        self._at_end = closes or (by_own_time and time == end)
        context = self._trigger_context.at(key, window, entry)
        self._whole.observe_timer(time, window, context, event_time=event_time)
        self._ask(key, key_state, window, entry, closes=closes)
        self._at_end = False
        if closes:
            self._clear(key, key_state, window, entry)
            timers = self.state.event_timers if self._by_watermark else self.state.processing_timers
            timers.delete(key, window, closing)
        else:
            self._register_cleanup(key, window)
        self._keep(key, key_state, window, entry)

    def _closing_time(self, window: Any) -> int:
        """The time at which a window fires its last pane, at the latest: the end of the stream."""
        return min(self.cleanup_time(window), MAX_TIMESTAMP)

    def _register_cleanup(self, key: Hashable, window: Any) -> None:
        closing = self._closing_time(window)
        if not self._by_watermark:
            self.state.processing_timers.register(key, window, closing)
            return
        self.state.event_timers.register(key, window, closing)
        end = window.max_timestamp()
        if end > self.current_watermark:
            self.state.event_timers.register(key, window, end)

    def _is_over(self, window: Any) -> bool:
        """Returns whether the time of a window is over."""
        return self._has_come(window.max_timestamp())

    def _has_come(self, time: int) -> bool:
        """Returns whether the watermark, or the clock if windows go by it, has reached a time."""
        return time <= (self.current_watermark if self._by_watermark else self.current_processing_time)

    # Panes

    def _ask(
        self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry, *, closes: bool = False
    ) -> None:
        """Asks the trigger, and fires a pane if it is ready, or if the window closes."""
        has_contents, observer = entry.contents is not NOTHING, self.observer
        if observer is not None:
            observer.asked(key, window, entry)
        context, whole = self._trigger_context.at(key, window, entry), self._whole
        finished = whole.is_finished(context)
        answer = None
        if not finished and whole.is_ready(window, context):
            answer = TriggerResult.FIRE
            finished = whole.fire(window, context)
            purges, context.purges = context.purges, False
            self._fire_pane(key, key_state, window, entry, is_last=finished or closes)
            if self._discards or purges or (finished and self.merging is None):
                # A session may grow, and its trigger begin anew: it needs what it holds.
                entry.contents = NOTHING
        else:
            if context.purges:
                entry.contents, entry.unfired, context.purges = NOTHING, 0, False
            if closes and not finished:
                self._fire_pane(key, key_state, window, entry, is_last=True)
        if observer is not None:
            purged, finished = has_contents and entry.contents is NOTHING, finished and answer is not None
            observer.answered(answer, held=has_contents, purged=purged, finished=finished)

    def _fire_pane(self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry, *, is_last: bool) -> None:
        """Fires a pane, unless nothing is new and the step asks for no empty one."""
        if self.counts_unfired:
            entry.unfired = 0
        panes = PaneState.of(entry)
        timing = panes.timing(is_over=self._is_over(window), at_end=self._at_end)
        awaited = (timing is PaneTiming.ON_TIME and self._always_on_time) or (is_last and self._always_closes)
        if not (panes.fresh or awaited):
            return
        if entry.contents is NOTHING and not self._discards:
            # Elements were purged, or withdrawn upstream: there is no result any more.
            self._emit(panes, (), window.max_timestamp())
            panes.settle()
            return
        pane = self._window_context.pane_info = panes.take_next(timing, is_last=is_last)
        if self.observer is not None:
            self.observer.fired(pane)
        if entry.contents is not NOTHING:
            self._fire(key, key_state, window, entry)
        else:
            elements = computed(self.node.function, ())
            if elements is not None:
                self._evaluate(key, key_state, window, entry, elements)
        panes.settle()
        panes.stamp = None

    def _evaluate(
        self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry, elements: Sequence[Any]
    ) -> None:
        panes = PaneState.of(entry)
        timestamp = window.max_timestamp() if panes.stamp is None else panes.stamp
        results: Any = elements
        if self.process is not None:
            context = self._window_context.at(window, entry, key_state.state)
            outputs = self.process.process(key, context, elements)
            results = () if outputs is None else records_of(outputs, self._result_type)
        self._emit(panes, results, timestamp)

    def _emit(self, panes: PaneState, results: Iterable[Any], timestamp: int) -> None:
        """Emits the results of a pane, after the withdrawals of those that they replace."""
        collect = self.output.collect
        if not self._retracts:
            for result in results:
                collect(result, timestamp)
            return
        # A generator of the user's may see in between what it has emitted, so each result is fixed at once.
        following = [(own(result), timestamp) for result in results]
        before = panes.shown or []
        for result, stamp in panes.absorbed or ():
            collect(Changed(ChangeKind.DELETE, result), stamp)
        for result, stamp in before:
            collect(Changed(ChangeKind.UPDATE_BEFORE if following else ChangeKind.DELETE, result), stamp)
        for result, stamp in following:
            collect(Changed(ChangeKind.UPDATE_AFTER, result) if before else result, stamp)
        panes.shown, panes.absorbed = following or None, None

    # What observers see

    def has_finished(self, key: Hashable, window: Any, entry: WindowEntry) -> bool:
        return self._whole.is_finished(self._trigger_context.at(key, window, entry))

    def closing_timer(self, window: Any) -> tuple[bool, int]:
        return self._by_watermark, self._closing_time(window)

    def _explained(self, window: Any, context: TriggerContextImpl) -> str:
        return self._whole.explain(window, context)
