"""The bases of the operators that run the windows of a step over columns, and what windows emit."""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from windrow.panes import ChangeKind
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.kernels.arrays import values_in
from windrow_spark.columnar.kernels.kernel import Kernel
from windrow_spark.columnar.kernels.row_aggregate import RowAggregate
from windrow_spark.columnar.rows.groups import encode_keys
from windrow_spark.columnar.rows.new_fields import NO_DEFAULTS, Defaults
from windrow_spark.columnar.step_operator import PagedOperator, S, StateRows, StepOperator, Times
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.columnar.windows.step_windows import Windows, assigned_slices

W = TypeVar("W", bound=Windows)

WORTH_IT: Final = 2
"""From this many elements for each key or session on, partial aggregation saves more than it costs."""


KINDS: Final = (ChangeKind.INSERT, ChangeKind.UPDATE_BEFORE, ChangeKind.UPDATE_AFTER)
INSERT, UPDATE_BEFORE, UPDATE_AFTER = range(3)
"""The indices of kinds of changes in ``KINDS``."""


@dataclass(frozen=True, slots=True)
class Fired:
    """Firings of windows, as columns side by side; times are in milliseconds."""

    keys: pa.Array
    starts: Ints  # of no meaning for the window of all time
    ends: Ints
    stamps: Ints  # the last timestamps of the windows, which the results carry
    results: pa.Array
    kinds: Ints | None = None  # indices of the kinds of changes in KINDS; None: results are no changes
    panes: pa.Array | None = None  # the pane info of each result; None: the step does not ask for it

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, start: int, count: int) -> Fired:
        """Returns up to ``count`` firings, from number ``start`` on."""
        part = slice(start, start + count)
        kinds = None if self.kinds is None else self.kinds[part]
        panes = None if self.panes is None else self.panes[part]
        columns = self.keys[part], self.starts[part], self.ends[part], self.stamps[part], self.results[part]
        return Fired(*columns, kinds, panes)

    def portions(self, values: int) -> Iterator[Fired]:
        """Yields firings in portions: those whose results have no more than some values together, or a single one."""
        totals = np.cumsum(values_in(self.results))
        start = before = 0
        while start < len(self):
            end = max(start + 1, int(np.searchsorted(totals, before + values, "right")))
            yield self.slice(start, end - start)
            start, before = end, int(totals[end - 1])


def fired_windows(
    slices: Slices,
    keys: pa.Array,
    starts: Ints,
    results: pa.Array,
    kinds: Ints | None = None,
    panes: pa.Array | None = None,
) -> Fired:
    """Returns firings of windows, given by their starts."""
    return Fired(keys, slices.starts(starts), slices.ends(starts), slices.last_times(starts), results, kinds, panes)


class KeptWindows(NamedTuple):
    """Windows with what the aggregate holds of their elements, as columns side by side; times are in milliseconds."""

    keys: pa.Array
    starts: Ints
    ends: Ints
    states: Sequence[pa.Array]  # the columns of the kernel


class PartialAggregation(enum.Enum):
    """Which elements of a step are partially aggregated before the exchange."""

    NONE = enum.auto()
    ALL = enum.auto()  # no late element has to cross by itself; those that are aggregated together keep their order
    ON_TIME = enum.auto()  # those that are neither late nor fire windows again: others cross one by one


BY_ARRIVAL: Final = PartialAggregation.NONE, "the result depends on the order of arrival"

Crossing: TypeAlias = tuple[bool, pa.RecordBatch]
"""Rows that cross the exchange, and whether they are partial aggregates."""


@dataclass(frozen=True, slots=True)
class StepTraits:
    """Facts of a step, beside its windows and its aggregate, on which its operator depends."""

    late_leave: bool = False  # whether a side output takes late elements
    has_timers: bool = False  # whether timers upstream of the step may emit elements
    row_aggregate: RowAggregate | None = None  # adds late elements one by one; None: none fires a window again
    holds_elements: bool = False  # whether windows hold their elements for a window function
    defaults: Defaults = NO_DEFAULTS  # those of the fields of elements, which stored ones may lack


@dataclass(frozen=True)
class ColumnOperator(StepOperator[S, Fired], Generic[W, S]):
    """Runs the windows of a step over columns, on some keys at a time."""

    windows: W
    kernel: Kernel
    key_type: pa.DataType
    traits: StepTraits = StepTraits()

    window_columns: ClassVar[Sequence[str]]  # the state columns between the key and those of the kernel

    @property
    def defaults(self) -> Defaults:
        return self.traits.defaults

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of state: the key, those that describe the window, and the kernel's."""
        fields = [pa.field("key", self.key_type), *[pa.field(name, pa.int64()) for name in self.window_columns]]
        fields += [pa.field(f"s{index}", kind) for index, kind in enumerate(self.kernel.state_types)]
        return pa.schema(fields)

    @cached_property
    def partial_schema(self) -> pa.Schema:
        """The columns of partial aggregates: those of state, and the number of elements in each."""
        return pa.schema([*self.schema, pa.field("elements", pa.int64())])

    @property
    @abstractmethod
    def partial_aggregation(self) -> tuple[PartialAggregation, str]:
        """Which elements are partially aggregated before the exchange, and why the others are not."""

    @property
    def why_late_cross(self) -> str:
        """Why late elements cross the exchange one by one; empty if they need not."""
        if self.windows.lateness:
            return "each late element fires its window"
        return "late elements leave one by one" if self.traits.late_leave else ""

    def prepare(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[Crossing]:
        """Aggregates elements partially before the exchange where that is allowed and worth it.

        The watermark is at most the bound when the elements arrive; None: no bound is known.
        """
        aggregation, _ = self.partial_aggregation
        if aggregation is PartialAggregation.NONE or (aggregation is PartialAggregation.ON_TIME and bound is None):
            return iter([(False, rows)])
        return self._prepare(rows, None if aggregation is PartialAggregation.ALL else bound)

    def _prepare(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[Crossing]:
        """Aggregates elements partially, except those that may not be on time under the bound; None: all of them."""
        raise NotImplementedError("this operator aggregates no elements before the exchange")

    def may_be_late(self, stamps: Ints, bound: int | None) -> Mask:
        """Marks the elements that may be late when they arrive, under a watermark that is not above a bound."""
        slices = assigned_slices(self.windows)
        if slices is None or bound is None:
            return np.ones(len(stamps), np.bool_)
        return slices.expired(slices.slices_of(stamps), bound)

    @property
    def needs_arrival(self) -> bool:
        """Returns whether results depend on the order in which elements arrive."""
        return self.kernel.ordered or self.kernel.is_numbered

    @property
    def counts_windows(self) -> bool:
        """Returns whether the state has a row for each window that is open."""
        return True

    def describe(self) -> str:
        """Tells how its windows fire, for ``explain()``; nothing if at their end."""
        return ""

    def kept_windows(self, rows: pa.RecordBatch, watermark: int) -> Iterator[KeptWindows]:
        """Yields the windows that all rows of some keys stand for: those that a watermark has not cleaned up.

        Raises:
            DeclinedError: If the rows do not tell which windows there are.
        """
        raise DeclinedError("it keeps runs of elements instead of windows")

    def rows(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Builds rows of state from their columns."""
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def inputs_of(self, elements: pa.RecordBatch) -> tuple[pa.Array, Ints, Sequence[pa.Array]]:
        """Returns the keys of elements, their timestamps, and the columns that the kernel takes."""
        keys, stamps, *columns = elements.columns
        return keys, stamps.to_numpy(), columns[: len(self.kernel.inputs)]


def are_few(rows: pa.RecordBatch) -> bool:
    """Returns whether elements are so few for each key that partial aggregation would not be worth it."""
    return bool(rows.num_rows < WORTH_IT * len(encode_keys(rows.column(0)).distinct))


def on_time_apart(slices: Slices, rows: pa.RecordBatch, bound: int | None) -> Generator[Crossing, None, pa.RecordBatch]:
    """Yields the elements that may not be on time under the bound, to cross one by one; returns the others."""
    if bound is None:
        return rows
    on_time = slices.on_time(bound, slices.slices_of(rows.column(1).to_numpy()))
    if on_time.all():
        return rows
    yield False, rows.filter(pa.array(~on_time))
    return rows.filter(pa.array(on_time))


def waiting_in(rows: pa.RecordBatch) -> int:
    """Returns the number of elements in rows of a counting kernel."""
    return int(np.asarray(rows.column(-1)).sum())


class KeyedRowsOperator(ColumnOperator[W, StateRows], PagedOperator[Fired]):
    """The base of operators of windows whose state is rows that lie in pages by key."""

    @property
    def by_clock(self) -> bool:
        return self.windows.by_clock

    def check(self, rows: pa.RecordBatch) -> None:
        if any(rows.column(name).null_count for name in self.window_columns):
            raise damaged_state("a row of state has no place in time")

    def next_times(self, rows: pa.RecordBatch, times: Times) -> tuple[int | None, int | None]:
        if self.windows.by_clock:
            # Elements that still wait are counted when the stream ends.
            end = None if times.watermark == MAX_TIMESTAMP else MAX_TIMESTAMP
            return end, self.next_time(times.now, rows)
        return self.next_time(times.watermark, rows), self.next_by_clock(rows)

    @abstractmethod
    def next_time(self, time: int, rows: pa.RecordBatch) -> int:
        """Returns the earliest time after ``time`` at which a row is due; MAX_TIMESTAMP: never."""

    def next_by_clock(self, rows: pa.RecordBatch) -> int | None:
        """Returns when a row is due in processing time, in a step that runs by the watermark; None: never."""
        return None
