"""Sends columns of elements to sinks: into files if the task writes them, or else in rows to the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.columnar import Ints
from windrow_runtime.columnar.state import dump_rows
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.physical.plan import SinkEdge
from windrow_runtime.spark.exchange.facts import RECORDS_IN, Count
from windrow_runtime.spark.exchange.packer import Packer
from windrow_runtime.spark.exchange.rows import PackedRow

# Any in this module: pyarrow has no types.

_ROWS_IN_A_PAYLOAD: Final = 100_000


def columns_for(target: SinkEdge, columns: Any, stamps: Ints | None, observe: Callable[[str, int], None]) -> Any:
    """Returns the columns of a sink's elements; ``observe`` gets the highest timestamp that each step gave."""
    sink, route = target.form, target.route
    if route is None:
        return columns
    with errors_at(sink.step.where):
        elements, _, highest = route.run(columns, stamps)
    for step, stamp in highest.items():
        observe(step, stamp)
    assert sink.kind is not None, "it has columns"
    return pa.RecordBatch.from_arrays(elements.columns, schema=arrow_schema(sink.kind))


class SinkSender:
    """Sends columns to sinks in one task, and counts them."""

    def __init__(self) -> None:
        self._records: Counter[str] = Counter()

    def take_counts(self) -> list[Count]:
        """Returns how many elements went to each sink since the last call."""
        counts: list[Count] = [(sink, RECORDS_IN, records) for sink, records in self._records.items()]
        self._records.clear()
        return counts

    def send(
        self,
        targets: Sequence[SinkEdge],
        columns: Any,
        stamps: Ints | None,
        packer: Packer,
        observe: Callable[[str, int], None],
    ) -> Iterator[PackedRow]:
        """Sends elements, with timestamps that they have already, to sinks; yields rows for the driver."""
        for target in targets:
            yield from self.send_batch(target, columns_for(target, columns, stamps, observe), packer)

    def send_batch(self, target: SinkEdge, batch: Any, packer: Packer) -> Iterator[PackedRow]:
        """Sends the elements of one sink, which are in its columns already."""
        if batch.num_rows:
            self._records[target.form.step.id] += batch.num_rows
        for start in range(0, batch.num_rows, _ROWS_IN_A_PAYLOAD):
            portion = batch.slice(start, _ROWS_IN_A_PAYLOAD)
            if packer.writes(target.number):
                yield from packer.write_columns(target.number, portion)
            else:
                yield packer.row_of_columns(target.number, dump_rows(portion, compress=False))
