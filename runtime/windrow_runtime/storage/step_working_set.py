"""The working set of one step in one key group, during a batch: which keys it has, takes in, and lets go."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Hashable, KeysView, Mapping
from functools import cached_property
from itertools import filterfalse, islice

from windrow_runtime.operators.state.model import OperatorState
from windrow_runtime.operators.state.split import join_states, keys_in, take_keys
from windrow_runtime.storage.hot_keys import (
    how_many_come,
    how_many_leave,
    keys_lately,
    largest_informative_batch,
    seen_after,
)
from windrow_runtime.storage.page_contents import holds_nothing
from windrow_runtime.storage.record import NO_TIMER, StepRecord

__all__ = ["StepWorkingSet"]


class StepWorkingSet:
    """The keys of a step that batches touch again and again.

    Args:
        record: What the group's record tells of the step; it is changed.
        load: Decodes what the record holds of it.
        dump: The other way round, with the earliest timers in event time and in processing time.
        bits_of: What of a key's hash is remembered when it is touched; up to 32 bits.
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
        self._coming: set[Hashable] = set()
        self._came = 0.0  # their bytes, as far as that can be told
        self._fresh = b""
        self._touched: Collection[Hashable] | None = None
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

    def begin(self, touched: Collection[Hashable], total: int) -> None:
        """Choose the keys that come in.

        Args:
            touched: All keys that the batch touches, in their order.
            total: The size of all pages in bytes.
        """
        record = self._record
        self._touched = touched
        if len(touched) >= largest_informative_batch(total + len(record.working)):
            return
        seen = frozenset(array("I", record.seen))
        fresh = array("I")
        for key in filterfalse(self.keys.__contains__, touched):
            bits = self._bits_of(key)
            if bits in seen:
                self._coming.add(key)
            else:
                fresh.append(bits)
        self._fresh = fresh.tobytes()

    def take(self) -> OperatorState:
        """Its state, to be worked on; :meth:`keep` gets it back."""
        self._keys = self._keys  # told now from what is held, which is about to change
        state, self._held = self._held, None
        return OperatorState() if state is None else state

    def keep(self, state: OperatorState, size: int, *, is_whole: bool) -> OperatorState:
        """Take out of a state what belongs here; gives that.

        Args:
            state: Some pages, behind the batch.
            size: What these pages took before, in bytes.
            is_whole: Whether what :meth:`take` gave is among it.
        """
        if not self._coming and not (is_whole and self._keys):
            return OperatorState()
        held = take_keys(state, self._keys) if is_whole else OperatorState()
        if self._coming:
            keys = keys_in(state)
            bytes_of_a_key = size / max(1, len(keys))
            most = how_many_come(len(self._record.working) + int(self._came), bytes_of_a_key)
            coming = set(islice(filter(self._coming.__contains__, keys), most))
            self._came += len(coming) * bytes_of_a_key
            held = join_states([held, take_keys(state, coming)])
        self._kept.append(held)
        return held

    def take_all(self) -> OperatorState | None:
        """All that is in it now, of which nothing is left here; None: there is nothing."""
        if self._held is None and not self._kept:
            return None
        state = join_states([self.take(), *self._kept])
        self._kept, self._keys = [], {}
        self._store(OperatorState())
        return state

    def end(self, pages: int) -> OperatorState | None:
        """Note in the record what is in it now; gives the state of the keys that leave.

        Args:
            pages: How many pages there are.
        """
        record, touched = self._record, self._touched
        if touched is None:
            if self._kept:
                self._store(join_states([self.take(), *self._kept]))
            return None
        record.seen = seen_after(record.seen, self._fresh, len(touched))
        if not self._kept and not self._leaving(self._keys, touched, pages):
            return None
        state = join_states([self.take(), *self._kept])
        leaving = self._leaving(keys_in(state), touched, pages)
        left = take_keys(state, leaving) if leaving else None
        self._store(state)
        return left

    def _leaving(
        self, keys: Mapping[Hashable, object], touched: Collection[Hashable], pages: int
    ) -> set[Hashable]:
        size = len(self._record.working) + int(self._came)
        lately = keys_lately(self._record.seen, len(touched))
        untouched, any_of_them = how_many_leave(len(keys), lately, size, pages)
        leaving = set(islice(filterfalse(touched.__contains__, keys), untouched))
        return leaving.union(islice(filter(touched.__contains__, keys), max(0, any_of_them - len(leaving))))

    def _store(self, state: OperatorState) -> None:
        record = self._record
        stored = (b"", NO_TIMER, NO_TIMER) if holds_nothing(state) else self._dump(state)
        record.working, record.working_event, record.working_clock = stored
