"""Defines operators over columns: what they take and emit, and how they run a batch of a step on one key group.

An operator yields outputs, which whoever runs it takes one by one: nothing of a batch is held back. It changes the
state of some keys, a share of the key group, in place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP
from windrow_runtime.operators.errors import folded_behind
from windrow_runtime.operators.operator import FIRINGS_AT_ONCE
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.new_fields import NO_DEFAULTS, Defaults
from windrow_spark.columnar.state import KeyedRows, RowContents, RowPages
from windrow_spark.storage.group_record import PageStore, StepRecord
from windrow_spark.storage.tuning import PORTIONS, PortionTuning, StateTuning

# Any in this module: results are of every type.

FIRING: Final = 0
"""The phase of a batch in which outputs leave as time advances, before those of the batch's elements."""


class LateRows(NamedTuple):
    """Elements, or partial aggregates of elements, that are late: they leave by a side output or are dropped."""

    rows: pa.RecordBatch
    elements: int  # how many there are
    watermark: int


class PythonResults(NamedTuple):
    """Python values with timestamps, made one at a time, because each may hold all elements of a window."""

    stamped: Iterable[tuple[Any, int]]


class Increment(NamedTuple):
    """The increment of one of the step's counters."""

    counter: str
    by: int


F = TypeVar("F")
"""The type of results as columns side by side."""

S = TypeVar("S")
"""The type of the state of some keys."""

Output: TypeAlias = F | LateRows | PythonResults | Increment
"""What an operator emits."""


class Times(NamedTuple):
    """The times of a batch, in milliseconds."""

    watermark: int  # the clock for windows of processing time
    now: int


class ColumnsArrived(NamedTuple):
    """Elements that crossed the exchange as columns, some of them partially aggregated."""

    partial_rows: pa.RecordBatch
    elements: pa.RecordBatch  # those that came one by one
    arrival: Ints  # numbers the rows of both, partial aggregates first, in the order in which they came

    def where(self, mask: Mask) -> ColumnsArrived:
        """Keeps the rows that a mask over both marks."""
        partial_mask, element_mask = np.split(mask, [self.partial_rows.num_rows])
        partial_rows = self.partial_rows.filter(pa.array(partial_mask))
        return ColumnsArrived(partial_rows, self.elements.filter(pa.array(element_mask)), self.arrival[mask])


class BatchPart(NamedTuple):
    """A part of a batch: elements, and the watermark that advances right before them."""

    watermark: int
    arrived: ColumnsArrived
    place: int  # the phase of the batch in which outputs for the elements leave


class StepOperator(ABC, Generic[S, F]):
    """Runs a keyed step over columns, on the state of some keys at a time."""

    schema: pa.Schema  # the columns of state, the key first

    @property
    def defaults(self) -> Defaults:
        """Returns the defaults of fields that stored records may lack."""
        return NO_DEFAULTS

    @property
    def by_clock(self) -> bool:
        """Returns whether time is that of the clock."""
        return False

    @abstractmethod
    def shares(
        self, record: StepRecord, store: PageStore, keys: Sequence[pa.Array], times: Times, tuning: StateTuning
    ) -> Iterator[tuple[S, Mask | None]]:
        """Yields the state of a key group share by share, and stores each when the next one is asked for.

        The masks mark the keys of each share among those of the batch; None stands for all of them.
        """

    @abstractmethod
    def advance(self, state: S, before: int, times: Times) -> Iterator[Output[F]]:
        """Fires what is due, in order, when the time of the step advances, and cleans the state up."""

    def advance_clock(self, state: S, times: Times) -> Iterable[Output[F]]:
        """Fires what is due in processing time, in a step that runs by the watermark."""
        return ()

    @abstractmethod
    def add(self, state: S, arrived: ColumnsArrived, times: Times) -> Iterator[Output[F]]:
        """Adds elements to the state; emits late elements, and the results of windows that single elements fire."""

    def end_stream(self, state: S) -> Iterable[Output[F]]:
        """Counts the elements that wait for the clock when the stream ends: no time passes any more."""
        return ()

    def open_windows(self, state: S) -> int:
        """Returns the number of windows that a state holds, where it has a row for each."""
        return 0

    @abstractmethod
    def stored_rows(self, record: StepRecord, store: PageStore, tuning: StateTuning) -> Iterator[pa.RecordBatch]:
        """Yields all rows of the state of a key group, those of one key in their order, and changes nothing."""

    @abstractmethod
    def store_rows(
        self, record: StepRecord, store: PageStore, rows: Iterable[pa.RecordBatch], tuning: StateTuning, arrived: int
    ) -> None:
        """Stores rows that :meth:`stored_rows` gave as the state of a key group that has none yet.

        The record has the times at which the step last ran. ``arrived`` is the highest number that :meth:`arrived` has
        returned for any group of the rows.
        """

    def arrived(self, record: StepRecord) -> int:
        """Returns how many elements of a key group have numbers of their arrival in the state."""
        return 0


@dataclass(slots=True)
class StateRows:
    """The state of some keys as rows, which operators replace, and how many of them they work on at a time."""

    rows: pa.RecordBatch
    portions: PortionTuning = PORTIONS


class PagedOperator(StepOperator[StateRows, F]):
    """The base of operators whose state is rows that lie in pages by key."""

    def shares(
        self, record: StepRecord, store: PageStore, keys: Sequence[pa.Array], times: Times, tuning: StateTuning
    ) -> Iterator[tuple[StateRows, Mask | None]]:
        pages = self._pages(record, store, times, tuning)
        for share, mask in pages.shares(pa.concat_arrays(keys), *times):
            state = StateRows(pages.load(share).rows, tuning.portions)
            yield state, mask
            pages.save(share, KeyedRows(state.rows))
        pages.end_batch()

    def _pages(self, record: StepRecord, store: PageStore, times: Times, tuning: StateTuning) -> RowPages:
        contents = RowContents(self.schema, partial(self.next_times, times=times), self.check, self.defaults)
        return RowPages(record, contents, store, tuning.row_pages)

    def open_windows(self, state: StateRows) -> int:
        return len(state.rows)

    def stored_rows(self, record: StepRecord, store: PageStore, tuning: StateTuning) -> Iterator[pa.RecordBatch]:
        pages = self._pages(record, store, Times(record.watermark, record.now), tuning)
        return (keyed_rows.rows for keyed_rows in pages.portions())

    def store_rows(
        self, record: StepRecord, store: PageStore, rows: Iterable[pa.RecordBatch], tuning: StateTuning, arrived: int
    ) -> None:
        self._pages(record, store, Times(record.watermark, record.now), tuning).fill(map(KeyedRows, rows))

    @abstractmethod
    def check(self, rows: pa.RecordBatch) -> None:
        """Raises a CheckpointError if stored rows cannot be those of this step."""

    @abstractmethod
    def next_times(self, rows: pa.RecordBatch, times: Times) -> tuple[int | None, int | None]:
        """Returns when some rows are due next by the watermark, and in processing time; None: never."""


@dataclass
class StepBatch(Generic[S, F]):
    """Runs one batch of a step on one key group, whose record it changes."""

    operator: StepOperator[S, F]
    record: StepRecord
    store: PageStore
    parts: Sequence[BatchPart]
    now: int
    tuning: StateTuning
    watermark: int = 0  # the one under which the outputs are that were yielded last
    opened: int = 0  # how many more windows are open than before

    def run(self) -> Iterator[tuple[int, Iterable[Output[F]]]]:
        """Yields outputs and the phase in which they leave; take all of them before asking for more."""
        operator, record, times = self.operator, self.record, Times(self.parts[-1].watermark, self.now)
        keys = [rows.column(0) for part in self.parts for rows in part.arrived[:2]]
        for state, mask in operator.shares(record, self.store, keys, times, self.tuning):
            self.opened -= operator.open_windows(state)
            yield from self._run_share(state, mask)
            if operator.by_clock and record.watermark < times.watermark == MAX_TIMESTAMP:
                yield FIRING, operator.end_stream(state)
            self.opened += operator.open_windows(state)
        record.watermark, record.now = times

    def _run_share(self, state: S, mask: Mask | None) -> Iterator[tuple[int, Iterable[Output[F]]]]:
        operator, now, by_clock = self.operator, self.now, self.operator.by_clock
        before, start = (self.record.now if by_clock else self.record.watermark), 0
        for part in self.parts:
            times = Times(now if by_clock else part.watermark, now)
            self.watermark = times.watermark
            is_last = part is self.parts[-1]
            # The clock fires after what timers upstream emitted.
            if is_last or not by_clock:
                yield FIRING, operator.advance(state, before, times)
                before = times.watermark
            if is_last:
                yield FIRING, operator.advance_clock(state, times)
            end = start + len(part.arrived.arrival)
            arrived = part.arrived if mask is None else part.arrived.where(mask[start:end])
            start = end
            if len(arrived.arrival):
                yield part.place, operator.add(state, arrived, times)


def late_apart(
    rows: pa.RecordBatch, late: Mask, watermark: int, *, are_partial: bool = False
) -> Generator[LateRows, None, pa.RecordBatch]:
    """Emits the rows that are late, and returns the others."""
    if not late.any():
        return rows
    late_rows = rows.filter(pa.array(late))
    count = int(late_rows.columns[-1].to_numpy().sum()) if are_partial else late_rows.num_rows
    yield LateRows(late_rows, count, watermark)
    return rows.filter(pa.array(~late))


def check_on_time(on_time: Mask, watermark: int) -> None:
    """Refuses partial aggregates behind the watermark, whose elements have to cross the exchange one by one."""
    if not on_time.all():
        raise folded_behind(watermark)


def python_results(stamped: Iterator[tuple[Any, int]]) -> Iterator[PythonResults]:
    """Yields results in portions of at most as many as may wait before they leave the step; take all of each."""
    for first in stamped:
        yield PythonResults(chain((first,), islice(stamped, FIRINGS_AT_ONCE - 1)))
