"""What is stored for one key group, as bytes.

The layout is fixed and holds nothing that has to be unpickled; what the steps store is theirs. All numbers are
little-endian::

    magic        4 bytes    b"WDRW"
    version      u16
    fingerprint 16 bytes    of the plan
    watermark    i64        the watermark at the last call
    now          i64        the clock at the last call
    timer        i64        the Spark timer that is registered, in Spark's milliseconds; 0: none
    then for each step: length of its id (u16), length of its state (u32), the watermark and the clock at its last call
    (i64 each), its earliest timer in event time and in processing time (i64 each), id, state
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from windrow.errors import IncompatibleStateError
from windrow.time import MIN_TIMESTAMP

__all__ = ["FINGERPRINT_BYTES", "FORMAT_VERSION", "GroupState", "StepState"]

FORMAT_VERSION: Final = 2
FINGERPRINT_BYTES: Final = 16

_MAGIC = b"WDRW"
_HEADER = struct.Struct("<4sH16sqqq")
_STEP = struct.Struct("<HIqqqq")


@dataclass(slots=True)
class StepState:
    """The state of one step in one key group.

    Attributes:
        data: As the step's operator wrote it.
        watermark: The watermark under which it was left.
        now: The clock under which it was left.
        earliest_timer: When its earliest event timer is due; None: it has none.
        earliest_processing_timer: The same in processing time.
    """

    data: bytes
    watermark: int
    now: int
    earliest_timer: int | None
    earliest_processing_timer: int | None = None


@dataclass(slots=True)
class GroupState:
    """The state of one key group at one level of the query."""

    watermark: int = MIN_TIMESTAMP
    now: int = MIN_TIMESTAMP
    timer: int = 0
    steps: dict[str, StepState] = field(default_factory=dict)

    def dump(self, fingerprint: bytes) -> bytes:
        """As bytes."""
        parts = [_HEADER.pack(_MAGIC, FORMAT_VERSION, fingerprint, self.watermark, self.now, self.timer)]
        for step_id, step in self.steps.items():
            name = step_id.encode()
            timers = _stored(step.earliest_timer), _stored(step.earliest_processing_timer)
            header = _STEP.pack(len(name), len(step.data), step.watermark, step.now, *timers)
            parts += (header, name, step.data)
        return b"".join(parts)

    @staticmethod
    def load(data: bytes, fingerprint: bytes) -> GroupState:
        """From bytes.

        Raises:
            IncompatibleStateError: If these are not ours, of an unknown version, of another plan, or damaged.
        """
        if len(data) < _HEADER.size or not data.startswith(_MAGIC):
            raise IncompatibleStateError(
                "stored state was not written by windrow",
                given=data[:16].hex(),
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
        state = GroupState(watermark, now, timer)
        position = _HEADER.size
        try:
            while position < len(data):
                name_length, length, watermark, now, *earliest = _STEP.unpack_from(data, position)
                position += _STEP.size
                name_end = position + name_length
                end = name_end + length
                if end > len(data):
                    raise IncompatibleStateError(
                        "stored state is cut off", given=len(data), expected=f"{end} bytes"
                    )
                step = StepState(data[name_end:end], watermark, now, *map(_restored, earliest))
                state.steps[data[position:name_end].decode()] = step
                position = end
        except (struct.error, UnicodeDecodeError) as error:
            raise IncompatibleStateError(
                "stored state is damaged", given=data[position : position + 16].hex()
            ) from error
        return state


def _stored(timer: int | None) -> int:
    # The lowest number stands for "none"; a timer there is due just as well one millisecond later.
    return MIN_TIMESTAMP if timer is None else max(timer, MIN_TIMESTAMP + 1)


def _restored(timer: int) -> int | None:
    return None if timer == MIN_TIMESTAMP else timer
