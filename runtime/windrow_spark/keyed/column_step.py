"""Runs a step on columns on one key group after another: unpacks its elements, and packs what its operator emits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from windrow.time import MIN_TIMESTAMP
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.operators.errors import errors_at, folded_behind
from windrow_runtime.operators.operator import OperatorRuntimeContext
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_spark.columnar import Ints
from windrow_spark.columnar.first_elements import batch_of_passed, values_of_passed
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.forms.first_form import ChangeForm, FirstForm
from windrow_spark.columnar.forms.join_form import JoinForm
from windrow_spark.columnar.joins.pair_results import batch_of_pairs, values_of_pairs
from windrow_spark.columnar.kernels.row_aggregate import LateFiring
from windrow_spark.columnar.results import record_batch, values_of
from windrow_spark.columnar.state import concatenated, load_rows, no_rows
from windrow_spark.columnar.step_operator import (
    BatchPart,
    ColumnsArrived,
    Increment,
    LateRows,
    PythonResults,
    StepBatch,
)
from windrow_spark.columnar.window_calls import WindowCalls
from windrow_spark.columnar.windows.column_operator import Fired
from windrow_spark.exchange.column_sender import columns_for_sink
from windrow_spark.exchange.facts import GROUP_ROWS, OPEN_WINDOWS, RECORDS_OUT
from windrow_spark.exchange.packer import Packer
from windrow_spark.exchange.rows import Arrived, ColumnElements, PackedRow
from windrow_spark.keyed.level import GroupBatch, KeyedStep, StepRunner
from windrow_spark.storage.tuning import StateTuning

if TYPE_CHECKING:
    from windrow_spark.columnar.forms.result_type import OnColumns
    from windrow_spark.physical.plan import SinkEdge

# Any in this module: results are of every type, and pyarrow has no types.

_VALUES_AT_ONCE: Final = 50_000

# Any: each function takes forms of its class.
_RESULTS: Final[Mapping[type, tuple[Callable[[Any, Any, RecordType], Any | None], Callable[[Any, Any], list[Any]]]]] = {
    ColumnarForm: (record_batch, values_of),
    FirstForm: (batch_of_passed, values_of_passed),
    ChangeForm: (batch_of_passed, values_of_passed),
    JoinForm: (batch_of_pairs, values_of_pairs),
}
"""What makes results as a record batch with the columns of a type, and as values, by the class of the form."""


class ColumnRunner(StepRunner):
    """Runs one step on columns in one task, on one key group at a time."""

    def __init__(self, step: KeyedStep, form: OnColumns, tuning: StateTuning) -> None:
        super().__init__(step)
        self._form = form
        self._tuning = tuning
        self._runtime = OperatorRuntimeContext(step.name or step.step_id, self._metrics)
        self._opened: WindowOperator | None = None
        self._calls: WindowCalls | None = None
        if isinstance(form, ColumnarForm) and form.calls_function:
            self._calls = self._opened_calls(form)
        # Results as a record batch with the columns of a type, None where Python has to make them; and as values.
        self._batch_of: Callable[[Any, RecordType], Any | None]
        self._values_of: Callable[[Any], list[Any]]
        batch_of, make_values = _RESULTS[type(form)]
        self._batch_of, self._values_of = partial(batch_of, form), partial(make_values, form)

    def _opened_calls(self, form: ColumnarForm) -> WindowCalls:
        """Opens the user's functions, which an operator without state has."""
        operator = self.step.create()
        assert isinstance(operator, WindowOperator), "the step has windows"
        operator.metrics = self._metrics
        operator.open(self._runtime)
        self._opened = operator
        return WindowCalls(form, operator, self._collector)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        super().close()

    def run(self, group: GroupBatch) -> Iterator[PackedRow]:
        """Runs one batch of one group; yields rows as soon as they are full."""
        self._runtime.key_group = group.key_group
        record = group.record
        watermarks = (max(each.watermark, record.watermark) for each in group.times)
        # Results of timers upstream arrive under the watermark of the batch before.
        with errors_at(self._form.step.where):
            parts = list(map(BatchPart, watermarks, map(self._elements_of, group.arrived), (0, 1)))
        if not group.arrived[0]:
            del parts[0]
        now = max(group.times[1].now, record.now)
        batch: StepBatch[Any, Any] = StepBatch(self._form.operator, record, group.store, parts, now, self._tuning)
        with errors_at(self._form.step.where):
            for phase, outputs in batch.run():
                for output in outputs:
                    if self._calls is not None:
                        self._calls.set_time(batch.watermark, now)
                    yield from self._pass_on(output, group.packers[phase])
                    del output  # frees its memory before the next one is made
        self.facts[OPEN_WINDOWS] += batch.opened

    def _elements_of(self, parts: Sequence[Arrived]) -> ColumnsArrived:
        """Unpacks elements, and numbers them in the order of arrival."""
        schemas = self._form.exchange_schema, self._form.partial_schema
        rows: tuple[list[Any], list[Any]] = [no_rows(schemas[0])], [no_rows(schemas[1])]
        numbers: tuple[list[Ints], list[Ints]] = [], []
        count = 0
        for part in parts:
            assert isinstance(part, ColumnElements), "no others are sent to a step on columns"
            of_part = load_rows(part.stream, schemas[part.is_partial])
            rows[part.is_partial].append(of_part)
            numbers[part.is_partial].append(np.arange(count, count + of_part.num_rows))
            count += of_part.num_rows
        self.facts[GROUP_ROWS] += count
        arrival = np.concatenate([np.zeros(0, np.int64), *numbers[1], *numbers[0]])
        return ColumnsArrived(concatenated(rows[1]), concatenated(rows[0]), arrival)

    def _pass_on(self, output: Any, packer: Packer) -> Iterator[PackedRow]:
        """Packs what the operator emits."""
        if isinstance(output, LateRows):
            yield from self._pass_on_late(output, packer)
        elif isinstance(output, PythonResults):
            for result, stamp in output.stamped:
                if isinstance(result, LateFiring) and self._calls is not None:
                    self._calls.fire_again(result)
                else:
                    self._collector.collect(result, stamp)
            yield from self._drain(packer)
        elif isinstance(output, Increment):
            self._metrics.count(*output)
        elif self._calls is not None:
            for _ in self._calls.fire(output):
                yield from self._drain(packer)
        else:
            yield from self._emit(output, packer)

    def _pass_on_late(self, late: LateRows, packer: Packer) -> Iterator[PackedRow]:
        """Passes on late elements to their side output; drops them where there is none."""
        form = self._form
        self._metrics.late += late.elements
        if not isinstance(form, ColumnarForm) or form.late_tag is None:
            self._metrics.count("late_records_dropped", late.elements)
            return
        tag = form.late_tag
        stamps, columns = late.rows.column(1), form.late_elements(late.rows)
        if len(columns[0]) != late.elements:
            raise folded_behind(late.watermark)
        direct = self.step.side_sinks.get(tag, ())
        if direct and all(target.form.record_type == form.element for target in direct):
            batch = form.batch_of(columns)
            for target in direct:
                yield from packer.send_to_sink(target, batch)
            return
        for element, stamp in zip(form.elements_of(columns), stamps.to_pylist(), strict=True):
            self._collector.side_output(tag, element, stamp)
        yield from self._drain(packer)

    def _emit(self, results: Any, packer: Packer) -> Iterator[PackedRow]:
        """Sends results as columns if all of their readers take columns, else as Python values."""
        step = self.step
        direct = step.direct_sinks
        if step.targets:
            assert step.results is not None, "columns have a type"
            step.send(self._batch_of(results, step.results), results.stamps, packer)
            yield from packer.full()
            if step.output is None or step.output.is_idle:
                self.facts[RECORDS_OUT] += len(results)
                return
        batches = [self._batch_for(target, results) for target in direct]
        if batches and all(batch is not None for batch in batches):
            self.facts[RECORDS_OUT] += len(results)
            for target, batch in zip(direct, batches, strict=True):
                yield from packer.send_to_sink(target, batch)
            return
        if isinstance(results, Fired):
            portions = results.portions(_VALUES_AT_ONCE)
        else:
            portions = (results.slice(start, _VALUES_AT_ONCE) for start in range(0, len(results), _VALUES_AT_ONCE))
        for portion in portions:
            stamps = portion.stamps.tolist() if self._form.gives_stamps else [None] * len(portion)
            if self._form.may_lack_stamps:
                stamps = [None if stamp == MIN_TIMESTAMP else stamp for stamp in stamps]
            for value, stamp in zip(self._values_of(portion), stamps, strict=True):
                self._collector.collect(value, stamp)
            self._collector.drain(packer, have_columns=True)
            yield from packer.full()

    def _batch_for(self, target: SinkEdge, results: Any) -> Any | None:
        """Returns the columns of a sink's elements; None where Python has to make them."""
        if target.route is None:
            assert target.form.record_type is not None, "it has columns"
            return self._batch_of(results, target.form.record_type)
        step = self.step
        assert step.results is not None, "columns have a type"
        assert step.output is not None, "somebody reads them"
        return columns_for_sink(target, self._batch_of(results, step.results), results.stamps, step.output.observe)
