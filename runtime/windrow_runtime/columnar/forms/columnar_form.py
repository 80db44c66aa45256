"""Decides which steps run on columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import pyarrow as pa

from windrow.aggregates.combined import Combined
from windrow.aggregates.facts import FilledWindow
from windrow.errors import UnsupportedOperationError
from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, Step, WindowNode
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar import Ints
from windrow_runtime.columnar.forms.route import CheckSource, ScanTarget, expression_of, routes_to
from windrow_runtime.columnar.kernels.choice import kernel_for
from windrow_runtime.columnar.kernels.kernel import Kernel, Selector, same_input
from windrow_runtime.columnar.rows.columns import ColumnExpression, WholeElement
from windrow_runtime.columnar.rows.groups import hash_keys
from windrow_runtime.columnar.windows.counted import CountOperator
from windrow_runtime.columnar.windows.geometry import (
    FARTHEST,
    Counted,
    Panes,
    Sessions,
    Timed,
    Windows,
    may_be_late,
    needs_timestamps,
    windows_of,
)
from windrow_runtime.columnar.windows.panes import PaneOperator
from windrow_runtime.columnar.windows.sessions import SessionOperator
from windrow_runtime.columnar.windows.timed import TimedOperator
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology

# Any in this module: aggregates of every type.


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

    @property
    def folds_first(self) -> bool:
        """Returns whether elements are folded before the exchange: nobody asks for late ones, nor for their order."""
        windows = self.windows
        is_asked = windows.lateness or self.late_tag is not None or self.kernel.is_numbered
        if isinstance(windows, Timed) and windows.panes.is_global and not windows.panes.by_clock:
            return False  # at the end of the stream each element fires
        return isinstance(windows, (Panes, Timed)) and not is_asked

    @property
    def counts_windows(self) -> bool:
        """Returns whether the state has a row for each window that is open."""
        windows = self.windows
        return isinstance(windows, (Sessions, Timed)) or (isinstance(windows, Counted) and windows.pieces_each == 1)

    @property
    def combined(self) -> Combined[Any, Any, Any, Any] | None:
        """The combination whose target makes the results; None: there is one aggregate, or one fact of the window."""
        whole = self.aggregate if self.filled is None else self.filled.combined
        return whole if isinstance(whole, Combined) else None

    @cached_property
    def operator(self) -> PaneOperator | SessionOperator | CountOperator | TimedOperator:
        """Runs the step on a key group."""
        if isinstance(self.windows, Timed):
            return TimedOperator(self.windows, self.kernel, self.key_type)
        if isinstance(self.windows, Counted):
            return CountOperator(self.windows, self.kernel, self.key_type)
        if isinstance(self.windows, Sessions):
            return SessionOperator(self.windows, self.kernel, self.key_type)
        return PaneOperator(self.windows, self.kernel, self.key_type)

    @cached_property
    def raw_schema(self) -> pa.Schema:
        inputs = [pa.field(f"i{place}", found.arrow_type) for place, found in enumerate(self.inputs)]
        return self._schema_of(inputs if self.late_tag is None else [*inputs, *self._element_fields()])

    @cached_property
    def exchange_schema(self) -> pa.Schema:
        """The columns that go through the exchange: elements, or rows of state with the number of their elements."""
        return self.operator.folded_schema if self.folds_first else self.raw_schema

    def check(self, stamps: Ints) -> None:
        """Refuses timestamps beyond 73 million years, with which arithmetic would leave 64 bits."""
        if len(stamps) and needs_timestamps(self.windows) and (stamps.max() > FARTHEST or stamps.min() < -FARTHEST):
            far = stamps.max() if stamps.max() > FARTHEST else stamps.min()
            raise UnsupportedOperationError(
                "a timestamp is too far away for columns",
                given=f"{far} ms",
                expected=f"at most {FARTHEST} ms from 1970",
                hint="SparkRunner(columnar=False) runs such elements one by one",
            )

    def columns_of(self, named: Mapping[str, pa.Array]) -> list[pa.Array]:
        inputs = [expression.evaluate(named) for expression in self.inputs]
        return inputs if self.late_tag is None else [*inputs, *named.values()]

    def inputs_in(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The inputs of the kernel, in rows of elements."""
        return list(rows.columns[2 : 2 + len(self.inputs)])

    def packed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self.folds_first:
            return rows
        operator, arrived = self.operator, (rows.column(0), rows.column(1).to_numpy(), self.inputs_in(rows))
        if isinstance(operator, TimedOperator):
            return operator.fold(*arrived)
        assert isinstance(operator, PaneOperator), "others are not folded before the exchange"
        folded, counts = operator.fold(*arrived)
        return pa.RecordBatch.from_arrays([*folded.columns, pa.array(counts)], schema=self.exchange_schema)

    @property
    def state_text(self) -> str:
        """The columns of its state, as they stand in a checkpoint: other ones cannot read it."""
        return ", ".join([str(field.type) for field in self.operator.schema])

    def describe(self) -> str:
        """A few words for ``explain()``."""
        windows = self.windows
        shared = ", panes shared by windows" if isinstance(windows, Panes) and windows.windows_each > 1 else ""
        if isinstance(windows, Counted):
            shared = ", elements counted" + (", pieces shared by firings" if windows.pieces_each > 1 else "")
        elif isinstance(windows, Timed) and windows.interval is not None:
            shared = ", firings at intervals"
        clock = ", by the clock" if windows.by_clock else ""
        folded = ", folded before the exchange" if self.folds_first else ""
        return f"columns{clock}{shared}{folded}"


Form: TypeAlias = ColumnarForm | DeclinedError
"""The columnar form of a step, or the reason why it has none."""


def columnar_form(topology: Topology, step: Step, check_source: CheckSource) -> ColumnarForm:
    """The form of a keyed step on columns; declined where it has none."""
    node = step.node
    if not isinstance(node, WindowNode):
        raise DeclinedError("a process function sees each element")
    spec = node.function
    if not isinstance(spec, AggregateSpec):
        raise DeclinedError("not an aggregate of windrow.aggregates")
    windows = windows_of(node)
    if spec.process is not None and not isinstance(spec.process, FilledWindow):
        raise DeclinedError(f"{spec.process.describe()} follows the aggregate")
    routes = routes_to(topology, step, check_source, stamped=needs_timestamps(windows))
    element = routes[0].element
    kernel = kernel_for(spec.aggregate, partial(_input_type, element))
    if kernel.ordered:
        if isinstance(windows, Sessions) and not windows.by_clock:
            raise DeclinedError("the aggregate depends on the order in which sessions merge")
        if isinstance(windows, Panes) and windows.windows_each > 1:
            # The panes of a window are merged in order of time, which is not that of arrival.
            kernel = kernel.numbered()
    return ColumnarForm(
        step=step,
        routes=routes,
        windows=windows,
        kernel=kernel,
        aggregate=spec.aggregate,
        filled=spec.process,
        late_tag=None if node.late_tag is None or not may_be_late(windows) else node.late_tag.name,
        inputs=tuple([_input_of(element, selector) for selector in kernel.inputs]),
    )


def _input_of(element: RecordType, selector: Selector | None) -> ColumnExpression | WholeElement:
    if not element.single and same_input(selector) == same_input(None):
        return WholeElement(element)
    return expression_of(selector or (lambda value: value), element, "")


def _input_type(element: RecordType, selector: Selector | None) -> pa.DataType | None:
    try:
        return _input_of(element, selector).arrow_type
    except DeclinedError:
        return None
