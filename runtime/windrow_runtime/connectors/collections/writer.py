"""Keeps the elements of sinks for the result of the run."""

from __future__ import annotations

from typing import Any

from windrow.errors import InvalidArgumentError
from windrow.sinks import CollectSink
from windrow_runtime.codecs.pyarrow_check import check_pyarrow
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.operators.errors import field_errors
from windrow_runtime.outputs.writer import SinkWriter

# Any in this module: elements of every type, and pyarrow and pandas have no types.


class CollectWriter(SinkWriter[CollectSink[Any]]):
    """Leaves the elements to the engine, which keeps them in memory."""

    keeps_elements = True

    def table(self, elements: list[Any]) -> Any:
        with field_errors(self.step.where):
            check_pyarrow("Arrow tables are made")
            if self.step.node.element_type is None:
                raise InvalidArgumentError(
                    "the columns of the elements are not known: their type is not",
                    given=self.sink.describe(),
                    expected="a stream whose plan says the type of its elements",
                    hint="call returns(Type) before sink_to",
                )
            # Arrow only where a table is asked for: the interpreter runs without it.
            from windrow_runtime.codecs.arrow.exchanged import table_of

            return table_of([elements], record_type(self.step.node.element_type))

    def data_frame(self, elements: list[Any], pandas: Any) -> Any:
        table = self.table(elements)
        from windrow_runtime.codecs.arrow.frames import pandas_series

        columns = zip(table.column_names, table.columns, strict=True)
        return pandas.DataFrame({name: pandas_series(column, pandas) for name, column in columns})
