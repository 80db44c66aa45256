"""Accumulators that were folded where elements were read, and cross the exchange in place of these."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from windrow.functions import ProcessWindowFunction
from windrow.plan import Step, WindowNode
from windrow.windows import TimeWindow
from windrow_runtime.operators.state.model import KeyState, WindowEntry
from windrow_runtime.operators.windows.general import WindowOperator

# Any in this module: keys and accumulators of every type.


class Partials(NamedTuple):
    """Accumulators, each of elements of one key, in order.

    Those of tumbling and sliding windows are each of a slice, all of whose elements are in the same windows; a tumbling
    window is one slice. Those of one slice come together. Those of sessions are each of the elements that one task has
    of one session. Nobody else holds the accumulators.
    """

    keys: Sequence[Any]
    values: Sequence[Any]
    starts: Sequence[int]  # of slices or sessions, in milliseconds
    ends: Sequence[int]  # of sessions; none of slices
    counts: Sequence[int]  # how many elements each accumulator stands for

    def pick(self, places: Sequence[int]) -> Partials:
        """Returns the accumulators at some places."""
        return Partials(*([column[place] for place in places] if column else () for column in self))


class PartialsOperator(WindowOperator):
    """A window operator that takes accumulators beside elements, and keeps windows without an entry and a timer."""

    def __init__(self, step: Step, node: WindowNode) -> None:
        super().__init__(step, node)
        process = self.process
        self._clears = process is not None and type(process).clear is not ProcessWindowFunction.clear
        # Of a window that fires and goes, and of a key that has nothing else.
        self._entry, self._blank = WindowEntry(), KeyState()

    def fire_once(
        self, key: Hashable, window: TimeWindow, contents: Any, *, stays: bool = False
    ) -> dict[str, Any] | None:
        """Fires a window that has no entry; it is over then, or it stays. Returns the state that it has got."""
        keyed = self.state.keys
        known = keyed.get(key) if keyed else None
        key_state = self._blank if known is None else known
        entry = self._entry
        entry.contents, entry.window_state = contents, None
        try:
            self._fire(key, key_state, window, entry)
            if self._clears and not stays:
                assert self.process is not None
                self.process.clear(self._window_context.at(window, entry, key_state.state))
        except BaseException:
            self._blank = KeyState()  # what the function has kept is this key's alone
            raise
        if known is None:
            if key_state.state:
                keyed[key], self._blank = key_state, KeyState()
        elif known.is_empty and key not in self.state.sessions:
            del keyed[key]
        return entry.window_state

    @abstractmethod
    def merge_batch(self, partials: Partials) -> None:
        """Takes accumulators, under the current watermark."""
