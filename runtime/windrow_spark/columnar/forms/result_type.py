"""Finds the type of a columnar step's results: what the columns hold that the next keyed step takes.

It is what kernels give, not what annotations promise: a result that may be None is one, whatever its field says.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Final, TypeAlias

from windrow.aggregates.facts import BoundTime
from windrow.plan.fitting import accepts_none
from windrow.plan.types import parameter_types
from windrow.windows.spec import Panes
from windrow_runtime.codecs.arrow.encoding import arrow_type
from windrow_runtime.codecs.value_type import Kind, RecordType, ValueType
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.forms.columnar_form import ColumnarForm, input_of, may_begin_empty
from windrow_spark.columnar.forms.first_form import PassingForm
from windrow_spark.columnar.forms.join_form import JoinForm
from windrow_spark.columnar.forms.route_step import check_made, record_of, single, tuple_of
from windrow_spark.columnar.kernels.choice import plural
from windrow_spark.columnar.kernels.kernel import CombinedKernel, Kernel
from windrow_spark.columnar.rows.columns import WholeElement

# Any in this module: what makes results is of every type.

OnColumns: TypeAlias = ColumnarForm | JoinForm | PassingForm
"""The form of a keyed step that runs on columns."""

_INT: Final = ValueType(Kind.INT, int)
_MOMENT: Final = ValueType(Kind.DATETIME, datetime.datetime)
_VALUES: Final = {
    arrow_type(value): value
    for value in (
        _INT,
        ValueType(Kind.BOOL, bool),
        ValueType(Kind.FLOAT, float),
        ValueType(Kind.STR, str),
        ValueType(Kind.BYTES, bytes),
        _MOMENT,
        ValueType(Kind.DATE, datetime.date),
        ValueType(Kind.TIMEDELTA, datetime.timedelta),
    )
}
"""The types of results that are elements of columns. A sum of decimals has more digits than a column takes."""


def result_type(form: OnColumns) -> RecordType:
    """The type of the results of a step; declined where they are no columns."""
    if isinstance(form, PassingForm):
        if form.may_lack_stamps:
            raise DeclinedError("some elements may have no timestamps")
        return check_made(form.element)
    if isinstance(form, JoinForm):
        names = [name for name, _ in form.join.fields]
        return check_made(record_of(form.join.target, names, list(form.slots.values)))
    if form.calls_function:
        raise DeclinedError("its function gives Python objects")
    if isinstance(form.rule, Panes) and form.rule.with_panes:
        raise DeclinedError("it gives results with their panes")
    kernels = form.kernel.members if isinstance(form.kernel, CombinedKernel) else (form.kernel,)
    values = [_value_of(form, kernel) for kernel in kernels]
    if form.filled is not None:
        if any(isinstance(place, BoundTime) and place.zone is not datetime.UTC for place in form.filled.places):
            raise DeclinedError("it gives bounds of windows with their time zone")
        key = form.routes[0].key
        facts = {"key": ValueType(Kind.NONE, type(None), nullable=True) if key is None else key.value}
        values = [
            values[place]
            if isinstance(place, int)
            else _MOMENT
            if isinstance(place, BoundTime)
            else facts.get(place, _INT)
            for place in form.filled.places
        ]
    combined = form.combined
    if combined is None:
        return check_made(single(values[0]))
    if combined.target is None:
        return check_made(tuple_of(values))
    # A window that was open when an aggregate was new may hold nothing in it, which the annotation of its field says.
    types = parameter_types(combined.target)
    values = [
        replace(value, nullable=True)
        if may_begin_empty(member) and accepts_none(types.get(name, value.python_type))
        else value
        for value, (name, member) in zip(values, combined.fields_of(combined.target), strict=True)
    ]
    return check_made(record_of(combined.target, [name for name, _ in combined.members], values))


def _value_of(form: ColumnarForm, kernel: Kernel) -> ValueType:
    """The type of the results of one aggregate."""
    value = _VALUES.get(kernel.result_type)
    if value is None:
        raise DeclinedError(f"it gives {plural(kernel.result_type)}")
    inputs = [input_of(form.element, selector) for selector in kernel.inputs]
    nullable = [not isinstance(column, WholeElement) and column.value.nullable for column in inputs]
    if isinstance(form.rule, Panes) and form.rule.may_be_empty:
        nullable.append(True)
    return replace(value, nullable=kernel.gives_none(nullable))
