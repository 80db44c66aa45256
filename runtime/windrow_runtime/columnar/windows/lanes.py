"""Lanes, which are pairs of a key and a window: each fires by itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.rows.groups import Keys, cells_of, encode_keys
from windrow_runtime.columnar.windows.geometry import FARTHEST, Panes, gone


class Lanes(NamedTuple):
    """The lanes of rows of state and of elements."""

    of_rows: Ints  # the lane of each row, and then of each element
    keys: pa.Array  # of lanes
    starts: Ints  # of their windows; of no meaning for the window of all time


def lanes_of(panes: Panes, rows: pa.RecordBatch, keys: pa.Array, starts: Ints) -> Lanes:
    """The lanes of rows of state, whose second column is the start of their window, and of elements."""
    encoded = encode_keys(pa.concat_arrays([rows.column(0), keys]))
    if panes.is_global:
        return Lanes(encoded.codes, encoded.distinct, np.zeros(len(encoded.distinct), np.int64))
    both = np.concatenate([rows.column(1).to_numpy(), starts])
    cells = cells_of(Keys(encoded.codes, encoded.distinct), (both - panes.offset) // panes.slide)
    own = encoded.distinct.take(pa.array(cells.codes))
    return Lanes(cells.groups.ids, own, cells.places * panes.slide + panes.offset)


def windows_for(panes: Panes, stamps: Ints, time: int) -> tuple[Ints, Ints]:
    """Places of elements, and the starts of the windows that they are in and that are kept: latest first.

    The time is that of the batch, by the watermark or by the clock, whatever the windows go by.
    """
    if panes.is_global:
        return np.arange(len(stamps)), np.zeros(len(stamps), np.int64)
    if panes.by_clock:
        # Windows whose last millisecond it is have fired in this batch; elements make new ones.
        return panes.windows(panes.panes_of(np.full(len(stamps), time)), time - 1, MAX_TIMESTAMP)
    kept = MIN_TIMESTAMP if panes.lateness >= FARTHEST else max(time - panes.lateness, MIN_TIMESTAMP)
    return panes.windows(panes.panes_of(stamps), kept, MAX_TIMESTAMP)


def late(panes: Panes, stamps: Ints, time: int) -> Mask:
    """Marks the elements that are in no window that is kept."""
    if panes.by_clock:
        return np.zeros(len(stamps), np.bool_)
    return panes.gone(panes.panes_of(stamps), time)


def cleaned(panes: Panes, starts: Ints, time: int) -> Mask:
    """Marks the windows that are cleaned up, by their starts."""
    if panes.is_global:
        return np.zeros(len(starts), np.bool_)
    return gone(panes.last_times(starts), panes.lateness, time)
