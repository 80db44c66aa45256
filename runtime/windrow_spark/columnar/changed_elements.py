"""Runs ``on_change`` over columns: an element passes whose value is another than that of the key's element before.

State has a row for each key, with the value of the element that passed last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_spark.columnar.expressions.over_columns import ColumnExpression
from windrow_spark.columnar.first_elements import Passed, PassingOperator, alike_rows
from windrow_spark.columnar.rows.columns import WholeElement
from windrow_spark.columnar.rows.groups import Groups, encode_keys
from windrow_spark.columnar.state import concatenated
from windrow_spark.columnar.step_operator import ColumnsArrived, StateRows, Times


@dataclass(frozen=True)
class ChangeOperator(PassingOperator):
    """Passes on an element of a key if its value is not that of the one before."""

    value: ColumnExpression | WholeElement

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of state: the key, and the value of the element that passed last."""
        return pa.schema([pa.field("key", self.key_type), pa.field("value", self.value.arrow_type)])

    def check(self, rows: pa.RecordBatch) -> None:
        """Refuses nothing: every value may be one that passed."""

    def next_times(self, rows: pa.RecordBatch, times: Times) -> tuple[int | None, int | None]:
        return None, None

    def advance(self, state: StateRows, before: int, times: Times) -> Iterator[Passed]:
        return iter(())

    def add(self, state: StateRows, arrived: ColumnsArrived, times: Times) -> Iterator[Passed]:
        keys, stamps, *columns = arrived.elements.columns
        elements = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.element))
        values = self.value.evaluate(dict(zip(elements.schema.names, elements.columns, strict=True)))
        rows = concatenated([state.rows, pa.RecordBatch.from_arrays([keys, values], schema=self.schema)])
        encoded, alike, stored = encode_keys(rows.column(0)), alike_rows(*rows.columns).ids, state.rows.num_rows
        of_keys = Groups(encoded.codes, len(encoded.distinct))
        order = of_keys.order
        is_new = np.ones(len(order), np.bool_)  # in this order, of which rows of one key and value are neighbours
        is_new[1:] = alike[order[1:]] != alike[order[:-1]]
        changes = np.empty(len(order), np.bool_)
        changes[order] = is_new
        passing = np.flatnonzero(changes[stored:])
        if len(passing):
            changes[:stored] = True
            kept = np.flatnonzero(changes)
            last = kept[of_keys.where(kept).last_rows]
            state.rows = rows.take(pa.array(last))
            yield Passed(elements.take(pa.array(passing)), stamps.to_numpy()[passing])
