"""The loop that runs tumbling and sliding windows in event time with the default trigger.

An element of a window that has fired, or a late one, is handed to the general operator, and a snapshot of one form
continues in the other. The loop leaves out what changes nothing: asking a trigger that continues, setting set timers.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterator, Sequence
from copy import deepcopy
from itertools import chain, groupby, repeat
from typing import Any, Final

from windrow.plan import Step, WindowNode
from windrow.time import MAX_TIMESTAMP
from windrow.windows import TimeWindow
from windrow.windows.spec import AlignedWindows
from windrow_runtime.operators.class_facts import PLAIN_CONSTANTS, is_named_tuple
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS, call_description, folded_behind, raise_call_error
from windrow_runtime.operators.operator import FIRINGS_AT_ONCE, OperatorOutput
from windrow_runtime.operators.state.model import NOTHING, KeyState, OperatorState
from windrow_runtime.operators.windows.contents import AggregatedContents, ReducedContents
from windrow_runtime.operators.windows.partials import Partials, PartialsOperator

# Any in this module: elements and accumulators of every type.

_NO_ROWS: Final[dict[Hashable, Any]] = {}
"""The table of a window without elements; never written to."""

_DEEPEST: Final = 8  # a tuple that names one tuple twice, and so on, has no end


class TableOperator(PartialsOperator):
    """Runs windows of one size with a reduce or an aggregate and the default trigger.

    A window is a table: one dictionary of contents by key, without an entry and a timer for each. Where lateness keeps
    it when it has fired, it stays one; but it becomes entries of the general operator if the window function is told
    when it goes, and the window of a key does so if that function keeps state for it.
    """

    keeps_tables = True

    def __init__(self, step: Step, node: WindowNode, shape: AlignedWindows) -> None:
        super().__init__(step, node)
        self._shape = shape
        self._size = shape.size
        self.form = f"loop of {'tumbling' if shape.slide == shape.size else 'sliding'} windows"
        kept = self.contents
        self._aggregate = kept.function if isinstance(kept, AggregatedContents) else None
        self._reduce = kept.reduce if isinstance(kept, ReducedContents) else None

    def bind(self, state: OperatorState, output: OperatorOutput) -> None:
        super().bind(state, output)
        state.table_size, state.table_lateness = self._size, self.lateness

    def _add(
        self, key: Hashable, key_state: KeyState, window: Any, value: Any, timestamp: int | None, stamp: int
    ) -> None:
        has_fired = window.end - 1 <= self.current_watermark
        if window in key_state.windows or window.end - 1 > MAX_TIMESTAMP:
            # A window of the general operator, or one beyond the end of time.
            super()._add(key, key_state, window, value, timestamp, stamp)
            return
        if has_fired:
            self._fire_again(key, key_state, window, own(value) if self.exposure.windows else value, timestamp)
            return
        tables = self.state.tables
        before = tables.get(window.start, _NO_ROWS).get(key, NOTHING)
        contents = self.contents.add(before, own(value) if self.exposure.windows else value, timestamp, 0)
        tables.setdefault(window.start, {})[key] = contents

    def process_batch(  # noqa: PLR0912  a call more would cost at each element
        self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]
    ) -> None:
        size, slide, offset = self._size, self._shape.slide, self._shape.offset
        is_tumbling = slide == size
        # Windows that start between these have not fired, and end before all time does.
        open_from = self.current_watermark - size + 2
        open_to = MAX_TIMESTAMP - size + 1
        owns_each = self.exposure.windows
        tables = self.state.tables
        key_states = self.state.keys
        add = self._aggregate.add if self._aggregate is not None else None
        reduce = self._reduce
        begin = self.contents.add
        key: Hashable = None
        value: Any = None
        start = 0
        try:
            for key, value, timestamp in zip(keys, values, timestamps, strict=True):
                if timestamp is None:
                    self.process_element(key, value, timestamp)
                    continue
                start = timestamp - (timestamp - offset) % slide
                mine = value
                if not is_tumbling:
                    if start <= timestamp - size:  # it falls between two windows
                        self.process_element(key, value, timestamp)
                        continue
                    if owns_each:
                        mine = own(value)
                while True:
                    table = tables.get(start, _NO_ROWS)
                    contents = table.get(key, NOTHING)
                    if contents is NOTHING:
                        if open_from <= start <= open_to and key not in key_states:
                            tables.setdefault(start, {})[key] = begin(NOTHING, mine, timestamp, 0)
                        else:
                            self._add_without_row(key, start, value, timestamp)
                    elif add is not None:
                        table[key] = add(mine, contents)
                    elif reduce is not None:
                        table[key] = reduce(contents, mine)
                    if is_tumbling:
                        break
                    start -= slide
                    if start <= timestamp - size:
                        break
                    if owns_each:
                        mine = own(value)
        except USER_ERRORS as error:
            call = call_description(key, window=TimeWindow(start, start + size), element=value)
            raise_call_error(self.step, error, call)

    def _add_without_row(self, key: Hashable, start: int, value: Any, timestamp: int) -> None:
        """Adds an element to a window that has fired, or that the general operator keeps for its key."""
        window = TimeWindow(start, start + self._size)
        if self.cleanup_time(window) > self.current_watermark:
            key_state = self.state.keys.get(key) or KeyState()
            self._add(key, key_state, window, value, timestamp, timestamp)
            if not key_state.is_empty:
                self.state.keys[key] = key_state
        elif start == self._shape.last_start(timestamp):
            # Its last window is cleaned up, and so are those before.
            self._late(value, timestamp)

    def _fire_again(
        self, key: Hashable, key_state: KeyState, window: TimeWindow, value: Any, timestamp: int | None
    ) -> None:
        """Adds an element to a window that has fired and is kept, and fires it."""
        fired, entry = self.state.fired, self._entry
        contents = self.contents.add(fired.get(window.start, _NO_ROWS).get(key, NOTHING), value, timestamp, 0)
        table = fired.setdefault(window.start, {})
        table[key] = entry.contents = contents
        entry.window_state = None
        self._fire(key, key_state, window, entry)
        if entry.window_state:
            self.state.keys[key] = key_state
            self._keep_state(key, window, table, entry.window_state)

    def _keep_state(
        self, key: Hashable, window: TimeWindow, table: dict[Hashable, Any], window_state: dict[str, Any]
    ) -> None:
        """Makes an entry of the window of a key, for which the window function keeps state."""
        self.open_entry(key, window, table.pop(key))
        self.state.keys[key].windows[window].window_state = window_state

    def merge_batch(self, partials: Partials) -> None:
        sees_late = bool(self.lateness) or self.node.late_tag is not None
        keys, contents, starts, _, counts = partials
        done = 0
        for slice_start, places in groupby(starts):
            begin, done = done, done + len(list(places))
            windows = self._open_windows(slice_start)
            are_all = len(windows) == len(self._windows_from(slice_start, slice_start - self._size))
            if sees_late and not (are_all if self.lateness else windows):
                raise folded_behind(self.current_watermark, self.step.where)
            if not windows:
                late = sum(counts[begin:done])
                self.metrics.late += late
                self.metrics.count("late_records_dropped", late)
                continue
            self._merge_slice(windows, keys[begin:done], contents[begin:done])

    def _merge_slice(self, windows: list[int], keys: Sequence[Hashable], contents: Sequence[Any]) -> None:
        """Merge the accumulators of a slice into each of the windows that share it."""
        try:
            for start, accumulators in zip(windows, for_each_window(contents, len(windows)), strict=True):
                self._merge_into(start, keys, accumulators)
        except USER_ERRORS as error:
            # Merging describes its own failures, so this is an accumulator that cannot be copied.
            index = _first_without_copy(contents)
            key = f"one of {len(keys)}" if index is None else keys[index]
            window = TimeWindow(windows[0], windows[0] + self._size)
            raise_call_error(self.step, error, call_description(key, window=window))

    def _open_windows(self, slice_start: int) -> list[int]:
        """The starts of the windows that hold a slice and have not fired, the latest first."""
        return self._windows_from(slice_start, max(slice_start, self.current_watermark + 1) - self._size)

    def _windows_from(self, slice_start: int, before: int) -> list[int]:
        """The starts of the windows that hold a slice and begin after a time, the latest first."""
        return list(range(self._shape.last_start(slice_start), before, -self._shape.slide))

    def _merge_into(self, start: int, keys: Sequence[Hashable], contents: Sequence[Any]) -> None:
        """Merge accumulators into one window of each of their keys."""
        assert self._aggregate is not None, "what a reduce has left cannot be merged"
        merge = self._aggregate.merge
        key_states = self.state.keys
        table = self.state.tables.get(start, {})
        key: Hashable = None
        try:
            for key, more in zip(keys, contents, strict=True):
                if key in key_states:
                    entry = key_states[key].windows.get(TimeWindow(start, start + self._size))
                    if entry is not None:
                        # From a snapshot of the general operator; its timer is set.
                        entry.contents = merge(entry.contents, more)
                        continue
                before = table.get(key, NOTHING)
                table[key] = more if before is NOTHING else merge(before, more)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, window=TimeWindow(start, start + self._size)))
        if table:
            self.state.tables[start] = table

    def advancing_watermark(self, watermark: int) -> Iterator[None]:
        self.current_watermark = watermark = max(watermark, self.current_watermark)
        tables = self.state.tables
        reach = self._size - 1
        fired = 0
        for start in sorted(start for start in tables if start + reach <= watermark):
            # Cleanup timers of windows that fired before come in between, in order of time.
            yield from self.firing_event_timers(start + reach)
            table = tables.pop(start)
            self._fire_table(TimeWindow(start, start + self._size), table)
            fired += len(table)
            if fired >= FIRINGS_AT_ONCE:
                fired = 0
                yield
        expires = reach + self.lateness
        for start in [start for start in self.state.fired if start + expires <= min(watermark, MAX_TIMESTAMP - 1)]:
            del self.state.fired[start]
        yield from self.firing_event_timers(watermark)

    def _fire_table(self, window: TimeWindow, table: dict[Hashable, Any]) -> None:
        key: Hashable = None
        try:
            if self.process is None and not self.lateness:
                collect = self.output.collect
                timestamp = window.max_timestamp()
                result = self._aggregate.get_result if self._aggregate is not None else None
                for key, contents in table.items():  # noqa: B007  the error names the key
                    collect(contents if result is None else result(contents), timestamp)
                return
            stays = self.cleanup_time(window) > window.max_timestamp()
        except USER_ERRORS as error:
            raise_call_error(self.step, error, call_description(key, window=window))
        rows = zip(table, repeat(window), table.values(), strict=False)
        for key, _, window_state in self.fire_all(rows, stays=stays):
            if stays:
                self._keep_state(key, window, table, window_state)
        if stays:
            self.state.fired[window.start] = table

    def pending_event_timers(self) -> Iterator[tuple[Hashable, Any, int]]:
        yield from super().pending_event_timers()
        for start, table in self.state.tables.items():
            window = TimeWindow(start, start + self._size)
            last = window.max_timestamp()
            times = {last, self.cleanup_time(window)}
            for key in table:
                yield from ((key, window, time) for time in times if time < MAX_TIMESTAMP or time == last)
        for start, table in self.state.fired.items():
            window = TimeWindow(start, start + self._size)
            cleanup = self.cleanup_time(window)
            yield from ((key, window, cleanup) for key in table if cleanup < MAX_TIMESTAMP)

    def open_windows(self) -> Iterator[tuple[Hashable, Any]]:
        yield from super().open_windows()
        for start, table in chain(self.state.tables.items(), self.state.fired.items()):
            yield from ((key, TimeWindow(start, start + self._size)) for key in table)


def for_each_window(contents: Sequence[Any], windows: int) -> Iterator[Sequence[Any]]:
    """Accumulators once for each window, copied when they are asked for; the last window takes them themselves."""
    copies = windows - 1
    if copies < 1 or are_immutable(contents):
        yield from repeat(contents, windows)
        return
    whole = list(contents)
    try:
        # Many at once, and read again many times: a fifth of the time of copies one by one.
        data = pickle.dumps(whole, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        # Of a class that pickle cannot name, such as one within a function; the exchange carries these by value.
        yield from (deepcopy(whole) for _ in range(copies))
    else:
        yield from (pickle.loads(data) for _ in range(copies))
    yield contents


def _first_without_copy(contents: Sequence[Any]) -> int | None:
    """The index of the first accumulator whose copying fails, for the error; None where each can be copied now."""
    for index, accumulator in enumerate(contents):
        try:
            list(for_each_window([accumulator], 2))
        except Exception:  # methods of the accumulator may raise anything
            return index
    return None


def are_immutable(values: Sequence[Any]) -> bool:
    """Returns whether values are constants, or tuples of such, by exact types: derived classes may hold anything."""
    for _ in range(_DEEPEST):
        kinds = set(map(type, values)) - PLAIN_CONSTANTS
        if not kinds:
            return True
        if not all(kind in (frozenset, tuple) or is_named_tuple(kind) for kind in kinds):
            return False
        values = list(chain.from_iterable([value for value in values if type(value) in kinds]))
    return False
