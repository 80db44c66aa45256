"""What is stored for a key group: its record, which each batch reads that touches the group, and parts beside it.

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
from windrow_runtime.storage.packed import compress, decompress
from windrow_runtime.storage.tuning import BYTES_SEEN

if TYPE_CHECKING:
    Int64s: TypeAlias = array[int]
else:
    Int64s = array  # which takes no type argument when it runs

FORMAT_VERSION: Final = 1
FINGERPRINT_BYTES: Final = 16
WORKING_SET: Final = -1
"""The number of the working set among those of pages."""
NO_TIMER: Final = MIN_TIMESTAMP
"""In the place of a page's earliest timer, where it has none."""

_MAGIC = b"WDRW"
_HEADER = struct.Struct("<4sH16s")


class PageStore(Protocol):
    """Stores the parts of a group's state, by number: pages of keys, segments of long lists, chunks of rows."""

    def get(self, number: int) -> bytes | None:
        """A part; None: there is none."""

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        """Several parts, which takes less time than one by one."""

    def put(self, number: int, data: bytes) -> None: ...

    def remove(self, number: int) -> None: ...


State = TypeVar("State")
"""The state of some keys: objects, or rows."""

Keys = TypeVar("Keys", bound=Sized)
"""Different keys in order."""


class PageContents(Protocol[State, Keys]):
    """Handles the state of some keys. A state that was joined, split or taken from must not be used any more."""

    def load(self, data: bytes) -> State:
        """The state that :meth:`dump` gave; raises a CheckpointError if the bytes are damaged."""

    def dump(self, state: State) -> bytes:
        """The state as bytes, the same for the same state: a page is written if they change. No keys, no bytes."""

    def timers(self, state: State) -> tuple[int, int]:
        """The times at which something is due first, in event time and in processing time, as the record has it."""

    def open(self, pages: Mapping[int, State]) -> State:
        """One state of those of some pages, to be worked on; the working set may be among them."""

    def join(self, parts: Sequence[State]) -> State:
        """One state of several that have no key in common; an empty one of none."""

    def split(self, state: State, count: int) -> Mapping[int, State]:
        """The state of each of ``count`` pages; pages without a key are left out."""

    def take(self, state: State, keys: Keys) -> tuple[State, State]:
        """The state of those of some keys that are in it, and the rest."""

    def keys(self, state: State) -> Keys: ...

    def pages_of(self, keys: Keys, count: int) -> set[int]:
        """The page of each key, if there are ``count`` pages."""

    def among(self, keys: Keys, others: Keys, most: int) -> Keys:
        """The first ``most`` of the keys that are among others."""

    def beyond(self, keys: Keys, others: Keys, most: int | None = None) -> Keys:
        """The first ``most`` of the keys that are not among others; None: all of them."""

    def remembered(self, keys: Keys, seen: bytes) -> tuple[Keys, bytes]:
        """The keys whose hashes are among some that are remembered, and the hashes of all others, 32 bits of each."""


def present(data: bytes | None, what: str, *, given: str, expected: str | None = None) -> bytes:
    """A part that the store must have, or else a CheckpointError; ``what`` names its sort, ``given`` says which one."""
    if data is None:
        raise damaged_state(given, message=f"{what} is missing", expected=expected)
    return data


def stored_timer(time: int | None) -> int:
    """The time of a timer as records have it; None: there is no timer."""
    # A timer at the lowest number is due just as well one millisecond later. One beyond the end of time is never due,
    # and does no harm when its page is looked at then.
    return NO_TIMER if time is None else min(max(time, NO_TIMER + 1), MAX_TIMESTAMP)


def int64_array(*values: int) -> Int64s:
    """Numbers of 64 bits side by side."""
    return array("q", values)


def _earliest(times: Int64s, time_of_working_set: int) -> int | None:
    return min((time for time in (*times, time_of_working_set) if time != NO_TIMER), default=None)


class StepRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The part of a group's record for one step: where the step's pages lie, and when their next timers are due."""

    slot: int  # the number under which the store has its pages
    watermark: int = MIN_TIMESTAMP  # under which it was left, in milliseconds
    now: int = MIN_TIMESTAMP  # the clock under which it was left, in milliseconds
    segments: int = 0  # how many segments of long lists it has stored so far, which numbers them
    shared: bytes = b""  # what belongs to the step itself
    inline: bytes = b""  # its one page, where it has no more
    sizes: Int64s = msgspec.field(default_factory=lambda: int64_array(0))  # bytes of each page; 0: empty, not stored
    events: Int64s = msgspec.field(default_factory=lambda: int64_array(NO_TIMER))  # each page's first in event time
    clocks: Int64s = msgspec.field(default_factory=lambda: int64_array(NO_TIMER))  # the same in processing time
    working: bytes = b""  # the working set, apart from pages; there is none where there is one page
    working_event: int = NO_TIMER  # its earliest timer in event time
    working_clock: int = NO_TIMER  # the same in processing time
    seen: bytes = b""  # what is remembered of the keys that batches have touched

    @property
    def stored_bytes(self) -> int:
        """The size of the state as it is stored, without segments of long lists; 0: there is nothing to keep."""
        return sum(self.sizes) + len(self.shared) + len(self.working)

    @property
    def earliest_event_timer(self) -> int | None:
        """The time of the earliest timer in event time; None: there is none."""
        return _earliest(self.events, self.working_event)

    @property
    def earliest_processing_timer(self) -> int | None:
        """The same in processing time."""
        return _earliest(self.clocks, self.working_clock)

    def clear_pages(self, count: int) -> None:
        """Makes room for some pages, which are empty."""
        self.sizes = int64_array(*[0] * count)
        self.events = int64_array(*[NO_TIMER] * count)
        self.clocks = int64_array(*[NO_TIMER] * count)

    def due(self, watermark: int, now: int) -> set[int]:
        """The pages that have a timer at or before these times, the working set among them."""
        found = {page for page, time in enumerate(self.events) if NO_TIMER != time <= watermark}
        found.update(page for page, time in enumerate(self.clocks) if NO_TIMER != time <= now)
        if NO_TIMER != self.working_event <= watermark or NO_TIMER != self.working_clock <= now:
            found.add(WORKING_SET)
        return found

    def check(self) -> None:
        """Raises a CheckpointError if the record contradicts itself, as damaged bytes may."""
        pages = len(self.sizes)
        has_times = (self.working_event, self.working_clock) != (NO_TIMER, NO_TIMER)
        if (
            not pages == len(self.events) == len(self.clocks) > 0
            or (self.working and pages == 1)
            or (has_times and not self.working)
            or len(self.seen) % BYTES_SEEN
        ):
            raise damaged_state(f"a step with {pages} pages")


class GroupState(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The record of one key group at one level of the query."""

    watermark: int = MIN_TIMESTAMP  # at the last call, in milliseconds
    now: int = MIN_TIMESTAMP  # the clock at the last call, in milliseconds
    timer: int = 0  # the engine's timer for the next call, in milliseconds as the engine counts them; 0: none
    steps: dict[str, StepRecord] = msgspec.field(default_factory=dict)  # by the ids of the steps' state

    def record_of(self, step: str) -> StepRecord:
        """The record of a step, by the id of its state; a new one if it has none yet."""
        if step not in self.steps:
            taken = {record.slot for record in self.steps.values()}
            self.steps[step] = StepRecord(min(set(range(len(taken) + 1)) - taken))
        return self.steps[step]

    def dump(self, fingerprint: bytes) -> bytes:
        """The record as bytes."""
        return _HEADER.pack(_MAGIC, FORMAT_VERSION, fingerprint) + compress(_ENCODER.encode(self))

    @staticmethod
    def load(data: bytes, fingerprint: bytes) -> GroupState:
        """The record that :meth:`dump` gave, or else a CheckpointError; one of another plan is incompatible."""
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
