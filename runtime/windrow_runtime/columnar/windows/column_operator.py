"""The base of the operators that run a step over columns, and what they emit."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from windrow.panes import ChangeKind
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.columnar import Ints
from windrow_runtime.columnar.kernels.kernel import Kernel
from windrow_runtime.columnar.windows.geometry import Slices
from windrow_runtime.columnar.windows.kinds import Counted, Sessions, Timed
from windrow_runtime.columnar.windows.pane_rules import Paned

F = TypeVar("F")
W = TypeVar("W", Slices, Sessions, Counted, Timed, Paned)


class PartialAggregation(enum.Enum):
    """Which elements of a step are partially aggregated before the exchange."""

    NONE = enum.auto()
    ALL = enum.auto()  # nobody asks for late ones; those that are aggregated together keep their order
    ON_TIME = enum.auto()  # those that are neither late nor fire windows again: others cross one by one


BY_ARRIVAL: Final = PartialAggregation.NONE, "the result depends on the order of arrival"


@dataclass(frozen=True)
class ColumnOperator(ABC, Generic[W]):
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
    def partial_schema(self) -> pa.Schema:
        """The columns of partial aggregates: those of state, and the number of elements in each."""
        return pa.schema([*self.schema, pa.field("elements", pa.int64())])

    @abstractmethod
    def partial_aggregation(self, late: str, *, has_timers: bool) -> tuple[PartialAggregation, str]:
        """Which elements are partially aggregated before the exchange, and why none of the others.

        Args:
            late: Why late elements cross one by one; empty if they need not.
            has_timers: Whether timers in front of the step may emit elements.
        """

    @property
    def needs_arrival(self) -> bool:
        """Returns whether results depend on the order in which elements arrive."""
        return self.kernel.ordered or self.kernel.is_numbered

    @property
    def counts_windows(self) -> bool:
        """Returns whether the state has a row for each window that is open."""
        return True

    @property
    def adds_late_rows(self) -> bool:
        """Returns whether late elements are added one by one: columns would copy the state of a window for each."""
        return False

    def describe(self) -> str:
        """How its windows fire, for ``explain()``; nothing if at their end."""
        return ""

    def check(self, rows: pa.RecordBatch) -> None:
        """Raises a CheckpointError if rows that were stored are none of this step."""
        if any(rows.column(name).null_count for name in self.window_columns):
            raise damaged_state("a row of state has no place in time")

    def rows(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Rows of state of their columns."""
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def waiting_in(rows: pa.RecordBatch) -> int:
    """Returns the number of elements in rows of a counting kernel."""
    return int(np.asarray(rows.column(-1)).sum())


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


class Times(NamedTuple):
    """The times of a batch, in milliseconds."""

    watermark: int  # the clock for windows of processing time
    now: int


class PagedOperator(ABC, Generic[F]):
    """The base of operators whose state is rows that lie in pages by key.

    Attributes:
        unfired: How many elements were in windows that ended before a firing output them; whoever counts them sets it
            to zero.
    """

    unfired: int = 0
    schema: pa.Schema  # the columns of state, the key first

    @property
    def by_clock(self) -> bool:
        """Returns whether time is that of the clock."""
        return False

    @abstractmethod
    def check(self, rows: pa.RecordBatch) -> None:
        """Raises a CheckpointError if rows that were stored are none of this step."""

    @abstractmethod
    def advance(self, rows: pa.RecordBatch, before: int, times: Times) -> tuple[Iterable[F], pa.RecordBatch]:
        """Fires what is due when the time of the step advances; gives it in order, and the rows that are kept."""

    def count_unfired(self, rows: pa.RecordBatch) -> None:
        """Counts the elements that wait for the clock when the stream ends: no time passes any more."""

    def advance_clock(self, rows: pa.RecordBatch, times: Times) -> tuple[Iterable[F], pa.RecordBatch]:
        """Fires what waits for the clock beside the watermark."""
        return (), rows

    @abstractmethod
    def next_times(self, rows: pa.RecordBatch, times: Times) -> tuple[int | None, int | None]:
        """When some rows are due next by the watermark, and by the clock; None: never."""


class KeyedRowsOperator(ColumnOperator[W], PagedOperator[Fired]):
    """The base of operators of windows whose state is rows that lie in pages by key."""

    @property
    def by_clock(self) -> bool:
        return self.windows.by_clock

    def next_times(self, rows: pa.RecordBatch, times: Times) -> tuple[int | None, int | None]:
        if self.windows.by_clock:
            # What waits is counted when the stream ends.
            end = None if times.watermark == MAX_TIMESTAMP else MAX_TIMESTAMP
            return end, self.next_time(times.now, rows)
        return self.next_time(times.watermark, rows), self.next_by_clock(rows)

    @abstractmethod
    def next_time(self, time: int, rows: pa.RecordBatch) -> int:
        """The time of the windows at which the first of some rows is due next; the end of time if that is never."""

    def next_by_clock(self, rows: pa.RecordBatch) -> int | None:
        """The same by the clock, for what waits for it beside the watermark; None: nothing does."""
        return None
