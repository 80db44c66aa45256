"""The loop that runs sessions in event time with the default trigger.

A session that has not fired is three items of a list, its start, its end and its contents, without an entry, a timer
and a window for each: see :attr:`OperatorState.sessions`. An element behind the watermark that meets none of these, and
one that meets a session of the general operator, is handed to that, and all sessions of its key are with it. So is a
key with many sessions, which the general operator finds by their time.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from functools import reduce
from itertools import islice, repeat
from operator import itemgetter
from typing import Any, ClassVar, Final

from windrow.plan import Step, WindowNode
from windrow.time import MAX_TIMESTAMP
from windrow.windows import SessionWindows, TimeWindow
from windrow.windows.spec import GapWindows
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS, call_description, folded_behind, raise_call_error
from windrow_runtime.operators.operator import FIRINGS_AT_ONCE
from windrow_runtime.operators.state.live_sessions import MANY_SESSIONS
from windrow_runtime.operators.state.model import NOTHING, KeyState, WindowEntry
from windrow_runtime.operators.windows.contents import AggregatedContents
from windrow_runtime.operators.windows.partials import Partials, PartialsOperator

# Any in this module: elements and accumulators of every type.

_START, _END, _CONTENTS, _ITEMS = range(4)  # the offsets of a session's items, and how many there are
_MOST_ITEMS: Final = MANY_SESSIONS * _ITEMS
_NO_SESSIONS: Final[list[Any]] = []
"""The sessions of a key that has none; never written to."""


class SessionLoopOperator(PartialsOperator):
    """Runs sessions in event time with the default trigger.

    Sessions of several keys that have one end fire in any order; those of the general operator fire as they reached it.
    """

    form = "loop of sessions"
    keeps_tables: ClassVar[bool] = True

    def __init__(self, step: Step, node: WindowNode, shape: GapWindows) -> None:
        super().__init__(step, node)
        assert isinstance(self.assigner, SessionWindows)
        self.gap = shape.gap
        self._gap_of = self.assigner.gap_of

    @property
    def takes_runs(self) -> bool:
        """Returns whether elements that arrive as columns may be added session by session."""
        return self.gap is not None and isinstance(self.contents, AggregatedContents)

    def has_apart(self, key: Hashable) -> bool:
        """Returns whether sessions of a key are not in columns."""
        key_state = self.state.keys.get(key)
        return key in self.state.sessions or (key_state is not None and len(key_state.live) > 0)

    def window_with(self, timestamps: Sequence[int], index: int) -> TimeWindow:
        """Returns the window that elements have together with the session at an index of the columns; -1: with none."""
        assert self.gap is not None, "elements have no gaps of their own"
        starts, ends = list(timestamps), [max(timestamps) + self.gap]
        if index >= 0:
            starts.append(self.state.session_columns.starts[index])
            ends.append(self.state.session_columns.ends[index])
        return TimeWindow(min(starts), max(ends))

    @property
    def frontier(self) -> float:
        """The highest end of sessions that the watermark has reached."""
        return self.current_watermark + 1 if self.current_watermark < MAX_TIMESTAMP else math.inf

    # Elements

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        self.state.sessions_from_columns()
        self.take(keys, values, timestamps)

    def take(  # noqa: PLR0912  a call more would cost at each element
        self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]
    ) -> None:
        """Takes elements one by one; no session of their keys is in columns."""
        sessions, keyed, frontier, kept = self.state.sessions, self.state.keys, self.frontier, self.contents
        fixed_gap, gap_of, shows_copy = self.gap, self._gap_of, self.exposure.assigner
        aggregated = kept if isinstance(kept, AggregatedContents) else None
        key: Hashable = None
        value: Any = None
        try:
            for key, value, timestamp in zip(keys, values, timestamps, strict=True):
                if timestamp is None:
                    self.process_element(key, value, timestamp)
                    continue
                gap = gap_of(own(value) if shows_copy else value) if fixed_gap is None else fixed_gap
                end = timestamp + gap
                if keyed and self._is_general(key, timestamp, end):
                    self._take_generally(key, value, timestamp)
                    continue
                items = sessions.get(key, _NO_SESSIONS)
                if len(items) == _ITEMS:
                    at = 0 if items[_START] <= end and timestamp <= items[_END] else -1
                elif len(items) >= _MOST_ITEMS:
                    self._take_generally(key, value, timestamp)
                    continue
                else:
                    at = self._place_in(items, key, timestamp, end, value)
                if at < 0:
                    if end <= frontier:
                        self._take_behind(key, value, timestamp, end)
                        continue
                    if not items:
                        items = sessions[key] = []
                    at = len(items)
                    items += (timestamp, end, NOTHING)
                else:
                    if timestamp < items[at]:  # noqa: PLR1730  min() takes thrice as long
                        items[at] = timestamp
                    if end > items[at + _END]:  # noqa: PLR1730
                        items[at + _END] = end
                contents = items[at + _CONTENTS]
                try:
                    if aggregated is None:
                        arrival = self._next_arrival(key) if kept.keeps_values else 0
                        contents = kept.add(contents, value, timestamp, arrival)
                    else:
                        contents = aggregated.function.add(
                            value, aggregated.create() if contents is NOTHING else contents
                        )
                except USER_ERRORS as error:
                    window = TimeWindow(items[at], items[at + _END])
                    raise_call_error(self.step, error, call_description(key, window=window, element=value))
                items[at + _CONTENTS] = contents
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, element=value))

    def merge_batch(self, partials: Partials) -> None:
        assert self.gap is not None, "elements with gaps of their own cross one by one"
        self.state.sessions_from_columns()
        if min(partials.starts) + self.gap - 1 <= self.current_watermark:
            raise folded_behind(self.current_watermark, self.step.where)
        keyed = self.state.keys
        for key, more, start, end in zip(*partials[:4], strict=True):
            # Each accumulator is a session, which merges with those of its key that it touches.
            items = self.state.sessions.get(key)
            has_many = items is not None and len(items) >= _MOST_ITEMS
            if has_many or (keyed and self._is_general(key, start, end)):
                self.open_sessions(key)
                self._merge_session(key, TimeWindow(start, end), more)
                continue
            if items is None:
                self.state.sessions[key] = [start, end, more]
                continue
            at = self._place_in(items, key, start, end, NOTHING)
            if at < 0:
                items += (start, end, more)
                continue
            window = TimeWindow(min(start, items[at]), max(end, items[at + _END]))
            try:
                contents = self.contents.merge(items[at + _CONTENTS], more)
            except USER_ERRORS as error:
                raise_call_error(self.step, error, call_description(key, window=window))
            items[at : at + _ITEMS] = *window, contents

    def _merge_session(self, key: Hashable, window: TimeWindow, contents: Any) -> None:
        """Adds a session of elements on time, with their accumulator; the trigger waits for its end alone."""
        key_state = self.state.keys.setdefault(key, KeyState())
        into = self._add_to_live(key, key_state, window, NOTHING)
        entry = key_state.windows.setdefault(into, WindowEntry())
        if entry.contents is NOTHING:
            entry.contents, entry.born = contents, key_state.arrivals
        else:
            try:
                entry.contents = self.contents.merge(entry.contents, contents)
            except USER_ERRORS as error:
                raise_call_error(self.step, error, call_description(key, window=into))
        key_state.arrivals += 1
        self.state.event_timers.register(key, into, into.max_timestamp())
        self._register_cleanup(key, into)

    def _next_arrival(self, key: Hashable) -> int:
        """Returns the number of arrival of an element that is kept itself."""
        key_state = self.state.keys.get(key)
        if key_state is None:
            key_state = self.state.keys[key] = KeyState()
        key_state.arrivals += 1
        return key_state.arrivals - 1

    def _place_in(self, items: list[Any], key: Hashable, start: int, end: int, value: Any) -> int:
        """Index of the session that overlaps the window, after merging all that do; -1 if none."""
        met = [at for at in range(0, len(items), _ITEMS) if items[at] <= end and start <= items[at + _END]]
        if len(met) < 2:
            return met[0] if met else -1
        first, *others = met
        window = TimeWindow(min(start, *(items[at] for at in met)), max(end, *(items[at + _END] for at in met)))
        try:
            contents = reduce(self.contents.merge, [items[at + _CONTENTS] for at in met])
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, window=window, element=value))
        items[first : first + _ITEMS] = *window, contents
        for at in reversed(others):
            del items[at : at + _ITEMS]
        return first

    def _is_general(self, key: Hashable, start: int, end: int) -> bool:
        """Returns whether the general operator has to take a window, since it keeps a session that the window meets."""
        key_state = self.state.keys.get(key)
        if key_state is None or not key_state.live:
            return False
        # Elements that are kept themselves are numbered, all of a key in one place.
        if self.contents.keeps_values or len(key_state.live) >= MANY_SESSIONS:
            return True
        return any(it.start <= end and start <= it.end for it in key_state.live)

    def _take_behind(self, key: Hashable, value: Any, timestamp: int, end: int) -> None:
        """Takes an element behind the watermark whose window meets no session."""
        if min(end - 1, MAX_TIMESTAMP) + self.lateness <= self.current_watermark:
            self._late(value, timestamp)
        else:
            self._take_generally(key, value, timestamp)

    def _take_generally(self, key: Hashable, value: Any, timestamp: int) -> None:
        self.open_sessions(key)
        self.process_element(key, value, timestamp)

    # Firing

    def advancing_watermark(self, watermark: int) -> Iterator[None]:
        self.current_watermark = watermark = max(watermark, self.current_watermark)
        frontier = self.frontier
        # The sessions that the general operator keeps fire and go in between, in order of time.
        goes_by_timers = self.lateness > 0 or len(self.state.event_timers) > 0
        if self.state.session_columns and not goes_by_timers and not self.contents.keeps_values:
            yield from self._fire_columns(frontier)
            return
        self.state.sessions_from_columns()
        sessions = self.state.sessions
        due = [(items[_END], key) for key, items in sessions.items() if items[_END] <= frontier]
        more = [(end, key) for key, items in sessions.items() if len(items) > _ITEMS for end in items[4::3]]
        due += [session for session in more if session[0] <= frontier]
        due.sort(key=itemgetter(0))
        if not goes_by_timers and not self.contents.keeps_values:
            for first in range(0, len(due), FIRINGS_AT_ONCE):
                self.fire_all([self._taken(key, end) for end, key in due[first : first + FIRINGS_AT_ONCE]])
                yield
            return
        for number, (end, key) in enumerate(due, 1):
            if goes_by_timers:
                yield from self.firing_event_timers(min(end - 1, MAX_TIMESTAMP))
            items = sessions.get(key, _NO_SESSIONS)
            if len(items) == _ITEMS:
                self._fire_session(key, items, 0)
            elif end in items[1::3]:
                self._fire_session(key, items, items[1::3].index(end) * _ITEMS)
            if number % FIRINGS_AT_ONCE == 0:
                yield
        yield from self.firing_event_timers(watermark)

    def _fire_columns(self, frontier: float) -> Iterator[None]:
        """Fires the sessions that end at or before a time, all of them from columns."""
        sessions = self.state.sessions_to_columns()
        ends = sessions.ends
        due = sessions.take(sorted([at for at, end in enumerate(ends) if end <= frontier], key=ends.__getitem__))
        # Half of the time of calls of the class.
        windows = map(tuple.__new__, repeat(TimeWindow), zip(due.starts, due.ends, strict=True))
        firing = zip(due.keys, windows, due.contents, strict=True)
        for _ in range(0, len(due), FIRINGS_AT_ONCE):
            self.fire_all(islice(firing, FIRINGS_AT_ONCE))
            yield

    def _taken(self, key: Hashable, end: int) -> tuple[Hashable, TimeWindow, Any]:
        """Removes the session of a key with an end from the state; returns the key, the window and its contents."""
        items = self.state.sessions[key]
        if len(items) == _ITEMS:
            del self.state.sessions[key]
            return key, TimeWindow(items[_START], items[_END]), items[_CONTENTS]
        at = items[_END::_ITEMS].index(end) * _ITEMS
        session = key, TimeWindow(items[at], items[at + _END]), items[at + _CONTENTS]
        del items[at : at + _ITEMS]
        return session

    def _fire_session(self, key: Hashable, items: list[Any], at: int) -> None:
        start, end, contents = items if len(items) == _ITEMS else items[at : at + _ITEMS]
        window = TimeWindow(start, end)
        is_kept = self.lateness and self.cleanup_time(window) > window.max_timestamp()
        if is_kept and (at or self.contents.keeps_values):
            # What the general operator has of a key was born before what is here.
            self.open_sessions(key)
            return
        if len(items) == _ITEMS:
            del self.state.sessions[key]
        else:
            del items[at : at + _ITEMS]
        try:
            if is_kept:
                self.open_entry(key, window, contents)
                key_state = self.state.keys[key]
                self._fire(key, key_state, window, key_state.windows[window])
                return
            self.fire_all([(key, window, contents)])
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, window=window))

    def pending_event_timers(self) -> Iterator[tuple[Hashable, Any, int]]:
        yield from super().pending_event_timers()
        for key, window in self._windows():
            last, cleanup = window.max_timestamp(), self.cleanup_time(window)
            yield from ((key, window, time) for time in {last, cleanup} if time < MAX_TIMESTAMP or time == last)

    def open_windows(self) -> Iterator[tuple[Hashable, Any]]:
        yield from super().open_windows()
        yield from self._windows()

    def _windows(self) -> Iterator[tuple[Hashable, TimeWindow]]:
        self.state.sessions_from_columns()
        for key, items in self.state.sessions.items():
            yield from ((key, TimeWindow(*bounds)) for bounds in zip(items[::3], items[1::3], strict=True))
