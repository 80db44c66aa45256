"""Tumbling and sliding windows, and the window of all time, over columns.

State is a row for each key and pane, with what the aggregate holds of the pane's elements. When the watermark reaches
the end of windows, the rows of their panes are merged by key, and leave as columns. Rows of one key and pane may lie in
several chunks; they are merged where they are needed. Neither what is read nor what is merged at a time grows with the
state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from windrow.errors import UnsupportedOperationError
from windrow_runtime.columnar.array_types import Array, Ints, Rows
from windrow_runtime.columnar.rows.groups import Cells, cells_of, encode_keys
from windrow_runtime.columnar.state.chunks import Chunks, Measure, concatenated
from windrow_runtime.columnar.state.due import DueRows
from windrow_runtime.columnar.state.pane_rows import Held, PaneRows, panes_in
from windrow_runtime.columnar.windows.column_operator import ColumnOperator, Fired
from windrow_runtime.columnar.windows.geometry import FARTHEST, Panes
from windrow_runtime.storage.tuning import ChunkTuning


class PaneOperator(ColumnOperator[Panes]):
    """Runs a step on one key group at a time."""

    _places: ClassVar[Sequence[str]] = ("pane",)

    # Elements

    def fold(self, keys: Array, stamps: Ints, inputs: Sequence[Array], arrived: int = 0) -> tuple[Rows, Ints]:
        """One row of state for each key and pane among elements, and how many elements each stands for.

        Args:
            keys: The keys.
            stamps: The timestamps in milliseconds.
            inputs: The columns that the kernel asks for.
            arrived: How many elements have arrived before, where the kernel asks for numbers.
        """
        check_stamps(stamps)
        if self.kernel.is_numbered:
            inputs = [*inputs, pa.array(np.arange(arrived, arrived + len(stamps)))]
        encoded = encode_keys(keys)
        cells = cells_of(encoded.codes, len(encoded.distinct), self.windows.numbers_of(stamps))
        states = self.kernel.partial(cells.groups, inputs)
        return self._rows(cells, encoded.distinct, states), cells.groups.sizes

    def _rows(self, cells: Cells, distinct: Array, states: Sequence[Array]) -> Rows:
        panes = self.windows.panes_at(cells.places)
        columns = [distinct.take(pa.array(cells.codes)), pa.array(panes), *states]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def merged(self, rows: Rows) -> Rows:
        """The same state with one row for each key and pane."""
        if not rows.num_rows:
            return rows
        encoded = encode_keys(rows.column(0))
        cells = cells_of(encoded.codes, len(encoded.distinct), self.windows.numbers_of(panes_in(rows)))
        if cells.count == rows.num_rows:
            return rows
        return self._rows(cells, encoded.distinct, self.kernel.merge(cells.groups, rows.columns[2:]))

    # A batch

    def measure(self, watermark: int) -> Callable[[Rows], Measure]:
        """Measures rows for the entries of chunks, under a watermark."""

        def of(rows: Rows) -> Measure:
            panes = np.unique(panes_in(rows))
            due = int(self.windows.next_times(panes, watermark).min())
            return Measure(due, int(panes[0]), int(panes[-1]))

        return of

    def advance(self, chunks: Chunks, previous: int, watermark: int) -> Iterator[Fired]:
        """Fires the windows whose end lies behind the previous watermark and not behind this one."""
        windows = self.windows
        due = DueRows(
            chunks,
            watermark,
            fires=lambda entry: windows.any_ends(entry.first, entry.last, previous, watermark),
            gone=lambda rows: windows.gone(panes_in(rows), watermark),
        )
        for rows in due.parts():
            yield from self._fire(rows, previous, watermark, chunks.tuning)
            del rows  # not beside those of the next part

    def add_elements(self, chunks: Chunks, keys: Array, stamps: Ints, inputs: Sequence[Array]) -> None:
        """Takes elements for windows that the watermark has not cleaned up; their columns are those of ``fold``."""
        folded, _ = self.fold(keys, stamps, inputs, chunks.arrived)
        if self.kernel.is_numbered:
            chunks.arrived += len(stamps)
        self.add(chunks, [folded])

    def add(self, chunks: Chunks, batches: Sequence[Rows]) -> None:
        """Takes rows of state for windows that the watermark has not cleaned up."""
        chunks.put_tail(self.merged(concatenated([chunks.read_tail(), *batches])))

    def _fire(self, rows: Rows, previous: int, watermark: int, tuning: ChunkTuning) -> Iterator[Fired]:
        """The results of the windows with an end behind one watermark and not behind the other."""
        held = PaneRows(self.windows, self.kernel, rows, tuning)
        for found in held.held_by(self.windows.ending(held.panes, previous, watermark)):
            yield Fired(
                keys=found.keys,
                starts=found.starts,
                ends=found.starts + self.windows.size,
                stamps=self.windows.last_times(found.starts),
                results=self.kernel.results(found.states),
            )

    def states_of(self, rows: Rows, starts: Ints, tuning: ChunkTuning) -> Iterator[Held]:
        """The states of some windows, by their starts, which ascend, in rows of state."""
        return PaneRows(self.windows, self.kernel, rows, tuning).held_by([starts])


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
