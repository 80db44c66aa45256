"""Decides which steps run on columns, and says why others do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from windrow.aggregates.facts import FilledWindow
from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, Step, WindowNode
from windrow.sources import Source
from windrow.triggers import EndOfStreamTrigger, EventTimeTrigger
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowStagger,
)
from windrow_runtime.codecs.arrow.batches import arrow_schema, decode_batch
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar.declined import DeclinedError
from windrow_runtime.columnar.forms.route import Route, expression_of, routes_to
from windrow_runtime.columnar.kernels import Kernel, kernel_for
from windrow_runtime.columnar.kernels.combined import same_input
from windrow_runtime.columnar.rows.columns import ColumnExpression, WholeElement
from windrow_runtime.columnar.rows.grouping import Keys
from windrow_runtime.columnar.rows.hashing import hash_keys
from windrow_runtime.columnar.windows.geometry import FARTHEST, Panes
from windrow_runtime.columnar.windows.panes import PaneOperator, check_stamps
from windrow_runtime.columnar.windows.sessions import SessionOperator, Sessions
from windrow_runtime.operators.topology import Topology

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = ["ColumnarForm", "Form", "NotColumnar", "columnar_form"]

# Any in this module: sources and aggregates of every type.


@dataclass(frozen=True, slots=True)
class NotColumnar:
    """A step that runs on Python objects.

    Attributes:
        reason: Why, in a few words for ``explain()``.
    """

    reason: str


@dataclass(frozen=True)
class ColumnarForm:
    """A keyed step that runs on columns.

    Attributes:
        step: The step.
        windows: Its windows.
        kernel: Its aggregate, on columns.
        aggregate: Its aggregate.
        filled: What puts the key and the window into results; None: results are those of the aggregate.
        late_tag: The side output of late elements, if there is one.
        routes: How elements get there from each source.
        inputs: What the kernel takes from elements.
    """

    step: Step
    windows: Panes | Sessions
    kernel: Kernel
    aggregate: AggregateFunction[Any, Any, Any]
    filled: FilledWindow | None
    late_tag: str | None
    routes: tuple[Route, ...]
    inputs: tuple[ColumnExpression | WholeElement, ...]

    @property
    def element(self) -> RecordType:
        """The type of the elements that reach it."""
        return self.routes[0].element

    @property
    def folds_first(self) -> bool:
        """Whether elements are folded in front of the exchange: nobody asks for late ones, nor for their order."""
        is_asked = self.late_tag is not None or self.kernel.is_numbered
        return isinstance(self.windows, Panes) and not self.windows.lateness and not is_asked

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of keys."""
        return self.routes[0].key_type

    @cached_property
    def operator(self) -> PaneOperator | SessionOperator:
        """What runs it on a key group."""
        if isinstance(self.windows, Sessions):
            return SessionOperator(self.windows, self.kernel, self.key_type)
        return PaneOperator(self.windows, self.kernel, self.key_type)

    @cached_property
    def raw_schema(self) -> Any:
        """The columns of elements one by one: key, timestamp, what the kernel takes, maybe all others."""
        import pyarrow as pa

        fields = [pa.field("key", self.key_type), pa.field("at", pa.int64())]
        fields += [pa.field(f"i{place}", found.arrow_type) for place, found in enumerate(self.inputs)]
        if self.late_tag is not None:
            fields += [field.with_name(f"e{place}") for place, field in enumerate(arrow_schema(self.element))]
        return pa.schema(fields)

    @cached_property
    def exchange_schema(self) -> Any:
        """The columns that go through the exchange: elements, or rows of state with the number of their elements."""
        import pyarrow as pa

        if not self.folds_first:
            return self.raw_schema
        return pa.schema([*self.operator.schema, pa.field("elements", pa.int64())])

    @staticmethod
    def check(stamps: npt.NDArray[np.int64]) -> None:
        """Refuses timestamps that are too far away."""
        check_stamps(stamps)

    def columns_of(self, named: dict[str, Any]) -> list[Any]:
        """What is taken of elements, beside key and timestamp."""
        inputs = [expression.evaluate(named) for expression in self.inputs]
        return inputs if self.late_tag is None else [*inputs, *named.values()]

    def packed(self, rows: Any) -> Any:
        """The rows for the exchange."""
        return self._folded(rows) if self.folds_first else rows

    @staticmethod
    def partials(keys: Keys, rows: Any) -> None:
        """Nothing: what is folded are columns, too."""

    @staticmethod
    def hash_keys(keys: Any) -> npt.NDArray[np.uint64]:
        """Says in which key group keys lie."""
        return hash_keys(keys)

    def _folded(self, rows: Any) -> Any:
        """Elements as rows of state, with how many elements each stands for."""
        import pyarrow as pa

        assert isinstance(self.operator, PaneOperator), "sessions are not folded before the exchange"
        inputs = rows.columns[2 : 2 + len(self.inputs)]
        folded, counts = self.operator.fold(rows.column(0), rows.column(1).to_numpy(), inputs)
        return pa.RecordBatch.from_arrays(
            [*folded.columns, pa.array(counts)],
            schema=pa.schema([*self.operator.schema, pa.field("elements", pa.int64())]),
        )

    def elements_of(self, rows: Any) -> list[Any]:
        """The elements of rows that have all their columns."""
        import pyarrow as pa

        columns = rows.columns[2 + len(self.inputs) :]
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.element))
        return decode_batch(batch, self.element)

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


Form: TypeAlias = "ColumnarForm | NotColumnar"


def columnar_form(
    topology: Topology, step: Step, gives_columns: Callable[[Source[Any]], str | None]
) -> ColumnarForm | NotColumnar:
    """The form of a keyed step on columns, or why it has none.

    Args:
        topology: The plan.
        step: The step.
        gives_columns: Whether the engine has the columns of a source: None, or why it has not.
    """
    try:
        return _form(topology, step, gives_columns)
    except DeclinedError as reason:
        return NotColumnar(str(reason))


def _form(topology: Topology, step: Step, gives_columns: Callable[[Source[Any]], str | None]) -> ColumnarForm:
    node = step.node
    if not isinstance(node, WindowNode):
        raise DeclinedError("a process function sees each element")
    spec = node.function
    if not isinstance(spec, AggregateSpec):
        raise DeclinedError("not an aggregate of windrow.aggregates")
    if node.evictor is not None:
        raise DeclinedError("an evictor sees each element")
    windows = _windows(node)
    if spec.process is not None and not isinstance(spec.process, FilledWindow):
        raise DeclinedError(f"{spec.process.describe()} follows the aggregate")
    routes = routes_to(topology, step, gives_columns)
    input_of = partial(_input_of, routes[0].element)
    kernel = kernel_for(spec.aggregate, partial(_input_type, routes[0].element))
    if kernel.ordered:
        if isinstance(windows, Sessions):
            raise DeclinedError("the aggregate depends on the order in which sessions merge")
        if windows.windows_each > 1:
            # The panes of a window are merged in order of time, which is not that of arrival.
            kernel = kernel.numbered()
    return ColumnarForm(
        step=step,
        windows=windows,
        kernel=kernel,
        aggregate=spec.aggregate,
        filled=spec.process,
        late_tag=None if node.late_tag is None else node.late_tag.name,
        routes=routes,
        inputs=tuple(map(input_of, kernel.inputs)),
    )


def _input_of(element: RecordType, selector: Callable[[Any], Any] | None) -> ColumnExpression | WholeElement:
    if not element.single and same_input(selector) == same_input(None):
        return WholeElement(element)
    return expression_of(selector or _itself, element, "")


def _input_type(element: RecordType, selector: Callable[[Any], Any] | None) -> Any:
    try:
        return _input_of(element, selector).arrow_type
    except DeclinedError:
        return None


def _itself(element: Any) -> Any:
    return element


def _windows(node: WindowNode) -> Panes | Sessions:
    assigner, trigger = node.assigner, node.effective_trigger
    lateness = node.allowed_lateness or 0
    if type(assigner) is GlobalWindows:
        if type(trigger) is not EndOfStreamTrigger:
            raise DeclinedError(f"{trigger.describe()} is asked at each element")
        return Panes(0, 1, 0, 0)
    if type(trigger) is not EventTimeTrigger:
        raise DeclinedError(f"{trigger.describe()} is asked at each element")
    if type(assigner) is EventTimeSessionWindows:
        if assigner.gap > FARTHEST:
            raise DeclinedError("the gap is too long for columns")
        return Sessions(assigner.gap, lateness)
    if type(assigner) is TumblingEventTimeWindows and assigner.stagger is WindowStagger.ALIGNED:
        size = slide = assigner.size
    elif type(assigner) is SlidingEventTimeWindows:
        size, slide = assigner.size, assigner.slide
    else:
        raise DeclinedError(f"{assigner.describe()} has no form on columns")
    if slide > size:
        raise DeclinedError("there are gaps between windows")
    if size > FARTHEST:
        raise DeclinedError("windows are too large for columns")
    return Panes(size, slide, assigner.offset, lateness)
