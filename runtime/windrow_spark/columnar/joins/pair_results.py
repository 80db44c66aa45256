"""Builds the results of joined pairs: record batches for sinks, or values that the join's target returns in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error
from windrow_spark.columnar.forms.join_form import JoinForm
from windrow_spark.columnar.joins.side_rows import Pairs
from windrow_spark.columnar.results import record_columns
from windrow_spark.columnar.rows.columns import python_values

# Any in this module: results are of every type.


def batch_of_pairs(form: JoinForm, pairs: Pairs, record_type: RecordType) -> pa.RecordBatch | None:
    """Returns the results as a record batch with a type's columns; None if the target has to be called in Python."""
    return record_columns(form.join.target, [name for name, _ in form.join.fields], pairs.values, record_type)


def values_of_pairs(form: JoinForm, pairs: Pairs) -> list[Any]:
    """Calls the join's target for each pair; an error that it raises names the key of the pair."""
    target: Callable[..., Any] = form.join.target
    names = [name for name, _ in form.join.fields]
    rows = zip(*map(python_values, pairs.values), strict=True)
    results: list[Any] = []
    try:
        if names[0]:
            results.extend(target(**dict(zip(names, row, strict=True))) for row in rows)
        else:
            results.extend(target(*row) for row in rows)  # not starmap: extend would take a StopIteration for the end
    except USER_ERRORS as error:
        (key,) = python_values(pairs.keys.slice(len(results), 1))
        raise_call_error(form.step, error, call_description(key))
    return results
