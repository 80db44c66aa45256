"""Pages of objects: the state that operators work on, timers and long lists among it."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, filterfalse, islice
from typing import Any, Final, Generic, Protocol, Self, TypeAlias, TypeVar

from windrow_runtime.codecs.stable_hash import stable_hash
from windrow_runtime.operators.state.model import OperatorState, StoredList, TimerQueue
from windrow_runtime.storage.group_record import WORKING_SET, PageStore, StepRecord, present, stored_timer
from windrow_runtime.storage.keyed_pages import KeyedPages, page_of
from windrow_runtime.storage.page_codec import TIMERS, PageCodec, keys_in
from windrow_runtime.storage.tuning import OBJECT_PAGES, PageTuning

# Any in this module: state and elements are of the user's types.

_Keys: TypeAlias = "dict[Hashable, None]"

_Layout: TypeAlias = "dict[int | str, list[Hashable]]"
"""The keys of a page: those in each table, by its start, and by the name of the attribute those of other states."""

_BY_KEY: Final = ("keys", "sessions")
"""The attributes of a state that are dictionaries by key."""


class Elements(Protocol):
    """Some elements, or what was folded from them, with their keys."""

    @property
    def keys(self) -> Sequence[Any]: ...

    def pick(self, places: Sequence[int]) -> Self:
        """Those at some places."""


E = TypeVar("E", bound=Elements)


@dataclass(slots=True)
class Share(Generic[E]):
    """Pages that are worked on together, and the elements for the keys in them, before and after the watermark."""

    pages: list[int]  # that of the working set may be among them
    before: Sequence[E]
    after: Sequence[E]


class ObjectPages(KeyedPages[OperatorState, _Keys]):
    """The state of one step on objects in one key group, during a batch, which changes the step's record.

    Of the hash of a key, only what it holds beside the number of the group, one of ``groups``, tells keys apart.

    Attributes:
        shared: The state of the step itself, which that of all pages has.
        shared_is_fixed: Whether the batch leaves it as it is, so that it is not written again.
    """

    def __init__(
        self, record: StepRecord, codec: PageCodec, store: PageStore, groups: int, tuning: PageTuning = OBJECT_PAGES
    ) -> None:
        self._objects = _ObjectContents(record, codec, store, groups)
        self._codec = codec
        self.shared = codec.load_shared(record.shared)
        self.shared_is_fixed = False
        super().__init__(record, self._objects, store, tuning)

    def shares(
        self, before: Sequence[E], after: Sequence[E], watermark: int, now: int, *, all_keys: bool = False
    ) -> Iterator[Share[E]]:
        """Divides the elements before and after the watermark into shares whose state fits into memory.

        With ``all_keys`` the shares have the pages of all keys, and else of those that have something to do.
        """
        keys = dict.fromkeys(chain.from_iterable(elements.keys for elements in (*before, *after)))
        parts = self.parts(keys, watermark, now, all_keys=all_keys)
        if len(parts) == 1:
            yield Share(parts[0], before, after)
        elif parts:
            homes = self._objects.homes_of(keys, len(self.record.sizes))
            homes.update(dict.fromkeys(filter(self.hot_keys.keys.__contains__, keys), WORKING_SET))
            part_of = {page: number for number, part in enumerate(parts) for page in part}
            divided = (_divide(elements, homes, part_of) for elements in (before, after))
            yield from map(Share, parts, *divided)

    def load(self, pages: Sequence[int]) -> OperatorState:
        """The state of some pages."""
        state = super().load(pages)
        state.shared = self.shared
        return state

    def end_batch(self) -> None:
        """Lets keys leave the working set, splits or joins pages, and fills in the record."""
        super().end_batch()
        if not self.shared_is_fixed:
            self.record.shared = self._codec.dump_shared(self.shared)
        self._objects.forget_unused_segments()


def _divide(elements: Sequence[E], homes: Mapping[Hashable, int], part_of: Mapping[int, int]) -> list[list[E]]:
    """Elements by the parts that have the pages of their keys."""
    found: list[list[E]] = [[] for _ in set(part_of.values())]
    for some in elements:
        places: list[list[int]] = [[] for _ in found]
        for place, page in enumerate(map(homes.__getitem__, some.keys)):
            places[part_of[page]].append(place)
        for part, chosen in zip(found, places, strict=True):
            if chosen:
                part.append(some.pick(chosen))
    return found


class _Homes(dict[Hashable, int]):
    """The page of each key; that of a key that is not known yet is computed."""

    def __init__(self, place: Callable[[Hashable], int]) -> None:
        super().__init__()
        self._place = place

    def __missing__(self, key: Hashable) -> int:
        page = self[key] = self._place(key)
        return page


class _ObjectContents:
    """Handles the state of operators: keys, timers, and the segments of long lists, which lie beside pages."""

    def __init__(self, record: StepRecord, codec: PageCodec, store: PageStore, groups: int) -> None:
        self._record = record
        self._codec = codec
        self._store = store
        self._groups = groups
        self._bits: dict[Hashable, int] = {}  # those of touched keys, which are asked for several times
        self._count = len(record.sizes)
        self._homes = _Homes(self._home)  # those of the keys that were opened last
        self._layouts: dict[int, _Layout] = {}  # those of the pages that were opened last, which make a split faster
        self._opened_segments: set[int] = set()
        self._dumped_segments: set[int] = set()

    # Bytes

    def load(self, data: bytes) -> OperatorState:
        return self._codec.load(data, self)

    def dump(self, state: OperatorState) -> bytes:
        if not keys_in(state):
            return b""
        data = self._codec.dump(state, self._write_segment)
        self._dumped_segments.update(self._segments_of(state))
        return data

    def timers(self, state: OperatorState) -> tuple[int, int]:
        return stored_timer(state.earliest_event_timer()), stored_timer(state.processing_timers.earliest())

    # States

    def open(self, pages: Mapping[int, OperatorState]) -> OperatorState:
        self._forget_homes()
        for page, state in pages.items():
            self._opened_segments.update(self._segments_of(state))
            # The keys of the working set are taken out again before the state is split.
            if len(pages) > 1 and page != WORKING_SET:
                layout = self._layouts[page] = {start: list(table) for start, table in state.tables.items()}
                layout.update((name, list(getattr(state, name))) for name in _BY_KEY)
                self._homes.update(dict.fromkeys(chain.from_iterable(layout.values()), page))
        return self.join([*pages.values()])

    def join(self, parts: Sequence[OperatorState]) -> OperatorState:
        joined, *others = parts or [OperatorState()]
        if not others:
            return joined
        timers = {name: [*chain.from_iterable(getattr(part, name) for part in parts)] for name in TIMERS}
        for part in others:
            joined.keys.update(part.keys)
            joined.sessions.update(part.sessions)
            for start, table in part.tables.items():
                if start in joined.tables:
                    joined.tables[start].update(table)
                else:
                    joined.tables[start] = table
            joined.table_size = part.table_size or joined.table_size
        for name, found in timers.items():
            if len(found) > len(getattr(joined, name)):
                setattr(joined, name, TimerQueue(found))
        return joined

    def split(self, state: OperatorState, count: int) -> dict[int, OperatorState]:
        if count != self._count:
            self._count = count
            self._forget_homes()
        parts: defaultdict[int, OperatorState] = defaultdict(OperatorState)
        for name in _BY_KEY:
            for page, held in self._split_dict(getattr(state, name), name).items():
                setattr(parts[page], name, held)
        for start, table in state.tables.items():
            for page, piece in self._split_dict(table, start).items():
                parts[page].tables[start] = piece
        for name in TIMERS:
            by_page: defaultdict[int, list[tuple[Hashable, Any, int]]] = defaultdict(list)
            for timer in getattr(state, name):
                by_page[self._homes[timer[0]]].append(timer)
            for page, found in by_page.items():
                setattr(parts[page], name, TimerQueue(found))
        for part in parts.values():
            part.table_size = state.table_size
        return dict(parts)

    def _split_dict(self, whole: dict[Hashable, Any], place: int | str) -> dict[int, dict[Hashable, Any]]:
        """A dictionary by pages; without a step of the interpreter's for a key that is where it was."""
        pieces: dict[int, dict[Hashable, Any]] = {}
        known = {page: layout[place] for page, layout in self._layouts.items() if layout.get(place)}
        found = 0
        for page, there in known.items():
            keys = there if all(map(whole.__contains__, there)) else list(filter(whole.__contains__, there))
            if keys:
                pieces[page] = dict(zip(keys, map(whole.__getitem__, keys), strict=True))
                found += len(keys)
        if found == len(whole):
            return pieces
        placed = set().union(*known.values()) if found else frozenset()
        for key in filterfalse(placed.__contains__, whole):
            pieces.setdefault(self._homes[key], {})[key] = whole[key]
        return pieces

    def take(self, state: OperatorState, keys: _Keys) -> tuple[OperatorState, OperatorState]:
        taken = OperatorState(table_size=state.table_size)
        for name in _BY_KEY:
            setattr(taken, name, _take(getattr(state, name), keys))
        for start, table in list(state.tables.items()):
            if found := _take(table, keys):
                taken.tables[start] = found
            if not table:
                del state.tables[start]
        for name in TIMERS:
            timers = list(getattr(state, name))
            chosen = [timer for timer in timers if timer[0] in keys]
            if chosen:
                setattr(taken, name, TimerQueue(chosen))
                setattr(state, name, TimerQueue([timer for timer in timers if timer[0] not in keys]))
        return taken, state

    # Keys

    def keys(self, state: OperatorState) -> _Keys:
        return keys_in(state)

    def pages_of(self, keys: _Keys, count: int) -> set[int]:
        return set(self.homes_of(keys, count).values())

    def homes_of(self, keys: _Keys, count: int) -> dict[Hashable, int]:
        """The page of each touched key."""
        return {key: page_of(bits, count) for key, bits in self._bits_of(keys).items()}

    def among(self, keys: _Keys, others: _Keys, most: int) -> _Keys:
        return dict.fromkeys(islice(filter(others.__contains__, keys), most))

    def beyond(self, keys: _Keys, others: _Keys, most: int | None = None) -> _Keys:
        return dict.fromkeys(islice(filterfalse(others.__contains__, keys), most))

    def remembered(self, keys: _Keys, seen: bytes) -> tuple[_Keys, bytes]:
        known = frozenset(array("I", seen))
        bits = self._bits_of(keys)
        again = {key: None for key, found in bits.items() if found in known}
        return again, array("I", filterfalse(known.__contains__, bits.values())).tobytes()

    def _bits_of(self, keys: _Keys) -> dict[Hashable, int]:
        known = self._bits
        known.update((key, self._hashed(key)) for key in filterfalse(known.__contains__, keys))
        return {key: known[key] for key in keys}

    def _hashed(self, key: Hashable) -> int:
        """The bits of a key's hash that tell it apart from other keys of its group; up to 32."""
        return stable_hash(key) // self._groups & 0xFFFF_FFFF

    def _home(self, key: Hashable) -> int:
        bits = self._bits.get(key)
        return page_of(self._hashed(key) if bits is None else bits, self._count)

    def _forget_homes(self) -> None:
        self._homes.clear()
        self._layouts.clear()

    # Segments of long lists

    def read_segment(self, number: int) -> list[Any]:
        """The elements of a segment."""
        data = self._store.get(self._segment_number(number))
        return self._codec.load_segment(present(data, "a part of a stored list", given=f"segment {number}"), self)

    def forget_unused_segments(self) -> None:
        """Removes the segments of the lists that the batch has dropped."""
        for number in self._opened_segments - self._dumped_segments:
            self._store.remove(self._segment_number(number))

    def _write_segment(self, data: bytes) -> int:
        self._record.segments += 1
        number = self._record.segments
        self._store.put(self._segment_number(number), data)
        return number

    def _segments_of(self, state: OperatorState) -> Iterable[int]:
        # Most steps never have any, and need not be searched.
        return segments_in(state) if self._record.segments else ()

    def _segment_number(self, number: int) -> int:
        return -(self._record.slot << 48 | number)


def _take(whole: dict[Hashable, Any], keys: Container[Hashable]) -> dict[Hashable, Any]:
    # By the keys of the state: 1 and 1.0 are one key, and the first one that came stays.
    return {key: whole.pop(key) for key in list(filter(keys.__contains__, whole))}


def segments_in(state: OperatorState) -> Iterator[int]:
    """The segments of long lists that a state refers to."""
    for key_state in state.keys.values():
        windows = (entry.contents for entry in key_state.windows.values())
        yield from _segments_of(chain(windows, key_state.state.values()))
    yield from _segments_of(chain.from_iterable(held[2::3] for held in state.sessions.values()))


def _segments_of(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if type(value) is StoredList:
            yield from value.segments
