"""Says in sentences why a window has fired or not yet, and what became of an element."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from windrow.errors import InvalidArgumentError
from windrow.failures import ErrorPolicy
from windrow.panes import PaneInfo
from windrow.plan import Step
from windrow.rows.equality import as_keys
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.triggers.composable import ComposableTrigger
from windrow.triggers.words import moment
from windrow.windows import GlobalWindow, TimeWindow
from windrow_runtime.local.journal import (
    Arrival,
    Cause,
    Cleanup,
    Event,
    Fate,
    Firing,
    Journal,
    Late,
    Life,
    Merger,
    Moment,
    Outcome,
    Placement,
    Purge,
    Silence,
)
from windrow_runtime.operators.errors import misuse, shortened
from windrow_runtime.operators.recording import RecordedElement
from windrow_runtime.operators.state.model import NOTHING, WindowEntry

# Any in this module: windows and elements of every type.

_MOST: Final = 6
"""The number of first events, and of last ones, that an explanation tells; ``firings`` holds all firings."""

_NAMED: Final = 5
"""The number of keys or windows that an error names at most, where an unknown one was asked for."""


class Standing(Enum):
    """The state of a window."""

    OPEN = "open"
    """It holds elements."""

    EMPTY = "empty"
    """Its elements were purged or taken out; it takes further ones."""

    FINISHED = "finished"
    """Its trigger has finished, so that it takes no more elements, but it is not cleaned up yet."""

    CLEANED_UP = "cleaned up"
    """Its time is over, and nothing is kept of it."""

    MERGED = "merged"
    """It became a part of another window."""

    NEVER = "never"
    """No element has been in it."""


@dataclass(frozen=True)
class WindowExplanation:
    """Why a window has fired, or has not yet; as text, its sentences line by line.

    Attributes:
        sentences: The explanation.
        step: The id of the step.
        key: The key; None without keys.
        window: The window.
        standing: How it stands with the window.
        elements: How many elements it holds.
        firings: Each time that it was evaluated, in order.
        watermark: The watermark of the step.
        clock: The clock of the step.
        event_timers: The times of its timers that wait for the watermark, cleanup included, in order.
        processing_timers: The times of its timers that wait for the clock, in order.
        trigger: The state of its trigger in words; empty where the window does not exist.
        merged_into: The window that it became a part of; else None.
    """

    sentences: tuple[str, ...]
    step: str
    key: Hashable
    window: Any
    standing: Standing
    elements: int
    firings: tuple[Firing, ...]
    watermark: int
    clock: int
    event_timers: tuple[int, ...]
    processing_timers: tuple[int, ...]
    trigger: str
    merged_into: Any

    def __str__(self) -> str:
        return "\n".join(self.sentences)


@dataclass(frozen=True)
class ElementExplanation:
    """What became of an element; as text, its sentences line by line.

    Attributes:
        sentences: The explanation.
        step: The id of the step.
        key: The key of the element; None without keys.
        value: The element as it came to the step.
        timestamp: Its timestamp.
        at: When it came: its number, the watermark and the clock. None: it did not reach the step.
        windows: Its windows, and whether each took it.
        fate: What became of it. None: it did not reach the step.
    """

    sentences: tuple[str, ...]
    step: str
    key: Hashable
    value: Any
    timestamp: int | None
    at: Moment | None
    windows: tuple[Placement, ...]
    fate: Fate | None

    def __str__(self) -> str:
        return "\n".join(self.sentences)


class Explainer:
    """Explains one step of windows by its journal."""

    def __init__(self, journal: Journal) -> None:
        self.step = journal.step
        self._operator = journal.operator
        self._journal = journal

    # Windows

    def window(self, key: Hashable, window: Any) -> WindowExplanation:
        """Explains a window of a key.

        Raises:
            InvalidArgumentError: If it is no window, or no element of the key has come.
        """
        if not callable(getattr(window, "max_timestamp", None)):
            raise misuse("it is no window", given=shortened(window), expected="a window, such as TimeWindow(0, 10_000)")
        (key,) = as_keys([key])
        self._check_key(key)
        operator, life, entry = self._operator, self._life(key, window), self._entry(key, window)
        standing = self._standing(key, window)
        is_open = entry is not None and standing in {Standing.OPEN, Standing.EMPTY, Standing.FINISHED}
        explanation = WindowExplanation(
            sentences=(),
            step=self.step.id,
            key=key,
            window=window,
            standing=standing,
            elements=life.elements,
            firings=tuple(event for event in life.events if isinstance(event, Firing)),
            watermark=operator.current_watermark,
            clock=operator.current_processing_time,
            event_timers=_times(operator.pending_event_timers(), key, window),
            processing_timers=_times(operator.state.processing_timers, key, window),
            trigger=operator.trigger_in_words(key, window, entry) if is_open and entry is not None else "",
            merged_into=_merged_into(window, life) if standing is Standing.MERGED else None,
        )
        sentences = [_headline(explanation, life)]
        sentences += _cut([list(self._told(event, key, window)) for event in life.events])
        if standing is Standing.NEVER:
            sentences += _known_windows(key, self._journal.lives[key])
        elif standing is not Standing.MERGED:
            sentences += [*self._ahead(explanation), *self._state(entry)]
        return replace(explanation, sentences=tuple(sentences))

    def _check_key(self, key: Hashable) -> None:
        keys = list(self._journal.lives)
        if key not in self._journal.lives:
            raise InvalidArgumentError(
                "no element of this key has come to the step",
                given=shortened(key),
                expected=f"one of {_listed(keys, shortened)}" if keys else "a key of an element that was pushed",
                where=self.step.where,
            )

    def _life(self, key: Hashable, window: Any) -> Life:
        """What happened to a window; a life without events for one that no element has been in."""
        return self._journal.lives[key].get(window) or Life()

    def _entry(self, key: Hashable, window: Any) -> WindowEntry | None:
        """What the step keeps of a window; None for nothing."""
        key_state = self._operator.state.keys.get(key)
        return None if key_state is None else key_state.windows.get(window)

    def _standing(self, key: Hashable, window: Any) -> Standing:
        entry, life = self._entry(key, window), self._life(key, window)
        if entry is not None and self._operator.has_finished(key, window, entry):
            return Standing.FINISHED
        if entry is not None and entry.contents is not NOTHING:
            return Standing.OPEN
        last = next((event for event in reversed(life.events) if isinstance(event, (Cleanup, Merger))), None)
        if isinstance(last, Cleanup):
            return Standing.CLEANED_UP
        if last is not None and last.into != window:
            return Standing.MERGED
        return Standing.EMPTY if life.elements_taken else Standing.NEVER

    def _told(self, event: Event, key: Hashable, window: Any) -> Iterator[str]:
        """The sentences about an event of a window."""
        when = self._when(event.at)
        if isinstance(event, Firing):
            yield from self._firing(event, when)
        elif isinstance(event, Silence):
            why = "it was empty" if event.is_empty else "nothing new had come"
            yield f"Its trigger was ready {when}, but {why}, so nothing was output."
        elif isinstance(event, Purge):
            yield f"Its trigger dropped its contents without firing it {when}."
        elif isinstance(event, Cleanup):
            yield f"It was cleaned up {when}."
        elif isinstance(event, Late):
            why = "too late" if not event.was_finished else "after its trigger had finished, and was dropped"
            arithmetic = "" if event.was_finished else f": {self._late(window, event.at)}"
            yield f"{_begun(self._numbered(event.at))} came {why}{arithmetic}."
        elif event.into == window:
            sources = " and ".join(window_in_words(source) for source in event.sources)
            verb = "grew out of" if len(event.sources) == 1 else "was merged of"
            yield f"It {verb} {sources} {when}."
        else:
            yield f"It became a part of {window_in_words(event.into)} {when}.{self._onward(key, event.into)}"

    def _firing(self, firing: Firing, when: str) -> Iterator[str]:
        pane = "" if firing.pane is None else f" {_pane(firing.pane)}"
        emitted = f"emitted {_counted(firing.results, 'result')}"
        if firing.withdrawn:
            emitted = f"withdrew {_counted(firing.withdrawn, 'result')} and {emitted}"
        text = f"It {'closed' if firing.answer is None else 'fired'}{pane} {when}: it {emitted}"
        if firing.failed is not None:
            text += f", {self._raised(firing, firing.failed)}"
        text += ", and dropped its contents" if firing.purged else ""
        yield f"{text}. With that its trigger was finished." if firing.finished else f"{text}."
        first, *others = firing.trigger.splitlines() or [""]
        if firing.answer is None:
            yield "  A window that is cleaned up outputs what is new in it, whatever its trigger waits for."
        elif not self._composes:
            came = f"; then {self._numbered(firing.at)} came," if firing.at.timer is None else ";"
            first += f"{came} and it answered {firing.answer.name}"
        yield f"  {first}"
        yield from (f"  {line}" for line in others)

    def _raised(self, firing: Firing, policy: ErrorPolicy) -> str:
        """What came of a firing whose function raised; that of a join is called for each pair, and gives one result."""
        node = self.step.node.windows
        if node is None or node.pair_function is None:
            return f"its function raised an error, and what it got {_taken_by(policy)}"
        pairs = _counted(firing.results + firing.failures, "pair")
        each = "and" if firing.failures == 1 else "and each of them"
        return f"its function raised an error for {firing.failures:,} of its {pairs}, {each} {_taken_by(policy)}"

    @property
    def _composes(self) -> bool:
        return isinstance(self._operator.trigger, ComposableTrigger)

    def _numbered(self, at: Moment) -> str:
        """The element that a step took, with its number."""
        return f"element {at.element} ({_element(self._journal.arrivals[at.element - 1].element)})"

    def _when(self, at: Moment) -> str:
        """What a step took at a moment, and the time."""
        clock = "" if at.clock == MIN_TIMESTAMP else f", clock {moment(at.clock)}"
        if at.cause is Cause.ELEMENT:
            return f"when {self._numbered(at)} came, {_times_in_words(at)}"
        assert at.timer is not None
        cleanup = ", its cleanup" if at.closes else ""
        if at.cause is Cause.PROCESSING_TIMER:
            return f"by the timer for clock {moment(at.timer)}{cleanup}, when the clock came to {moment(at.clock)}"
        now = f"when the watermark came to {moment(at.watermark)}"
        return f"by the timer for watermark {moment(at.timer)}{cleanup}, {now}{clock}"

    def _onward(self, key: Hashable, window: Any) -> str:
        """What became of a window that others merged into, if it merged again."""
        if self._standing(key, window) is not Standing.MERGED:
            return ""
        into = _merged_into(window, self._life(key, window))
        return f" That became a part of {window_in_words(into)}.{self._onward(key, into)}"

    def _late(self, window: Any, at: Moment) -> str:
        """The arithmetic of lateness for a window at a moment."""
        if at.watermark == MIN_TIMESTAMP:
            return "there was no watermark yet when it came"
        last, lateness = window.max_timestamp(), self._operator.lateness
        total = f" = {last + lateness:,}" if lateness else ""
        sign = "<=" if last + lateness <= at.watermark else ">"
        reckoning = f"its last timestamp {moment(last)} + lateness {lateness:,}{total}"
        return f"{reckoning} {sign} watermark {moment(at.watermark)} when it came"

    def _ahead(self, explanation: WindowExplanation) -> Iterator[str]:
        """What the window waits for."""
        if explanation.standing is Standing.CLEANED_UP and not (
            explanation.event_timers or explanation.processing_timers
        ):
            return
        watermark, clock = explanation.watermark, explanation.clock
        shown = "There is no watermark yet" if watermark == MIN_TIMESTAMP else f"The watermark is {moment(watermark)}"
        yield f"{shown}." if clock == MIN_TIMESTAMP else f"{shown}; the clock is {moment(clock)}."
        if explanation.trigger and explanation.standing is not Standing.FINISHED:
            first, *others = explanation.trigger.splitlines()
            yield f"Its trigger now: {first}"
            yield from others
        timers = [
            *(self._timer(explanation.window, "watermark", time, watermark) for time in explanation.event_timers),
            *(self._timer(explanation.window, "clock", time, clock) for time in explanation.processing_timers),
        ]
        yield f"Its timers: {', '.join(timers)}." if timers else "No timer is set for it: only an element can fire it."

    def _timer(self, window: Any, kind: str, time: int, now: int) -> str:
        closes = (kind == "watermark", time) == self._operator.closing_timer(window)
        ends = ["end"] if time == window.max_timestamp() and time != MAX_TIMESTAMP else []
        ends += ["cleanup"] if closes else []
        notes = [f"its {' and '.join(ends)}"] if ends else []
        notes += [f"due at the next advance of the {kind}"] if time <= now else []
        return f"{kind} {moment(time)}" + (f" ({', '.join(notes)})" if notes else "")

    def _state(self, entry: WindowEntry | None) -> Iterator[str]:
        """The state of a trigger of Flink's kind by name; those that compose say theirs in words."""
        cells = entry.trigger_state if entry is not None and not self._composes else None
        shown = [f"{name} = {shortened(value)}" for name, value in (cells or {}).items() if not name.startswith("\0")]
        if shown:
            yield f"The state of its trigger: {', '.join(shown)}."

    # Elements

    def element(self, value: Any, timestamp: int | None, key: Hashable, which: int) -> ElementExplanation | None:
        """Explains the element that equals ``value``; None if none came. ``key`` may be ``NOTHING``, for any."""
        (key,) = (key,) if key is NOTHING else as_keys([key])
        fitting = [
            arrival
            for arrival in self._journal.arrivals
            if timestamp in {None, arrival.element.timestamp} and (key is NOTHING or arrival.element.key == key)
        ]
        arrivals = [each for each in fitting if equal(each.element.value, value)]
        arrivals = arrivals or [each for each in fitting if equal(each.pushed, value)]
        if not arrivals:
            return None
        if not -len(arrivals) <= which < len(arrivals):
            raise misuse(
                "fewer elements that equal it have come", given=f"which={which}", expected=f"less than {len(arrivals)}"
            )
        arrival = arrivals[which]
        at, element = arrival.at, arrival.element
        kind = "The withdrawal of " if element.kind.is_withdrawal else ""
        came = f"{kind}{_element(element)} came to {self.step.id} as element {at.element}"
        sentences = [f"{came}, with key {shortened(element.key)}, {_times_in_words(at)}."]
        if len(arrivals) > 1:
            number = range(len(arrivals))[which] + 1
            sentences.append(f"{len(arrivals)} elements equal to it came; this is number {number} of them.")
        sentences += [text for placement in arrival.placements for text in self._placed(arrival, placement)]
        return ElementExplanation(
            (*sentences, *self._ending(arrival)),
            self.step.id,
            element.key,
            element.value,
            element.timestamp,
            at,
            tuple(arrival.placements),
            arrival.fate,
        )

    def _placed(self, arrival: Arrival, placement: Placement) -> Iterator[str]:
        window, at = placement.window, arrival.at
        name = window_in_words(window)
        if placement.assigned != window:
            yield f"Its own {window_in_words(placement.assigned)} merged into {name}."
        if placement.outcome is Outcome.FINISHED:
            fired = [e for e in self._life(arrival.element.key, window).events if isinstance(e, Firing) and e.finished]
            when = f", {self._when(fired[-1].at)}" if fired else ""
            yield f"{_begun(name)} did not take it: its trigger had finished{when}."
            return
        if not self._operator.is_event_time:
            yield f"It joined {name}: no element is late for windows that the watermark does not end."
        elif placement.outcome is Outcome.LATE:
            yield f"It was too late for {name}: {self._late(window, at)}."
            return
        elif window.max_timestamp() <= at.watermark:
            yield f"It joined {name} after its end, within the allowed lateness: {self._late(window, at)}."
        else:
            yield f"It joined {name}, on time: {self._late(window, at)}."
        yield from self._first_result(arrival, window)

    def _first_result(self, arrival: Arrival, window: Any, merger: Merger | None = None) -> Iterator[str]:
        """When a window output a result with an element first, also after it has merged; ``merger`` made it."""
        number = arrival.at.element
        events = self._life(arrival.element.key, window).events
        begin = next((index for index, event in enumerate(events) if event is merger), -1) + 1
        for event in events[begin:]:
            if event.at.element < number:
                continue
            if isinstance(event, Merger) and event.into != window:
                yield f"Later that became a part of {window_in_words(event.into)}."
                yield from self._first_result(arrival, event.into, event)
                return
            if isinstance(event, Firing):
                pane = "" if event.pane is None else f" {_pane(event.pane)}"
                failed = "" if event.failed is None else f"; {self._raised(event, event.failed)}"
                itself = event.at.timer is None and event.at.element == number
                when = "at once" if itself else self._when(event.at)
                yield f"  Its window fired next{pane} {when}{failed}."
                return
            if isinstance(event, (Purge, Cleanup)):
                what = "purged" if isinstance(event, Purge) else "cleaned up"
                yield f"  No result holds it: its window was {what} {self._when(event.at)}."
                return
        yield "  Its window has not fired since."

    def _ending(self, arrival: Arrival) -> Iterator[str]:
        lateness = self._operator.lateness
        if arrival.fate is Fate.SIDE_OUTPUT:
            yield f"It went to the side output {arrival.late_tag!r} of late elements."
        elif arrival.fate is Fate.DROPPED_LATE:
            yield "It was dropped, and counted in late_records_dropped."
        elif arrival.fate is Fate.DROPPED_FINISHED:
            yield "It was dropped, and counted in closed_window_records_dropped."
        elif arrival.failed is not None:
            yield f"No window took it, as a function of the step raised an error: it {_taken_by(arrival.failed)}."
        elif arrival.fate is Fate.FAILED:
            yield "A function of the step raised an error for it."
        elif arrival.fate is Fate.NOWHERE:
            if not arrival.placements:
                yield "The assigner gave it no window."
            timestamp = arrival.element.timestamp
            if timestamp is not None and self._operator.is_event_time:
                yield (
                    f"It went nowhere, and does not count as late: its timestamp {moment(timestamp)} "
                    f"+ lateness {lateness:,} > watermark {moment(arrival.at.watermark)}."
                )


def _headline(explanation: WindowExplanation, life: Life) -> str:
    firings = len(explanation.firings)
    fired = f"fired {_counted(firings, 'time')}" if firings else "never fired"
    so_far = f"has {fired}" if firings else "has not fired yet"
    holds = f"holds {_counted(life.elements, 'element')}"
    if life.fresh != life.elements:
        holds += f", {life.fresh:,} of them new"
    text = {
        Standing.OPEN: f"is open: it {holds}, and {so_far}",
        Standing.EMPTY: f"is empty, as its elements were dropped; it {so_far}",
        Standing.FINISHED: f"takes no more elements, as its trigger has finished; it {so_far}",
        Standing.CLEANED_UP: f"was cleaned up; it {fired}",
        Standing.MERGED: "merged into another window",
        Standing.NEVER: "does not exist: no element has been in it",
    }[explanation.standing]
    return f"{_begun(window_in_words(explanation.window))} of key {shortened(explanation.key)} {text}."


def _taken_by(policy: ErrorPolicy) -> str:
    """What an error policy did with what failed."""
    what = "was dropped, and counted in failed_records_dropped"
    if policy.tag is not None:
        what = f"went to the side output {policy.tag.name!r} of failed elements"
    return f"{what} ({policy.describe()})"


def window_in_words(window: Any) -> str:
    """A window in a few words, with both ends of a window of time."""
    if isinstance(window, TimeWindow):
        return f"window {moment(window.start)} to {moment(window.end)}"
    return "the global window" if isinstance(window, GlobalWindow) else f"window {shortened(window)}"


def never_came(step: Step, value: Any, timestamp: int | None, upstream: Iterable[Step]) -> ElementExplanation:
    """Explains a pushed element from which no step got anything; one of the steps ``upstream`` has held it back."""
    policies = ((each, each.node.error_policy) for each in upstream)
    may_fail = [f"{each.id} ({policy.describe()})" for each, policy in policies if policy is not None]
    failed = f"the function of {' or '.join(may_fail)} raised an error for it, " if may_fail else ""
    text = (
        f"{shortened(value)} was pushed, but nothing of it came to {step.id}: "
        f"a filter or a flat_map upstream of the step dropped it, {failed}or it went another way."
    )
    return ElementExplanation((text,), step.id, None, value, timestamp, None, (), None)


def _times(timers: Any, key: Hashable, window: Any) -> tuple[int, ...]:
    return tuple(sorted(time for timer_key, namespace, time in timers if timer_key == key and namespace == window))


def _merged_into(window: Any, life: Life) -> Any:
    """The window that another one became a part of last."""
    return next(event.into for event in reversed(life.events) if isinstance(event, Merger) and event.into != window)


def _known_windows(key: Hashable, lives: dict[Any, Life]) -> list[str]:
    windows = [window for window, life in lives.items() if life.elements_taken]
    if not windows:
        return []
    return [f"The windows of key {shortened(key)} so far: {_listed(windows, window_in_words)}."]


def _listed(items: Sequence[Any], text: Any) -> str:
    more = f" and {len(items) - _NAMED:,} more" if len(items) > _NAMED else ""
    return ", ".join(text(item) for item in items[:_NAMED]) + more


def _cut(events: list[list[str]]) -> list[str]:
    """The sentences about the first and the last of many events."""
    left_out = len(events) - 2 * _MOST
    if left_out > 0:
        events = [*events[:_MOST], [f"... {left_out:,} more events ..."], *events[-_MOST:]]
    return [sentence for sentences in events for sentence in sentences]


def _element(element: RecordedElement) -> str:
    stamp = "without a timestamp" if element.timestamp is None else f"at {moment(element.timestamp)}"
    return f"{shortened(element.value)} {stamp}"


def _times_in_words(at: Moment) -> str:
    """The watermark and the clock under which an element came."""
    watermark = "before any watermark" if at.watermark == MIN_TIMESTAMP else f"under watermark {moment(at.watermark)}"
    return watermark if at.clock == MIN_TIMESTAMP else f"{watermark}, clock {moment(at.clock)}"


def _pane(pane: PaneInfo) -> str:
    return f"{pane.timing.value} (pane {pane.index}{', the last' if pane.is_last else ''})"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def equal(one: Any, other: Any) -> bool:
    """Returns whether elements are equal; a user's ``==`` may raise, or answer with something else than a bool."""
    if one is NOTHING or type(one) is not type(other):
        return False
    try:
        return one is other or bool(one == other)
    except Exception:  # as for an array of numbers, whose == has no truth
        return False


def _begun(text: str) -> str:
    """A text as the beginning of a sentence."""
    return text[0].upper() + text[1:]
