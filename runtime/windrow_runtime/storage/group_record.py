"""The record of a key group, which Spark stores beside its pages and which each batch reads that touches the group.

It begins with ``b"WDRW"``, the version of the format as u16 in little-endian, and 16 bytes that name the plan. A
:class:`GroupState` follows as MessagePack, compressed.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any, Final

import msgspec

from windrow.errors import IncompatibleStateError
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.storage.compression import compress, decompress
from windrow_runtime.storage.record import NO_TIMER, StepRecord
from windrow_runtime.storage.tuning import BYTES_SEEN

FORMAT_VERSION: Final = 1
FINGERPRINT_BYTES: Final = 16

_MAGIC = b"WDRW"
_HEADER = struct.Struct("<4sH16s")


# Any: MessagePack has no type for arrays of numbers.


def _bytes_of(numbers: Any) -> bytes:
    data: bytes = numbers.tobytes()
    return data


def _array_of(kind: Any, data: Any) -> array[int]:
    return array("q", data)


class GroupState(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The record of one key group at one level of the query.

    Attributes:
        watermark: The watermark at the last call, in milliseconds.
        now: The clock at the last call, in milliseconds.
        timer: The Spark timer that is registered, in Spark's milliseconds; 0: none.
        steps: The records of steps by their ids.
    """

    watermark: int = MIN_TIMESTAMP
    now: int = MIN_TIMESTAMP
    timer: int = 0
    steps: dict[str, StepRecord] = msgspec.field(default_factory=dict)

    def record_of(self, step: str) -> StepRecord:
        """The record of a step; a new one if the step has none yet."""
        if step not in self.steps:
            taken = {record.slot for record in self.steps.values()}
            self.steps[step] = StepRecord(min(set(range(len(taken) + 1)) - taken))
        return self.steps[step]

    def dump(self, fingerprint: bytes) -> bytes:
        """As bytes."""
        return _HEADER.pack(_MAGIC, FORMAT_VERSION, fingerprint) + compress(_ENCODER.encode(self))

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
            _check(step)
        return group


def _check(step: StepRecord) -> None:
    pages = len(step.sizes)
    has_times = (step.working_event, step.working_clock) != (NO_TIMER, NO_TIMER)
    if (
        not pages == len(step.events) == len(step.clocks) > 0
        or (step.working and pages == 1)
        or (has_times and not step.working)
        or len(step.seen) % BYTES_SEEN
    ):
        raise damaged_state(f"a step with {pages} pages")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_bytes_of)
_DECODER: Final = msgspec.msgpack.Decoder(GroupState, dec_hook=_array_of)
