"""Stores the state of operators that work on Python objects in pages, timers and long lists included."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, filterfalse, islice
from typing import Any, Final, Generic, Protocol, Self, TypeAlias, TypeVar

from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.operators.state.model import GrowingList, OperatorState, StoredList, TimerQueue
from windrow_spark.stable_hash import stable_hash
from windrow_spark.storage.group_record import WORKING_SET, PageStore, StepRecord, present, stored_timer
from windrow_spark.storage.keyed_pages import KeyedPages, page_of, pages_of
from windrow_spark.storage.page_codec import TIMERS, PageCodec, keys_in
from windrow_spark.storage.tuning import OBJECT_PAGES, PageTuning

# Any in this module: state and elements are of the user's types.

_Keys: TypeAlias = "dict[Hashable, None]"

_Layout: TypeAlias = "dict[tuple[str, int] | str, list[Hashable]]"
"""The keys of a page: by the name of the attribute, and those in a table by its start as well."""

_TABLES: Final = ("tables", "fired")
"""The attributes of a state that are tables by start, each a dictionary by key."""


class PackedElements(Protocol):
    """A packed sequence of elements, or of partial aggregates, with their keys."""

    @property
    def keys(self) -> Sequence[Any]: ...

    def pick(self, places: Sequence[int]) -> Self:
        """Returns the elements at some indices."""


E = TypeVar("E", bound=PackedElements)


@dataclass(slots=True)
class Share(Generic[E]):
    """Pages that are in memory together, and the elements of the keys in them."""

    pages: list[int]  # the working set may be among them
    before: Sequence[E]  # elements to process before the watermark advances
    after: Sequence[E]  # elements to process after that


class ObjectPages(KeyedPages[OperatorState, _Keys]):
    """Reads and writes the pages of a step on objects in one key group during a batch, and updates the step's record.

    The hash of a key modulo ``groups`` is the number of its group; pages are chosen by the quotient.

    Attributes:
        shared: The state of the step that belongs to no key, which each loaded state refers to.
        shared_is_fixed: Whether the batch does not change ``shared``, so that it is not written again.
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
        """Divides elements, to process before and after the watermark advances, into shares that fit into memory.

        With ``all_keys`` the shares have all pages, else those of the elements' keys and of due timers.
        """
        keys = dict.fromkeys(chain.from_iterable(elements.keys for elements in (*before, *after)))
        parts = self.parts(keys, watermark, now, all_keys=all_keys)
        if len(parts) == 1:
            yield Share(parts[0], before, after)
        elif parts:
            homes = self._objects.homes_of(keys, self.record.pages)
            homes.update(dict.fromkeys(filter(self.hot_keys.keys.__contains__, keys), WORKING_SET))
            part_of = {page: number for number, part in enumerate(parts) for page in part}
            divided = (_divide(elements, homes, part_of) for elements in (before, after))
            yield from map(Share, parts, *divided)

    def know(self, hashes: Iterable[tuple[Hashable, int]]) -> None:
        """Notes the hashes of keys, which columns compute many times as fast."""
        self._objects.know(hashes)

    def load(self, pages: Sequence[int]) -> OperatorState:
        state = super().load(pages)
        state.shared = self.shared
        return state

    def end_batch(self) -> None:
        """Moves keys out of the working set, splits or joins pages, and stores the state that belongs to no key."""
        super().end_batch()
        if not self.shared_is_fixed:
            self.record.shared = self._codec.dump_shared(self.shared)
        self._objects.forget_unused_segments()


class KeyGroupDivision:
    """Divides states of operators among key groups, by the hashes of their keys; their lists are whole in memory."""

    def __init__(self, codec: PageCodec, groups: int) -> None:
        self._contents = _ContentsByGroup(StepRecord(0), codec, _NoStore(), groups)
        self._groups = groups

    def divide(self, state: OperatorState) -> dict[int, OperatorState]:
        """Returns the parts of a state by the numbers of their groups; the state itself must not be used again."""
        return self._contents.split(state, self._groups)

    def join(self, states: Sequence[OperatorState]) -> OperatorState:
        """Joins states that have no key in common; the states themselves must not be used again."""
        return self._contents.join(states)


def _divide(elements: Sequence[E], homes: Mapping[Hashable, int], part_of: Mapping[int, int]) -> list[list[E]]:
    """Divides elements among parts: each gets those whose keys lie in its pages."""
    divided: list[list[E]] = [[] for _ in set(part_of.values())]
    for packed in elements:
        indices: list[list[int]] = [[] for _ in divided]
        for index, page in enumerate(map(homes.__getitem__, packed.keys)):
            indices[part_of[page]].append(index)
        for part, picked in zip(divided, indices, strict=True):
            if picked:
                part.append(packed.pick(picked))
    return divided


class _Homes(dict[Hashable, int]):
    """A cache of the page of each key; a missing one is computed."""

    def __init__(self, page_of_key: Callable[[Hashable], int]) -> None:
        super().__init__()
        self._page_of_key = page_of_key

    def __missing__(self, key: Hashable) -> int:
        page = self[key] = self._page_of_key(key)
        return page


class _ObjectContents:
    """Encodes, joins and splits states of operators; the segments of their long lists are stored beside pages."""

    def __init__(self, record: StepRecord, codec: PageCodec, store: PageStore, groups: int) -> None:
        self._record = record
        self._codec = codec
        self._store = store
        self._groups = groups
        self._bits: dict[Hashable, int] = {}  # bits of hashes of touched keys, which are needed several times
        self._count = record.pages
        self._homes = _Homes(self._home)  # the pages of the keys that were opened last
        self._layouts: dict[int, _Layout] = {}  # the keys of the pages that were opened last; they make a split faster
        self._opened_segments: set[int] = set()
        self._dumped_segments: set[int] = set()

    # Bytes

    def load(self, data: bytes) -> OperatorState:
        return self._codec.load(data, self)

    def dump(self, state: OperatorState) -> bytes:
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
                layout = self._layouts[page] = {
                    (name, start): list(table) for name in _TABLES for start, table in getattr(state, name).items()
                }
                layout["keys"] = list(state.keys)
                keys = chain(state.session_columns.keys, *layout.values())
                self._homes.update(dict.fromkeys(keys, page))
        return self.join([*pages.values()])

    def join(self, parts: Sequence[OperatorState]) -> OperatorState:
        joined, *others = parts or [OperatorState()]
        if not others:
            return joined
        timers = {name: [*chain.from_iterable(getattr(part, name) for part in parts)] for name in TIMERS}
        for part in others:
            joined.keys.update(part.keys)
            columns = part.sessions_to_columns()
            joined.session_columns.extend(columns.keys, columns.starts, columns.ends, columns.contents)
            for name in _TABLES:
                tables = getattr(joined, name)
                for start, table in getattr(part, name).items():
                    if start in tables:
                        tables[start].update(table)
                    else:
                        tables[start] = table
            joined.table_size = part.table_size or joined.table_size
            joined.table_lateness = part.table_lateness or joined.table_lateness
        for name, entries in timers.items():
            if len(entries) > len(getattr(joined, name)):
                setattr(joined, name, TimerQueue(entries))
        return joined

    def split(self, state: OperatorState, count: int) -> dict[int, OperatorState]:
        if count != self._count:
            self._count = count
            self._forget_homes()
        states: defaultdict[int, OperatorState] = defaultdict(OperatorState)
        for page, key_states in self._split_dict(state.keys, "keys").items():
            states[page].keys = key_states
        sessions = state.sessions_to_columns()
        self._codec.store_tails(sessions, self._write_segment)
        sessions_of: defaultdict[int, list[int]] = defaultdict(list)
        self._homes.update(self.homes_of(dict.fromkeys(filterfalse(self._homes.__contains__, sessions.keys)), count))
        for index, page in enumerate(map(self._homes.__getitem__, sessions.keys)):
            sessions_of[page].append(index)
        for page, indices in sessions_of.items():
            states[page].session_columns = sessions.pick(indices)
        for name in _TABLES:
            for start, table in getattr(state, name).items():
                for page, table_part in self._split_dict(table, (name, start)).items():
                    getattr(states[page], name)[start] = table_part
        for name in TIMERS:
            by_page: defaultdict[int, list[tuple[Hashable, Any, int]]] = defaultdict(list)
            for timer in getattr(state, name):
                by_page[self._homes[timer[0]]].append(timer)
            for page, page_timers in by_page.items():
                setattr(states[page], name, TimerQueue(page_timers))
        for part in states.values():
            part.table_size, part.table_lateness = state.table_size, state.table_lateness
        return dict(states)

    def _split_dict(self, whole: dict[Hashable, Any], name: tuple[str, int] | str) -> dict[int, dict[Hashable, Any]]:
        """Divides a dictionary among pages, without Python bytecode per key for keys that stay in their page."""
        by_page: dict[int, dict[Hashable, Any]] = {}
        layouts = {page: layout[name] for page, layout in self._layouts.items() if layout.get(name)}
        placed_count = 0
        for page, page_keys in layouts.items():
            keys = page_keys if all(map(whole.__contains__, page_keys)) else list(filter(whole.__contains__, page_keys))
            if keys:
                by_page[page] = dict(zip(keys, map(whole.__getitem__, keys), strict=True))
                placed_count += len(keys)
        if placed_count == len(whole):
            return by_page
        in_layouts = set().union(*layouts.values()) if placed_count else frozenset()
        for key in filterfalse(in_layouts.__contains__, whole):
            by_page.setdefault(self._homes[key], {})[key] = whole[key]
        return by_page

    def take(self, state: OperatorState, keys: _Keys) -> tuple[OperatorState, OperatorState]:
        taken_state = OperatorState(table_size=state.table_size, table_lateness=state.table_lateness)
        taken_state.keys = _take(state.keys, keys)
        taken_state.session_columns = state.sessions_to_columns().take_keys(keys)
        for name in _TABLES:
            tables = getattr(state, name)
            for start, table in list(tables.items()):
                if taken_table := _take(table, keys):
                    getattr(taken_state, name)[start] = taken_table
                if not table:
                    del tables[start]
        for name in TIMERS:
            timers = list(getattr(state, name))
            taken_timers = [timer for timer in timers if timer[0] in keys]
            if taken_timers:
                setattr(taken_state, name, TimerQueue(taken_timers))
                setattr(state, name, TimerQueue([timer for timer in timers if timer[0] not in keys]))
        return taken_state, state

    # Keys

    def keys(self, state: OperatorState) -> _Keys:
        return keys_in(state)

    def pages_of(self, keys: _Keys, count: int) -> set[int]:
        return set(self.homes_of(keys, count).values())

    def homes_of(self, keys: _Keys, count: int) -> dict[Hashable, int]:
        """Returns the page of each key if there are ``count`` pages."""
        bits = self._bits_of(keys)
        return dict(zip(bits, pages_of(bits.values(), count), strict=True))

    def among(self, keys: _Keys, others: _Keys, most: int) -> _Keys:
        return dict.fromkeys(islice(filter(others.__contains__, keys), most))

    def beyond(self, keys: _Keys, others: _Keys, most: int | None = None) -> _Keys:
        return dict.fromkeys(islice(filterfalse(others.__contains__, keys), most))

    def remembered(self, keys: _Keys, seen: bytes) -> tuple[_Keys, bytes]:
        seen_bits = frozenset(array("I", seen))
        bits = self._bits_of(keys)
        again = {key: None for key, key_bits in bits.items() if key_bits in seen_bits}
        return again, array("I", filterfalse(seen_bits.__contains__, bits.values())).tobytes()

    def _bits_of(self, keys: _Keys) -> dict[Hashable, int]:
        bits = self._bits
        bits.update((key, self._hashed(key)) for key in filterfalse(bits.__contains__, keys))
        return {key: bits[key] for key in keys}

    def know(self, hashes: Iterable[tuple[Hashable, int]]) -> None:
        """Notes the hashes of keys."""
        groups = self._groups
        self._bits.update({key: hashed // groups & 0xFFFF_FFFF for key, hashed in hashes})

    def _hashed(self, key: Hashable) -> int:
        return self._bits_in(stable_hash(key))

    def _bits_in(self, hashed: int) -> int:
        """Returns up to 32 bits of a key's hash in which keys of one group differ."""
        return hashed // self._groups & 0xFFFF_FFFF

    def _home(self, key: Hashable) -> int:
        bits = self._bits.get(key)
        return page_of(self._hashed(key) if bits is None else bits, self._count)

    def _forget_homes(self) -> None:
        self._homes.clear()
        self._layouts.clear()

    # Segments of long lists

    def read_segment(self, number: int) -> list[Any]:
        """Reads the elements of a segment."""
        data = self._store.get(self._segment_number(number))
        return self._codec.load_segment(present(data, "a part of a stored list", given=f"segment {number}"), self)

    def forget_unused_segments(self) -> None:
        """Removes the segments of lists that the batch has dropped from the state."""
        for number in self._opened_segments - self._dumped_segments:
            self._store.remove(self._segment_number(number))

    def _write_segment(self, data: bytes) -> int:
        self._record.segments += 1
        number = self._record.segments
        self._store.put(self._segment_number(number), data)
        return number

    def _segments_of(self, state: OperatorState) -> Iterable[int]:
        # Most steps never have segments, and their states need not be searched.
        return segments_in(state) if self._record.segments else ()

    def _segment_number(self, number: int) -> int:
        return -(self._record.slot << 48 | number)


class _ContentsByGroup(_ObjectContents):
    """Divides states among key groups as others are divided among pages."""

    def homes_of(self, keys: _Keys, count: int) -> dict[Hashable, int]:
        return {key: stable_hash(key) % count for key in keys}

    def _home(self, key: Hashable) -> int:
        return stable_hash(key) % self._groups


class _NoStore:
    """Stands for the store of a state that has no segments."""

    def get(self, number: int) -> bytes | None:
        return None

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        return [None for _ in numbers]

    def put(self, number: int, data: bytes) -> None:
        raise damaged_state(f"a list of {len(data)} bytes in a part of a savepoint", expected="whole lists")

    def remove(self, number: int) -> None:
        raise damaged_state(f"segment {number} in a part of a savepoint", expected="whole lists")


def with_whole_lists(state: OperatorState) -> OperatorState:
    """Reads the segments of all lists of a state, which has the lists in memory from then on."""
    for key_state in state.keys.values():
        for entry in key_state.windows.values():
            entry.contents = _whole(entry.contents)
        key_state.state = {name: _whole(value) for name, value in key_state.state.items()}
    sessions = state.sessions_to_columns()
    sessions.contents = list(map(_whole, sessions.contents))
    return state


def _whole(value: Any) -> Any:
    return GrowingList(value) if type(value) is StoredList else value


def _take(whole: dict[Hashable, Any], keys: Container[Hashable]) -> dict[Hashable, Any]:
    # The keys of the state are kept, not the equal ones that were asked for: 1 and 1.0 are one key.
    return {key: whole.pop(key) for key in list(filter(keys.__contains__, whole))}


def segments_in(state: OperatorState) -> Iterator[int]:
    """Yields the numbers of the segments of long lists that a state refers to."""
    for key_state in state.keys.values():
        windows = (entry.contents for entry in key_state.windows.values())
        yield from _segments_of(chain(windows, key_state.state.values()))
    yield from _segments_of(state.sessions_to_columns().contents)


def _segments_of(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if type(value) is StoredList:
            yield from value.segments
