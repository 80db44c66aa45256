"""Runs windows that reduce or aggregate with an error policy: an element that fails is in none of its windows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from windrow.plan import Step, WindowNode
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.operators.copies import accumulator_maker, own, own_whole
from windrow_runtime.operators.errors import USER_ERRORS, call_description, no_timestamp
from windrow_runtime.operators.guarded.guard import NO_RESULT
from windrow_runtime.operators.guarded.windows import GuardedWindowOperator
from windrow_runtime.operators.operator import TimeContext
from windrow_runtime.operators.state.model import NOTHING, KeyState, WindowEntry
from windrow_runtime.operators.windows.contents import AggregatedContents, Contents
from windrow_runtime.operators.windows.merging import joined_session

# Any in this module: keys, windows, elements and accumulators of every type.


class GuardedFoldOperator(GuardedWindowOperator):
    """Folds each element into copies of the contents of all its windows first, and then into the windows.

    So an element for which a function raises changes no window, merges none, and asks no trigger. A firing whose
    function raises has no element, as a timer has none.
    """

    def __init__(self, step: Step, node: WindowNode) -> None:
        super().__init__(step, node)
        self._fold = self.contents
        if isinstance(self._fold, AggregatedContents):
            self._fold.create = accumulator_maker(self._fold.function, own_whole)
        self.contents = self._folded = _Folded(self._fold)
        self._windows: list[Any] = []  # those of the element that is added next
        exposure = self.exposure
        self._copies = exposure.windows or exposure.trigger or self._guard.gives_copies

    def _assign(self) -> Callable[[Any, int, TimeContext], Iterable[Any]]:
        return lambda element, timestamp, context: self._windows

    def _process(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        assign = super()._assign()
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            once = partial(self._fold_in, assign, key, value, timestamp)
            try:
                folded = once()
            except USER_ERRORS as error:
                given = partial(call_description, key, element=value)
                folded = self._settle(error, value, timestamp, once, given)
                if folded is NO_RESULT:
                    continue
            self._windows, self._folded.results = folded
            super()._process((key,), (value,), (timestamp,))

    def _fold_in(
        self, assign: Callable[..., Iterable[Any]], key: Hashable, value: Any, timestamp: int | None
    ) -> tuple[list[Any], list[Any]]:
        """Returns the windows of an element, and what the functions give when it is added to them, call by call."""
        if timestamp is None and self.is_event_time:
            raise no_timestamp(value, "an event-time window")
        stamp = MIN_TIMESTAMP if timestamp is None else timestamp
        windows = list(assign(own(value) if self.exposure.assigner else value, stamp, self._time))
        key_state = self.state.keys.get(key)
        trial = _Trial(KeyState() if key_state is None else key_state, self._fold)
        for window in windows:
            into = window if self.merging is None else trial.merged(window)
            if self.is_event_time and into.max_timestamp() + self.lateness <= self.current_watermark:
                continue
            trial.add(into, own(value) if self._copies else value, timestamp)
        return windows, trial.results

    def _fire(self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry) -> None:
        # The function that makes the result may change the accumulator before it raises.
        self._evaluate_by(
            lambda: self._once(key, key_state, window, entry, self._fold.elements(_own(entry.contents))),
            lambda: None,
            key,
            window,
        )


class _Held(NamedTuple):
    """The contents of a window in a trial, and the arrival number of its first element."""

    contents: Any
    born: int


class _Trial:
    """Adds one element to copies of the windows of a key, and notes what each call of the functions gives."""

    def __init__(self, key_state: KeyState, fold: Contents) -> None:
        self._key_state = key_state
        self._fold = fold
        self._changed: dict[Any, _Held] = {}
        self.results: list[Any] = []

    def merged(self, window: Any) -> Any:
        """Returns the live session that the one of the element becomes, after the merges that it causes."""
        # The live sessions stay as they are. A session step gives an element one session, so no other trial of the
        # element asks for what this one has merged: the plan refuses assigners that may give several.
        into, met = joined_session(self._key_state.live, window)
        if met and met[0] is not into:
            self._merge(into, met)
        return into

    def _merge(self, into: Any, sources: list[Any]) -> None:
        # Contents are merged in the order of their first elements, as in the operator.
        filled = sorted([held for held in map(self._held, sources) if held is not None], key=lambda each: each.born)
        if not filled:
            return
        contents = filled[0].contents
        for each in filled[1:]:
            contents = self._fold.merge(contents, each.contents)
            self.results.append(contents)
        self._changed[into] = _Held(contents, filled[0].born)

    def add(self, window: Any, value: Any, timestamp: int | None) -> None:
        """Adds the element to a window."""
        held = self._held(window)
        contents = self._fold.add(NOTHING if held is None else held.contents, value, timestamp, 0)
        self.results.append(contents)
        self._changed[window] = _Held(contents, 0 if held is None else held.born)

    def _held(self, window: Any) -> _Held | None:
        """Returns a copy of the contents of a window; None if it has none."""
        changed = self._changed.get(window)
        if changed is not None:
            return changed
        entry = self._key_state.windows.get(window)
        return None if entry is None or entry.contents is NOTHING else _Held(_own(entry.contents), entry.born)


class _Folded(Contents):
    """Gives what the functions gave in a trial, call by call."""

    def __init__(self, fold: Contents) -> None:
        self._fold = fold
        self.results: list[Any] = []

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        return self.results.pop(0)

    def merge(self, first: Any, second: Any) -> Any:
        return self.results.pop(0)

    def elements(self, contents: Any) -> Sequence[Any]:
        return self._fold.elements(contents)


def _own(contents: Any) -> Any:
    return NOTHING if contents is NOTHING else own_whole(contents)
