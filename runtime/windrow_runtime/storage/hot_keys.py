"""The working set of a state: the keys that batches touch again and again, which lie together, apart from pages.

A batch that touches few keys of many reads a page for nearly each of them. But what a stream has touched lately it
mostly touches again (Denning, The working set model for program behavior, 1968). So such keys lie in the group's own
record: a batch that touches them alone takes as long however many keys are stored beside them.

A key comes in when it is touched again while its last touch is remembered, so that keys that come once displace none
(Johnson and Shasha, 2Q, 1994). Those that have not been touched leave when there are some times as many as a batch
touches, since a batch reads all that is here.
"""

from __future__ import annotations

from functools import cached_property
from typing import Generic

from windrow_runtime.storage.group_record import StepRecord
from windrow_runtime.storage.page_contents import Keys, PageContents, State
from windrow_runtime.storage.tuning import BYTES_SEEN, HotKeyTuning


class HotKeys(Generic[State, Keys]):
    """The working set of one step in one key group, during a batch: which keys it has, takes in, and lets go."""

    def __init__(self, record: StepRecord, contents: PageContents[State, Keys], tuning: HotKeyTuning) -> None:
        self._record = record
        self._contents = contents
        self._tuning = tuning
        self._touched: Keys | None = None
        self._coming: Keys | None = None
        self._came = 0.0  # about how many bytes the keys that came in take
        self._fresh = b""
        self._kept: list[State] = []

    @cached_property
    def _held(self) -> State | None:
        return self._contents.load(self._record.working) if self._record.working else None

    @cached_property
    def keys(self) -> Keys:
        """Those that were in it when the batch began."""
        return self._contents.keys(self._contents.join([]) if self._held is None else self._held)

    def begin(self, touched: Keys, total: int) -> Keys:
        """Chooses the keys that come in, and gives those of the touched keys that lie in pages of ``total`` bytes."""
        record, tuning = self._record, self._tuning
        self._touched = touched
        in_pages = self._contents.beyond(touched, self.keys) if len(self.keys) else touched
        # A batch does not tell which keys are hot if it touches most of the state, or more than a working set takes.
        most = min(total + len(record.working), tuning.most_bytes) // tuning.least_bytes_of_a_key
        if len(touched) < most:
            self._coming, self._fresh = self._contents.remembered(in_pages, record.seen)
        return in_pages

    def take(self) -> State:
        """Its state, to be worked on; :meth:`keep` gets it back."""
        self.keys = self.keys  # computed now from the state, which is about to change
        state, self._held = self._held, None
        return self._contents.join([]) if state is None else state

    def keep(self, state: State, size: int, *, is_whole: bool) -> State:
        """Takes what belongs here out of the state of some pages after the batch, and gives the rest.

        These pages took ``size`` bytes before it; ``is_whole`` says whether the state of :meth:`take` is among it.
        """
        contents, tuning = self._contents, self._tuning
        if is_whole and len(self.keys):
            own, state = contents.take(state, self.keys)
            self._kept.append(own)
        if self._coming is not None and len(self._coming):
            keys = contents.keys(state)
            bytes_of_a_key = size / max(1, len(keys))
            room = tuning.most_bytes - self._size
            most = max(0, int(room / max(bytes_of_a_key, tuning.least_bytes_of_a_key)))
            coming = contents.among(keys, self._coming, most)
            if len(coming):
                self._came += len(coming) * bytes_of_a_key
                come, state = contents.take(state, coming)
                self._kept.append(come)
        return state

    def take_all(self) -> State | None:
        """Takes out all that is in it now; None: there is nothing."""
        if self._held is None and not self._kept:
            return None
        state = self._whole()
        self._store(self._contents.join([]))
        return state

    def end(self, pages: int) -> State | None:
        """Notes in the record what is in it now, and gives the state of the keys that leave; None: there are none."""
        touched = self._touched
        if touched is not None:
            self._remember(len(touched))
        if not self._kept and (touched is None or not any(map(len, self._leaving(self.keys, touched, pages)))):
            return None
        leaving: list[State] = []
        state = self._whole()
        if touched is not None:
            for keys in self._leaving(self._contents.keys(state), touched, pages):
                if len(keys):
                    left, state = self._contents.take(state, keys)
                    leaving.append(left)
        self._store(state)
        return self._contents.join(leaving) if leaving else None

    @property
    def _size(self) -> int:
        return len(self._record.working) + int(self._came)

    def _remember(self, touched: int) -> None:
        """Adds the touched keys in pages to those that are remembered, by up to 32 bits of each hash, oldest first."""
        record, tuning = self._record, self._tuning
        # A small batch among large ones makes it forget a part alone.
        remembered = len(record.seen) // BYTES_SEEN
        most = max(tuning.times_remembered * touched, remembered * 3 // 4, tuning.least_remembered)
        record.seen = (record.seen + self._fresh)[-BYTES_SEEN * most :]

    def _whole(self) -> State:
        state = self._contents.join([self.take(), *self._kept])
        self._kept = []
        return state

    def _leaving(self, keys: Keys, touched: Keys, pages: int) -> tuple[Keys, Keys]:
        """The keys to leave that the batch has not touched, and those that it has.

        Keys that it has not touched go first, and of these the ones that came first. Others go only if the set is too
        large, since what it holds has grown. Each key that leaves may touch another page, so they leave by and by.
        """
        tuning, held, size = self._tuning, len(keys), self._size
        lately = max(len(touched), len(self._record.seen) // (BYTES_SEEN * tuning.times_remembered))
        too_large = held - held * tuning.most_bytes // size if size > tuning.most_bytes else 0
        too_many = max(0, held - max(tuning.times_kept * lately, tuning.least_kept))
        at_once = max(tuning.leave_at_once, lately, held // tuning.leave_at_once)
        if pages > at_once:
            too_many = min(too_many, at_once)
        leaving = self._contents.beyond(keys, touched, max(too_large, too_many))
        return leaving, self._contents.among(keys, touched, max(0, too_large - len(leaving)))

    def _store(self, state: State) -> None:
        self._record.working = self._contents.dump(state)
        self._record.working_event, self._record.working_clock = self._contents.timers(state)
