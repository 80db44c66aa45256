"""What a row of the exchange carries: elements for keyed steps of one key group, or the output for one sink."""

from __future__ import annotations

import pickle
import struct
from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from windrow_runtime.operators.state.nan_keys import with_one_nan
from windrow_runtime.operators.windows.partials import Partials
from windrow_runtime.spark.exchange.values import (
    PackedTimestamps,
    PackedValues,
    pack_timestamps,
    pack_values,
    unpack_timestamps,
    unpack_values,
)

__all__ = [
    "ColumnElements",
    "Elements",
    "KeyedElements",
    "PartialElements",
    "Phase",
    "level_of",
    "pack_columns",
    "pack_elements",
    "pack_keyed",
    "pack_partials",
    "phase_of",
    "sequence_number",
    "unpack_columns",
    "unpack_elements",
    "unpack_keyed",
    "unpack_partials",
]

# Any: keys and values are the user's, of every type.

_ROWS_BITS = 30
_ORIGIN_BITS = 32
_MAGIC: Final = b"WCOL"  # no pickle begins so
_PARTIAL_MAGIC: Final = b"WPAR"
_KEYED_MAGIC: Final = b"WKEY"
_HEADER: Final = struct.Struct("<4si")


class Phase:
    """Where in a batch something was emitted: see :func:`sequence_number`."""

    BEFORE_WATERMARK: Final = 0
    """By timers, as the watermark advanced; downstream sees it under the previous watermark."""

    AFTER_WATERMARK: Final = 1
    """For the batch's elements; downstream sees it under the new watermark."""


class KeyedElements(NamedTuple):
    """Elements for one step: three lists side by side."""

    step: int
    keys: Sequence[Any]
    values: Sequence[Any]
    timestamps: Sequence[int | None]

    def pick(self, places: Sequence[int]) -> KeyedElements:
        """Those at some places."""
        columns = [[column[place] for place in places] for column in self[1:]]
        return KeyedElements(self.step, *columns)


class ColumnElements(NamedTuple):
    """Elements for one step as columns: an Arrow stream, see :mod:`windrow_runtime.spark.sources.column_scan`."""

    step: int
    stream: bytes


class PartialElements(NamedTuple):
    """What elements for one step have been folded to."""

    step: int
    partials: Partials


class Elements(NamedTuple):
    """Elements for one sink: two lists side by side."""

    values: Sequence[Any]
    timestamps: Sequence[int | None]


def sequence_number(phase: int, origin: int, row: int) -> int:
    """Orders the rows that reach one group in one batch.

    Spark delivers them in any order. They are handled by phase; then by where they come from, which is the source
    partition, or the number of the key group upstream; then as they were emitted there. So a batch that is run again
    gives the same result.
    """
    return phase << (_ORIGIN_BITS + _ROWS_BITS) | origin << _ROWS_BITS | row


def phase_of(number: int) -> int:
    """The phase in a sequence number."""
    return number >> (_ORIGIN_BITS + _ROWS_BITS)


def pack_keyed(level: int, steps: Sequence[tuple[int, list[Any], list[Any], list[int | None]]]) -> bytes:
    """Packs elements for keyed steps of one level: (step, keys, values, timestamps) each.

    :func:`unpack_keyed` undoes it; :func:`level_of` reads the level without decoding an element.
    Equal keys should be one object each: then all but the first take two bytes.
    """
    packed = [
        (step, pack_values(keys), pack_values(values), pack_timestamps(ts))
        for step, keys, values, ts in steps
    ]
    return _HEADER.pack(_KEYED_MAGIC, level) + pickle.dumps(packed, 5)


def level_of(payload: bytes) -> int:
    """The level whose steps a payload is for. Columns and what is folded go to the first level alone."""
    magic, level = _HEADER.unpack_from(payload)
    return level if magic == _KEYED_MAGIC else 0


def pack_columns(step: int, stream: bytes) -> bytes:
    """Columns for one step, or for one sink. Undone by :func:`unpack_columns`."""
    return _HEADER.pack(_MAGIC, step) + stream


def unpack_columns(payload: bytes) -> ColumnElements | None:
    """What :func:`pack_columns` was given; None for a payload of Python values."""
    if not payload.startswith(_MAGIC):
        return None
    _, step = _HEADER.unpack_from(payload)
    return ColumnElements(step, payload[_HEADER.size :])


def unpack_keyed(payload: bytes) -> list[KeyedElements]:
    """The elements that :func:`pack_keyed` was given."""
    packed: list[tuple[int, PackedValues, PackedValues, PackedTimestamps]] = pickle.loads(
        memoryview(payload)[_HEADER.size :]
    )
    return [
        KeyedElements(
            step, with_one_nan(unpack_values(keys)), unpack_values(values), unpack_timestamps(timestamps)
        )
        for step, keys, values, timestamps in packed
    ]


def pack_partials(step: int, partials: Partials) -> bytes:
    """What elements for one step have been folded to. Undone by :func:`unpack_partials`."""
    keys, values, starts, counts = map(list, partials)
    packed = (
        pack_values(keys),
        pack_values(values),
        array("q", starts).tobytes(),
        array("q", counts).tobytes(),
    )
    return _HEADER.pack(_PARTIAL_MAGIC, step) + pickle.dumps(packed, 5)


def unpack_partials(payload: bytes) -> PartialElements | None:
    """What :func:`pack_partials` was given; None for other payloads."""
    if not payload.startswith(_PARTIAL_MAGIC):
        return None
    _, step = _HEADER.unpack_from(payload)
    keys, values, starts, counts = pickle.loads(memoryview(payload)[_HEADER.size :])
    columns = (
        with_one_nan(unpack_values(keys)),
        unpack_values(values),
        array("q", starts).tolist(),
        array("q", counts).tolist(),
    )
    return PartialElements(step, Partials(*columns))


def pack_elements(values: list[Any], timestamps: Sequence[int | None]) -> bytes:
    """Elements for a sink. Undone by :func:`unpack_elements`."""
    return pickle.dumps((pack_values(values), pack_timestamps(timestamps)), 5)


def unpack_elements(payload: bytes) -> Elements:
    """The elements that :func:`pack_elements` was given."""
    values, timestamps = pickle.loads(payload)
    return Elements(unpack_values(values), unpack_timestamps(timestamps))
