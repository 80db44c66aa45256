"""Decides which steps run on columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

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
from windrow_runtime.columnar.forms.route import (
    CheckSource,
    ResultsOf,
    ScanTarget,
    expression_of,
    no_results,
    routes_to,
)
from windrow_runtime.columnar.kernels.choice import kernel_for
from windrow_runtime.columnar.kernels.kernel import Kernel, Selector, same_input
from windrow_runtime.columnar.rows.columns import ColumnExpression, WholeElement
from windrow_runtime.columnar.rows.groups import encode_keys, hash_keys
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


_WORTH_IT: Final = 2
"""From this many elements for each key on, folding saves more before the exchange than it costs."""


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
        """Returns whether all elements are folded before the exchange: nobody asks for late ones, nor for an order."""
        windows = self.windows
        is_asked = windows.lateness or self.late_tag is not None or self.kernel.is_numbered
        if isinstance(windows, Timed) and windows.panes.is_global and not windows.panes.by_clock:
            return False  # at the end of the stream each element fires
        return isinstance(windows, (Panes, Timed)) and not is_asked

    @property
    def folds_on_time(self) -> bool:
        """Returns whether elements are folded before the exchange that are neither late there nor fire windows again.

        They are where a task has several elements for each key: else that saves nothing behind the exchange.
        Elements of one pane may cross folded from one task, and one by one from another.
        """
        return isinstance(self.windows, Panes) and not self.folds_first and not self._is_ordered

    @property
    def _is_ordered(self) -> bool:
        """Returns whether results depend on the order of elements, also where states have numbers of their arrival."""
        return self.kernel.ordered or self.kernel.is_numbered

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
    def folded_schema(self) -> pa.Schema:
        """The columns of elements that are folded before the exchange."""
        return self.operator.folded_schema

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

    def packed(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[tuple[bool, pa.RecordBatch]]:
        operator, windows = self.operator, self.windows
        if isinstance(windows, Panes) and not self._is_ordered:
            few = rows.num_rows < _WORTH_IT * len(encode_keys(rows.column(0)).distinct)
            if few or (bound is None and not self.folds_first):
                yield False, rows
                return
        elif not self.folds_first:
            yield False, rows
            return
        if not self.folds_first:
            assert isinstance(windows, Panes), "others are not folded in part"
            assert bound is not None, "they need one"
            stays = ~windows.ahead_of(bound, windows.panes_of(rows.column(1).to_numpy()))
            if stays.any():
                yield False, rows.filter(pa.array(stays))
                rows = rows.filter(pa.array(~stays))
            if not rows.num_rows:
                return
        arrived = rows.column(0), rows.column(1).to_numpy(), self.inputs_in(rows)
        if isinstance(operator, TimedOperator):
            yield True, operator.fold(*arrived)
            return
        assert isinstance(operator, PaneOperator), "others are not folded before the exchange"
        folded, counts = operator.fold(*arrived)
        yield True, pa.RecordBatch.from_arrays([*folded.columns, pa.array(counts)], schema=self.folded_schema)

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
        folded = ", folded before the exchange where on time and worth it" if self.folds_on_time else folded
        return f"columns{clock}{shared}{folded}"


Form: TypeAlias = ColumnarForm | DeclinedError
"""The columnar form of a step, or the reason why it has none."""


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
    if spec.process is not None and not isinstance(spec.process, FilledWindow):
        raise DeclinedError(f"{spec.process.describe()} follows the aggregate")
    routes = routes_to(topology, step, check_source, results_of, stamped=needs_timestamps(windows))
    for route in routes if needs_timestamps(windows) else ():
        before = topology.step(route.source).node
        if isinstance(before, WindowNode) and isinstance(before.assigner, GlobalWindows) and not route.assigns_stamps:
            raise DeclinedError(f"the results of {route.source} carry the end of time")
    element = routes[0].element
    _check_key(routes[0].key, spec.process)
    kernel = kernel_for(spec.aggregate, partial(_input_type, element))
    if kernel.outgrows_result and isinstance(windows, Counted) and windows.size is None:
        raise DeclinedError("each firing would copy all values that its window holds")
    if kernel.ordered:
        if isinstance(windows, Sessions) and windows.lateness:
            # Late elements would have to be added one by one in this order, too.
            raise DeclinedError(
                "the aggregate depends on the order in which sessions merge, and late elements fire them"
            )
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
    return expression_of(selector or (lambda value: value), element, "")


def _input_type(element: RecordType, selector: Selector | None) -> pa.DataType | None:
    try:
        return input_of(element, selector).arrow_type
    except DeclinedError:
        return None
