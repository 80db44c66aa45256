"""Operators of windows that write into a journal what they do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from windrow.functions.marked import without_mark
from windrow.panes import PaneInfo
from windrow.plan import Step, WindowNode
from windrow.triggers import MergingTrigger, OnMergeContext, Trigger, TriggerContext, TriggerResult
from windrow.triggers.composable.contract import WHOLE, Part
from windrow.windows import WindowAssigner
from windrow_runtime.operators.changes import Changed
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.operator import KeyedOperator, Output
from windrow_runtime.operators.state.model import NOTHING, KeyState, OperatorState, WindowEntry
from windrow_runtime.operators.trigger_context import PartContextImpl, TriggerContextImpl
from windrow_runtime.operators.windows.changing import ChangingPaneOperator, ChangingWindowOperator
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_runtime.operators.windows.merging import Merged
from windrow_runtime.operators.windows.pane_operator import CLOSED, PaneOperator
from windrow_runtime.operators.windows.pane_state import PaneState
from windrow_runtime.testing.journal import (
    Arrival,
    Cause,
    Cleanup,
    Fate,
    Firing,
    Journal,
    Late,
    Merger,
    Moment,
    Outcome,
    Placement,
    Purge,
    Silence,
)

# Any in this module: elements and windows of every type.


def journalled(step: Step, journal: Journal) -> KeyedOperator:
    """Makes the general operator of a step; that of windows writes into ``journal`` what it does."""
    operator = operator_for(step, fast=False)
    kind = _KINDS.get(type(operator))
    if kind is None:
        return operator
    assert isinstance(step.node, WindowNode)
    made = kind(step, step.node)
    made.journal = journal
    return made


class _Watched:
    """Counts what an operator emits, and hands it on."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.results = self.withdrawn = 0

    def collect(self, value: Any, timestamp: int | None) -> None:
        """Emit to the main output."""
        if isinstance(value, Changed) and value.kind.is_withdrawal:
            self.withdrawn += 1
        else:
            self.results += 1
        self._output.collect(value, timestamp)

    def side_output(self, tag: str, value: Any, timestamp: int | None) -> None:
        """Emit to the side output of that name."""
        self._output.side_output(tag, value, timestamp)


class _WatchedAssigner(WindowAssigner[Any, Any]):
    """Hands the windows that an assigner gives on through ``around``."""

    def __init__(self, assigner: WindowAssigner[Any, Any], around: Callable[[Iterable[Any]], Iterator[Any]]) -> None:
        self._assigner = assigner
        self._around = around

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Iterator[Any]:  # type: ignore[override]  # the operator goes through them once
        return self._around(self._assigner.assign_windows(element, timestamp, context))

    def default_trigger(self) -> Trigger[Any, Any]:
        return self._assigner.default_trigger()

    @property
    def is_event_time(self) -> bool:
        return self._assigner.is_event_time


class _WatchedTrigger(Trigger[Any, Any]):
    """Notes what a trigger of Flink's kind answers, and its state before that."""

    def __init__(self, trigger: Trigger[Any, Any]) -> None:
        self.inner = trigger
        self.answer: TriggerResult | None = None
        self.words = ""

    def on_element(self, element: Any, timestamp: int, window: Any, context: TriggerContext) -> TriggerResult:
        self._look(window, context)
        self.answer = self.inner.on_element(element, timestamp, window, context)
        return self.answer

    def on_event_time(self, time: int, window: Any, context: TriggerContext) -> TriggerResult:
        self._look(window, context)
        self.answer = self.inner.on_event_time(time, window, context)
        return self.answer

    def on_processing_time(self, time: int, window: Any, context: TriggerContext) -> TriggerResult:
        self._look(window, context)
        self.answer = self.inner.on_processing_time(time, window, context)
        return self.answer

    def clear(self, window: Any, context: TriggerContext) -> None:
        self.inner.clear(window, context)

    def describe(self) -> str:
        return self.inner.describe()

    def _look(self, window: Any, context: TriggerContext) -> None:
        assert isinstance(context, TriggerContextImpl)
        self.words = in_words(self.inner, window, context)


class _MergingWatchedTrigger(_WatchedTrigger, MergingTrigger[Any, Any]):
    """A watched trigger that can merge."""

    def on_merge(self, window: Any, context: OnMergeContext) -> None:
        assert isinstance(self.inner, MergingTrigger)
        self.inner.on_merge(window, context)


class _WatchedPart(Part[Any, Any]):
    """Notes the state of a trigger just before its window fires, and whether the trigger is finished then."""

    def __init__(self, trigger: Any) -> None:
        super().__init__(trigger, WHOLE)
        self.words: str | None = None
        self.finished = False

    def fire(self, window: Any, outer: TriggerContext) -> bool:
        self.words = explained(self, window, outer)
        self.finished = super().fire(window, outer)
        return self.finished


def in_words(trigger: Trigger[Any, Any], window: Any, context: TriggerContextImpl) -> str:
    """The state of a trigger of Flink's kind in words."""
    try:
        return trigger.explain(window, PartContextImpl(context, context, ""))
    except Exception as error:  # a user's method may raise anything, and no firing must fail for it
        return _failed(trigger, error)


def explained(part: Part[Any, Any], window: Any, outer: TriggerContext) -> str:
    """The state of a trigger that composes in words."""
    try:
        return part.explain(window, outer)
    except Exception as error:  # as above
        return _failed(part.trigger, error)


def _failed(trigger: Trigger[Any, Any], error: Exception) -> str:
    return f"{type(trigger).__name__}: its method explain raised {type(error).__name__}: {error}"


class JournalledOperator(WindowOperator):
    """The general operator, with a journal; those below it write down what fires."""

    def __init__(self, step: Step, node: WindowNode) -> None:
        super().__init__(step, node)
        self.journal = Journal()
        self.assigner = _WatchedAssigner(self.assigner, self._placing)
        # The element, or the timer, that the operator takes now.
        self._at = self._moment(Cause.ELEMENT, None)
        self._key: Hashable = None
        self._placements: list[Placement] = []
        self._into: Any = NOTHING
        self._outcome = Outcome.LATE
        self._was_late = False
        self._late_tag: str | None = None

    def bind(self, state: OperatorState, output: Output) -> None:
        self._watched = _Watched(output)
        super().bind(state, self._watched)

    def _moment(self, cause: Cause, timer: int | None, *, element: int = 0, closes: bool = False) -> Moment:
        return Moment(cause, timer, element, self.current_watermark, self.current_processing_time, closes)

    # What explanations ask

    def state_of(self, key: Hashable, window: Any) -> WindowEntry | None:
        """What the step keeps of a window; None for nothing."""
        key_state = self.state.keys.get(key)
        return None if key_state is None else key_state.windows.get(window)

    @abstractmethod
    def trigger_in_words(self, key: Hashable, window: Any, entry: WindowEntry) -> str:
        """The state of the trigger of a window in words."""

    def has_finished(self, key: Hashable, window: Any, entry: WindowEntry) -> bool:
        """Returns whether the trigger of a window takes no more elements."""
        return False

    def closing_timer(self, window: Any) -> tuple[bool, int]:
        """The timer at which a window is cleaned up: whether it waits for the watermark, and its time."""
        return self.is_event_time, self.cleanup_time(window)

    # Elements

    def _process(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            self._at = self._moment(Cause.ELEMENT, None, element=len(self.journal.arrivals) + 1)
            self._key, self._placements, self._was_late, self._late_tag = key, [], False, None
            came = own(without_mark(value))  # a function of the user's may change it
            fate, at, withdraws = Fate.FAILED, self._at, self._withdraws()
            try:
                super()._process((key,), (value,), (timestamp,))
                fate = self._fate()
            finally:
                placements = tuple(self._placements)
                pushed, tag = self.journal.pushed, self._late_tag
                arrival = Arrival(at, key, came, timestamp, pushed, withdraws, placements, fate, tag)
                self.journal.arrivals.append(arrival)

    def _withdraws(self) -> bool:
        return False

    def _fate(self) -> Fate:
        outcomes = {placement.outcome for placement in self._placements}
        if Outcome.JOINED in outcomes:
            return Fate.TAKEN
        if Outcome.FINISHED in outcomes:
            return Fate.DROPPED_FINISHED
        if not self._was_late:
            return Fate.NOWHERE
        return Fate.DROPPED_LATE if self._late_tag is None else Fate.SIDE_OUTPUT

    def _placing(self, windows: Iterable[Any]) -> Iterator[Any]:
        """Hands on the windows of an element, and notes what became of it in each."""
        for window in windows:
            self._into, self._outcome = window, Outcome.LATE
            yield window
            # The operator asks for the next one: it is done with this one.
            into, outcome, at = self._into, self._outcome, self._at
            self._placements.append(Placement(window, into, outcome))
            if window != into:
                own_life = self.journal.life(self._key, window)
                if not (own_life.events and isinstance(own_life.events[-1], Merger) and own_life.events[-1].at == at):
                    own_life.events.append(Merger(at, into, (window,)))
            if outcome is not Outcome.JOINED:
                self.journal.life(self._key, into).events.append(Late(at, outcome is Outcome.FINISHED))

    def _add(
        self, key: Hashable, key_state: KeyState, window: Any, value: Any, timestamp: int | None, stamp: int
    ) -> None:
        self._outcome = Outcome.JOINED
        life = self.journal.life(key, window)
        before = life.taken, life.elements, life.fresh
        life.taken += 1
        life.elements += -1 if self._withdraws() else 1
        life.fresh += 1
        closed = self.metrics.totals[CLOSED]
        super()._add(key, key_state, window, value, timestamp, stamp)
        if self.metrics.totals[CLOSED] > closed:
            self._outcome = Outcome.FINISHED
            life.taken, life.elements, life.fresh = before

    def _late(self, value: Any, timestamp: int | None) -> None:
        self._was_late = True
        tag, _ = self.node.late_output(value)
        self._late_tag = None if tag is None else tag.name
        super()._late(value, timestamp)

    # Merging

    def _add_to_live(self, key: Hashable, key_state: KeyState, window: Any, value: Any) -> Any:
        self._into = super()._add_to_live(key, key_state, window, value)
        return self._into

    def _move(self, key: Hashable, key_state: KeyState, source: Any, into: Any) -> None:
        self._merge(key, key_state, Merged(into, [source]))

    def _merge(self, key: Hashable, key_state: KeyState, merge: Merged[Any]) -> None:
        super()._merge(key, key_state, merge)
        self.journal.merge(key, Merger(self._at, merge.into, tuple(merge.sources)))

    # Timers

    def _fire_timer(self, time: int, key: Hashable, window: Any, event_time: bool) -> None:
        cause = Cause.EVENT_TIMER if event_time else Cause.PROCESSING_TIMER
        closes = self.closing_timer(window) == (event_time, time)
        self._at = self._moment(cause, time, element=len(self.journal.arrivals), closes=closes)
        super()._fire_timer(time, key, window, event_time)

    def _clear(self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry) -> None:
        super()._clear(key, key_state, window, entry)
        if window in self.journal.lives[key]:
            life = self.journal.life(key, window)
            life.events.append(Cleanup(self._at))
            life.elements = life.fresh = 0

    def _note(self, key: Hashable, window: Any, event: Firing | Silence | Purge) -> None:
        """Writes down what a trigger has led to."""
        life = self.journal.life(key, window)
        life.events.append(event)
        if isinstance(event, Firing):
            life.fresh = 0
        if isinstance(event, Purge) or (isinstance(event, Firing) and event.purged):
            life.elements = life.fresh = 0


class JournalledWindows(JournalledOperator):
    """The operator of triggers of Flink's kind, with a journal."""

    def __init__(self, step: Step, node: WindowNode) -> None:
        super().__init__(step, node)
        kind = _MergingWatchedTrigger if isinstance(self.trigger, MergingTrigger) else _WatchedTrigger
        self.trigger = self._asked = kind(self.trigger)
        self._is_noted = False  # whether what the last answer led to is written down

    def trigger_in_words(self, key: Hashable, window: Any, entry: WindowEntry) -> str:
        return self._as_said(in_words(self._asked.inner, window, self._trigger_context.at(key, window, entry)))

    def _as_said(self, words: str) -> str:
        """Names the trigger as the program does: windows that fire once are run by a trigger of Flink's kind."""
        return self.node.effective_trigger.describe() + words.removeprefix(self._asked.describe())

    def _add(
        self, key: Hashable, key_state: KeyState, window: Any, value: Any, timestamp: int | None, stamp: int
    ) -> None:
        self._is_noted = False
        super()._add(key, key_state, window, value, timestamp, stamp)
        self._note_answer(key, window)

    def _fire_timer(self, time: int, key: Hashable, window: Any, event_time: bool) -> None:
        self._asked.answer, self._is_noted = None, False
        super()._fire_timer(time, key, window, event_time)
        self._note_answer(key, window)

    def _fire(self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry) -> None:
        if entry.contents is NOTHING:
            super()._fire(key, key_state, window, entry)
            return
        results, withdrawn = self._watched.results, self._watched.withdrawn
        words = self._as_said(self._asked.words)
        super()._fire(key, key_state, window, entry)
        answer, out = self._asked.answer, self._watched
        purged = answer is not None and answer.is_purge
        pane = self._window_context.pane_info
        results, withdrawn = out.results - results, out.withdrawn - withdrawn
        self._note(key, window, Firing(self._at, answer, words, pane, results, withdrawn, purged, finished=False))
        self._is_noted = True

    def _clear(self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry) -> None:
        self._note_answer(key, window)
        super()._clear(key, key_state, window, entry)

    def _note_answer(self, key: Hashable, window: Any) -> None:
        """Writes down an answer that fired nothing."""
        answer = self._asked.answer
        if self._is_noted or answer is None:
            return
        self._is_noted = True
        if answer.is_fire:
            self._note(key, window, Silence(self._at, is_empty=True))
        elif answer.is_purge:
            self._note(key, window, Purge(self._at))


class JournalledPanes(JournalledOperator, PaneOperator):
    """The operator of panes, with a journal."""

    def __init__(self, step: Step, node: WindowNode) -> None:
        super().__init__(step, node)
        self._whole = self._asked = _WatchedPart(self.trigger)
        self._pane: PaneInfo | None = None  # the pane that is fired

    def trigger_in_words(self, key: Hashable, window: Any, entry: WindowEntry) -> str:
        return explained(self._asked, window, self._trigger_context.at(key, window, entry))

    def has_finished(self, key: Hashable, window: Any, entry: WindowEntry) -> bool:
        return self._asked.is_finished(self._trigger_context.at(key, window, entry))

    def closing_timer(self, window: Any) -> tuple[bool, int]:
        return self._by_watermark, self._closing_time(window)

    def _ask(
        self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry, *, closes: bool = False
    ) -> None:
        asked, out = self._asked, self._watched
        asked.words, asked.finished, self._pane = None, False, None
        before, held = (out.results, out.withdrawn), entry.contents is not NOTHING
        super()._ask(key, key_state, window, entry, closes=closes)
        results, withdrawn = out.results - before[0], out.withdrawn - before[1]
        purged = held and entry.contents is NOTHING
        if self._pane is not None or results or withdrawn:
            answer = None if asked.words is None else TriggerResult.FIRE
            words = self.trigger_in_words(key, window, entry) if asked.words is None else asked.words
            firing = Firing(self._at, answer, words, self._pane, results, withdrawn, purged, asked.finished)
            self._note(key, window, firing)
        elif asked.words is not None:
            self._note(key, window, Silence(self._at, is_empty=not held))
        elif purged:
            self._note(key, window, Purge(self._at))

    def _fire_pane(self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry, *, is_last: bool) -> None:
        before = PaneState.of(entry).index
        super()._fire_pane(key, key_state, window, entry, is_last=is_last)
        if PaneState.of(entry).index > before:
            self._pane = self._window_context.pane_info


class JournalledChangingWindows(JournalledWindows, ChangingWindowOperator):
    """The operator of windows that withdrawals reach, with a journal."""

    def _withdraws(self) -> bool:
        return self._kind.is_withdrawal


class JournalledChangingPanes(JournalledPanes, ChangingPaneOperator):
    """The operator of panes of windows that withdrawals reach, with a journal."""

    def _withdraws(self) -> bool:
        return self._kind.is_withdrawal


_KINDS: Final[Mapping[type[KeyedOperator], type[JournalledOperator]]] = {
    WindowOperator: JournalledWindows,
    PaneOperator: JournalledPanes,
    ChangingWindowOperator: JournalledChangingWindows,
    ChangingPaneOperator: JournalledChangingPanes,
}
