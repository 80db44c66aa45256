"""The loop that runs sessions in event time with the default trigger.

An element that meets one live session at most is taken here, and the session is written once for a batch. An element
that joins two sessions, or one that has fired, or is late, goes to the general operator.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, is_not, length_hint
from typing import Any, Final, cast

from windrow.plan import Step, WindowNode
from windrow.time import MAX_TIMESTAMP
from windrow.windows import SessionWindows, TimeWindow
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error
from windrow_runtime.operators.state.model import NOTHING, KeyState, WindowEntry
from windrow_runtime.operators.windows.contents import AggregatedContents
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_runtime.operators.windows.shape import GapWindows

# Any in this module: elements and accumulators of every type.

_SAMPLE: Final = 64
_AT_ONCE: Final = 64  # more elements of a key are less often in one session
_UNCHANGED: Final = -1


@dataclass(slots=True, eq=False)
class _OpenSession:
    """A live session of one key while a batch adds elements to it."""

    key: Hashable
    key_state: KeyState
    entry: WindowEntry
    stored: TimeWindow | None  # under which the state of the key has the session; None: the session is new
    start: int  # by now, as the end
    end: int
    before: float = -math.inf  # the end of the live session before this one, which an element joins by reaching it
    after: float = math.inf  # the start of the live session after this one
    changed: int = _UNCHANGED  # the position in the batch of the element that moved the start or the end last

    def __post_init__(self) -> None:
        for other in self.key_state.live:
            if other.end < self.start:
                self.before = max(self.before, other.end)
            elif other.start > self.end:
                self.after = min(self.after, other.start)

    def extend(self, stamps: Sequence[int], gap: int, position: int) -> None:
        """Moves the start and the end as elements do that are behind ``position`` elements of the batch."""
        least, end = min(stamps), max(stamps) + gap
        if least < self.start:
            self.start = least
            self.changed = max(self.changed, position + 1 + stamps.index(least))
        if end > self.end:
            self.end = end
            self.changed = max(self.changed, position + 1 + stamps.index(end - gap))


class SessionLoopOperator(WindowOperator):
    """Runs sessions in event time with the default trigger.

    Timers are set once for a batch, in the order in which the general operator would have set them last.
    """

    form = "loop of sessions"

    def __init__(self, step: Step, node: WindowNode, shape: GapWindows) -> None:
        super().__init__(step, node)
        self._fixed_gap = shape.gap
        self._open: dict[Hashable, _OpenSession] = {}
        self._moved: list[_OpenSession] = []

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        if self.current_watermark >= MAX_TIMESTAMP:  # every session has fired
            super().process_batch(keys, values, timestamps)
            return
        gap, kept = self._fixed_gap, self.contents
        try:
            by_key = gap is not None and isinstance(kept, AggregatedContents) and _lie_by_key(keys)
            if by_key and None not in timestamps:
                self._take_by_key(keys, values, cast("Sequence[int]", timestamps))
            else:
                self._take(keys, values, timestamps, 0)
        finally:
            self._write_back()

    def _take_by_key(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int]) -> None:
        """Takes elements that lie side by side if they have one key: some that are in one session, by one look-up."""
        gap, kept = self._fixed_gap, self.contents
        assert gap is not None
        assert isinstance(kept, AggregatedContents)
        begin = last = 0
        try:
            for key, run in groupby(keys):
                first, last = last, last + len(list(run))
                for begin in range(first, last, _AT_ONCE):
                    end = min(begin + _AT_ONCE, last)
                    stamps = timestamps[begin:end]
                    session = self._session_of_all(key, stamps, gap, begin)
                    if session is None:
                        self._take(keys[begin:end], values[begin:end], stamps, begin)
                    else:
                        self._fold(session, kept, values[begin:end], stamps, gap)
                        session.extend(stamps, gap, begin)
        except USER_ERRORS as error:  # the key is the user's, too
            raise_call_error(self.step, error, call_description(keys[begin], element=values[begin]))

    def _fold(
        self, session: _OpenSession, kept: AggregatedContents, values: Sequence[Any], stamps: Sequence[int], gap: int
    ) -> None:
        """Adds elements to the contents of a session."""
        entry, add = session.entry, kept.function.add
        contents = entry.contents
        added = iter(values)
        value = values[0]
        try:
            if contents is NOTHING:
                contents = kept.create()
            for value in added:
                contents = add(value, contents)
        except USER_ERRORS as error:
            # The window is named as it was with the element that failed, and without those that the iterator still has.
            seen = stamps[: max(1, len(stamps) - length_hint(added))]
            window = TimeWindow(min(session.start, *seen), max(session.end, max(seen) + gap))
            raise_call_error(self.step, error, call_description(session.key, window=window, element=value))
        entry.contents = contents
        session.key_state.arrivals += len(stamps)

    def _session_of_all(self, key: Hashable, stamps: Sequence[int], gap: int, begin: int) -> _OpenSession | None:
        """Opens the live session that elements of one key are in; None where they may be in several."""
        first, least, last = stamps[0], min(stamps), max(stamps)
        session = self._open.get(key)
        if session is None or not (
            session.before < first <= session.end and session.start <= first + gap < session.after
        ):
            session = self._open_session(key, first, first + gap, begin + 1)
        if session is None or least <= session.before or last + gap >= session.after:
            return None
        # Elements within one gap meet each other; those that meet the session as it is need not.
        return session if last - least <= gap or session.start - gap <= least <= last <= session.end else None

    def _take(
        self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None], position: int
    ) -> None:
        """Takes elements one by one; the first one is behind ``position`` elements of the batch."""
        assigner = self.assigner
        assert isinstance(assigner, SessionWindows)
        fixed_gap = self._fixed_gap
        shows_copy = self.exposure.assigner
        sessions = self._open
        kept = self.contents
        add_contents = kept.add
        add = kept.function.add if isinstance(kept, AggregatedContents) else None
        create = kept.create if isinstance(kept, AggregatedContents) else None
        key: Hashable = None
        value: Any = None
        try:
            for key, value, timestamp in zip(keys, values, timestamps, strict=True):
                position += 1
                if timestamp is None:
                    self.process_element(key, value, timestamp)
                    continue
                if fixed_gap is not None:
                    end = timestamp + fixed_gap
                else:
                    end = timestamp + assigner.gap_of(own(value) if shows_copy else value)
                session = sessions.get(key)
                if session is None or not (
                    session.before < timestamp <= session.end and session.start <= end < session.after
                ):
                    session = self._open_session(key, timestamp, end, position)
                    if session is None:
                        self._write_back()
                        self.process_element(key, value, timestamp)
                        continue
                if timestamp < session.start:
                    session.start = timestamp
                    session.changed = position
                if end > session.end:
                    session.end = end
                    session.changed = position
                key_state = session.key_state
                entry = session.entry
                contents = entry.contents
                try:
                    if add is not None and create is not None:
                        entry.contents = add(value, create() if contents is NOTHING else contents)
                    else:
                        entry.contents = add_contents(contents, value, timestamp, key_state.arrivals)
                except USER_ERRORS as error:
                    window = TimeWindow(session.start, session.end)
                    raise_call_error(self.step, error, call_description(key, window=window, element=value))
                key_state.arrivals += 1
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, element=value))

    def _open_session(self, key: Hashable, start: int, end: int, position: int) -> _OpenSession | None:
        """Opens the live session that a window meets, or a new one; None where the general operator is needed."""
        last = self._open.pop(key, None)
        if last is not None:
            self._store(last)
        key_state = self.state.keys.get(key)
        if key_state is None:
            key_state = KeyState()
        met = [window for window in key_state.live if window.start <= end and start <= window.end]
        if len(met) > 1:
            return None
        stored = met[0] if met else None
        if (end if stored is None else stored.end) - 1 <= self.current_watermark:
            return None
        if stored is None:
            entry = WindowEntry(born=key_state.arrivals)
            session = _OpenSession(key, key_state, entry, None, start, end, changed=position)
        else:
            held = key_state.windows.get(stored)
            if held is None or held.contents is NOTHING:
                return None
            session = _OpenSession(key, key_state, held, stored, *stored)
        self._open[key] = session
        return session

    def _store(self, session: _OpenSession) -> None:
        """Writes a session to the state of its key, if an element moved its start or its end."""
        if session.changed == _UNCHANGED:
            return
        window = TimeWindow(session.start, session.end)
        key_state = session.key_state
        if session.stored is None:
            key_state.live.append(window)
            self.state.keys[session.key] = key_state
        else:
            key_state.live[key_state.live.index(session.stored)] = window
            del key_state.windows[session.stored]
        key_state.windows[window] = session.entry
        self._moved.append(session)

    def _write_back(self) -> None:
        """Writes the open sessions to the state of their keys, and sets their timers."""
        for session in self._open.values():
            self._store(session)
        self._open.clear()
        self._moved.sort(key=attrgetter("changed"))
        for session in self._moved:
            self._move_timers(session)
        self._moved.clear()

    def _move_timers(self, session: _OpenSession) -> None:
        """Deletes the timers of the window that is stored, and sets those of the window that it became."""
        key, stored, lateness = session.key, session.stored, self.lateness
        timers = self.state.event_timers
        if stored is not None:
            timers.delete(key, stored, stored.max_timestamp())
            if lateness:
                timers.delete(key, stored, stored.max_timestamp() + lateness)
        window = TimeWindow(session.start, session.end)
        last = window.max_timestamp()
        timers.register(key, window, last)
        if lateness and last + lateness < MAX_TIMESTAMP:
            timers.register(key, window, last + lateness)


def _lie_by_key(keys: Sequence[Hashable]) -> bool:
    """Returns whether a look at the first keys shows that elements of one key lie side by side."""
    sample = keys[:_SAMPLE]
    return 4 * sum(map(is_not, sample, sample[1:])) < len(sample)
