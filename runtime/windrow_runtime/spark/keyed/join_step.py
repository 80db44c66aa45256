"""Runs a join of two streams on columns, on one key group after another."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar.forms.join_form import JoinForm
from windrow_runtime.columnar.joins.pair_results import batch_of_pairs, values_of_pairs
from windrow_runtime.columnar.joins.side_rows import JoinOperator, Pairs
from windrow_runtime.columnar.state import concatenated
from windrow_runtime.columnar.windows.column_operator import Times
from windrow_runtime.spark.exchange.packer import Packer
from windrow_runtime.spark.exchange.rows import PackedRow
from windrow_runtime.spark.keyed.column_step import ColumnRunner, Phase, mask_array
from windrow_runtime.spark.keyed.level import KeyedStep
from windrow_runtime.storage.group_record import PageStore, StepRecord
from windrow_runtime.storage.tuning import StateTuning

# Any in this module: results are of every type, and pyarrow has no types.


class JoinRunner(ColumnRunner[Pairs]):
    """Runs one join in one task, on one key group at a time."""

    def __init__(self, step: KeyedStep, form: JoinForm, tuning: StateTuning) -> None:
        super().__init__(step, form, tuning)
        self._form = form

    def _run_phases(
        self, record: StepRecord, store: PageStore, phases: Sequence[Phase], now: int, fires: Packer
    ) -> Iterator[PackedRow]:
        return self._run_pages(self._form.operator, record, store, phases, now, fires)

    def _add(self, operator: JoinOperator, rows: Any, arrived: Phase, times: Times) -> Generator[PackedRow, None, Any]:
        elements = arrived.elements
        late = operator.late(elements.column(1).to_numpy(), times.watermark)
        if late.any():
            count = int(late.sum())
            self._metrics.late += count
            self._metrics.count("late_records_dropped", count)
            elements = elements.filter(mask_array(~late))
        for pairs in operator.pairs(rows, elements):
            yield from self._emit(pairs, arrived.packer)
        return concatenated([rows, elements])

    def _batch_of(self, results: Pairs, kind: RecordType) -> Any | None:
        return batch_of_pairs(self._form, results, kind)

    def _values_of(self, results: Pairs) -> list[Any]:
        return values_of_pairs(self._form, results)
