"""Reads the columns of a source in a task, and sends them to the keyed steps and sinks that take columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar.rows.columns import clean_columns
from windrow_runtime.inputs.text_rows import TextRows
from windrow_runtime.physical.plan import SinkEdge, StepEdge
from windrow_runtime.spark.exchange.column_sender import ColumnSender
from windrow_runtime.spark.exchange.facts import Count
from windrow_runtime.spark.exchange.packer import Packer
from windrow_runtime.spark.exchange.rows import PackedRow, Phase, no_bound, sequence_number
from windrow_runtime.spark.exchange.sink_columns import SinkSender
from windrow_runtime.spark.key_groups import KeyGroups

# Any in this module: pyarrow has no types.


class ColumnScan:
    """Sends the columns of a source in one task; ``origin`` orders the task's rows among those of other tasks.

    ``observe`` is called with the highest timestamp that a timestamp-assigning step gave; ``bound_of`` returns an upper
    bound for the watermark that a step has in this batch, or None. Elements for sinks go to the packer of the task.
    """

    def __init__(
        self,
        kind: RecordType,
        targets: Sequence[StepEdge],
        groups: KeyGroups,
        origin: int,
        observe: Callable[[str, int], None],
        bound_of: Callable[[str], int | None] = no_bound,
        sinks: Sequence[SinkEdge] = (),
        packer: Packer | None = None,
    ) -> None:
        self._kind = kind
        self._targets = targets
        self._sender = ColumnSender(groups, self._new_row)
        self._sender.bound_of = bound_of
        self._origin = origin
        self._observe = observe
        self._row = 0
        self._sinks = sinks
        self._packer = packer
        self._to_sinks = SinkSender()

    def take_counts(self) -> list[Count]:
        """Returns how many elements went to each step since the last call."""
        return self._sender.take_counts() + self._to_sinks.take_counts()

    def columns_of(self, batch: Any) -> Any | None:
        """Returns the elements of a batch of the source as columns; None if a record may be malformed."""
        if isinstance(batch, TextRows):
            return batch.columns()
        # Batches that workers read from Parquet files have their Arrow batch in `rows`.
        return clean_columns(batch if isinstance(batch, pa.RecordBatch) else batch.rows, self._kind)

    def encode(self, values: Sequence[Any]) -> Any:
        """Returns decoded elements as columns."""
        return encode_batch(values, self._kind)

    def add(self, columns: Any) -> Iterator[PackedRow]:
        """Adds the columns of well-formed elements; yields the rows that are full."""
        self._sender.add(self._targets, columns, None, self._observe)
        yield from self._sender.full()
        if self._packer is not None:
            yield from self._to_sinks.send(self._sinks, columns, None, self._packer, self._observe)

    def flush(self) -> Iterator[PackedRow]:
        """Yields all rows that are left."""
        return self._sender.flush()

    def _new_row(self, group: int, kind: int, target: int, payload: bytes) -> PackedRow:
        number = sequence_number(Phase.AFTER_WATERMARK, self._origin, self._row)
        self._row += 1
        return PackedRow(group, kind, target, number, payload)
