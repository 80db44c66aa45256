"""The record of a key group, which Spark stores beside its pages and which each batch reads that touches the group.

All numbers of its head are little-endian::

    magic        4 bytes    b"WDRW"
    version      u16
    fingerprint 16 bytes    of the plan
    watermark    i64        the watermark at the last call
    now          i64        the clock at the last call
    timer        i64        the Spark timer that is registered, in Spark's milliseconds; 0: none
    steps        the rest   the records of steps by their ids, as MessagePack, compressed
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from windrow.errors import IncompatibleStateError
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.codecs.damage import damaged_state
from windrow_runtime.storage.compression import compress, decompress
from windrow_runtime.storage.record import NO_TIMER, StepRecord
from windrow_runtime.storage.tuning import BYTES_SEEN

__all__ = ["FINGERPRINT_BYTES", "FORMAT_VERSION", "GroupState"]

FORMAT_VERSION: Final = 1
FINGERPRINT_BYTES: Final = 16

_MAGIC = b"WDRW"
_HEADER = struct.Struct("<4sH16sqqq")


# Any: MessagePack has no type for arrays of numbers.


def _bytes_of(numbers: Any) -> bytes:
    data: bytes = numbers.tobytes()
    return data


def _array_of(kind: Any, data: Any) -> array[int]:
    return array("q", data)


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_bytes_of)
_DECODER: Final = msgspec.msgpack.Decoder(dict[str, StepRecord], dec_hook=_array_of)


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
        header = _HEADER.pack(_MAGIC, FORMAT_VERSION, fingerprint, self.watermark, self.now, self.timer)
        return header + compress(_ENCODER.encode(self.steps))

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
    try:
        steps = _DECODER.decode(body)
    except (msgspec.MsgspecError, ValueError, UnicodeDecodeError) as error:
        raise damaged_state(str(error)) from error
    for step in steps.values():
        pages = len(step.sizes)
        has_times = (step.working_event, step.working_clock) != (NO_TIMER, NO_TIMER)
        if (
            not pages == len(step.events) == len(step.clocks) > 0
            or (step.working and pages == 1)
            or (has_times and not step.working)
            or len(step.seen) % BYTES_SEEN
        ):
            raise damaged_state(f"a step with {pages} pages")
    return steps
