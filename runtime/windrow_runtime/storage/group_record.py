"""The record of a key group, which Spark stores beside its pages and which each batch reads that touches the group.

The layout is fixed and holds nothing that has to be unpickled to be understood. All numbers are little-endian::

    magic        4 bytes    b"WDRW"
    version      u16
    fingerprint 16 bytes    of the plan
    watermark    i64        the watermark at the last call
    now          i64        the clock at the last call
    timer        i64        the Spark timer that is registered, in Spark's milliseconds; 0: none
    steps        the rest, compressed

For each step: length of its id (u16), slot (u16), watermark, clock and number of segments (i64 each), lengths of what
it shares and of its inline page (u32 each), number of pages (u32); lengths of its working set and of
what is remembered of touched keys (u32 each), and the earliest timers of its working set in event time and in
processing time (i64 each); then the id, what it shares, the inline page, for each page its size and its earliest timers
in event time and in processing time (i64 each), the working set, and what is remembered (u32 for each key).
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field
from typing import Final

from windrow.errors import IncompatibleStateError
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.codecs.damage import damaged_state
from windrow_runtime.storage.compression import compress, decompress
from windrow_runtime.storage.record import NO_TIMER, StepRecord

__all__ = ["FINGERPRINT_BYTES", "FORMAT_VERSION", "GroupState"]

FORMAT_VERSION: Final = 5  # versions below were never released
FINGERPRINT_BYTES: Final = 16

_MAGIC = b"WDRW"
_HEADER = struct.Struct("<4sH16sqqq")
_STEP = struct.Struct("<HHqqqIII")
_WORKING = struct.Struct("<IIqq")


@dataclass(slots=True)
class GroupState:
    """The record of one key group at one level of the query."""

    watermark: int = MIN_TIMESTAMP
    now: int = MIN_TIMESTAMP
    timer: int = 0
    steps: dict[str, StepRecord] = field(default_factory=dict)

    def record_of(self, step: str) -> StepRecord:
        """What is known of a step; a new record where nothing is."""
        if step not in self.steps:
            taken = {record.slot for record in self.steps.values()}
            self.steps[step] = StepRecord(min(set(range(len(taken) + 1)) - taken))
        return self.steps[step]

    def dump(self, fingerprint: bytes) -> bytes:
        """As bytes."""
        parts: list[bytes] = []
        for step_id, step in self.steps.items():
            name = step_id.encode()
            lengths = len(step.shared), len(step.inline), len(step.sizes)
            header = (len(name), step.slot, step.watermark, step.now, step.segments, *lengths)
            arrays = (entries.tobytes() for entries in (step.sizes, step.events, step.clocks))
            times = step.working_event, step.working_clock
            working = _WORKING.pack(len(step.working), len(step.seen), *times)
            parts += (_STEP.pack(*header), working, name, step.shared, step.inline, *arrays)
            parts += (step.working, step.seen)
        header_bytes = _HEADER.pack(_MAGIC, FORMAT_VERSION, fingerprint, self.watermark, self.now, self.timer)
        return header_bytes + compress(b"".join(parts))

    @staticmethod
    def load(data: bytes, fingerprint: bytes) -> GroupState:
        """From bytes.

        Raises:
            CheckpointError: If these are not ours, or damaged.
            IncompatibleStateError: If they are of an unknown version, or of another plan.
        """
        if len(data) < _HEADER.size or not data.startswith(_MAGIC):
            raise damaged_state(
                data[:16].hex(),
                message="stored state was not written by windrow",
                expected=f"bytes that begin {_MAGIC!r}",
            )
        _, version, stored, watermark, now, timer = _HEADER.unpack_from(data)
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
        return GroupState(watermark, now, timer, _load_steps(decompress(data[_HEADER.size :])))


def _load_steps(body: bytes) -> dict[str, StepRecord]:
    steps: dict[str, StepRecord] = {}
    position = 0

    def take(length: int) -> bytes:
        nonlocal position
        position += length
        if position > len(body):
            raise damaged_state(
                f"{len(body)} bytes", message="stored state is cut off", expected=f"{position} bytes"
            )
        return body[position - length : position]

    try:
        while position < len(body):
            header = _STEP.unpack(take(_STEP.size))
            name_length, slot, watermark, now, segments, shared, inline, pages = header
            working, seen, working_event, working_clock = _WORKING.unpack(take(_WORKING.size))
            name = take(name_length).decode()
            has_times = (working_event, working_clock) != (NO_TIMER, NO_TIMER)
            if not pages or (working and pages == 1) or (has_times and not working) or seen % 4:
                raise damaged_state(f"a step with {pages} pages")
            record = StepRecord(slot, watermark, now, segments, take(shared), take(inline))
            record.sizes, record.events, record.clocks = (array("q", take(8 * pages)) for _ in range(3))
            record.working, record.seen = take(working), take(seen)
            record.working_event, record.working_clock = working_event, working_clock
            steps[name] = record
    except UnicodeDecodeError as error:
        raise damaged_state(str(error)) from error
    return steps
