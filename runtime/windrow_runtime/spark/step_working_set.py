"""The working set of one step in one key group, during a batch: which keys it has, takes in, and lets go."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, KeysView
from functools import cached_property
from itertools import filterfalse, islice

from windrow_runtime.operators.partition import join_states, keys_in, take_keys
from windrow_runtime.operators.state import OperatorState
from windrow_runtime.operators.working_set import how_many_leave, most_worth, seen_after, takes_more
from windrow_runtime.spark.step_record import NO_TIMER, StepRecord

__all__ = ["StepWorkingSet"]


class StepWorkingSet:
    """The keys of a step that batches touch again and again.

    Args:
        record: What the group's record tells of the step; it is changed.
        load: Decodes what the record holds of it.
        dump: The other way round, with the earliest timers in event time and in processing time.
        bits_of: What of a key's hash is remembered when it is touched; 32 bits.
    """

    def __init__(
        self,
        record: StepRecord,
        load: Callable[[bytes], OperatorState],
        dump: Callable[[OperatorState], tuple[bytes, int, int]],
        bits_of: Callable[[Hashable], int],
    ) -> None:
        self._record = record
        self._load = load
        self._dump = dump
        self._bits_of = bits_of
        self._coming: dict[Hashable, None] = {}
        self._fresh = b""
        self._touched: set[Hashable] | None = None
        self._kept: list[OperatorState] = []

    @cached_property
    def _held(self) -> OperatorState | None:
        return self._load(self._record.working) if self._record.working else None

    @cached_property
    def _keys(self) -> dict[Hashable, None]:
        return {} if self._held is None else keys_in(self._held)

    @property
    def keys(self) -> KeysView[Hashable]:
        """Those that were in it when the batch began."""
        return self._keys.keys()

    def begin(self, touched: set[Hashable], total: int) -> None:
        """Choose the keys that come in.

        Args:
            touched: All keys that the batch touches.
            total: The size of all pages in bytes.
        """
        record = self._record
        self._touched = touched
        if len(touched) >= most_worth(total + len(record.working)):
            return
        seen = frozenset(array("I", record.seen))
        fresh = array("I")
        takes_in = takes_more(len(record.working))
        for key in touched - self.keys:
            bits = self._bits_of(key)
            if takes_in and bits in seen:
                self._coming[key] = None
            else:
                fresh.append(bits)
        self._fresh = fresh.tobytes()

    def take(self) -> OperatorState:
        """Its state, to be worked on; :meth:`keep` gets it back."""
        state, keys = self._held, self._keys
        self._held, self._keys = None, keys
        return OperatorState() if state is None else state

    def keep(self, state: OperatorState, *, is_whole: bool) -> OperatorState:
        """Take out of a state what belongs here; gives that.

        Args:
            state: Some pages, behind the batch.
            is_whole: Whether what :meth:`take` gave is among it.
        """
        keys = {**self._keys, **self._coming} if is_whole else self._coming
        if not keys:
            return OperatorState()
        kept = take_keys(state, keys)
        self._kept.append(kept)
        return kept

    def take_all(self) -> OperatorState | None:
        """All that is in it now, of which nothing is left here; None: there is nothing."""
        if self._held is None and not self._kept:
            return None
        state = join_states([self.take(), *self._kept])
        self._kept = []
        self._store(None)
        return state

    def end(self, pages: int) -> OperatorState | None:
        """Note in the record what is in it now; gives the state of the keys that leave.

        Args:
            pages: How many pages there are.
        """
        record = self._record
        touched = self._touched
        if touched is not None:
            record.seen = seen_after(record.seen, self._fresh, len(touched))
        if not self._kept:
            return None
        state = join_states([self.take(), *self._kept])
        self._kept = []
        keys = keys_in(state)
        leaving: dict[Hashable, None] = {}
        if touched is not None:
            count = how_many_leave(len(keys), len(touched), len(record.working), pages)
            leaving = dict.fromkeys(islice(filterfalse(touched.__contains__, keys), count))
        left = take_keys(state, leaving) if leaving else None
        self._store(state if len(keys) > len(leaving) else None)
        return left

    def _store(self, state: OperatorState | None) -> None:
        record = self._record
        stored = (b"", NO_TIMER, NO_TIMER) if state is None else self._dump(state)
        record.working, record.working_event, record.working_clock = stored
