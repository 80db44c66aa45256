"""Defines the stored state of a key group: a record, which each batch with rows for the group reads, and pages.

A record begins with ``b"WDRW"``, the version of the format as u16 in little-endian, and 16 bytes that name the plan. A
:class:`GroupState` follows as MessagePack, compressed.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

import msgspec

from windrow.errors import IncompatibleStateError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.codecs.malformed import damaged_state
from windrow_spark.storage.packed import compress, decompress
from windrow_spark.storage.tuning import BYTES_SEEN

if TYPE_CHECKING:
    Int64s: TypeAlias = array[int]
else:
    Int64s = array  # which takes no type argument when it runs

FORMAT_VERSION: Final = 2
FINGERPRINT_BYTES: Final = 16
WORKING_SET: Final = -1
"""The number of the working set among those of pages."""
NO_TIMER: Final = MIN_TIMESTAMP
"""Stands for the earliest timer of a page that has none."""

_MAGIC = b"WDRW"
_HEADER = struct.Struct("<4sH16s")


class PageStore(Protocol):
    """Stores bytes of a key group's state by number: pages of keys, segments of long lists, chunks of rows."""

    def get(self, number: int) -> bytes | None:
        """Returns the bytes stored under a number; None if there are none."""

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        """Returns the bytes stored under several numbers, in less time than one by one."""

    def put(self, number: int, data: bytes) -> None: ...

    def remove(self, number: int) -> None: ...


class PagesInMemory(dict[int, bytes]):
    """The pages of one key group in memory: the store of a group that is read, or one that is made."""

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        return list(map(self.get, numbers))

    def put(self, number: int, data: bytes) -> None:
        self[number] = data

    def remove(self, number: int) -> None:
        self.pop(number, None)


State = TypeVar("State")
"""The type of the state of some keys: objects, or rows."""

Keys = TypeVar("Keys", bound=Sized)
"""The type of a sequence of distinct keys."""


class PageContents(Protocol[State, Keys]):
    """Encodes, joins and splits states of keys. A state that was joined, split or taken from must not be used again."""

    def load(self, data: bytes) -> State:
        """Decodes the state that :meth:`dump` encoded; raises a CheckpointError if the bytes are damaged."""

    def dump(self, state: State) -> bytes:
        """Encodes a state, equal states as equal bytes, so that unchanged pages are not written. No keys: no bytes."""

    def timers(self, state: State) -> tuple[int, int]:
        """Returns the earliest timers in event time and in processing time, or ``NO_TIMER``."""

    def open(self, pages: Mapping[int, State]) -> State:
        """Joins the states of pages into one, for a batch to work on; the working set may be among the pages."""

    def join(self, parts: Sequence[State]) -> State:
        """Joins states that have no key in common; an empty state if there are none."""

    def split(self, state: State, count: int) -> Mapping[int, State]:
        """Divides a state among ``count`` pages; pages without a key are left out."""

    def take(self, state: State, keys: Keys) -> tuple[State, State]:
        """Divides a state into the part for the given keys, as far as it has them, and the rest."""

    def keys(self, state: State) -> Keys: ...

    def pages_of(self, keys: Keys, count: int) -> set[int]:
        """Returns the pages of keys if there are ``count`` pages."""

    def among(self, keys: Keys, others: Keys, most: int) -> Keys:
        """Returns the first ``most`` of the keys that are among others."""

    def beyond(self, keys: Keys, others: Keys, most: int | None = None) -> Keys:
        """Returns the keys that are not among others, at most ``most`` of them; None: no limit."""

    def remembered(self, keys: Keys, seen: bytes) -> tuple[Keys, bytes]:
        """Returns the keys whose hashes are in ``seen``, and the hashes of the other keys, 32 bits of each."""


def present(data: bytes | None, what: str, *, given: str, expected: str | None = None) -> bytes:
    """Returns stored bytes, or raises a CheckpointError that describes them if they are missing."""
    if data is None:
        raise damaged_state(given, message=f"{what} is missing", expected=expected)
    return data


def stored_timer(time: int | None) -> int:
    """Returns the time of a timer as records store it; None: there is no timer."""
    # A timer at the lowest time, which means no timer, is moved by a millisecond. One beyond the end of time never
    # fires, and may be stored as due at the end of time: its page is read then in vain.
    return NO_TIMER if time is None else min(max(time, NO_TIMER + 1), MAX_TIMESTAMP)


def int64_array(*values: int) -> Int64s:
    """Returns an array of ints of 64 bits."""
    return array("q", values)


def _earliest(times: Int64s, time_of_working_set: int) -> int | None:
    return min((time for time in (*times, time_of_working_set) if time != NO_TIMER), default=None)


class StepRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The entry of one step in a group's record: how many pages the step has, and when their next timers are due."""

    slot: int  # the number of the step in the keys of the store
    watermark: int = MIN_TIMESTAMP  # when the step last ran, in milliseconds
    now: int = MIN_TIMESTAMP  # the processing time when the step last ran, in milliseconds
    segments: int = 0  # the number of segments of long lists stored so far, by which they are numbered
    shared: bytes = b""  # the state of the step that belongs to no key
    inline: bytes = b""  # the step's page, if it has one only
    pages: int = 1  # the number of pages, each of which is stored if there are several
    size: int = 0  # bytes of all pages
    span: int = 1  # the pages that an entry of the next two stands for
    events: Int64s = msgspec.field(default_factory=lambda: int64_array(NO_TIMER))  # each entry's first in event time
    clocks: Int64s = msgspec.field(default_factory=lambda: int64_array(NO_TIMER))  # the same in processing time
    working: bytes = b""  # the state of the working set; empty if there is one page only
    working_event: int = NO_TIMER  # the earliest timer of the working set in event time
    working_clock: int = NO_TIMER  # the same in processing time
    seen: bytes = b""  # hashes of keys that batches touched lately, 32 bits of each

    @property
    def stored_bytes(self) -> int:
        """The bytes of the stored state, without segments of long lists; 0: there is nothing to keep."""
        return self.size + len(self.shared) + len(self.working)

    @property
    def earliest_event_timer(self) -> int | None:
        """The earliest timer in event time; None: there is none."""
        return _earliest(self.events, self.working_event)

    @property
    def earliest_processing_timer(self) -> int | None:
        """The earliest timer in processing time; None: there is none."""
        return _earliest(self.clocks, self.working_clock)

    def is_due(self, watermark: int, now: int) -> bool:
        """Returns whether the step has a timer at or before these times."""
        event, clock = self.earliest_event_timer, self.earliest_processing_timer
        return (event is not None and event <= watermark) or (clock is not None and clock <= now)

    def is_working_set_due(self, watermark: int, now: int) -> bool:
        """Returns whether a key of the working set has a timer at or before these times."""
        return NO_TIMER != self.working_event <= watermark or NO_TIMER != self.working_clock <= now

    def check(self) -> None:
        """Raises a CheckpointError if the record contradicts itself, as damaged bytes may."""
        pages, entries = self.pages, len(self.events)
        has_times = (self.working_event, self.working_clock) != (NO_TIMER, NO_TIMER)
        if (
            min(pages, self.span) < 1
            or not entries == len(self.clocks) == -(-pages // self.span)
            or self.size < 0
            or (self.working and pages == 1)
            or (has_times and not self.working)
            or len(self.seen) % BYTES_SEEN
        ):
            raise damaged_state(f"a step with {pages} pages")


class GroupState(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The record of one key group at one level of the query."""

    watermark: int = MIN_TIMESTAMP  # at the group's last call, in milliseconds
    now: int = MIN_TIMESTAMP  # the processing time at the group's last call, in milliseconds
    timer: int = 0  # the engine's timer for the next call, in milliseconds as the engine counts them; 0: none
    steps: dict[str, StepRecord] = msgspec.field(default_factory=dict)  # by the ids of the steps' state

    def record_of(self, step: str) -> StepRecord:
        """Returns the record of a step, by the id of its state; adds an empty one if it has none yet."""
        if step not in self.steps:
            used_slots = {record.slot for record in self.steps.values()}
            self.steps[step] = StepRecord(min(set(range(len(used_slots) + 1)) - used_slots))
        return self.steps[step]

    def dump(self, fingerprint: bytes) -> bytes:
        """Encodes the record, with the fingerprint of the plan."""
        return _HEADER.pack(_MAGIC, FORMAT_VERSION, fingerprint) + compress(_ENCODER.encode(self))

    @staticmethod
    def load(data: bytes, fingerprint: bytes) -> GroupState:
        """Decodes a record; raises a CheckpointError if it is damaged, of another plan or of another format version."""
        if len(data) < _HEADER.size or not data.startswith(_MAGIC):
            raise damaged_state(
                data[:16].hex(),
                message="stored state was not written by windrow",
                expected=f"bytes that begin {_MAGIC!r}",
            )
        _, version, stored = _HEADER.unpack_from(data)
        if version != FORMAT_VERSION:
            raise IncompatibleStateError(
                "stored state has an unknown format version",
                given=version,
                expected=f"version {FORMAT_VERSION}",
                hint="run with the version of windrow that wrote the checkpoint, or use a new checkpoint",
            )
        if stored != fingerprint:
            raise IncompatibleStateError(
                "stored state belongs to another plan",
                given=stored.hex(),
                expected=fingerprint.hex(),
                hint="use a new checkpoint for a changed plan",
            )
        try:
            group = _DECODER.decode(decompress(data[_HEADER.size :]))
        except (msgspec.MsgspecError, ValueError, UnicodeDecodeError) as error:
            raise damaged_state(str(error)) from error
        for step in group.steps.values():
            step.check()
        return group


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=array.tobytes)
_DECODER: Final = msgspec.msgpack.Decoder(GroupState, dec_hook=lambda kind, data: array("q", data))
