"""Sends columns of elements to keyed steps, by key group and partially aggregated if possible, and to sinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.time import MIN_TIMESTAMP
from windrow_runtime.codecs.arrow.encoding import arrow_schema, encode_batch
from windrow_runtime.operators.errors import errors_at, field_errors, no_timestamp
from windrow_spark.columnar import Ints
from windrow_spark.columnar.forms.route import ExchangeRows
from windrow_spark.columnar.rows.groups import encode_keys
from windrow_spark.columnar.state import concatenated, dump_rows
from windrow_spark.exchange.rows import PackedRow, RowKind, no_bound, pack_partials
from windrow_spark.key_groups import KeyGroups
from windrow_spark.physical.plan import SinkEdge, StepEdge

# Any in this module: pyarrow has no types.

_ROWS_AT_ONCE: Final = 1 << 19
_BYTES_AT_ONCE: Final = 1 << 28
"""The elements that are aggregated and sent at a time, so that a task's memory does not grow with its partition."""


def columns_for_sink(target: SinkEdge, columns: Any, stamps: Ints | None, observe: Callable[[str, int], None]) -> Any:
    """Returns the columns of a sink's elements; ``observe`` gets the highest timestamp that each step gave."""
    sink, route = target.form, target.route
    if route is None:
        return columns
    with errors_at(sink.step.where):
        elements, _, highest = route.run(columns, stamps)
    for step, stamp in highest.items():
        observe(step, stamp)
    assert sink.record_type is not None, "it has columns"
    return pa.RecordBatch.from_arrays(elements.columns, schema=arrow_schema(sink.record_type))


class ColumnSender:
    """Collects columns of elements, and packs them into rows.

    ``new_row`` makes a row and numbers it; ``records`` counts the elements that go to each step.
    """

    def __init__(
        self, groups: KeyGroups, new_row: Callable[[int, int, int, bytes], PackedRow], records: Counter[str]
    ) -> None:
        self._groups = groups
        self._new_row = new_row
        # Returns an upper bound for the watermark that a step, by its id, has when the elements arrive; None: unknown.
        self.bound_of: Callable[[str], int | None] = no_bound
        # The elements for each step that have not been sent yet, as Arrow batches.
        self._waiting: dict[int, tuple[StepEdge, list[Any]]] = {}
        self._records = records

    def add(
        self, targets: Sequence[StepEdge], columns: Any, stamps: Ints | None, observe: Callable[[str, int], None]
    ) -> None:
        """Adds columns of well-formed elements for targets, with their timestamps if they have some already.

        ``observe`` is called with the highest timestamp that a timestamp-assigning step gave.
        """
        for target in targets:
            form, route = target.form, target.route
            assert route is not None, "only sinks take columns as they are"
            with errors_at(form.step.where):
                routed, routed_stamps, highest = route.run(columns, stamps)
                form.check(routed_stamps)
            for step, stamp in highest.items():
                observe(step, stamp)
            count = len(routed_stamps)
            if not count:
                continue
            named = dict(zip(routed.schema.names, routed.columns, strict=True))
            with errors_at(form.step.where):
                key = pa.nulls(count) if route.keyed is None else route.keyed.evaluate(routed)
            arrays = [key, form.stamps_of(route, routed_stamps), *form.columns_of(route, named)]
            _, waiting = self._waiting.setdefault(target.number, (target, []))
            waiting.append(pa.RecordBatch.from_arrays(arrays, schema=form.raw_schema))
            self._records[form.step.id] += count

    def add_objects(self, targets: Sequence[StepEdge], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        """Turns elements into columns, and adds them to each target; a target of a join gets those of its side alone.

        Where a step needs no timestamps, elements may have none.
        """
        for target in targets:
            assert target.route is not None, "it takes the key"
            side, of_side, stamps = target.route.side, values, timestamps
            if side is not None:
                rows = [row for row, element in enumerate(values) if element.side == side]
                of_side, stamps = [values[row].value for row in rows], [timestamps[row] for row in rows]
            where, timed_part = target.form.step.where, target.form.timed_part
            if timed_part is not None and None in stamps:
                raise no_timestamp(of_side[stamps.index(None)], timed_part, where)
            with field_errors(where):
                columns = encode_batch(of_side, target.route.element)
            if target.form.may_lack_stamps:
                stamps = [MIN_TIMESTAMP if stamp is None else stamp for stamp in stamps]
            numbers = None if None in stamps else np.array(stamps, np.int64)
            self.add([target], columns, numbers, _observe_nothing)

    def full(self) -> Iterator[PackedRow]:
        """Yields the rows that are full. Call it after some elements have been added."""
        for target, waiting in self._waiting.values():
            count, size = sum(rows.num_rows for rows in waiting), sum(rows.nbytes for rows in waiting)
            if count >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
                yield from self._send(target, waiting)

    def flush(self) -> Iterator[PackedRow]:
        """Yields all rows that are left."""
        for target, waiting in self._waiting.values():
            if any(rows.num_rows for rows in waiting):
                yield from self._send(target, waiting)

    def _send(self, target: StepEdge, waiting: list[Any]) -> Iterator[PackedRow]:
        form = target.form
        with errors_at(form.step.where):
            rows = concatenated(waiting)
            waiting.clear()
            batches = list(form.exchange_rows(rows, self.bound_of(form.step.id)))
        for contents, part in batches:
            yield from self._send_rows(target, part, contents)

    def _send_rows(self, target: StepEdge, rows: Any, contents: ExchangeRows) -> Iterator[PackedRow]:
        form = target.form
        keys = encode_keys(rows.column(0))
        groups, labels = self._groups.count, self._groups.labels
        # Group numbers get the smallest type that holds them: numpy sorts small types in one pass.
        of_key = (form.hash_keys(keys.distinct) % np.uint64(groups)).astype(np.min_scalar_type(groups - 1))
        aggregated = form.partials(keys, rows) if contents is ExchangeRows.AGGREGABLE else None
        if aggregated is None:
            kind = RowKind.AGGREGATED if contents is ExchangeRows.AGGREGATED else RowKind.COLUMNS
            order, bounds = _by_group(of_key[keys.codes])
            rows = rows.take(pa.array(order)) if groups > 1 else rows
            for number, start, end in bounds:
                # Rows are not compressed here, since Spark compresses shuffled data.
                rows_of_group = rows.slice(start, end - start)
                yield self._new_row(labels[number], kind, target.number, dump_rows(rows_of_group, compress=False))
            return
        codes, partials = aggregated
        order, bounds = _by_group(of_key[codes])
        row_numbers = order.tolist()
        for number, start, end in bounds:
            payload = pack_partials(partials.pick(row_numbers[start:end]))
            yield self._new_row(labels[number], RowKind.PARTIALS, target.number, payload)


def _observe_nothing(step: str, highest: int) -> None:
    """Ignores a timestamp: steps upstream have observed it."""


def _by_group(
    of_row: npt.NDArray[np.unsignedinteger[Any]],
) -> tuple[npt.NDArray[np.intp], Iterator[tuple[int, int, int]]]:
    """Sorts rows by key group; returns the order, and the number, begin and end of each group that has rows.

    Rows of one group stay in order. A query may have thousands of groups, and those without rows cost nothing.
    """
    order = np.argsort(of_row, kind="stable")
    sorted_groups = of_row[order]
    starts = np.flatnonzero(np.diff(sorted_groups.astype(np.int64), prepend=-1))
    ends = np.append(starts, len(of_row))[1:]
    return order, zip(sorted_groups[starts].tolist(), starts.tolist(), ends.tolist(), strict=True)
