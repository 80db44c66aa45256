"""Fires windows again for elements that come after their end, within the allowed lateness.

A keyed window is a key and a window that has ended and is kept. Each of its late elements fires it, with all that it
holds by then: what the state has, and the late elements up to this one. On columns, the states of a keyed window's
elements are merged with all before them, for all keyed windows at once::

    keyed window   stored  late elements of a batch
    a              {9}     1      4        2
    merged                 {9 1}  {9 1 4}  {9 1 4 2}    each is the result of one firing

That copies a state for each firing. Where states are large, and in sessions, elements are added one by one in Python.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from windrow.time import MIN_TIMESTAMP
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.kernels.kernel import Kernel
from windrow_spark.columnar.kernels.row_aggregate import RowAggregate, Stamped
from windrow_spark.columnar.rows.columns import python_values
from windrow_spark.columnar.rows.groups import Groups, Keys, cells_of, encode_keys, is_among
from windrow_spark.columnar.state import Chunks, concatenated, no_rows
from windrow_spark.columnar.windows.column_operator import Fired, fired_windows
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.columnar.windows.session_places import Placed, TimeLine
from windrow_spark.columnar.windows.slice_rows import SliceRows, WindowStates, slices_in

# Any in this module: keys and accumulators are of every type.

_FIRINGS_AT_ONCE: Final = 1 << 17


def fire_late(
    windows: Slices,
    kernel: Kernel,
    chunks: Chunks,
    keys: pa.Array,
    slices: Ints,
    inputs: Sequence[pa.Array],
    watermark: int,
) -> Iterator[Fired]:
    """Fires windows for elements, in order of the elements, which are not yet in the state.

    Of each element the later windows come first, as they are assigned. Windows that purge hold nothing else by then.
    """
    places, starts = _windows_to_fire(windows, slices, watermark)
    if not len(places):
        return
    late, of_late = np.unique(places, return_inverse=True)
    late_places = pa.array(late)
    keys, columns = keys.take(late_places), [column.take(late_places) for column in inputs]
    if kernel.is_numbered:
        columns.append(pa.array(late + chunks.arrived))
    states = kernel.partial(Groups(np.arange(len(late)), len(late)), columns)
    stored: WindowStates | None = None
    if not windows.purges:
        stored = _stored_states(windows, kernel, chunks, encode_keys(keys).distinct, starts)
    for begin in range(0, len(starts), _FIRINGS_AT_ONCE):
        portion = slice(begin, begin + _FIRINGS_AT_ONCE)
        rows = pa.array(of_late[portion])
        fresh = keys.take(rows), starts[portion], [column.take(rows) for column in states]
        if stored is None:
            yield fired_windows(windows, *fresh[:2], kernel.results(fresh[2]))
            continue
        results, stored = _merged_one_by_one(windows, kernel, stored, fresh)
        yield fired_windows(windows, *fresh[:2], results)


def _windows_to_fire(windows: Slices, slices: Ints, watermark: int) -> tuple[Ints, Ints]:
    """Pairs the index of each element with the starts of its windows that have ended but are not cleaned up yet."""
    return windows.windows(slices, max(watermark - windows.lateness, MIN_TIMESTAMP), watermark)


def _merged_one_by_one(
    windows: Slices, kernel: Kernel, stored: WindowStates, late: WindowStates
) -> tuple[pa.Array, WindowStates]:
    """Adds late elements, a row for each element and window, one by one to the states of keyed windows.

    Returns the result after each of them, and the states in the end.
    """
    stored_count = len(stored[1])
    encoded = encode_keys(pa.concat_arrays([stored[0], late[0]]))
    starts = np.concatenate([stored[1], late[1]])
    cells = cells_of(Keys(encoded.codes, encoded.distinct), windows.window_numbers(starts))
    keyed_windows = cells.groups
    # In each keyed window the row that is stored comes first.
    order = keyed_windows.order
    both = [pa.concat_arrays(pair).take(pa.array(order)) for pair in zip(stored[2], late[2], strict=True)]
    merged = kernel.running(both, keyed_windows.starts[keyed_windows.ids[order]])
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order))
    firing = pa.array(positions[stored_count:])
    results = kernel.results([column.take(firing) for column in merged])
    newest = pa.array(keyed_windows.starts + keyed_windows.sizes - 1)
    keys = encoded.distinct.take(pa.array(cells.codes))
    window_starts = windows.windows_at(cells.places)
    return results, (keys, window_starts, [column.take(newest) for column in merged])


def _stored_states(windows: Slices, kernel: Kernel, chunks: Chunks, keys: pa.Array, starts: Ints) -> WindowStates:
    """Reads from the state what it has of the windows that fire."""
    distinct = np.unique(starts)
    low, high = int(windows.starts(distinct[:1])[0]), int(windows.ends(distinct[-1:])[0])
    parts: list[pa.RecordBatch] = []
    in_chunks = chunks.read(lambda entry: entry.first < high and entry.last >= low)
    for rows in [*(rows for _, rows in in_chunks), chunks.read_tail()]:
        slices = slices_in(rows)
        near = (slices >= low) & (slices < high)
        if windows.windows_each == 1:
            near &= np.isin(slices, distinct)
        in_time = rows.filter(pa.array(near))
        parts.append(in_time.filter(pa.array(is_among(in_time.column(0), keys))))
    rows = concatenated([no_rows(chunks.schema), *parts])
    states = list(SliceRows(windows, kernel, rows, chunks.tuning).held_by([distinct])) if rows.num_rows else []
    if not states:
        # There may be rows between windows that are far apart.
        none = no_rows(chunks.schema)
        return none.column(0), np.zeros(0, np.int64), none.columns[2:]
    of_keys, of_starts, columns = zip(*states, strict=True)
    return pa.concat_arrays(of_keys), np.concatenate(of_starts), list(map(pa.concat_arrays, zip(*columns, strict=True)))


def fire_late_rows(
    windows: Slices,
    aggregate: RowAggregate,
    chunks: Chunks,
    keys: pa.Array,
    slices: Ints,
    inputs: Sequence[pa.Array],
    watermark: int,
) -> Iterator[Stamped]:
    """Yields the results of the windows that :func:`fire_late` fires; adds the late elements in Python."""
    function = aggregate.function
    places, starts = _windows_to_fire(windows, slices, watermark)
    if not len(places):
        return
    accumulators: dict[tuple[Any, int], Any] = {}
    if not windows.purges:
        distinct = encode_keys(keys.take(pa.array(places))).distinct
        stored_keys, stored_starts, states = _stored_states(windows, aggregate.kernel, chunks, distinct, starts)
        keyed_windows = zip(python_values(stored_keys), stored_starts.tolist(), strict=True)
        accumulators = dict(zip(keyed_windows, aggregate.accumulators(states), strict=True))
    key_values = python_values(keys)
    rows = aggregate.rows(inputs, len(key_values))
    # Of each element the later windows come first, as they are assigned.
    bounds = zip(windows.starts(starts).tolist(), windows.ends(starts).tolist(), strict=True)
    for index, start, (first, end) in zip(places.tolist(), starts.tolist(), bounds, strict=True):
        keyed_window = (key_values[index], start)
        accumulator = accumulators[keyed_window] if keyed_window in accumulators else function.create_accumulator()
        accumulator = function.add(rows[index], accumulator)
        if not windows.purges:
            accumulators[keyed_window] = accumulator
        yield aggregate.result(keyed_window[0], first, end, accumulator, rows[index])


def fire_late_sessions(
    aggregate: RowAggregate, sessions: pa.RecordBatch, placed: Placed, inputs: Sequence[pa.Array], watermark: int
) -> Iterator[Stamped]:
    """Yields the results of sessions that fire for elements, in order of the elements.

    The elements were placed among the sessions, and the kernel takes ``inputs`` from them. An element fires its session
    at once where that ends before the watermark, with all that is in it so far; where it ends after that, the session
    waits::

        gap 10, watermark 50, lateness 40
        kept          |5--------18|      |30--------45|  fired
        element at 14             fires [5, 24)
        element at 22                    fires [5, 45): both in one
        element at 44                                    [5, 54) waits for 53
    """
    ended = placed.ends - 1 <= watermark
    chosen = _where_elements_fire(placed, ended)
    if not chosen.any():
        return
    # Sessions that end after the watermark, or become part of one that does, never fire here: contents do not matter.
    counted = np.flatnonzero(chosen & ended)
    stored, elements = counted[counted < placed.known], counted[counted >= placed.known]
    states = [column.take(pa.array(stored)) for column in sessions.columns[3:]]
    columns = [column.take(pa.array(elements - placed.known)) for column in inputs]
    accumulators = dict(zip(stored.tolist(), aggregate.accumulators(states), strict=True))
    rows = dict(zip(elements.tolist(), aggregate.rows(columns, len(elements)), strict=True))
    function = aggregate.function
    keys = python_values(placed.keys.distinct)
    starts, ends = placed.starts.tolist(), placed.ends.tolist()
    # The sessions of each owner: when each was born, and its accumulator.
    lines: defaultdict[int, TimeLine[tuple[int, Any]]] = defaultdict(TimeLine)
    for row, owner in zip(np.flatnonzero(chosen).tolist(), placed.owners[chosen].tolist(), strict=True):
        line = lines[owner]
        start, end, touched = line.take(starts[row], ends[row])
        touched.sort(key=itemgetter(0))
        accumulator = None
        if row < placed.known:
            accumulator = accumulators.get(row)
        elif end - 1 <= watermark:
            parts = [part for _, part in touched]
            accumulator = reduce(function.merge, parts) if parts else function.create_accumulator()
            accumulator = function.add(rows[row], accumulator)
            yield aggregate.result(keys[placed.keys.codes[row]], start, end, accumulator, rows[row])
        line.put(start, end, (touched[0][0] if touched else row, accumulator))


def _where_elements_fire(placed: Placed, ended: Mask) -> Mask:
    """Marks the rows, late elements aside, of the sessions that an element may fire."""
    count = int(placed.owners.max(initial=-1)) + 1
    is_stored = np.arange(len(ended)) < placed.known
    # An element that touches a stored session that ends after the watermark waits with it.
    earliest = np.full(count, np.iinfo(np.int64).max)
    waiting = is_stored & ~ended
    np.minimum.at(earliest, placed.owners[waiting], placed.starts[waiting])
    fires = ~is_stored & placed.kept & ended & (placed.ends < earliest[placed.owners])
    have_firings = np.zeros(count, np.bool_)
    have_firings[placed.owners[fires]] = True
    return have_firings[placed.owners] & placed.kept
