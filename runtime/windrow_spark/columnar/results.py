"""Makes the results of windows that fired: record batches for sinks, or Python values for the steps downstream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Any, Final, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.aggregates.combined import Combined
from windrow.aggregates.distinct import CollectSet
from windrow.aggregates.facts import BoundTime
from windrow.panes import Change, PaneInfo, PaneTiming, WindowResult
from windrow.plan.records import hook_of
from windrow.rows.equality import as_key
from windrow.windows import GlobalWindow, TimeWindow
from windrow_runtime.codecs.arrow.encoding import arrow_schema, arrow_type
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import ANY_JSON, Kind, RecordType, ValueType
from windrow_runtime.operators.changes import as_change
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.rows.columns import element_values, python_values
from windrow_spark.columnar.windows.column_operator import KINDS, Fired
from windrow_spark.columnar.windows.step_windows import assigned_slices

# Any in this module: keys, accumulators and results are of every type.

_Member: TypeAlias = tuple[Any, pa.Array]  # an aggregate and its results; None for a fact of the window, or its time

_TIMINGS: Final = (PaneTiming.EARLY, PaneTiming.ON_TIME, PaneTiming.LATE)
"""Timings by their numbers in the columns of panes."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MOMENT, _LAST_MOMENT = [
    (each.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1) for each in (datetime.min, datetime.max)
]
"""The first and the last moment of a datetime, in milliseconds."""


def values_of(form: ColumnarForm, fired: Fired) -> list[Any]:
    """Makes the results in Python as the aggregate does, with their panes or as changes if these are asked for."""
    values = _values_of(form, fired)
    return values if fired.kinds is None else list(map(as_change, map(KINDS.__getitem__, fired.kinds.tolist()), values))


def _values_of(form: ColumnarForm, fired: Fired) -> list[Any]:
    if fired.panes is not None:
        return _with_panes(form, fired, fired.panes)
    members, combined = _members(form, fired), form.combined
    return _made(form, fired, *members[0]) if combined is None else _combined(form, fired, combined, members)


def _with_panes(form: ColumnarForm, fired: Fired, pane_columns: pa.Array) -> list[Any]:
    """The results with their keys, windows and panes."""
    values = _values_of(form, replace(fired, panes=None))
    timings, *facts = pane_columns.flatten()
    panes = map(PaneInfo, map(_TIMINGS.__getitem__, timings.to_pylist()), *(column.to_pylist() for column in facts))
    windows: Iterable[TimeWindow | GlobalWindow] = map(TimeWindow, fired.starts.tolist(), fired.ends.tolist())
    if _is_global(form):
        windows = repeat(GlobalWindow())
    return list(map(WindowResult, python_values(fired.keys), windows, panes, values))


def _made(form: ColumnarForm, fired: Fired, aggregate: Any, column: pa.Array) -> list[Any]:
    """Makes the results of one member, which may be a combination itself."""
    if isinstance(aggregate, Combined):
        return _combined(form, fired, aggregate, _with_columns(aggregate, column))
    if aggregate is None:
        return python_values(column)
    if isinstance(aggregate, BoundTime):
        return list(map(aggregate.of, column.to_pylist()))
    if isinstance(aggregate, CollectSet):
        return list(map(_set_of, python_values(column)))
    return element_values(column, form.stored_element)


def _set_of(values: Sequence[Any]) -> frozenset[Any]:
    return frozenset(map(as_key, values))


def _combined(
    form: ColumnarForm, fired: Fired, combined: Combined[Any, Any, Any, Any], members: Sequence[_Member]
) -> list[Any]:
    """Calls the record class of ``combine(...)`` for each window; its errors name the key and the window."""
    rows = zip(*(_made(form, fired, aggregate, column) for aggregate, column in members), strict=True)
    names, target = [name for name, _ in combined.members], combined.target
    if target is None:
        return list(rows)
    values: list[Any] = []
    try:
        if names[0]:
            values.extend(target(**dict(zip(names, row, strict=True))) for row in rows)
        else:
            values.extend(target(*row) for row in rows)  # not starmap: extend would take a StopIteration for the end
    except USER_ERRORS as error:
        index = len(values)  # that of the result that was refused
        (key,) = python_values(fired.keys.slice(index, 1))
        window = GlobalWindow() if _is_global(form) else TimeWindow(int(fired.starts[index]), int(fired.ends[index]))
        raise_call_error(form.step, error, call_description(key, window=window))
    return values


def _is_global(form: ColumnarForm) -> bool:
    slices = assigned_slices(form.windows)
    return slices is not None and slices.is_global


def record_batch(form: ColumnarForm, fired: Fired, record_type: RecordType) -> pa.RecordBatch | None:
    """The results as a record batch with the columns of a type; None where Python has to make them, or say why not."""
    if record_type.root.contains(*ANY_JSON):
        return None  # the columns hold JSON texts
    if record_type.root.python_type is Change:
        return _change_batch(form, fired, record_type)
    if fired.kinds is not None:
        return None
    return _result_batch(form, fired, record_type)


def _change_batch(form: ColumnarForm, fired: Fired, element_type: RecordType) -> pa.RecordBatch | None:
    """Changes as a record batch: their kinds, and the results as one column."""
    of_value = record_type(get_args(element_type.annotation)[0])
    values = _result_batch(form, fired, of_value)
    if values is None:
        return None
    kinds = np.zeros(len(fired), np.int64) if fired.kinds is None else fired.kinds
    schema = arrow_schema(element_type)
    column = values.column(0)
    if not of_value.single:
        column = _struct(values.columns, schema.field("value").type)
    texts = pa.array([each.value for each in KINDS]).take(pa.array(kinds))
    return pa.RecordBatch.from_arrays([texts, column], schema=schema)


def _pane_batch(
    form: ColumnarForm, fired: Fired, pane_columns: pa.Array, element_type: RecordType
) -> pa.RecordBatch | None:
    """Results with their panes as a record batch: key, window, pane and result."""
    if element_type.root.python_type is not WindowResult or get_args(element_type.annotation)[1] is not TimeWindow:
        return None
    of_key, _, of_value = get_args(element_type.annotation)
    schema, of_value = arrow_schema(element_type), record_type(of_value)
    values = _result_batch(form, replace(fired, panes=None), of_value)
    root_key = record_type(of_key).root
    keys = _fitted(fired.keys, schema.field("key").type, nullable=root_key.nullable or root_key.kind is Kind.NONE)
    if values is None or keys is None:
        return None
    timings, *facts = pane_columns.flatten()
    timing = pa.array([each.value for each in _TIMINGS]).take(timings)
    window = _struct([pa.array(fired.starts), pa.array(fired.ends)], schema.field("window").type)
    pane = _struct([timing, *facts], schema.field("pane").type)
    value = values.column(0) if of_value.single else _struct(values.columns, schema.field("value").type)
    return pa.RecordBatch.from_arrays([keys, window, pane, value], schema=schema)


def _struct(columns: Sequence[pa.Array], arrow_type: pa.DataType) -> pa.Array:
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type))


def _result_batch(form: ColumnarForm, fired: Fired, record_type: RecordType) -> pa.RecordBatch | None:
    if fired.panes is not None:
        return _pane_batch(form, fired, fired.panes, record_type)
    aggregate_columns = _members(form, fired)
    if any(isinstance(aggregate, CollectSet) for aggregate, _ in aggregate_columns):
        return None  # the columns hold lists, which only a field for frozensets may get
    members = [_moments(column) if isinstance(each, BoundTime) else column for each, column in aggregate_columns]
    if form.combined is None and _is_element(form, fired.results, record_type):
        return pa.RecordBatch.from_arrays(fired.results.flatten(), schema=arrow_schema(record_type))
    if form.combined is None or form.combined.target is None:
        if (form.combined is not None) == record_type.single:
            return None
        return _batch_of(members, record_type)
    return record_columns(form.combined.target, [name for name, _ in form.combined.members], members, record_type)


def _is_element(form: ColumnarForm, results: pa.Array, record_type: RecordType) -> bool:
    """Whether results are elements without nulls, of the type that a sink takes."""
    element = form.stored_element
    if element.single or results.null_count or results.type != arrow_type(element.root):
        return False
    return record_type.root.python_type is element.root.python_type and record_type.columns == element.columns


def record_columns(
    target: object, names: Sequence[str], columns: Sequence[pa.Array], record_type: RecordType
) -> pa.RecordBatch | None:
    """Builds the columns of a type from those of a class's fields; None where Python has to make the records.

    The columns go by position if the names are empty.
    """
    plain = record_type.root.kind is Kind.RECORD and record_type.root.python_type is target
    if not plain or record_type.root.nullable or hook_of(record_type.root.python_type) is not None:
        return None
    if names[0]:
        by_name = [field.name for field in record_type.columns]
        if set(names) != set(by_name):
            return None  # what is left out has a default, which the class knows
        columns = [columns[names.index(name)] for name in by_name]
    return _batch_of(columns, record_type)


def _moments(bounds: pa.Array) -> pa.Array:
    """Returns bounds of windows, which are milliseconds, as moments in UTC; as they are if some are no datetimes."""
    if not len(bounds) or _FIRST_MOMENT <= pc.min(bounds).as_py() <= pc.max(bounds).as_py() <= _LAST_MOMENT:
        return bounds.cast(pa.timestamp("ms", "UTC")).cast(arrow_type(ValueType(Kind.DATETIME, datetime)))
    return bounds


def _batch_of(columns: Sequence[pa.Array], record_type: RecordType) -> pa.RecordBatch | None:
    if len(columns) != len(record_type.columns):
        return None
    schema = arrow_schema(record_type)
    fitted = [
        _fitted(column, wanted.type, nullable=field.type.nullable)
        for field, wanted, column in zip(record_type.columns, schema, columns, strict=True)
    ]
    if any(column is None for column in fitted):
        return None
    return pa.RecordBatch.from_arrays(fitted, schema=schema)


def _fitted(column: pa.Array, wanted: pa.DataType, *, nullable: bool) -> pa.Array | None:
    """Casts a column of results to a sink's type; None where the sink's column may not hold them."""
    # A combination within a combination is made in Python: its target may refuse. So is an element: the sink may ask
    # for another class with the same columns.
    items = column.type.value_type if pa.types.is_list(column.type) else column.type
    if (column.null_count and not nullable) or pa.types.is_struct(items):
        return None
    if column.type == wanted:
        return column
    if pa.types.is_integer(column.type) and pa.types.is_floating(wanted):
        return column.cast(wanted, safe=False)
    if pa.types.is_decimal256(column.type) and pa.types.is_decimal128(wanted):
        try:
            return column.cast(wanted)
        except pa.ArrowException:
            return None  # a sum has more digits than the column
    return None


def _members(form: ColumnarForm, fired: Fired) -> list[_Member]:
    """The members of the result; one where the aggregate stands alone."""
    members: list[_Member] = [(form.aggregate, fired.results)]
    if isinstance(form.aggregate, Combined):
        members = _with_columns(form.aggregate, fired.results)
    if form.filled is None:
        return members
    facts = {"key": fired.keys, "window_start": pa.array(fired.starts), "window_end": pa.array(fired.ends)}
    filled: list[_Member] = []
    for place in form.filled.places:
        if isinstance(place, int):
            filled.append(members[place])
        elif isinstance(place, BoundTime):
            filled.append((place, facts[place.kind]))
        else:
            filled.append((None, facts[place]))
    return filled


def _with_columns(combined: Combined[Any, Any, Any, Any], column: pa.Array) -> list[_Member]:
    return [(member, child) for (_, member), child in zip(combined.members, column.flatten(), strict=True)]
