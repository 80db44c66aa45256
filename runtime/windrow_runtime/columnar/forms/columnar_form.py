"""Decides which windows run on columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from windrow.aggregates.combined import Combined
from windrow.aggregates.facts import FilledWindow
from windrow.errors import UnsupportedOperationError
from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, Step, WindowNode
from windrow.plan.fitting import is_subtype
from windrow.windows import GlobalWindows
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar import Ints
from windrow_runtime.columnar.expressions.over_columns import ColumnExpression
from windrow_runtime.columnar.forms.route import (
    CheckSource,
    ExchangeRows,
    ResultsOf,
    Route,
    ScanTarget,
    no_results,
    routes_to,
)
from windrow_runtime.columnar.forms.route_step import total_expression
from windrow_runtime.columnar.kernels.choice import kernel_for
from windrow_runtime.columnar.kernels.kernel import Kernel, Selector, same_input
from windrow_runtime.columnar.kernels.totals import CountingKernel
from windrow_runtime.columnar.rows.columns import WholeElement
from windrow_runtime.columnar.rows.groups import encode_keys, hash_keys
from windrow_runtime.columnar.windows.column_operator import PartialAggregation
from windrow_runtime.columnar.windows.counted import CountOperator
from windrow_runtime.columnar.windows.geometry import FARTHEST, SlicedWindows, Slices
from windrow_runtime.columnar.windows.kinds import (
    Counted,
    Sessions,
    Timed,
    Windows,
    assigned_slices,
    may_be_late,
    needs_timestamps,
    windows_of,
)
from windrow_runtime.columnar.windows.pane_rules import Paned
from windrow_runtime.columnar.windows.panes import PanedOperator
from windrow_runtime.columnar.windows.sessions import SessionOperator, may_be_behind, sessions_in_task
from windrow_runtime.columnar.windows.slices import SliceOperator
from windrow_runtime.columnar.windows.timed import TimedOperator
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology

# Any in this module: aggregates of every type.


_WORTH_IT: Final = 2
"""From this many elements for each key or session on, folding saves more before the exchange than it costs."""

_Operator: TypeAlias = SliceOperator | SessionOperator | CountOperator | TimedOperator | PanedOperator

_OPERATORS: Final[Mapping[type[Windows], Callable[[Any, Kernel, pa.DataType], _Operator]]] = {
    Slices: SliceOperator,
    Sessions: SessionOperator,
    Counted: CountOperator,
    Timed: TimedOperator,
    Paned: PanedOperator,
}


@dataclass(frozen=True)
class ColumnarForm(ScanTarget):
    """A keyed step that runs on columns."""

    windows: Windows
    kernel: Kernel
    aggregate: AggregateFunction[Any, Any, Any]
    filled: FilledWindow | None  # puts the key and the window into results; None: they are those of the aggregate
    late_tag: str | None  # the side output of late elements
    inputs: tuple[ColumnExpression | WholeElement, ...]  # what the kernel takes from elements

    hash_keys = staticmethod(hash_keys)

    @cached_property
    def partial_aggregation(self) -> PartialAggregation:
        """Which elements are partially aggregated before the exchange."""
        return self._aggregation[0]

    @cached_property
    def _aggregation(self) -> tuple[PartialAggregation, str]:
        """Which elements are partially aggregated before the exchange, and why none of the others."""
        late = "late elements leave one by one" if self.late_tag is not None else ""
        if self.windows.lateness:
            late = "each late element fires its window"
        return self.operator.partial_aggregation(late, has_timers=any(route.has_stamps for route in self.routes))

    @property
    def aggregates_all(self) -> bool:
        """Returns whether elements are aggregated before anybody has looked whether they are late."""
        return self.partial_aggregation is PartialAggregation.ALL

    @property
    def counts_windows(self) -> bool:
        """Returns whether the state has a row for each window that is open."""
        return self.operator.counts_windows

    @property
    def combined(self) -> Combined[Any, Any, Any, Any] | None:
        """The combination whose target makes the results; None: there is one aggregate, or one fact of the window."""
        whole = self.aggregate if self.filled is None else self.filled.combined
        return whole if isinstance(whole, Combined) else None

    @cached_property
    def operator(self) -> _Operator:
        """Runs the step on a key group."""
        # What waits for the clock when the stream ends is counted; counted windows do so anyway.
        counts = self.windows.by_clock and not isinstance(self.windows, Counted)
        kernel = CountingKernel(self.kernel) if counts else self.kernel
        return _OPERATORS[type(self.windows)](self.windows, kernel, self.key_type)

    @cached_property
    def raw_schema(self) -> pa.Schema:
        inputs = [pa.field(f"i{place}", found.arrow_type) for place, found in enumerate(self.inputs)]
        return self._schema_of(inputs if self.late_tag is None else [*inputs, *self._element_fields()])

    @cached_property
    def exchange_schema(self) -> pa.Schema:
        """The columns of elements that cross the exchange one by one.

        Those that may be late carry their fields for the side output, as a list of one: the others need no room.
        """
        inputs = [pa.field(f"i{place}", found.arrow_type) for place, found in enumerate(self.inputs)]
        if self.late_tag is not None:
            inputs.append(pa.field("late", pa.list_(pa.struct(self._element_fields()))))
        return self._schema_of(inputs)

    @cached_property
    def partial_schema(self) -> pa.Schema:
        """The columns of elements that are partially aggregated before the exchange."""
        return self.operator.partial_schema

    def columns_needed(self, route: Route) -> frozenset[str] | None:
        taken = self.inputs if route.key is None else (route.key, *self.inputs)
        if self.late_tag is not None or any(isinstance(each, WholeElement) for each in taken):
            return route.columns_needed(None)
        names = (each.columns for each in taken if isinstance(each, ColumnExpression))
        return route.columns_needed(frozenset().union(*names))

    def check(self, stamps: Ints) -> None:
        """Refuses timestamps beyond 73 million years, with which arithmetic would leave 64 bits."""
        if needs_timestamps(self.windows):
            check_near(stamps)

    def columns_of(self, route: Route, named: Mapping[str, pa.Array]) -> list[pa.Array]:
        inputs = [expression.evaluate(named) for expression in self.inputs]
        return inputs if self.late_tag is None else [*inputs, *named.values()]

    def inputs_in(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The inputs of the kernel, in rows of elements."""
        return list(rows.columns[2 : 2 + len(self.inputs)])

    def exchange_rows(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[tuple[ExchangeRows, pa.RecordBatch]]:
        for contents, part in self._exchange_rows(rows, bound):
            yield contents, self._with_late_columns(part, bound) if contents is ExchangeRows.ELEMENTS else part

    def _with_late_columns(self, rows: pa.RecordBatch, bound: int | None) -> pa.RecordBatch:
        """Elements with the columns with which they cross one by one."""
        if self.late_tag is None:
            return rows
        slices, count = assigned_slices(self.windows), 2 + len(self.inputs)
        element = pa.StructArray.from_arrays(rows.columns[count:], fields=self._element_fields())
        sizes = np.ones(rows.num_rows, np.int32)
        if slices is not None and bound is not None:
            may_be_late = slices.expired(slices.slices_of(rows.column(1).to_numpy()), bound)
            element, sizes = element.filter(pa.array(may_be_late)), may_be_late.astype(np.int32)
        offsets = pa.array(np.append(np.int32(0), np.cumsum(sizes, dtype=np.int32)))
        late = pa.ListArray.from_arrays(offsets, element, type=self.exchange_schema.field("late").type)
        return pa.RecordBatch.from_arrays([*rows.columns[:count], late], schema=self.exchange_schema)

    def late_elements(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The columns of late elements, from rows that crossed one by one."""
        late: list[pa.Array] = rows.column("late").flatten().flatten()
        return late

    def _exchange_rows(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[tuple[ExchangeRows, pa.RecordBatch]]:
        """Rows as they cross, of which elements have all their columns."""
        aggregation, operator = self.partial_aggregation, self.operator
        if aggregation is PartialAggregation.NONE or (aggregation is PartialAggregation.ON_TIME and bound is None):
            yield ExchangeRows.ELEMENTS, rows
        elif isinstance(operator, TimedOperator):
            yield (
                ExchangeRows.AGGREGATED,
                operator.aggregate(rows.column(0), rows.column(1).to_numpy(), self.inputs_in(rows)),
            )
        elif isinstance(operator, SessionOperator):
            assert bound is not None, "sessions are aggregated where a bound is known"
            yield from self._sessions(operator, rows, bound)
        else:
            assert isinstance(operator, (SliceOperator, PanedOperator)), "counted elements are not aggregated"
            yield from self._slices(operator, rows, None if aggregation is PartialAggregation.ALL else bound)

    def _slices(
        self, operator: SliceOperator | PanedOperator, rows: pa.RecordBatch, bound: int | None
    ) -> Iterator[tuple[ExchangeRows, pa.RecordBatch]]:
        """Rows for windows of slices; where there is a bound, elements that may be behind it cross one by one."""
        # Slices are aggregated again where they arrive, and keyed windows are not.
        may_send_elements = self.late_tag is None or isinstance(operator, PanedOperator)
        may_send_elements = may_send_elements and not (self.kernel.ordered or self.kernel.is_numbered)
        if may_send_elements and rows.num_rows < _WORTH_IT * len(encode_keys(rows.column(0)).distinct):
            yield ExchangeRows.ELEMENTS, rows
            return
        if bound is not None:
            slices = assigned_slices(self.windows)
            assert slices is not None, "sessions are aggregated elsewhere"
            stays = ~slices.on_time(bound, slices.slices_of(rows.column(1).to_numpy()))
            if stays.any():
                yield ExchangeRows.ELEMENTS, rows.filter(pa.array(stays))
                rows = rows.filter(pa.array(~stays))
            if not rows.num_rows:
                return
        inputs = rows.column(0), rows.column(1).to_numpy(), self.inputs_in(rows)
        if isinstance(operator, PanedOperator):
            yield ExchangeRows.AGGREGATED, operator.aggregate(*inputs)[0]
            return
        rows_of_state, counts = operator.aggregate(*inputs)
        columns = [*rows_of_state.columns, pa.array(counts)]
        yield ExchangeRows.AGGREGATED, pa.RecordBatch.from_arrays(columns, schema=self.partial_schema)

    def _sessions(
        self, operator: SessionOperator, rows: pa.RecordBatch, bound: int
    ) -> Iterator[tuple[ExchangeRows, pa.RecordBatch]]:
        """Yields rows for sessions; all elements of a key cross one by one if one of them may be behind the bound."""
        keys = encode_keys(rows.column(0))
        stays = may_be_behind(keys, rows.column(1).to_numpy(), operator.windows.gap, bound)
        if stays.any():
            yield ExchangeRows.ELEMENTS, rows.filter(pa.array(stays))
            rows = rows.filter(pa.array(~stays))
            keys = encode_keys(rows.column(0))
        found = sessions_in_task(keys, rows.column(1).to_numpy(), operator.windows.gap)
        if rows.num_rows < _WORTH_IT * found.groups.count:
            yield ExchangeRows.ELEMENTS, rows
        elif rows.num_rows:
            yield ExchangeRows.AGGREGATED, operator.aggregate(keys, found, self.inputs_in(rows))

    @property
    def state_text(self) -> str:
        """The columns of its state, as they stand in a checkpoint: other ones cannot read it."""
        return ", ".join([str(field.type) for field in self.operator.schema])

    def describe(self) -> str:
        """A few words for ``explain()``."""
        clock = ", by the clock" if self.windows.by_clock else ""
        aggregation, why = self._aggregation
        partial = {
            PartialAggregation.NONE: f"; not partially aggregated before the exchange: {why}",
            PartialAggregation.ALL: ", partially aggregated before the exchange",
            PartialAggregation.ON_TIME: ", partially aggregated before the exchange where on time and worth it",
        }[aggregation]
        return f"columns{clock}{self.operator.describe()}{partial}"


def check_ends(topology: Topology, routes: Sequence[Route]) -> None:
    """Declines elements that carry the end of time, as the results of windows of all time do."""
    for route in routes:
        before = topology.step(route.source).node
        if isinstance(before, WindowNode) and isinstance(before.assigner, GlobalWindows) and not route.assigns_stamps:
            raise DeclinedError(f"the results of {route.source} carry the end of time")


def check_near(stamps: Ints) -> None:
    """Refuses timestamps beyond 73 million years, with which arithmetic would leave 64 bits."""
    if len(stamps) and (stamps.max() > FARTHEST or stamps.min() < -FARTHEST):
        far = stamps.max() if stamps.max() > FARTHEST else stamps.min()
        raise UnsupportedOperationError(
            "a timestamp is too far away for columns",
            given=f"{far} ms",
            expected=f"at most {FARTHEST} ms from 1970",
            hint="give timestamps in milliseconds, or filter such elements out before they get them; "
            "SparkRunner(columnar=False), with a new checkpoint if there is one, takes them one by one",
        )


def columnar_form(
    topology: Topology, step: Step, check_source: CheckSource, results_of: ResultsOf = no_results
) -> ColumnarForm:
    """The form of a keyed step on columns; declined where it has none."""
    node = step.node
    if not isinstance(node, WindowNode):
        raise DeclinedError("a process function sees each element")
    spec = node.function
    if not isinstance(spec, AggregateSpec):
        raise DeclinedError("not an aggregate of windrow.aggregates")
    windows = windows_of(node)
    with_panes = isinstance(windows, Paned) and windows.with_panes
    if spec.process is not None and not isinstance(spec.process, FilledWindow) and not with_panes:
        raise DeclinedError(f"{spec.process.describe()} follows the aggregate")
    routes = routes_to(topology, step, check_source, results_of, stamped=needs_timestamps(windows))
    if needs_timestamps(windows):
        check_ends(topology, routes)
    element = routes[0].element
    filled = spec.process if isinstance(spec.process, FilledWindow) else None
    _check_key(routes[0].key, filled)
    kernel = kernel_for(spec.aggregate, partial(_input_type, element))
    if kernel.outgrows_result and isinstance(windows, SlicedWindows) and windows.accumulates:
        raise DeclinedError("each firing would copy all values that its window holds")
    if kernel.ordered and isinstance(windows, Slices) and windows.windows_each > 1:
        # The slices of a window are merged in order of time, which is not that of arrival.
        kernel = kernel.numbered()
    return ColumnarForm(
        step=step,
        routes=routes,
        windows=windows,
        kernel=kernel,
        aggregate=spec.aggregate,
        filled=filled,
        late_tag=None if node.late_tag is None or not may_be_late(windows) else node.late_tag.name,
        inputs=tuple([input_of(element, selector) for selector in kernel.inputs]),
    )


def _check_key(key: ColumnExpression | None, filled: FilledWindow | None) -> None:
    """Declines keys that may not be of the type of a field which they are for: Python refuses these one by one."""
    given: object = type(None) if key is None else key.value.python_type
    if key is not None and key.value.nullable:
        given = key.value.python_type | None
    for name, kind in () if filled is None else filled.key_fields:
        if not is_subtype(given, kind):
            raise DeclinedError(f"the field {name} may not take the key")


def input_of(element: RecordType, selector: Selector | None) -> ColumnExpression | WholeElement:
    """What a kernel takes from elements by a selector; None is the element itself."""
    if not element.single and same_input(selector) == same_input(None):
        return WholeElement(element)
    return total_expression(selector or (lambda value: value), element, "")


def _input_type(element: RecordType, selector: Selector | None) -> pa.DataType | None:
    try:
        return input_of(element, selector).arrow_type
    except DeclinedError:
        return None
