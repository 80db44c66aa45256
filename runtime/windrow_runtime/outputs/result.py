"""Defines the result of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

from windrow.distribution import install_hint
from windrow.drawing.html import table
from windrow.drawing.svg import text
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, no_attribute
from windrow.functions import Distribution
from windrow.plan import Pipeline
from windrow.sinks import Collects, CollectSink
from windrow_runtime.operators.errors import shortened
from windrow_runtime.operators.outcome import check_counter
from windrow_runtime.operators.recording import Recording, recorded
from windrow_runtime.outputs.writer import SinkWriter, writer_of

if TYPE_CHECKING:
    import polars

T = TypeVar("T")

_SHOWN: Final = 10
"""How many elements of a sink a notebook shows."""


def _elements(elements: list[Any]) -> str:
    """Returns a table of elements: a column a field where they are records of one class."""
    kinds = {type(each) for each in elements}
    class_ = kinds.pop() if len(kinds) == 1 else object
    names = [each.name for each in fields(class_)] if is_dataclass(class_) else list(getattr(class_, "_fields", ()))
    rows = [[getattr(each, name, None) for name in names] if names else [each] for each in elements]
    return table(names or ["value"], [[shortened(value) for value in row] for row in rows])


@dataclass(frozen=True, slots=True, repr=False)
class PipelineResult:
    """The result of a completed run.

    Attributes:
        pipeline: The pipeline.
        counters: The counters of each step, by step id and name: ``late_records_dropped``, ``records_malformed``, and
            those of the user's functions.
        written: How many elements each sink took, by step id. Sinks of a pipeline are not in it where Spark writes the
            batches by itself, as it does with a ``DataStreamWriter``.
        gauges: The gauges of the user's functions, by step id and name: the values of the newest batch that set them.
        histograms: What the histograms of the user's functions have counted, by step id and name.
    """

    pipeline: Pipeline
    counters: Mapping[str, Mapping[str, int]]
    written: Mapping[str, int]
    # Any: elements of every sink side by side, by the identity of the sink.
    _collected: Mapping[int, list[Any]]
    _recording: Recording | None = None
    gauges: Mapping[str, Mapping[str, float]] = field(default_factory=dict, kw_only=True)
    histograms: Mapping[str, Mapping[str, Distribution]] = field(default_factory=dict, kw_only=True)

    def __repr__(self) -> str:
        collected = sum(map(len, self._collected.values()))
        return f"PipelineResult({self.pipeline.name!r}, {len(self.pipeline.steps)} steps, {collected} collected)"

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            raise no_attribute(self, name, dict.fromkeys(("collect", "elements", "results"), "collected(sink)"))

    def _repr_html_(self) -> str:
        """Tables of the counters and of the first elements of each sink, for notebooks."""
        html = [f"<p>{text(repr(self))}</p>"]
        counts = [[step, name, f"{n:,}"] for step, each in self.counters.items() for name, n in each.items()]
        if counts:
            html.append(table(["step", "counter", "total"], counts))
        for step in self.pipeline.steps:
            elements = None if step.node.writes is None else self._collected.get(id(step.node.writes))
            if elements is not None:
                words = f"{step.id}: {len(elements):,} collected"
                words += f", the first {_SHOWN} of which are" if len(elements) > _SHOWN else ""
                html += [f"<p>{text(words)}</p>", _elements(elements[:_SHOWN])]
        return "\n".join(html)

    def collected(self, sink: Collects[T]) -> list[T]:
        """Returns the elements that went to ``sink``, in order of arrival.

        A loop over sinks of several types needs a list of their common type for type checkers:
        ``sinks: list[CollectSink[Any]] = [words, counts]``.

        Args:
            sink: The sink, the object that ``sink_to`` was given.

        Raises:
            InvalidArgumentError: If it is no :class:`~windrow.sinks.CollectSink`, or not part of the pipeline.
        """
        if id(sink) not in self._collected:
            name = sink.describe() if isinstance(sink, CollectSink) else None
            raise InvalidArgumentError(
                "the result has what collecting sinks took alone"
                if name is None
                else "the sink is not part of the pipeline",
                given=name or f"a {type(sink).__name__}",
                expected="the CollectSink that stream.sink_to(sink) was given",
                hint="keep it in a variable, as each CollectSink() is another one: sink = CollectSink[Type]()",
            )
        return list(self._collected[id(sink)])

    def to_arrow(self, sink: CollectSink[Any]) -> Any:
        """Returns the elements that went to ``sink`` as a ``pyarrow.Table``, in order of arrival.

        Its columns are the fields of the elements; elements without fields have one column, ``value``. Other libraries
        take it by the Arrow PyCapsule interface, as ``duckdb.sql("SELECT * FROM table")`` does.

        Args:
            sink: The sink, the object that ``sink_to`` was given.

        Raises:
            InvalidArgumentError: If it is no :class:`~windrow.sinks.CollectSink`, not part of the pipeline, the type of
                its elements is unknown, or an element is not of that type.
            UnsupportedOperationError: If pyarrow is not installed, or columns cannot hold elements of that type.
        """
        elements = self.collected(sink)
        return self._writer(sink).table(elements)

    def to_pandas(self, sink: CollectSink[Any]) -> Any:
        """Returns the elements that went to ``sink`` as a ``pandas.DataFrame``, in order of arrival.

        Its columns are those of :meth:`to_arrow`. Ints and bools of a column with None have the types ``Int64`` and
        ``boolean`` of pandas, so that none becomes a float. Lists become arrays, of objects where a None is among their
        items; records become dicts. Dicts, and what is within them and within records, stay as they are.

        Args:
            sink: The sink, the object that ``sink_to`` was given.

        Raises:
            InvalidArgumentError: As :meth:`to_arrow`.
            UnsupportedOperationError: As :meth:`to_arrow`, and if pandas is not installed.
        """
        pandas, elements = _library("pandas", "spark"), self.collected(sink)
        return self._writer(sink).data_frame(elements, pandas)

    def to_polars(self, sink: CollectSink[Any]) -> polars.DataFrame:
        """Returns the elements that went to ``sink`` as a ``polars.DataFrame``, in order of arrival.

        Its columns are those of :meth:`to_arrow`.

        Args:
            sink: The sink, the object that ``sink_to`` was given.

        Raises:
            InvalidArgumentError: As :meth:`to_arrow`.
            UnsupportedOperationError: As :meth:`to_arrow`, and if polars is not installed.
        """
        library, table = _library("polars", "polars"), self.to_arrow(sink)
        frame: polars.DataFrame = library.from_arrow(table)
        return frame

    def _writer(self, sink: CollectSink[Any]) -> SinkWriter[Any]:
        return writer_of(next(step for step in self.pipeline.steps if step.node.writes is sink))

    @property
    def recording(self) -> Recording:
        """The recording of the inputs, watermarks and results of each keyed step.

        :func:`windrow_runtime.pictures.timeline` draws windows, :func:`windrow_runtime.pictures.lanes` other steps.

        Raises:
            InvalidArgumentError: If the run was not recorded.
        """
        return recorded(self._recording, "LocalRunner(record=True).run(pipeline).recording")

    def counter(self, name: str) -> int:
        """Returns the total of a counter over all steps.

        Args:
            name: The name of a counter of windrow's, see ``counters``, or of a function of the pipeline.

        Raises:
            InvalidArgumentError: If nothing counts under that name. The code of the functions is looked at for the
                names of counters that are 0.
        """
        check_counter(name, (each for counters in self.counters.values() for each in counters), self.pipeline.steps)
        return sum(counters.get(name, 0) for counters in self.counters.values())


# Any: a library without types, or one that is not installed.
def _library(name: str, extra: str) -> Any:
    """Imports a library of data frames where a frame is asked for."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise UnsupportedOperationError(
            f"data frames of {name} are made by {name}", given=f"without {error.name}", hint=install_hint(extra)
        ) from error
