"""Decides which windows run on columns, and describes how: the form that workers get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from windrow.aggregates.arrival import CollectList
from windrow.aggregates.combined import Combined
from windrow.aggregates.declared import DeclaredAggregate
from windrow.aggregates.facts import FilledWindow
from windrow.errors import UnsupportedOperationError
from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, Form, ProcessSpec, ReduceSpec, Step
from windrow.plan.fitting import is_subtype
from windrow.windows.spec import FARTHEST, Counts, Intervals, Panes
from windrow_runtime.codecs.value_type import Kind, RecordType
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar import Ints
from windrow_spark.columnar.expressions.over_columns import ColumnExpression
from windrow_spark.columnar.forms.route import ExchangeRows, Route, RoutesTo, ScanTarget
from windrow_spark.columnar.forms.route_step import check_parts_only, total_expression
from windrow_spark.columnar.forms.window_function import check_window_function
from windrow_spark.columnar.kernels.choice import kernel_for
from windrow_spark.columnar.kernels.kernel import CombinedKernel, Kernel, Selector, same_input
from windrow_spark.columnar.kernels.row_aggregate import RowAggregate
from windrow_spark.columnar.kernels.totals import CountingKernel
from windrow_spark.columnar.rows.columns import WholeElement
from windrow_spark.columnar.rows.groups import Groups, hash_keys
from windrow_spark.columnar.rows.new_fields import NO_DEFAULTS, defaults_of, narrowed, stored_type
from windrow_spark.columnar.windows.calendar_slices import CalendarSlices
from windrow_spark.columnar.windows.column_operator import PartialAggregation, StepTraits
from windrow_spark.columnar.windows.counted import CountOperator
from windrow_spark.columnar.windows.cumulative_slices import CumulativeSlices
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.columnar.windows.panes import PanedOperator
from windrow_spark.columnar.windows.sessions import SessionOperator
from windrow_spark.columnar.windows.slices import SliceOperator
from windrow_spark.columnar.windows.step_windows import (
    RuledWindows,
    Sessions,
    Windows,
    may_be_late,
    needs_timestamps,
    windows_of,
)
from windrow_spark.columnar.windows.timed import TimedOperator

# Any in this module: aggregates of every type.


_Operator: TypeAlias = SliceOperator | SessionOperator | CountOperator | TimedOperator | PanedOperator

_OPERATORS: Final[Mapping[type, Callable[[Any, Kernel, pa.DataType, StepTraits], _Operator]]] = {
    Slices: SliceOperator,
    CalendarSlices: SliceOperator,
    CumulativeSlices: SliceOperator,
    Sessions: SessionOperator,
    Counts: CountOperator,
    Intervals: TimedOperator,
    Panes: PanedOperator,
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
    calls_function: bool = False  # whether windows that fire are handed to a window function of the user's

    hash_keys = staticmethod(hash_keys)

    @property
    def rule(self) -> Counts | Intervals | Panes | None:
        """Returns the rule by which windows fire, where their end alone does not say it."""
        return self.windows.rule if isinstance(self.windows, RuledWindows) else None

    @property
    def takes_elements(self) -> bool:
        """Returns whether the window function takes the elements themselves."""
        windows = self.step.node.windows
        return windows is not None and isinstance(windows.function, ProcessSpec)

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
    def stored_element(self) -> RecordType:
        """The type of the elements in state and in results."""
        return stored_type(self.element)

    @cached_property
    def operator(self) -> _Operator:
        """Runs the step on a key group."""
        # Windows that wait for the clock at the end of the stream are counted; counted windows do so anyway.
        counts = self.windows.by_clock and not isinstance(self.rule, Counts)
        kernel = CountingKernel(self.kernel) if counts else self.kernel
        rows = None
        if self.windows.lateness:
            record_type, function = self.stored_element, self.calls_function
            rows = RowAggregate(self.step, record_type, self.kernel, self.aggregate, self.filled, function)
        has_timers = any(route.has_stamps for route in self.routes)
        defaults = (
            defaults_of(self.element) if any(isinstance(each, WholeElement) for each in self.inputs) else NO_DEFAULTS
        )
        traits = StepTraits(self.late_tag is not None, has_timers, rows, self.takes_elements, defaults)
        return _OPERATORS[type(self.rule or self.windows)](self.windows, kernel, self.key_type, traits)

    @cached_property
    def raw_schema(self) -> pa.Schema:
        inputs = [pa.field(f"i{place}", expression.arrow_type) for place, expression in enumerate(self.inputs)]
        return self._schema_of(inputs if self.late_tag is None else [*inputs, *self._element_fields()])

    @cached_property
    def exchange_schema(self) -> pa.Schema:
        """The columns of elements that cross the exchange one by one.

        Those that may be late carry their fields for the side output, as a list of one: the others need no room.
        """
        inputs = [pa.field(f"i{place}", expression.arrow_type) for place, expression in enumerate(self.inputs)]
        if self.late_tag is not None:
            inputs.append(pa.field("late", pa.list_(pa.struct(self._element_fields()))))
        return self._schema_of(inputs)

    @cached_property
    def partial_schema(self) -> pa.Schema:
        """The columns of elements that are partially aggregated before the exchange."""
        return self.operator.partial_schema

    def columns_needed(self, route: Route) -> frozenset[str] | None:
        expressions = self.inputs if route.key is None else (route.key, *self.inputs)
        if self.late_tag is not None or any(isinstance(each, WholeElement) for each in expressions):
            return route.columns_needed(None)
        names = (each.columns for each in expressions if isinstance(each, ColumnExpression))
        return route.columns_needed(frozenset().union(*names))

    @property
    def timed_part(self) -> str | None:
        return "an event-time window" if needs_timestamps(self.windows) else None

    def check(self, stamps: Ints) -> None:
        """Refuses timestamps beyond 73 million years, with which arithmetic would leave 64 bits."""
        if self.timed_part is not None:
            check_near(stamps)

    def columns_of(self, route: Route, named: Mapping[str, pa.Array]) -> list[pa.Array]:
        inputs = [expression.evaluate(named) for expression in self.inputs]
        return inputs if self.late_tag is None else [*inputs, *named.values()]

    def exchange_rows(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[tuple[ExchangeRows, pa.RecordBatch]]:
        for is_partial, part in self.operator.prepare(rows, bound):
            if is_partial:
                yield ExchangeRows.AGGREGATED, part
            else:
                yield ExchangeRows.ELEMENTS, self._with_late_columns(part, bound)

    def _with_late_columns(self, rows: pa.RecordBatch, bound: int | None) -> pa.RecordBatch:
        """Adds to elements the columns that they need in order to cross the exchange one by one."""
        if self.late_tag is None:
            return rows
        may_be_late, count = self.operator.may_be_late(rows.column(1).to_numpy(), bound), 2 + len(self.inputs)
        element = pa.StructArray.from_arrays(rows.columns[count:], fields=self._element_fields())
        if not may_be_late.all():
            element = element.filter(pa.array(may_be_late))
        sizes = may_be_late.astype(np.int32)
        offsets = pa.array(np.append(np.int32(0), np.cumsum(sizes, dtype=np.int32)))
        late = pa.ListArray.from_arrays(offsets, element, type=self.exchange_schema.field("late").type)
        return pa.RecordBatch.from_arrays([*rows.columns[:count], late], schema=self.exchange_schema)

    def late_elements(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The columns of late elements, from rows that crossed one by one."""
        late: list[pa.Array] = rows.column("late").flatten().flatten()
        return late

    @property
    def state_text(self) -> str:
        """The columns of the step's state, as a checkpoint stores them: a form with others cannot read the state."""
        return self.state_text_of(None)

    def takes_more(self, were_there: Sequence[bool]) -> bool:
        """Returns whether rows of state can get the columns of aggregates that were not there before.

        Args:
            were_there: Whether each aggregate was.
        """
        kernel = self.kernel
        if self.rule is not None or not isinstance(self.aggregate, Combined) or self.combined is None:
            return False
        assert isinstance(kernel, CombinedKernel), "it combines the aggregates"
        # Sessions of a key stand in the order of their birth, by which they merge, only if an aggregate goes by it.
        were_ordered = any(
            member.ordered for member, was_there in zip(kernel.members, were_there, strict=True) if was_there
        )
        if isinstance(self.windows, Sessions) and kernel.ordered and not were_ordered:
            return False
        # The fields of a class say which results may be None; those of a tuple do not.
        members = zip(self.aggregate.members, were_there, strict=True)
        return self.combined.target is not None or not any(
            may_begin_empty(member) for (_, member), was_there in members if not was_there
        )

    def widened(self, rows: pa.RecordBatch, were_there: Sequence[bool]) -> pa.RecordBatch:
        """Adds to rows of state the columns of aggregates that were not there: they hold nothing.

        Args:
            rows: Rows with the columns of the aggregates that were there.
            were_there: Whether each aggregate was.
        """
        kernel, operator = self.kernel, self.operator
        assert isinstance(kernel, CombinedKernel), "it combines the aggregates"
        no_inputs = [pa.array([], each.arrow_type) for each in self.inputs]
        if kernel.is_numbered:
            no_inputs.append(pa.array([], pa.int64()))
        empty = iter(kernel.partial(Groups(np.zeros(0, np.int64), rows.num_rows), no_inputs))
        old = iter(rows.columns)
        columns = [next(old) for _ in range(1 + len(operator.window_columns))]
        for member, was_there in zip(kernel.members, were_there, strict=True):
            for _ in member.state_types:
                nothing = next(empty)
                columns.append(next(old) if was_there else nothing)
        return pa.RecordBatch.from_arrays([*columns, *old], names=operator.schema.names)

    def state_text_of(self, fields: Sequence[str] | None) -> str:
        """Returns the same for elements of a class that has these fields alone; None: as it is now."""
        return text_of_state(self.operator.schema, self.element, fields)

    def describe(self) -> Form:
        """The form, for ``explain()``."""
        clock = ", in processing time" if self.windows.by_clock else ""
        clock += ", a Python function for each window" if self.calls_function else ""
        aggregation, why = self.operator.partial_aggregation
        name = f"columns{clock}{self.operator.describe()}"
        if aggregation is PartialAggregation.NONE:
            return Form(name, (f"not partially aggregated before the exchange: {why}",))
        where = " where on time and worth it" if aggregation is PartialAggregation.ON_TIME else ""
        return Form(f"{name}, partially aggregated before the exchange{where}")


def may_begin_empty(aggregate: AggregateFunction[Any, Any, Any, Any, Any]) -> bool:
    """Returns whether an aggregate may give None where it is new, in windows that were open before."""
    return isinstance(aggregate, DeclaredAggregate) and aggregate.gives_none(None, may_be_empty=True) is not False


def text_of_state(schema: pa.Schema, element: RecordType, fields: Sequence[str] | None) -> str:
    """The columns of state as a text, for elements of a class that has these fields alone; None: as it is now."""
    types = [field.type for field in schema]
    if fields is not None and element.root.kind is Kind.RECORD:
        types = [narrowed(kind, element, fields) for kind in types]
    return ", ".join(map(str, types))


def check_ends(routes: Sequence[Route]) -> None:
    """Declines elements that carry the end of time, as the results of windows of all time do."""
    for route in routes:
        if route.begins_at_end and not route.assigns_stamps:
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


def columnar_form(step: Step, routes_to: RoutesTo) -> ColumnarForm:
    """The form of a keyed step on columns; declined where it has none."""
    node = step.node.windows
    if node is None:
        raise DeclinedError("a process function sees each element")
    spec = node.function
    if isinstance(spec, ReduceSpec):
        raise DeclinedError("not an aggregate of windrow.aggregates")
    windows = windows_of(node)
    rule = windows.rule if isinstance(windows, RuledWindows) else None
    with_panes = isinstance(rule, Panes) and rule.with_panes
    calls_function = spec.process is not None and not isinstance(spec.process, FilledWindow) and not with_panes
    if calls_function:
        assert spec.process is not None, "it is called"
        check_window_function(spec.process, windows)
    routes = routes_to(step, stamped=needs_timestamps(windows))
    if needs_timestamps(windows):
        check_ends(routes)
    element = routes[0].element
    filled = spec.process if isinstance(spec.process, FilledWindow) else None
    _check_key(routes[0].key, filled)
    aggregate = spec.aggregate if isinstance(spec, AggregateSpec) else _list_of(element, windows)
    kernel = kernel_for(aggregate, partial(_input_type, element))
    if kernel.outgrows_result and rule is not None and rule.accumulates:
        raise DeclinedError("each firing would copy all values that its window holds")
    if kernel.ordered and isinstance(windows, Slices) and windows.windows_each > 1:
        # The slices of a window are merged in order of time, which is not that of arrival.
        kernel = kernel.numbered()
    late_tag = None if node.late_tag is None or not may_be_late(windows) else node.late_tag.name
    inputs = tuple([input_of(element, selector) for selector in kernel.inputs])
    if late_tag is not None or any(isinstance(each, WholeElement) for each in inputs):
        check_parts_only(element)
    return ColumnarForm(
        step=step,
        routes=routes,
        windows=windows,
        kernel=kernel,
        aggregate=aggregate,
        filled=filled,
        late_tag=late_tag,
        inputs=inputs,
        calls_function=calls_function,
    )


def _list_of(element: RecordType, windows: Windows) -> CollectList[Any, Any]:
    """Returns the aggregate that holds the elements of a window for its function, in order of arrival."""
    if isinstance(windows, Sessions):
        raise DeclinedError("sessions that merge hold their elements in order of arrival")
    if element.root.nullable or element.root.kind is Kind.NONE:
        raise DeclinedError("elements may be None")
    return CollectList(None)


def _check_key(key: ColumnExpression | None, filled: FilledWindow | None) -> None:
    """Declines keys that may not fit the field of the result which gets them: Python refuses such keys one by one."""
    python_type: object = type(None) if key is None else key.value.python_type
    if key is not None and key.value.nullable:
        python_type = key.value.python_type | None
    for name, type_form in () if filled is None else filled.key_fields:
        if not is_subtype(python_type, type_form):
            raise DeclinedError(f"the field {name} may not take the key")


def input_of(element: RecordType, selector: Selector | None, what: str = "") -> ColumnExpression | WholeElement:
    """What a step takes from elements by a selector; None is the element itself."""
    if not element.single and same_input(selector) == same_input(None):
        return WholeElement(element)
    return total_expression(selector or (lambda value: value), element, what)


def _input_type(element: RecordType, selector: Selector | None) -> pa.DataType | None:
    try:
        return input_of(element, selector).arrow_type
    except DeclinedError:
        return None
