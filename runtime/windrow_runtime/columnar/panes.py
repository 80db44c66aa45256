"""Tumbling and sliding windows, and the window of all time, over columns.

State is a row for each key and pane, with what the aggregate holds of the pane's elements. When the watermark reaches
the end of windows, the rows of their panes are merged by key, and leave as columns. Rows of one key and pane may lie in
several chunks; they are merged where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow.errors import UnsupportedOperationError
from windrow_runtime.columnar.chunks import Chunks, Measure
from windrow_runtime.columnar.geometry import FARTHEST, Panes
from windrow_runtime.columnar.grouping import Cells, cells_of, encode_keys
from windrow_runtime.columnar.kernels import Kernel
from windrow_runtime.columnar.outcome import Fired

__all__ = ["Held", "PaneOperator", "check_stamps", "concatenated", "no_rows", "panes_in"]

# Any in this module: pyarrow has no types.

Ints: TypeAlias = npt.NDArray[np.int64]

_ROWS_AT_ONCE: Final = 2_000_000
"""So many rows are merged at a time when windows fire; a sliding window has a row for each pane and key in it."""


@dataclass(frozen=True)
class PaneOperator:
    """Runs a step on one key group at a time.

    Attributes:
        windows: The windows.
        kernel: The aggregate.
        key_type: The Arrow type of keys.
    """

    windows: Panes
    kernel: Kernel
    key_type: Any

    @cached_property
    def schema(self) -> Any:
        """The columns of state: key, pane, and the kernel's."""
        import pyarrow as pa

        fields = [pa.field("key", self.key_type), pa.field("pane", pa.int64())]
        fields += [pa.field(f"s{place}", kind) for place, kind in enumerate(self.kernel.state_types)]
        return pa.schema(fields)

    # Elements

    def fold(self, keys: Any, stamps: Ints, inputs: Sequence[Any]) -> tuple[Any, Ints]:
        """One row of state for each key and pane among elements, and how many elements each stands for.

        Args:
            keys: The keys, an Arrow array.
            stamps: The timestamps in milliseconds.
            inputs: The columns that the kernel asks for.
        """
        check_stamps(stamps)
        encoded = encode_keys(keys)
        cells = cells_of(encoded.codes, len(encoded.distinct), self.windows.panes_of(stamps))
        return self._rows(
            cells, encoded.distinct, self.kernel.partial(cells.groups, inputs)
        ), cells.groups.sizes

    def _rows(self, cells: Cells, distinct: Any, states: Sequence[Any]) -> Any:
        import pyarrow as pa

        columns = [distinct.take(pa.array(cells.codes)), pa.array(cells.places), *states]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def merged(self, rows: Any) -> Any:
        """The same state with one row for each key and pane."""
        if not rows.num_rows:
            return rows
        encoded = encode_keys(rows.column(0))
        cells = cells_of(encoded.codes, len(encoded.distinct), panes_in(rows))
        if cells.count == rows.num_rows:
            return rows
        return self._rows(cells, encoded.distinct, self.kernel.merge(cells.groups, rows.columns[2:]))

    # A batch

    def measure(self, watermark: int) -> Any:
        """What entries of chunks say of rows, under a watermark."""

        def of(rows: Any) -> Measure:
            panes = panes_in(rows)
            found = np.unique(panes)
            due = int(self.windows.next_times(found, watermark).min())
            return Measure(due, int(found[0]), int(found[-1]))

        return of

    def advance(self, chunks: Chunks, previous: int, watermark: int) -> Iterator[Fired]:
        """Fires the windows whose end lies behind the previous watermark and not behind this one.

        Args:
            chunks: The state.
            previous: The watermark so far, in milliseconds.
            watermark: The new one.
        """
        import pyarrow as pa

        due: list[Any] = []
        for entry, rows in chunks.read(lambda entry: entry.due <= watermark):
            due.append(rows)
            kept = rows.filter(pa.array(~self.windows.gone(panes_in(rows), watermark)))
            if 2 * kept.num_rows <= rows.num_rows:
                chunks.replace(entry, kept)
            else:
                chunks.note(entry, kept)
        if chunks.tail and chunks.tail_due <= watermark:
            rows = chunks.read_tail()
            due.append(rows)
            chunks.put_tail(rows.filter(pa.array(~self.windows.gone(panes_in(rows), watermark))))
        if due:
            yield from self.fire(concatenated(due), previous, watermark)

    def add(self, chunks: Chunks, batches: Sequence[Any]) -> None:
        """Takes rows of state for windows that the watermark has not cleaned up."""
        chunks.put_tail(self.merged(concatenated([chunks.read_tail(), *batches])))

    def fire(self, rows: Any, previous: int, watermark: int) -> Iterator[Fired]:
        """The results of the windows with an end behind one watermark and not behind the other."""
        ends = self.windows.last_times
        for held in self._held(rows, lambda starts: (ends(starts) > previous) & (ends(starts) <= watermark)):
            yield Fired(
                keys=held.keys,
                starts=held.starts,
                ends=held.starts + self.windows.size,
                stamps=ends(held.starts),
                results=self.kernel.results(held.states),
            )

    def states_of(self, rows: Any, starts: Ints) -> Iterator[Held]:
        """What rows of state hold of some windows, by their starts."""
        return self._held(rows, lambda found: np.isin(found, starts))

    def _held(self, rows: Any, wanted: Callable[[Ints], npt.NDArray[np.bool_]]) -> Iterator[Held]:
        panes, ranks = np.unique(panes_in(rows), return_inverse=True)
        places, starts = self.windows.windows(panes)
        chosen_windows = wanted(starts)
        places, starts = places[chosen_windows], starts[chosen_windows]
        if not len(places):
            return
        counts = np.bincount(ranks, minlength=len(panes))
        order = np.argsort(starts, kind="stable")
        places, starts = places[order], starts[order]
        encoded = encode_keys(rows.column(0))
        by_pane = np.argsort(ranks, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(counts)])
        for low, high in self._portions(starts, counts[places]):
            pieces = [by_pane[bounds[place] : bounds[place + 1]] for place in places[low:high]]
            chosen, owners = np.concatenate(pieces), np.repeat(starts[low:high], list(map(len, pieces)))
            yield self._merged_rows(rows, encoded.codes[chosen], encoded.distinct, chosen, owners)

    def _portions(self, starts: Ints, sizes: Ints) -> Iterator[tuple[int, int]]:
        """Runs of panes that are merged together: all panes of a window are in one run."""
        low = total = 0
        for place, size in enumerate(sizes.tolist()):
            if place > low and total + size > _ROWS_AT_ONCE and starts[place] != starts[place - 1]:
                yield low, place
                low, total = place, 0
            total += size
        yield low, len(starts)

    def _merged_rows(self, rows: Any, codes: Ints, distinct: Any, chosen: Ints, owners: Ints) -> Held:
        import pyarrow as pa

        cells = cells_of(codes, len(distinct), owners)
        columns = rows.columns[2:]
        if cells.count == len(chosen):
            # Each key has one row in each window: they only have to stand in order.
            place = np.empty(len(chosen), np.int64)
            place[cells.groups.ids] = chosen
            states = [column.take(pa.array(place)) for column in columns]
        else:
            if len(chosen) != rows.num_rows or not np.array_equal(chosen, np.arange(len(chosen))):
                columns = [column.take(pa.array(chosen)) for column in columns]
            states = self.kernel.merge(cells.groups, columns)
        return Held(distinct.take(pa.array(cells.codes)), cells.places, states)


@dataclass(frozen=True, slots=True)
class Held:
    """What the state holds of windows, side by side.

    Attributes:
        keys: The keys, an Arrow array.
        starts: The starts of the windows, in milliseconds.
        states: The columns of the kernel.
    """

    keys: Any
    starts: Ints
    states: Sequence[Any]


def panes_in(rows: Any) -> Ints:
    """The panes of rows of state."""
    panes: Ints = rows.column(1).to_numpy()
    return panes


def concatenated(batches: Sequence[Any]) -> Any:
    """Record batches as one."""
    import pyarrow as pa

    filled = [batch for batch in batches if batch.num_rows]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        return batches[0]
    return pa.Table.from_batches(filled).combine_chunks().to_batches()[0]


def no_rows(schema: Any) -> Any:
    """A record batch of these columns with nothing in it."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema)


def check_stamps(stamps: Ints) -> None:
    """Refuse timestamps with which arithmetic would leave 64 bits.

    Raises:
        UnsupportedOperationError: For one beyond 73 million years.
    """
    if len(stamps) and (stamps.max() > FARTHEST or stamps.min() < -FARTHEST):
        far = stamps.max() if stamps.max() > FARTHEST else stamps.min()
        raise UnsupportedOperationError(
            "a timestamp is too far away for columns",
            given=f"{far} ms",
            expected=f"at most {FARTHEST} ms from 1970",
            hint="SparkRunner(columnar=False) runs such elements one by one",
        )
