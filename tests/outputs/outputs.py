"""Outputs without a runner."""

from __future__ import annotations

from typing import Any

from windrow import Pipeline, from_source
from windrow.sinks import Sink
from windrow.sources import CollectionSource
from windrow_runtime.outputs.output import Output
from windrow_runtime.outputs.registry import open_outputs

__all__ = ["output_of", "outputs_of"]


# Any: sinks of elements of every type.
def outputs_of(element_type: type[Any], *sinks: Sink[Any], query: str = "query") -> list[Output]:
    """The outputs of several sinks of one query, opened."""
    stream = from_source(CollectionSource([], element_type))
    pipeline = Pipeline("outputs", *(stream.sink_to(sink) for sink in sinks))
    steps = [pipeline.step_of(sink.node) for sink in pipeline.sinks]
    opened = open_outputs(steps, query)
    return [opened[step.id] for step in steps]


# Any: as above.
def output_of(element_type: type[Any], sink: Sink[Any], query: str = "query") -> Output:
    """The output of one sink."""
    return outputs_of(element_type, sink, query=query)[0]
