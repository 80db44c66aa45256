"""Packs and unpacks payloads: elements for the keyed steps of one key group, and values for a sink."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from windrow_runtime.operators.state.nan_keys import with_one_nan
from windrow_runtime.operators.windows.table_loop import Partials
from windrow_runtime.spark.exchange.values import (
    PackedTimestamps,
    PackedValues,
    pack_timestamps,
    pack_values,
    unpack_timestamps,
    unpack_values,
)

# Any: keys and values are the user's, of every type.

_ROWS_BITS = 30
_ORIGIN_BITS = 32


class Phase:
    """The part of a batch in which an element was emitted, see :func:`sequence_number`."""

    BEFORE_WATERMARK: Final = 0
    """Timers emitted it as the watermark advanced; downstream sees it under the previous watermark."""

    AFTER_WATERMARK: Final = 1
    """A step emitted it for the batch's elements; downstream sees it under the new watermark."""


class KeyedElements(NamedTuple):
    """Elements for one step: three lists side by side."""

    step: int
    keys: Sequence[Any]
    values: Sequence[Any]
    timestamps: Sequence[int | None]

    def pick(self, places: Sequence[int]) -> KeyedElements:
        """Returns the elements at some places."""
        columns = [[column[place] for place in places] for column in self[1:]]
        return KeyedElements(self.step, *columns)


class ColumnElements(NamedTuple):
    """Elements for one step as columns: an Arrow stream, see :mod:`windrow_runtime.spark.sources.column_scan`."""

    step: int
    stream: bytes


class PartialElements(NamedTuple):
    """Partial accumulators to which elements for one step have been folded."""

    step: int
    partials: Partials


def sequence_number(phase: int, origin: int, row: int) -> int:
    """Orders the rows that reach one group in one batch.

    Spark delivers them in any order. They are handled by phase; then by where they come from, which is the source
    partition, or the number of the key group upstream; then as they were emitted there. So a batch that is run again
    gives the same result.
    """
    return phase << (_ORIGIN_BITS + _ROWS_BITS) | origin << _ROWS_BITS | row


def phase_of(number: int) -> int:
    """Returns the phase in a sequence number."""
    return number >> (_ORIGIN_BITS + _ROWS_BITS)


def pack_keyed(steps: Sequence[tuple[int, list[Any], list[Any], list[int | None]]]) -> bytes:
    """Packs elements for keyed steps of one level: (step, keys, values, timestamps) each.

    :func:`unpack_keyed` undoes it. Equal keys should be one object each: then all but the first take two bytes.
    """
    packed = [(step, pack_values(keys), pack_values(values), pack_timestamps(ts)) for step, keys, values, ts in steps]
    return pickle.dumps(packed, 5)


def unpack_keyed(payload: bytes) -> list[KeyedElements]:
    """Returns the elements that :func:`pack_keyed` was given."""
    packed: list[tuple[int, PackedValues, PackedValues, PackedTimestamps]] = pickle.loads(payload)
    return [
        KeyedElements(step, with_one_nan(unpack_values(keys)), unpack_values(values), unpack_timestamps(timestamps))
        for step, keys, values, timestamps in packed
    ]


def pack_partials(partials: Partials) -> bytes:
    """Packs the partial accumulators of one step. Undone by :func:`unpack_partials`."""
    keys, values, starts, counts = map(list, partials)
    packed = (pack_values(keys), pack_values(values), array("q", starts).tobytes(), array("q", counts).tobytes())
    return pickle.dumps(packed, 5)


def unpack_partials(payload: bytes) -> Partials:
    """Returns the partial accumulators that :func:`pack_partials` was given."""
    keys, values, starts, counts = pickle.loads(payload)
    return Partials(
        with_one_nan(unpack_values(keys)),
        unpack_values(values),
        array("q", starts).tolist(),
        array("q", counts).tolist(),
    )


def dump_values(values: list[Any]) -> bytes:
    """Packs values for a sink or for the driver. Undone by :func:`load_values`."""
    return pickle.dumps(pack_values(values), 5)


def load_values(payload: bytes) -> Sequence[Any]:
    """Returns the values that :func:`dump_values` was given."""
    return unpack_values(pickle.loads(payload))
