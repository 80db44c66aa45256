"""The base of the operators that run a step over columns, and what they emit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Generic, TypeVar

import pyarrow as pa

from windrow.panes import ChangeKind
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.columnar import Ints
from windrow_runtime.columnar.kernels.kernel import Kernel
from windrow_runtime.columnar.windows.geometry import Tiles
from windrow_runtime.columnar.windows.kinds import Counted, Sessions, Timed
from windrow_runtime.columnar.windows.pane_rules import Paned

W = TypeVar("W", Tiles, Sessions, Counted, Timed, Paned)


@dataclass(frozen=True)
class ColumnOperator(Generic[W]):
    """Runs a step over columns, on some keys at a time."""

    windows: W
    kernel: Kernel
    key_type: pa.DataType

    window_columns: ClassVar[Sequence[str]]  # columns of state, between the key and those of the kernel

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of state: key, what is known of the window, and the kernel's."""
        fields = [pa.field("key", self.key_type), *[pa.field(name, pa.int64()) for name in self.window_columns]]
        fields += [pa.field(f"s{place}", kind) for place, kind in enumerate(self.kernel.state_types)]
        return pa.schema(fields)

    @cached_property
    def folded_schema(self) -> pa.Schema:
        """The columns of elements that were folded before the exchange: those of state, and how many there were."""
        return pa.schema([*self.schema, pa.field("elements", pa.int64())])

    def check(self, rows: pa.RecordBatch) -> None:
        """Raises a CheckpointError if rows that were stored are none of this step."""
        if any(rows.column(name).null_count for name in self.window_columns):
            raise damaged_state("a row of state has no place in time")

    def rows(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Rows of state of their columns."""
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


KINDS: Final = (ChangeKind.INSERT, ChangeKind.UPDATE_BEFORE, ChangeKind.UPDATE_AFTER)
INSERT, UPDATE_BEFORE, UPDATE_AFTER = range(3)
"""The places of kinds among them."""


@dataclass(frozen=True, slots=True)
class Fired:
    """Windows that fired, as columns side by side; in milliseconds."""

    keys: pa.Array
    starts: Ints  # of no meaning for the window of all time
    ends: Ints
    stamps: Ints  # the last timestamps of the windows, which the results carry
    results: pa.Array
    kinds: Ints | None = None  # the places of the kinds of changes among KINDS; None: these are no changes
    panes: pa.Array | None = None  # where they stand among the panes of their windows; None: nobody asks

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, start: int, count: int) -> Fired:
        """Up to ``count`` of them that follow each other."""
        some = slice(start, start + count)
        kinds = None if self.kinds is None else self.kinds[some]
        panes = None if self.panes is None else self.panes[some]
        columns = self.keys[some], self.starts[some], self.ends[some], self.stamps[some], self.results[some]
        return Fired(*columns, kinds, panes)
