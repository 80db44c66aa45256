"""Sends the columns of a source to keyed steps: folded where no step needs single elements, and by key group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar.forms.route import Route, ScanTarget
from windrow_runtime.columnar.rows.columns import clean_columns
from windrow_runtime.columnar.rows.groups import encode_keys
from windrow_runtime.columnar.state import concatenated, dump_rows
from windrow_runtime.inputs.text_blocks import TextRows
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.spark.exchange.rows import PackedRow, Phase, RowKind, pack_partials, sequence_number
from windrow_runtime.spark.key_groups import KeyGroups
from windrow_runtime.spark.run.facts import RECORDS_IN, Count

# Any in this module: pyarrow has no types.

_ROWS_AT_ONCE: Final = 1 << 19
"""Elements are folded in portions of this size, so that the memory of a task does not grow with its partition."""


@dataclass(frozen=True, slots=True)
class ColumnTarget:
    """A keyed step, by its number, that takes the elements of a source as columns; the route leads to it."""

    step: int
    form: ScanTarget
    route: Route


class ColumnScan:
    """Takes the columns of a source in one task, whose rows the origin orders among those of other tasks.

    ``observe`` is called with the highest timestamp that a timestamp-assigning step gave.
    """

    def __init__(
        self,
        kind: RecordType,
        targets: Sequence[ColumnTarget],
        groups: KeyGroups,
        origin: int,
        observe: Callable[[str, int], None],
    ) -> None:
        self._kind = kind
        # The elements of each target that have not been sent yet, as Arrow batches.
        self._waiting: list[tuple[ColumnTarget, list[Any]]] = [(target, []) for target in targets]
        self._groups = groups
        self._origin = origin
        self._observe = observe
        self._row = 0
        self._records: Counter[str] = Counter()

    def take_counts(self) -> list[Count]:
        """Returns how many elements went to each step since the last call."""
        counts: list[Count] = [(step, RECORDS_IN, records) for step, records in self._records.items()]
        self._records.clear()
        return counts

    def columns_of(self, batch: Any) -> Any | None:
        """Returns the columns of the elements of a batch of the source; None where a record may be malformed."""
        if isinstance(batch, TextRows):
            return batch.columns()
        # What workers read from Parquet files knows its place in them.
        return clean_columns(batch if isinstance(batch, pa.RecordBatch) else batch.rows, self._kind)

    def encode(self, values: Sequence[Any]) -> Any:
        """Returns the columns of elements that were decoded."""
        return encode_batch(values, self._kind)

    def add(self, columns: Any) -> Iterator[PackedRow]:
        """Takes the columns of well-formed elements; yields the rows that are full."""
        for target, waiting in self._waiting:
            form, route = target.form, target.route
            with errors_at(form.step.where):
                there, stamps, highest = route.run(columns)
                form.check(stamps)
            for step, stamp in highest.items():
                self._observe(step, stamp)
            count = len(stamps)
            if not count:
                continue
            named = dict(zip(there.schema.names, there.columns, strict=True))
            key = pa.nulls(count) if route.key is None else route.key.evaluate(named)
            arrays = [key, pa.array(stamps), *form.columns_of(named)]
            waiting.append(pa.RecordBatch.from_arrays(arrays, schema=form.raw_schema))
            self._records[form.step.id] += count
            if sum(rows.num_rows for rows in waiting) >= _ROWS_AT_ONCE:
                yield from self._send(target, waiting)

    def flush(self) -> Iterator[PackedRow]:
        """Yields all rows that are left."""
        for target, waiting in self._waiting:
            if waiting:
                yield from self._send(target, waiting)

    def _send(self, target: ColumnTarget, waiting: list[Any]) -> Iterator[PackedRow]:
        form = target.form
        rows = concatenated(waiting)
        waiting.clear()
        with errors_at(form.step.where):
            rows = form.packed(rows)
        keys = encode_keys(rows.column(0))
        groups = self._groups.count
        # The smallest type that holds the number of a group: numpy sorts small ones in one pass.
        of_key = (form.hash_keys(keys.distinct) % np.uint64(groups)).astype(np.min_scalar_type(groups - 1))
        folded = form.partials(keys, rows)
        if folded is None:
            order, bounds = _by_group(of_key[keys.codes])
            rows = rows.take(pa.array(order)) if groups > 1 else rows
            for number, start, end in bounds:
                # Spark compresses what it shuffles.
                part = rows.slice(start, end - start)
                yield self._row_for(number, RowKind.COLUMNS, target, dump_rows(part, compress=False))
            return
        codes, partials = folded
        order, bounds = _by_group(of_key[codes])
        places = order.tolist()
        for number, start, end in bounds:
            yield self._row_for(number, RowKind.PARTIALS, target, pack_partials(partials.pick(places[start:end])))

    def _row_for(self, number: int, kind: int, target: ColumnTarget, payload: bytes) -> PackedRow:
        place = sequence_number(Phase.AFTER_WATERMARK, self._origin, self._row)
        self._row += 1
        return PackedRow(self._groups.labels[number], kind, target.step, place, payload)


def _by_group(
    of_row: npt.NDArray[np.unsignedinteger[Any]],
) -> tuple[npt.NDArray[np.intp], Iterator[tuple[int, int, int]]]:
    """Returns an order that puts the rows of a key group side by side, and the number, begin and end of each group.

    Rows of one group stay in order. Groups without rows cost nothing: a query may have thousands of groups.
    """
    order = np.argsort(of_row, kind="stable")
    sorted_groups = of_row[order]
    starts = np.flatnonzero(np.diff(sorted_groups.astype(np.int64), prepend=-1))
    ends = np.append(starts, len(of_row))[1:]
    return order, zip(sorted_groups[starts].tolist(), starts.tolist(), ends.tolist(), strict=True)
