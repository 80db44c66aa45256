"""Makes the results of windows that fired: record batches for sinks, or Python values for the steps behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from windrow.aggregates.combined import Combined
from windrow.errors import WindrowError
from windrow.windows import GlobalWindow, TimeWindow
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.value_type import Kind, RecordType
from windrow_runtime.columnar.array_types import Array, ArrowType, Rows
from windrow_runtime.columnar.forms.columnar_form import ColumnarForm
from windrow_runtime.columnar.forms.route import own_constructor
from windrow_runtime.columnar.rows.values import element_values, python_values
from windrow_runtime.columnar.windows.column_operator import Fired
from windrow_runtime.columnar.windows.geometry import Panes
from windrow_runtime.operators.errors import USER_ERRORS, call_description, function_failed

# Any in this module: results are of every type.


def values_of(form: ColumnarForm, fired: Fired) -> list[Any]:
    """The results as the aggregate makes them: records, tuples or values.

    Raises:
        UserFunctionError: If a class refuses its fields; with key and window.
    """
    members = [_made(form, fired, aggregate, column) for aggregate, column in _members(form, fired)]
    target, names = _target(form)
    rows = zip(*members, strict=True)
    if target is not None:
        if names[0]:
            return _each(form, fired, lambda row: target(**dict(zip(names, row, strict=True))), rows)
        return _each(form, fired, lambda row: target(*row), rows)
    return list(rows) if _is_tuple(form) else members[0]


def _each(form: ColumnarForm, fired: Fired, make: Callable[[Any], Any], rows: Iterable[Sequence[Any]]) -> list[Any]:
    """A result for each window. The number of results before one that is refused leads to its key and window."""
    made: list[Any] = []
    try:
        made.extend(make(row) for row in rows)
    except WindrowError:
        raise
    except USER_ERRORS as error:
        place = len(made)
        (key,) = python_values(fired.keys.slice(place, 1))
        given = fired_description(form, key, int(fired.starts[place]), int(fired.ends[place]))
        raise function_failed(form.step, error, given) from error
    return made


def fired_description(form: ColumnarForm, key: Any, start: int, end: int) -> str:
    """Key and window of a result, for errors."""
    is_global = isinstance(form.windows, Panes) and form.windows.is_global
    return call_description(key, window=GlobalWindow() if is_global else TimeWindow(start, end))


def record_batch(form: ColumnarForm, fired: Fired, kind: RecordType) -> Rows:
    """The results as a record batch with the columns of a type; None where Python has to make them, or say why not."""
    members = [column for _, column in _members(form, fired)]
    target, names = _target(form)
    if target is not None:
        plain = kind.root.kind is Kind.RECORD and kind.root.python_type is target and not kind.root.nullable
        if not plain or own_constructor(kind.root.python_type) is not None:
            return None
    elif _is_tuple(form) == kind.single:
        return None
    by_name = [field.name for field in kind.columns]
    if target is not None and names[0]:
        if set(names) != set(by_name):
            return None  # what is left out has a default, which the class knows
        members = [members[names.index(name)] for name in by_name]
    elif len(members) != len(by_name):
        return None
    schema = arrow_schema(kind)
    columns = [
        _fitted(column, wanted.type, nullable=field.type.nullable)
        for field, wanted, column in zip(kind.columns, schema, members, strict=True)
    ]
    if any(column is None for column in columns):
        return None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitted(column: Array, wanted: ArrowType, *, nullable: bool) -> Array | None:
    """A column of results as one of a sink; None where it may not hold them."""
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


def _members(form: ColumnarForm, fired: Fired) -> list[tuple[Any, Any]]:
    """An aggregate and its column for each member of the result; one where it stands alone; None for a fact."""
    results, whole = fired.results, form.aggregate
    if not isinstance(whole, Combined):
        children = [(whole, results)]
    else:
        children = [(member, column) for (_, member), column in zip(whole.members, results.flatten(), strict=True)]
    if form.filled is None:
        return children
    times = {"window_start": fired.starts, "window_end": fired.ends}
    return [
        children[place] if isinstance(place, int) else (None, fired.keys if place == "key" else pa.array(times[place]))
        for place in form.filled.places
    ]


def _made(form: ColumnarForm, fired: Fired, aggregate: Any, column: Any) -> list[Any]:
    """The results of one member; a combination makes its own of those of its members."""
    if not isinstance(aggregate, Combined):
        return element_values(column, form.element)
    members = [
        _made(form, fired, member, child)
        for (_, member), child in zip(aggregate.members, column.flatten(), strict=True)
    ]
    return _each(form, fired, aggregate.made_of, zip(*members, strict=True))


def _target(form: ColumnarForm) -> tuple[Any, tuple[str, ...]]:
    """The function that makes a result, and the names under which it takes the members."""
    if form.filled is not None:
        return form.filled.target, form.filled.names
    if isinstance(form.aggregate, Combined):
        return form.aggregate.target, tuple(name for name, _ in form.aggregate.members)
    return None, ("",)


def _is_tuple(form: ColumnarForm) -> bool:
    """Returns whether results are tuples, where nothing else is made of them."""
    whole = form.filled.combined if form.filled is not None else form.aggregate
    return isinstance(whole, Combined)


def made_of(form: ColumnarForm, result: Any, key: Any, start: int, end: int) -> Any:
    """A result of the aggregate with what its window knows besides."""
    if form.filled is None:
        return result
    facts = {"key": key, "window_start": start, "window_end": end}
    return form.filled.made_of(
        [result[place] if isinstance(place, int) else facts[place] for place in form.filled.places]
    )
