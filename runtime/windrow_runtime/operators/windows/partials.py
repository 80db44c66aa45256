"""Partial aggregates: accumulators that cross the exchange in place of their elements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from windrow.functions.plain import sees_cleanups
from windrow.plan import Step, WindowNode
from windrow.plan.emitting import records_of
from windrow.windows import TimeWindow
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error
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
        """Returns the accumulators at these indices."""
        return Partials(*([column[index] for index in places] if column else () for column in self))


class PartialsOperator(WindowOperator):
    """A window operator that takes accumulators beside elements, and keeps windows without an entry and a timer."""

    def __init__(self, step: Step, node: WindowNode) -> None:
        super().__init__(step, node)
        self._clears = self.process is not None and sees_cleanups(self.process)
        # Stand-ins for the entry of a window that fires once, and for the state of a key that has none.
        self._entry, self._blank = WindowEntry(), KeyState()

    def fire_all(
        self, rows: Iterable[tuple[Hashable, TimeWindow, Any]], *, stays: bool = False
    ) -> list[tuple[Hashable, TimeWindow, dict[str, Any]]]:
        """Fires windows that have no entries, given with their keys and contents; they are over then, or they stay.

        Returns those for which the window function keeps state, with that state. This is ``_fire`` and ``_evaluate`` in
        one loop: calls between functions take as long as the functions of most users. Nobody observes faster forms.
        """
        keyed, sessions, entry, context = self.state.keys, self.state.sessions, self._entry, self._window_context
        process, collect, type_form, owns = self.process, self.output.collect, self._result_type, self.exposure.process
        elements_of, clears = self.contents.elements, self._clears
        with_state: list[tuple[Hashable, TimeWindow, dict[str, Any]]] = []
        blank = self._blank
        key: Hashable = None
        window: Any = None
        try:
            for key, window, contents in rows:
                known = keyed.get(key) if keyed else None
                key_state = blank if known is None else known
                entry.contents, entry.window_state = contents, None
                elements = elements_of(contents)
                if owns:
                    elements = own_all(list(elements))
                context.at(window, entry, key_state.state)
                results = elements if process is None else process.process(key, context, elements)
                if results is not None:
                    timestamp = window.max_timestamp()
                    for result in elements if process is None else records_of(results, type_form):
                        collect(result, timestamp)
                if clears and process is not None:
                    process.clear(context.at(window, entry, key_state.state))
                if known is None:
                    if key_state.state:
                        keyed[key] = key_state
                        blank = self._blank = KeyState()
                elif known.is_empty and key not in sessions:
                    del keyed[key]
                if entry.window_state:
                    with_state.append((key, window, entry.window_state))
        except BaseException as error:
            self._blank = KeyState()  # what the function has kept is this key's alone
            if isinstance(error, USER_ERRORS):
                raise_call_error(self.step, error, call_description(key, window=window))
            raise
        return with_state

    @abstractmethod
    def merge_batch(self, partials: Partials) -> None:
        """Takes accumulators, under the current watermark."""
