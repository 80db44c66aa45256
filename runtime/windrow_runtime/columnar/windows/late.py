"""Fires windows again for elements that come behind the watermark, over columns.

A keyed window is a key and a window that has ended and is kept. Each of its late elements fires it, with all that it
holds by then: what the state has, and the late elements up to this one. So the states of a keyed window's elements are
merged with all before them, for all keyed windows at once::

    keyed window   held  late elements of a batch
    a              {9}   1      4        2
    merged               {9 1}  {9 1 4}  {9 1 4 2}    each is the result of one firing
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from windrow.time import MIN_TIMESTAMP
from windrow_runtime.columnar import Ints
from windrow_runtime.columnar.rows.groups import Groups, Keys, cells_of, encode_keys, is_among
from windrow_runtime.columnar.state import Chunks, concatenated, no_rows
from windrow_runtime.columnar.windows.column_operator import Fired
from windrow_runtime.columnar.windows.slices import Held, SliceOperator, SliceRows, slices_in

_FIRINGS_AT_ONCE: Final = 1 << 17


def fire_late(
    operator: SliceOperator, chunks: Chunks, keys: pa.Array, slices: Ints, inputs: Sequence[pa.Array], watermark: int
) -> Iterator[Fired]:
    """The windows that fire for elements, in order of the elements, which are not yet in the state.

    Of each element the later windows come first, as they are assigned. Windows that purge hold nothing else by then.
    """
    windows, kernel = operator.windows, operator.kernel
    cleaned = max(watermark - windows.lateness, MIN_TIMESTAMP)
    places, starts = windows.windows(slices, cleaned, watermark)
    if not len(places):
        return
    late, of_late = np.unique(places, return_inverse=True)
    taken = pa.array(late)
    keys, given = keys.take(taken), [column.take(taken) for column in inputs]
    if kernel.is_numbered:
        given.append(pa.array(late + chunks.arrived))
    states = kernel.partial(Groups(np.arange(len(late)), len(late)), given)
    held = None if windows.purges else held_by_windows(operator, chunks, encode_keys(keys).distinct, starts)
    for begin in range(0, len(starts), _FIRINGS_AT_ONCE):
        some = slice(begin, begin + _FIRINGS_AT_ONCE)
        rows = pa.array(of_late[some])
        fresh = keys.take(rows), starts[some], [column.take(rows) for column in states]
        if held is None:
            results = kernel.results(fresh[2])
            yield Fired(fresh[0], fresh[1], fresh[1] + windows.size, windows.last_times(fresh[1]), results)
            continue
        fired, held = _fired(operator, held, fresh)
        yield fired


def _fired(operator: SliceOperator, held: Held, late: Held) -> tuple[Fired, Held]:
    """Returns what fires for late elements, a row for each element and window, and what keyed windows hold then."""
    windows, kernel, known = operator.windows, operator.kernel, len(held[1])
    encoded = encode_keys(pa.concat_arrays([held[0], late[0]]))
    starts = np.concatenate([held[1], late[1]])
    cells = cells_of(Keys(encoded.codes, encoded.distinct), (starts - windows.offset) // windows.slide)
    keyed_windows = cells.groups
    # In each keyed window the row of what it holds comes first.
    order = keyed_windows.order
    both = [pa.concat_arrays(pair).take(pa.array(order)) for pair in zip(held[2], late[2], strict=True)]
    merged = kernel.running(both, keyed_windows.starts[keyed_windows.ids[order]])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    firing = pa.array(place[known:])
    results = kernel.results([column.take(firing) for column in merged])
    fired = Fired(late[0], late[1], late[1] + windows.size, windows.last_times(late[1]), results)
    newest = pa.array(keyed_windows.starts + keyed_windows.sizes - 1)
    own = encoded.distinct.take(pa.array(cells.codes))
    places = cells.places * windows.slide + windows.offset
    return fired, (own, places, [column.take(newest) for column in merged])


def held_by_windows(operator: SliceOperator, chunks: Chunks, keys: pa.Array, starts: Ints) -> Held:
    """What the state has of the windows that fire."""
    windows, distinct = operator.windows, np.unique(starts)
    low, high = int(distinct[0]), int(distinct[-1]) + windows.size
    parts: list[pa.RecordBatch] = []
    in_chunks = chunks.read(lambda entry: entry.first < high and entry.last >= low)
    for rows in [*(rows for _, rows in in_chunks), chunks.read_tail()]:
        slices = slices_in(rows)
        near = (slices >= low) & (slices < high)
        if windows.windows_each == 1:
            near &= np.isin(slices, distinct)
        in_time = rows.filter(pa.array(near))
        parts.append(in_time.filter(pa.array(is_among(in_time.column(0), keys))))
    rows = concatenated([no_rows(operator.schema), *parts])
    found = list(SliceRows(operator, rows, chunks.tuning).held_by([distinct])) if rows.num_rows else []
    if not found:
        # There may be rows between windows that are far apart.
        none = no_rows(operator.schema)
        return none.column(0), np.zeros(0, np.int64), none.columns[2:]
    of_keys, of_starts, states = zip(*found, strict=True)
    return pa.concat_arrays(of_keys), np.concatenate(of_starts), list(map(pa.concat_arrays, zip(*states, strict=True)))
