"""Calls the window function of a step on columns, in Python, for the windows that fire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from windrow.plan import ProcessSpec
from windrow.plan.emitting import records_of
from windrow.windows import TimeWindow
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error
from windrow_runtime.operators.operator import OperatorOutput, WindowContextImpl
from windrow_runtime.operators.state.model import NOTHING, OperatorState, WindowEntry
from windrow_runtime.operators.windows.general import ONLY_PANE, WindowOperator
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.kernels.row_aggregate import LateFiring
from windrow_spark.columnar.results import values_of
from windrow_spark.columnar.rows.columns import python_values
from windrow_spark.columnar.windows.column_operator import Fired

# Any in this module: keys, elements and results are of every type.

_VALUES_AT_ONCE: Final = 8_192  # more of them leave the processor's cache


class WindowCalls:
    """Calls the window function of a step; the operator, which holds no state, opens and closes it and knows the time.

    Results go to the output as the function emits them.
    """

    def __init__(self, form: ColumnarForm, operator: WindowOperator, output: OperatorOutput) -> None:
        assert operator.process is not None, "the form was chosen for a function"
        self._form = form
        self._process = operator.process.process
        self._collect = output.collect
        self._takes_lists = isinstance(operator.node.function, ProcessSpec)
        # Contents that one firing hands out may be handed out by the next one, too.
        self._owns = operator.exposure.process
        self._container = list if self._owns else tuple
        self._result_type = operator.node.element_type
        pane = ONLY_PANE if operator.node.spec.fires_once else None
        self._context = WindowContextImpl(operator, operator.merging is not None, pane)
        self._context.at(None, WindowEntry(), {})
        self._operator = operator
        operator.bind(OperatorState(), output)

    def set_time(self, watermark: int, now: int) -> None:
        """Sets the time that the function sees."""
        self._operator.current_watermark, self._operator.current_processing_time = watermark, now

    def fire(self, fired: Fired) -> Iterator[None]:
        """Calls the function for windows, with pauses in which an engine takes what was emitted."""
        for portion in fired.portions(_VALUES_AT_ONCE):
            results = values_of(self._form, portion)
            contents = results if self._takes_lists else map(self._container, zip(results))
            keys, starts, ends = python_values(portion.keys), portion.starts.tolist(), portion.ends.tolist()
            self._call_all(keys, map(TimeWindow, starts, ends), portion.stamps.tolist(), contents)
            yield

    def fire_again(self, firing: LateFiring) -> None:
        """Calls the function for a window that fires for a late element."""
        key, window, result, element = firing
        contents = result if self._takes_lists else self._container((result,))
        self._call_all((key,), (window,), (window.max_timestamp(),), (contents,), element)

    def _call_all(
        self, keys: Sequence[Any], windows: Any, stamps: Sequence[int], contents: Any, element: Any = NOTHING
    ) -> None:
        process, context, collect, type_form = self._process, self._context, self._collect, self._result_type
        key: Any = None
        window = NOTHING
        try:
            for key, window, stamp, elements in zip(keys, windows, stamps, contents, strict=True):
                context.window = window
                results = process(key, context, elements)
                if results is not None:
                    for result in records_of(results, type_form):
                        collect(result, stamp)
        except USER_ERRORS as error:
            raise_call_error(self._operator.step, error, call_description(key, window=window, element=element))
