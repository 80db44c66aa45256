"""Runs ``distinct`` and ``first`` over columns: of elements that are alike the first passes, and then none for a time.

Elements of a key are alike, or those of a key that have the same value. State has a row for each of these, with the
time of the element that passed last. A batch numbers its elements together with the stored rows, alike ones equally.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.codecs.value_type import ANY_JSON, Kind, RecordType
from windrow_spark.columnar import Ints
from windrow_spark.columnar.expressions.over_columns import ColumnExpression
from windrow_spark.columnar.forms.route import ScanTarget
from windrow_spark.columnar.results import record_columns
from windrow_spark.columnar.rows.columns import WholeElement
from windrow_spark.columnar.rows.groups import Groups, encode_keys
from windrow_spark.columnar.rows.new_fields import NO_DEFAULTS, Defaults, defaults_of
from windrow_spark.columnar.state import concatenated
from windrow_spark.columnar.step_operator import ColumnsArrived, PagedOperator, StateRows, Times

# Any in this module: elements of every type.

_CLEAN_UPS: Final = 16
"""About how often rows are read, while one is remembered, only to drop those that have expired."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Elements that pass, and their timestamps."""

    elements: pa.RecordBatch
    stamps: Ints  # in milliseconds

    def __len__(self) -> int:
        return len(self.stamps)

    def slice(self, start: int, count: int) -> Passed:
        """Returns up to ``count`` elements, from number ``start`` on."""
        return Passed(self.elements.slice(start, count), self.stamps[start : start + count])


@dataclass(frozen=True)
class PassingOperator(PagedOperator[Passed]):
    """The base of operators that pass on some elements, and leave out those that are like one before."""

    key_type: pa.DataType
    element: RecordType
    value: ColumnExpression | WholeElement | None  # what alike elements share; None: their key alone

    @cached_property
    def defaults(self) -> Defaults:
        return defaults_of(self.element) if isinstance(self.value, WholeElement) else NO_DEFAULTS

    def open_windows(self, state: StateRows) -> int:
        return 0


@dataclass(frozen=True)
class FirstOperator(PassingOperator):
    """Passes on the first of alike elements, and the next one that comes so many milliseconds after it or later."""

    millis: int
    in_processing_time: bool = False

    @property
    def by_clock(self) -> bool:
        return self.in_processing_time

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of state: the key, the time of the element that passed, and the value."""
        values = [] if self.value is None else [pa.field("value", self.value.arrow_type)]
        return pa.schema([pa.field("key", self.key_type), pa.field("at", pa.int64()), *values])

    def check(self, rows: pa.RecordBatch) -> None:
        if rows.column(1).null_count:
            raise damaged_state("a row of state has no place in time")

    def next_times(self, rows: pa.RecordBatch, times: Times) -> tuple[int | None, int | None]:
        time = times.now if self.by_clock else times.watermark
        if time == MAX_TIMESTAMP:
            return None, None  # what is left outlives the end of time
        passed_at = rows.column(1).to_numpy()
        first, last = int(passed_at.min()) + self.millis, int(passed_at.max()) + self.millis
        due = min(max(first, time + self.millis // _CLEAN_UPS), last)
        return (None, due) if self.by_clock else (due, None)

    def advance(self, state: StateRows, before: int, times: Times) -> Iterator[Passed]:
        if before < times.watermark:
            has_expired = state.rows.column(1).to_numpy() <= max(MIN_TIMESTAMP, times.watermark - self.millis)
            if has_expired.any():
                state.rows = state.rows.filter(pa.array(~has_expired))
        return iter(())

    def add(self, state: StateRows, arrived: ColumnsArrived, times: Times) -> Iterator[Passed]:
        keys, stamps, *columns = arrived.elements.columns
        elements = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.element))
        moments = np.full(len(stamps), times.now) if self.by_clock else stamps.to_numpy()
        # After the end of the input the watermark is no usable time.
        if times.watermark < MAX_TIMESTAMP:
            moments = np.maximum(moments, times.watermark)
        arrays = [keys, pa.array(moments)]
        if self.value is not None:
            arrays.append(self.value.evaluate(dict(zip(elements.schema.names, elements.columns, strict=True))))
        rows = concatenated([state.rows, pa.RecordBatch.from_arrays(arrays, schema=self.schema)])
        alike, stored = alike_rows(rows.column(0), *rows.columns[2:]), state.rows.num_rows
        latest = np.full(alike.count, MIN_TIMESTAMP)
        latest[alike.ids[:stored]] = rows.column(1).to_numpy()[:stored]
        passing = _passing(alike.ids[stored:], moments, latest, self.millis)
        if len(passing):
            kept = rows.take(pa.array(alike.first_rows))
            state.rows = kept.set_column(1, self.schema.field(1), pa.array(latest))
            yield Passed(elements.take(pa.array(passing)), stamps.to_numpy()[passing])


def alike_rows(keys: pa.Array, *values: pa.Array) -> Groups:
    """Groups rows that have the same key and value."""
    pairs = pa.StructArray.from_arrays([keys, *map(_comparable, values)], names=["key", "value"][: 1 + len(values)])
    encoded = encode_keys(pairs)
    return Groups(encoded.codes, len(encoded.distinct))


def _comparable(column: pa.Array) -> pa.Array:
    """Replaces floats, also within tuples and records, so that those which count as equal have the same bits."""
    if pa.types.is_struct(column.type):
        return pa.StructArray.from_arrays([*map(_comparable, column.flatten())], names=column.type.names)
    if not pa.types.is_floating(column.type):
        return column
    # Adding 0.0 turns -0.0 into 0.0.
    return pc.if_else(pc.is_nan(column), np.nan, pc.add(column, 0.0))


def _passing(alike: Ints, moments: Ints, latest: Ints, millis: int) -> Ints:
    """Returns the numbers of the elements that pass.

    Args:
        alike: The group of each element.
        moments: The time of each.
        latest: When an element of each group passed last; it is updated.
        millis: How long others of the group do not pass.
    """
    # An element passes if the one before it passed no later than this. Those that are remembered for ever need a bound.
    free_from = np.maximum(moments, MIN_TIMESTAMP + millis) - millis
    waiting = np.flatnonzero(free_from >= latest[alike])
    first = Groups(alike[waiting], len(latest)).first_rows
    passing = waiting[first[first >= 0]]
    latest[alike[passing]] = moments[passing]
    waiting = waiting[free_from[waiting] >= latest[alike[waiting]]]
    if not len(waiting):
        passing.sort()
        return passing
    # Several elements of some groups pass: their times are compared one after the other.
    again, groups = [], alike[waiting]
    passed_at = dict(zip(groups.tolist(), latest[groups].tolist(), strict=True))
    for row, group, moment in zip(waiting.tolist(), groups.tolist(), moments[waiting].tolist(), strict=True):
        if moment - millis >= passed_at[group]:
            passed_at[group] = moment
            again.append(row)
    latest[list(passed_at)] = list(passed_at.values())
    return np.sort(np.concatenate([passing, again]).astype(np.int64))


def batch_of_passed(form: ScanTarget, passed: Passed, record_type: RecordType) -> pa.RecordBatch | None:
    """Returns elements as a record batch with a type's columns; None where Python has to make them."""
    element = form.element
    if record_type == element:
        return passed.elements
    if element.single or element.root.kind is not Kind.RECORD or record_type.root.contains(*ANY_JSON):
        return None
    names = [field.name for field in element.columns]
    return record_columns(element.root.python_type, names, passed.elements.columns, record_type)


def values_of_passed(form: ScanTarget, passed: Passed) -> list[Any]:
    """Returns the elements as objects."""
    return form.elements_of(passed.elements.columns)
