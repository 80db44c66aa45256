"""Makes Python objects of the state that a step keeps in columns, as the general operator has them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import repeat
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from windrow.plan import ProcessSpec
from windrow.rows.equality import as_key, as_stored
from windrow.state import StateTtlConfig
from windrow.time import MAX_TIMESTAMP
from windrow.windows import TimeWindow
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.state.model import GrowingList, KeyState, OperatorState
from windrow_runtime.operators.state.time_to_live import TtlTimer, cell_name
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.forms.first_form import ChangeForm, FirstForm, PassingForm
from windrow_spark.columnar.forms.join_form import JoinForm
from windrow_spark.columnar.forms.result_type import OnColumns
from windrow_spark.columnar.kernels.row_aggregate import RowAggregate
from windrow_spark.columnar.rows.columns import element_values, python_values
from windrow_spark.columnar.rows.groups import parts_of
from windrow_spark.columnar.rows.new_fields import stored_type

# Any in this module: keys and accumulators of every type.

_KEYS_AT_ONCE: Final = 4_096
_MOST_PARTS: Final = 256

KeptForm: TypeAlias = ColumnarForm | PassingForm
"""The forms whose state may become objects."""


class NoOutput:
    """Stands for an output to which nothing is emitted."""

    def collect(self, value: Any, timestamp: int | None) -> None:
        raise AssertionError("nothing fires")

    def side_output(self, tag: str, value: Any, timestamp: int | None) -> None:
        raise AssertionError("nothing fires")


def check_kept(form: OnColumns) -> KeptForm:
    """Returns a form whose state can become objects; declines others.

    Raises:
        DeclinedError: If the form keeps runs of elements, or those of a join.
    """
    if isinstance(form, JoinForm):
        raise DeclinedError("it keeps the elements of both sides of a join in columns")
    if isinstance(form, ColumnarForm):
        no_rows = pa.RecordBatch.from_pylist([], schema=form.operator.schema)
        list(form.operator.kept_windows(no_rows, 0))
    return form


def kept_objects(form: KeptForm, rows: pa.RecordBatch, watermark: int) -> Iterator[OperatorState]:
    """Yields the state that all rows of a key group stand for, some keys at a time.

    Args:
        form: The form of the step that keeps the rows.
        rows: The rows.
        watermark: The one under which the step ran last: windows that it has not reached have not fired.
    """
    count = min(_MOST_PARTS, 1 + rows.num_rows // _KEYS_AT_ONCE)
    of_parts = parts_of(rows.column(0), count)
    for part in range(count):
        of_part = rows.filter(pa.array(of_parts == part)) if count > 1 else rows
        if of_part.num_rows:
            if isinstance(form, FirstForm):
                yield _times_of_passed(form, of_part)
            elif isinstance(form, ChangeForm):
                yield _values_of_passed(form, of_part)
            else:
                assert isinstance(form, ColumnarForm), "it is the third form"
                yield _windows_of(form, of_part, watermark)


def _times_of_passed(form: FirstForm, rows: pa.RecordBatch) -> OperatorState:
    """Returns when elements passed, by key and value, as the general operator stores values that expire."""
    state, ttl = OperatorState(), StateTtlConfig(timedelta.max, time_domain=form.domain)
    cell, timer = cell_name(form.state_name, ttl), TtlTimer(form.state_name, form.millis)
    keys, passed_at, *values = rows.columns
    marks = map(as_stored, element_values(values[0], stored_type(form.element))) if values else repeat(None)
    dues: dict[Any, int] = {}
    for key, at, mark in zip(python_values(keys), passed_at.to_pylist(), marks, strict=False):
        cells = state.keys.setdefault(key, KeyState(state={})).state
        if values:
            cells.setdefault(cell, {})[mark] = (at, True)
        else:
            cells[cell] = (at, True)
        dues[key] = min(dues.get(key, MAX_TIMESTAMP), at + form.millis)
    timers = state.processing_timers if form.by_clock else state.event_timers
    for key, due in dues.items():
        timers.register(key, timer, due)
    return state


def _values_of_passed(form: ChangeForm, rows: pa.RecordBatch) -> OperatorState:
    """Returns the value of the element that passed last, by key, as the general operator stores it."""
    keys, column = rows.columns
    values = map(as_key, element_values(column, stored_type(form.element)))
    cells = ({form.state_name: GrowingList((value,))} for value in values)
    return OperatorState({key: KeyState(state=each) for key, each in zip(python_values(keys), cells, strict=True)})


def _windows_of(form: ColumnarForm, rows: pa.RecordBatch, watermark: int) -> OperatorState:
    step = form.step
    aggregate = RowAggregate(step, form.stored_element, form.kernel, form.aggregate, form.filled)
    node = step.node.windows
    holds_elements = node is not None and isinstance(node.function, ProcessSpec)
    operator = operator_for(step, fast=False)
    assert isinstance(operator, WindowOperator), "a form with windows is that of a window step"
    operator.bind(OperatorState(), NoOutput())
    for keys, starts, ends, states in form.operator.kept_windows(rows, watermark):
        # In order of time, as windows that merge were created.
        order = np.lexsort((ends, starts))
        picked = pa.array(order)
        accumulators = aggregate.accumulators([column.take(picked) for column in states])
        windows = map(TimeWindow, starts[order].tolist(), ends[order].tolist())
        for key, window, contents in zip(python_values(keys.take(picked)), windows, accumulators, strict=True):
            operator.open_entry(key, window, GrowingList(contents) if holds_elements else contents)
            if window.max_timestamp() > watermark:
                operator.state.event_timers.register(key, window, window.max_timestamp())
    return operator.state
