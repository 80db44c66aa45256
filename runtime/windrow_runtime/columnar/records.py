"""Results of windows that fired: as record batches for sinks, or as Python values for the steps behind."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, Final

from windrow.aggregates.combined import Combined
from windrow_runtime.codecs.arrow import arrow_schema
from windrow_runtime.codecs.value_type import Kind, RecordType
from windrow_runtime.columnar.forms import ColumnarForm
from windrow_runtime.columnar.outcome import Fired
from windrow_runtime.columnar.route import own_constructor

__all__ = ["record_batch", "values_of"]

# Any in this module: pyarrow has no types, and results are of every type.

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def values_of(form: ColumnarForm, fired: Fired) -> list[Any]:
    """The results as the aggregate makes them: records, tuples or values."""
    members = [python_values(column) for column in _members(form, fired)]
    target, names = _target(form)
    if target is not None:
        if names[0]:
            return [target(**dict(zip(names, row, strict=True))) for row in zip(*members, strict=True)]
        return list(map(target, *members))
    if _is_tuple(form):
        return list(zip(*members, strict=True))
    return members[0]


def record_batch(form: ColumnarForm, fired: Fired, kind: RecordType) -> Any:
    """The results as a record batch with the columns of a type; None where Python has to make them, or say why not."""
    import pyarrow as pa

    members = _members(form, fired)
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
    columns: list[Any] = []
    for field, expected, column in zip(kind.columns, arrow_schema(kind), members, strict=True):
        if column.null_count and not field.type.nullable:
            return None
        if column.type == expected.type:
            columns.append(column)
        elif pa.types.is_integer(column.type) and pa.types.is_floating(expected.type):
            columns.append(column.cast(expected.type, safe=False))
        else:
            return None
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(kind))


def _members(form: ColumnarForm, fired: Fired) -> list[Any]:
    """A column for each member of the result; one for an aggregate that stands alone."""
    import pyarrow as pa

    results = fired.results
    children: Sequence[Any] = (
        results.flatten() if pa.types.is_struct(results.type) and _combined(form) else [results]
    )
    if form.filled is None:
        return list(children)
    facts = {"key": fired.keys, "window_start": fired.starts, "window_end": fired.ends}
    return [
        children[place] if isinstance(place, int) else _column(facts[place]) for place in form.filled.places
    ]


def _column(fact: Any) -> Any:
    import pyarrow as pa

    return fact if isinstance(fact, pa.Array) else pa.array(fact)


def _combined(form: ColumnarForm) -> bool:
    return isinstance(form.aggregate, Combined)


def _target(form: ColumnarForm) -> tuple[Any, tuple[str, ...]]:
    """What makes a result, and the names under which it takes the members."""
    if form.filled is not None:
        return form.filled.target, form.filled.names
    if isinstance(form.aggregate, Combined):
        return form.aggregate.target, tuple(name for name, _ in form.aggregate.members)
    return None, ("",)


def _is_tuple(form: ColumnarForm) -> bool:
    """Whether results are tuples, where nothing else is made of them."""
    whole = form.filled.combined if form.filled is not None else form.aggregate
    return isinstance(whole, Combined)


def python_values(column: Any) -> list[Any]:
    """The Python values of a column; timestamps are datetimes in UTC."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", tz=column.type.tz)).view(pa.int64()).to_pylist()
        return [
            None if value is None else _EPOCH + datetime.timedelta(microseconds=value) for value in micros
        ]
    values: list[Any] = column.to_pylist()
    return values


def made_of(form: ColumnarForm, result: Any, key: Any, start: int, end: int) -> Any:
    """A result of the aggregate with what its window knows besides."""
    if form.filled is None:
        return result
    facts = {"key": key, "window_start": start, "window_end": end}
    return form.filled.made_of(
        [result[place] if isinstance(place, int) else facts[place] for place in form.filled.places]
    )
