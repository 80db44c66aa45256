"""Tumbling and sliding windows, and the window of all time, over columns.

State is a row for each key and pane, with what the aggregate holds of the pane's elements. When the watermark reaches
the end of windows, the rows of their panes are merged by key, and leave as columns. Rows of one key and pane may lie in
several chunks; they are merged where they are needed. Neither what is read nor what is merged at a time grows with the
state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow.errors import UnsupportedOperationError
from windrow_runtime.columnar.kernels import Kernel
from windrow_runtime.columnar.outcome import Fired
from windrow_runtime.columnar.rows.grouping import Cells, cells_of, encode_keys
from windrow_runtime.columnar.state.chunks import Chunks, Measure, concatenated
from windrow_runtime.columnar.state.due import DueRows
from windrow_runtime.columnar.state.pane_rows import Held, PaneRows, panes_in
from windrow_runtime.columnar.windows.geometry import FARTHEST, Panes
from windrow_runtime.storage.tuning import ChunkTuning

__all__ = ["PaneOperator", "check_stamps"]

# Any in this module: pyarrow has no types.

Ints: TypeAlias = npt.NDArray[np.int64]


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

    def fold(self, keys: Any, stamps: Ints, inputs: Sequence[Any], arrived: int = 0) -> tuple[Any, Ints]:
        """One row of state for each key and pane among elements, and how many elements each stands for.

        Args:
            keys: The keys, an Arrow array.
            stamps: The timestamps in milliseconds.
            inputs: The columns that the kernel asks for.
            arrived: How many elements have arrived before, where the kernel asks for numbers.
        """
        import pyarrow as pa

        check_stamps(stamps)
        if self.kernel.is_numbered:
            inputs = [*inputs, pa.array(np.arange(arrived, arrived + len(stamps)))]
        encoded = encode_keys(keys)
        cells = cells_of(encoded.codes, len(encoded.distinct), self.windows.numbers_of(stamps))
        return self._rows(
            cells, encoded.distinct, self.kernel.partial(cells.groups, inputs)
        ), cells.groups.sizes

    def _rows(self, cells: Cells, distinct: Any, states: Sequence[Any]) -> Any:
        import pyarrow as pa

        panes = self.windows.panes_at(cells.places)
        columns = [distinct.take(pa.array(cells.codes)), pa.array(panes), *states]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def merged(self, rows: Any) -> Any:
        """The same state with one row for each key and pane."""
        if not rows.num_rows:
            return rows
        encoded = encode_keys(rows.column(0))
        cells = cells_of(encoded.codes, len(encoded.distinct), self.windows.numbers_of(panes_in(rows)))
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

    def add_elements(self, chunks: Chunks, keys: Any, stamps: Ints, inputs: Sequence[Any]) -> None:
        """Takes elements for windows that the watermark has not cleaned up; their columns are those of ``fold``."""
        folded, _ = self.fold(keys, stamps, inputs, chunks.arrived)
        if self.kernel.is_numbered:
            chunks.arrived += len(stamps)
        self.add(chunks, [folded])

    def add(self, chunks: Chunks, batches: Sequence[Any]) -> None:
        """Takes rows of state for windows that the watermark has not cleaned up."""
        chunks.put_tail(self.merged(concatenated([chunks.read_tail(), *batches])))

    def _fire(self, rows: Any, previous: int, watermark: int, tuning: ChunkTuning) -> Iterator[Fired]:
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

    def states_of(self, rows: Any, starts: Ints, tuning: ChunkTuning) -> Iterator[Held]:
        """What rows of state hold of some windows, by their starts, which ascend."""
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
