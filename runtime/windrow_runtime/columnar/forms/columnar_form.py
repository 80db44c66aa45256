"""Decides which steps run on columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import pyarrow as pa

from windrow.aggregates.facts import FilledWindow
from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, Step, WindowNode
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar.array_types import Array, ArrowType, Hashes, Ints, Rows, Schema
from windrow_runtime.columnar.forms.route import CheckSource, expression_of, routes_to
from windrow_runtime.columnar.forms.scan_target import ScanTarget
from windrow_runtime.columnar.kernels import Kernel, kernel_for
from windrow_runtime.columnar.kernels.kernel import Selector, same_input
from windrow_runtime.columnar.rows.columns import ColumnExpression, WholeElement
from windrow_runtime.columnar.rows.hashing import hash_keys
from windrow_runtime.columnar.windows.geometry import Panes, Sessions, windows_of
from windrow_runtime.columnar.windows.panes import PaneOperator, check_stamps
from windrow_runtime.columnar.windows.sessions import SessionOperator
from windrow_runtime.operators.declined import DeclinedError
from windrow_runtime.operators.topology import Topology

# Any in this module: aggregates of every type.


@dataclass(frozen=True)
class ColumnarForm(ScanTarget):
    """A keyed step that runs on columns.

    Attributes:
        windows: Its windows.
        kernel: Its aggregate, on columns.
        aggregate: Its aggregate.
        filled: What puts the key and the window into results; None: results are those of the aggregate.
        late_tag: The side output of late elements, if there is one.
        inputs: What the kernel takes from elements.
    """

    windows: Panes | Sessions
    kernel: Kernel
    aggregate: AggregateFunction[Any, Any, Any]
    filled: FilledWindow | None
    late_tag: str | None
    inputs: tuple[ColumnExpression | WholeElement, ...]

    @property
    def folds_first(self) -> bool:
        """Returns whether elements are folded before the exchange: nobody asks for late ones, nor for their order."""
        is_asked = self.late_tag is not None or self.kernel.is_numbered
        return isinstance(self.windows, Panes) and not self.windows.lateness and not is_asked

    @cached_property
    def operator(self) -> PaneOperator | SessionOperator:
        """Runs the step on a key group."""
        if isinstance(self.windows, Sessions):
            return SessionOperator(self.windows, self.kernel, self.key_type)
        return PaneOperator(self.windows, self.kernel, self.key_type)

    @cached_property
    def raw_schema(self) -> Schema:
        inputs = [pa.field(f"i{place}", found.arrow_type) for place, found in enumerate(self.inputs)]
        others = [] if self.late_tag is None else self._element_fields
        return pa.schema([*self._scanned_fields, *inputs, *others])

    @cached_property
    def exchange_schema(self) -> Schema:
        """The columns that go through the exchange: elements, or rows of state with the number of their elements."""
        if not self.folds_first:
            return self.raw_schema
        return pa.schema([*self.operator.schema, pa.field("elements", pa.int64())])

    def check(self, stamps: Ints) -> None:
        check_stamps(stamps)

    def columns_of(self, named: Mapping[str, Array]) -> list[Array]:
        inputs = [expression.evaluate(named) for expression in self.inputs]
        return inputs if self.late_tag is None else [*inputs, *named.values()]

    def inputs_in(self, rows: Rows) -> list[Array]:
        """The inputs of the kernel, in rows of elements."""
        columns: list[Array] = rows.columns[2 : 2 + len(self.inputs)]
        return columns

    def late_elements(self, rows: Rows) -> list[Any]:
        """The elements of rows that have all their columns."""
        return self.elements_of(rows.columns[2 + len(self.inputs) :])

    def packed(self, rows: Rows) -> Rows:
        if not self.folds_first:
            return rows
        assert isinstance(self.operator, PaneOperator), "sessions are not folded before the exchange"
        folded, counts = self.operator.fold(rows.column(0), rows.column(1).to_numpy(), self.inputs_in(rows))
        return pa.RecordBatch.from_arrays([*folded.columns, pa.array(counts)], schema=self.exchange_schema)

    def hash_keys(self, keys: Array) -> Hashes:
        return hash_keys(keys)

    @property
    def state_text(self) -> str:
        """The columns of its state, as they stand in a checkpoint: other ones cannot read it."""
        return ", ".join([str(field.type) for field in self.operator.schema])

    def describe(self) -> str:
        """A few words for ``explain()``."""
        many = isinstance(self.windows, Panes) and self.windows.windows_each > 1
        shared = ", panes shared by windows" if many else ""
        folded = ", folded before the exchange" if self.folds_first else ""
        return f"columns{shared}{folded}"


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
    routes = routes_to(topology, step, check_source)
    element = routes[0].element
    kernel = kernel_for(spec.aggregate, partial(_input_type, element))
    if kernel.ordered:
        if isinstance(windows, Sessions):
            raise DeclinedError("the aggregate depends on the order in which sessions merge")
        if windows.windows_each > 1:
            # The panes of a window are merged in order of time, which is not that of arrival.
            kernel = kernel.numbered()
    return ColumnarForm(
        step=step,
        routes=routes,
        windows=windows,
        kernel=kernel,
        aggregate=spec.aggregate,
        filled=spec.process,
        late_tag=None if node.late_tag is None else node.late_tag.name,
        inputs=tuple([_input_of(element, selector) for selector in kernel.inputs]),
    )


def _input_of(element: RecordType, selector: Selector | None) -> ColumnExpression | WholeElement:
    if not element.single and same_input(selector) == same_input(None):
        return WholeElement(element)
    return expression_of(selector or _itself, element, "")


def _input_type(element: RecordType, selector: Selector | None) -> ArrowType | None:
    try:
        return _input_of(element, selector).arrow_type
    except DeclinedError:
        return None


def _itself(element: Any) -> Any:
    return element
