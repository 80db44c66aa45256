"""Takes the state of a step out of its key groups for a savepoint, and divides it among other key groups again.

State in columns goes into a savepoint as its rows. State in Python objects goes there as pages of whole keys, beside
rows that people read. Neither depends on which key groups, pages, chunks or segments there were.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from windrow.aggregates.combined import Combined
from windrow.plan import AggregateSpec, Step
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.state.model import NOTHING, OperatorState
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.forms.kept_objects import KeptForm, NoOutput, kept_objects
from windrow_spark.columnar.rows.groups import Groups, encode_keys
from windrow_spark.columnar.state import dump_rows, load_rows
from windrow_spark.exchange.classes import state_codec
from windrow_spark.savepoint.state_rows import STATE_ROWS, state_rows
from windrow_spark.storage.group_record import PageStore, StepRecord
from windrow_spark.storage.object_pages import KeyGroupDivision, ObjectPages, with_whole_lists
from windrow_spark.storage.page_codec import PageCodec, keys_in
from windrow_spark.storage.tuning import MEASURED, WHOLE_LISTS, StateTuning
from windrow_spark.storage.values import StateCodec

if TYPE_CHECKING:
    from windrow_runtime.operators.operator import OperatorOutput
    from windrow_spark.columnar.forms.result_type import OnColumns

# Any in this module: pyarrow has no types.

_ROWS_AT_ONCE: Final = 8_192
_KEYS_TOGETHER: Final = 2_000
"""The fewest keys of a page of a savepoint, if there are as many: smaller pages would be divided into tiny ones."""

PAGE: Final = "page"
"""The column with pages of objects. A page has the state of the keys of its row and of the rows up to the next page."""


class StepPart(ABC):
    """Takes the state of one step out of key groups, and puts it into others."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of a savepoint's files of the step."""

    @abstractmethod
    def rows(self, record: StepRecord, store: PageStore) -> Iterator[pa.RecordBatch]:
        """Yields the state of a key group as rows; what there is of one key is in its order."""

    def shared(self, record: StepRecord) -> bytes:
        """Returns what the record of a key group has of the step that belongs to no key."""
        return b""

    def arrived(self, record: StepRecord) -> int:
        """Returns how many elements of a key group have numbers of their arrival in the state."""
        return 0

    @abstractmethod
    def divided(self, file: pq.ParquetFile, groups: int) -> Iterator[tuple[int, bytes]]:
        """Divides what is in a file among key groups; yields the number of the group and the bytes of each part."""

    @abstractmethod
    def fill(self, record: StepRecord, store: PageStore, parts: Iterable[bytes], arrived: int) -> None:
        """Stores parts of one key group, in their order, as its state.

        The record has the times at which the step last ran, and what belongs to no key. ``arrived`` is the number of
        elements that may have numbers of their arrival.
        """


@dataclass(frozen=True)
class ColumnPart(StepPart):
    """Takes state in columns out of key groups as rows, and stores rows as the columns of others."""

    form: OnColumns
    tuning: StateTuning = MEASURED

    @cached_property
    def schema(self) -> pa.Schema:
        return self.form.operator.schema

    def rows(self, record: StepRecord, store: PageStore) -> Iterator[pa.RecordBatch]:
        return self.form.operator.stored_rows(record, store, self.tuning)

    def arrived(self, record: StepRecord) -> int:
        return self.form.operator.arrived(record)

    def divided(self, file: pq.ParquetFile, groups: int) -> Iterator[tuple[int, bytes]]:
        for batch in map(self._rows_now, file.iter_batches(_ROWS_AT_ONCE)):
            keys = encode_keys(batch.column(0))
            of_keys = (self.form.hash_keys(keys.distinct) % np.uint64(groups)).astype(np.int64)
            by_group = Groups(of_keys[keys.codes], groups)
            rows = batch.take(pa.array(by_group.order))
            for number in np.flatnonzero(by_group.sizes).tolist():
                yield number, dump_rows(rows.slice(by_group.starts[number], by_group.sizes[number]))

    def _rows_now(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Returns rows of a savepoint with the columns that the form has now."""
        return rows

    def fill(self, record: StepRecord, store: PageStore, parts: Iterable[bytes], arrived: int) -> None:
        operator = self.form.operator
        rows = (load_rows(part, operator.schema, operator.defaults) for part in parts)
        operator.store_rows(record, store, rows, self.tuning, arrived)


@dataclass(frozen=True)
class WidenedPart(ColumnPart):
    """Adds the columns of new aggregates to rows that a savepoint has: windows that are open hold nothing in them."""

    places: tuple[int | None, ...] = ()  # where each aggregate was among those of the savepoint; None: it is new

    def _rows_now(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        assert isinstance(self.form, ColumnarForm), "it has aggregates"
        return self.form.widened(rows, [place is not None for place in self.places])


@dataclass(frozen=True, slots=True)
class StepChange:
    """A change of a step since its savepoint.

    Attributes:
        places: Where each aggregate of a combination was; None: it is new. Without any, contents stay as they are.
        is_general: Whether windows become entries of their keys: the bounds of new windows are others.
    """

    places: tuple[int | None, ...] = ()
    is_general: bool = False

    def applied(self, step: Step, state: OperatorState) -> OperatorState:
        """Returns the state of a step after the change; the former one must not be used again."""
        if not self.places and not self.is_general:
            return state
        state = general(step, state)
        if self.places:
            node = step.node.windows
            assert node is not None, "a step with windows has aggregates"
            assert isinstance(node.function, AggregateSpec), "of these some are new"
            combined = node.function.aggregate
            assert isinstance(combined, Combined), "which are combined"
            for key_state in state.keys.values():
                for entry in key_state.windows.values():
                    if entry.contents is not NOTHING:
                        entry.contents = self._grown(combined, entry.contents)
        return state

    def _grown(self, combined: Combined[Any, Any, Any, Any], accumulators: Sequence[Any]) -> tuple[Any, ...]:
        """Returns accumulators of all aggregates: those that were there, and empty ones."""
        return tuple(
            member.create_accumulator() if place is None else accumulators[place]
            for (_, member), place in zip(combined.members, self.places, strict=True)
        )


NO_CHANGE: Final = StepChange()


@dataclass(frozen=True)
class ObjectPart(StepPart):
    """Takes state of Python objects out of key groups as pages of whole keys, and divides these among others."""

    step: Step
    classes: tuple[UserClass, ...]  # the user's classes that may occur in the state
    allow_pickled: bool
    groups: int = 1  # the number of key groups out of which, or into which, the state goes
    change: StepChange = NO_CHANGE  # of the step since the savepoint
    tuning: StateTuning = MEASURED

    @property
    def schema(self) -> pa.Schema:
        return STATE_ROWS.append(pa.field(PAGE, pa.binary()))

    @cached_property
    def _codec(self) -> StateCodec:
        return state_codec(self.classes, allow_pickled=self.allow_pickled)

    @cached_property
    def _pages(self) -> PageCodec:
        return PageCodec(self._codec, WHOLE_LISTS)

    @cached_property
    def _division(self) -> KeyGroupDivision:
        return KeyGroupDivision(self._pages, self.groups)

    def _stored(self, record: StepRecord, store: PageStore) -> ObjectPages:
        codec = PageCodec(self._codec, self.tuning.lists)
        return ObjectPages(record, codec, store, self.groups, self.tuning.object_pages)

    def shared(self, record: StepRecord) -> bytes:
        return record.shared

    def states(self, record: StepRecord, store: PageStore) -> Iterator[OperatorState]:
        """Yields the state of a key group, some keys at a time, with whole lists."""
        waiting: list[OperatorState] = []
        keys = 0
        for state in self._stored(record, store).portions():
            waiting.append(with_whole_lists(state))
            keys += len(keys_in(state))
            if keys >= _KEYS_TOGETHER:
                yield self._division.join(waiting)
                waiting, keys = [], 0
        if keys:
            yield self._division.join(waiting)

    def rows(self, record: StepRecord, store: PageStore) -> Iterator[pa.RecordBatch]:
        return map(self.rows_of, self.states(record, store))

    def rows_of(self, state: OperatorState) -> pa.RecordBatch:
        """Returns the rows of a state, with its page in the first of them; the state must not be used again."""
        page = self._pages.dump(state, _refuse_segment)
        rows = state_rows(general(self.step, state))
        pages = pa.array([page, *[None] * (rows.num_rows - 1)], pa.binary())
        return pa.RecordBatch.from_arrays([*rows.columns, pages], schema=self.schema)

    def divided(self, file: pq.ParquetFile, groups: int) -> Iterator[tuple[int, bytes]]:
        for state in self.saved(file):
            for number, part in self._division.divide(state).items():
                yield number, self._pages.dump(part, _refuse_segment)

    def whole(self, files: Iterable[pq.ParquetFile], shared: bytes) -> OperatorState:
        """Returns the state in several files, and what belongs to no key."""
        state = self._division.join([each for file in files for each in self.saved(file)])
        state.shared = self._pages.load_shared(shared)
        return state

    def saved(self, file: pq.ParquetFile) -> Iterator[OperatorState]:
        """Yields the state in a file, some keys at a time."""
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[PAGE]):
            for page in batch.column(0).drop_null().to_pylist():
                yield self.change.applied(self.step, self._pages.load(page, _NoSegments()))

    def fill(self, record: StepRecord, store: PageStore, parts: Iterable[bytes], arrived: int) -> None:
        pages = self._stored(record, store)
        pages.fill(self._pages.load(part, _NoSegments()) for part in parts)


@dataclass(frozen=True)
class ConvertedPart(ObjectPart):
    """Makes Python objects of state that a savepoint has in columns, and stores them in key groups."""

    form: KeptForm | None = None
    watermark: int = MIN_TIMESTAMP  # when the step last ran

    @property
    def schema(self) -> pa.Schema:
        """The columns of the state in the savepoint."""
        return self._form.operator.schema

    @property
    def _form(self) -> KeptForm:
        assert self.form is not None, "it is given"
        return self.form

    def saved(self, file: pq.ParquetFile) -> Iterator[OperatorState]:
        # The rows of a window may lie anywhere in the file, and its contents are one object.
        batches = file.read().combine_chunks().to_batches()
        operator = self._form.operator
        for batch in batches:
            rows = load_rows(dump_rows(batch, compress=False), operator.schema, operator.defaults)
            for state in kept_objects(self._form, rows, self.watermark):
                yield self.change.applied(self.step, state)


class _NoSegments:
    """Stands for the segments of lists, of which a savepoint has none."""

    def read_segment(self, number: int) -> list[Any]:
        raise AssertionError(f"segment {number}: lists of savepoints are whole")


def _refuse_segment(data: bytes) -> int:
    raise AssertionError(f"a segment of {len(data)} bytes: lists of savepoints are whole")


_NOWHERE: Final[OperatorOutput] = NoOutput()


def general(step: Step, state: OperatorState) -> OperatorState:
    """Returns a state as the general operator of a step keeps it: windows are entries of their keys, with timers.

    A faster form may have kept them without; it goes on from this state as well.
    """
    if step.node.windows is not None:
        operator_for(step, fast=False).bind(state, _NOWHERE)
    return state
