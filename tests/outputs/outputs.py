"""Outputs without a runner."""

from __future__ import annotations

from typing import Any

from windrow import Pipeline, from_source
from windrow.sinks import DatabaseSink, Sink
from windrow.sources import CollectionSource
from windrow_runtime.outputs.output import Identity, Output
from windrow_runtime.outputs.registry import identities, open_outputs
from windrow_sql.database.output import DatabaseLimits, DatabaseOutput

__all__ = ["database_output", "output_of", "outputs_of"]


# Any: sinks of elements of every type.
def outputs_of(element_type: type[Any], *sinks: Sink[Any], query: str = "query") -> list[Output]:
    """The outputs of several sinks of one query, opened."""
    stream = from_source(CollectionSource([], element_type))
    pipeline = Pipeline("outputs", *(stream.sink_to(sink) for sink in sinks))
    steps = [pipeline.step_of(sink.node) for sink in pipeline.sinks]
    opened = open_outputs(steps, query, identities(steps, query))
    return [opened[step.id] for step in steps]


# Any: as above.
def output_of(element_type: type[Any], sink: Sink[Any], query: str = "query") -> Output:
    """The output of one sink."""
    return outputs_of(element_type, sink, query=query)[0]


# Any: as above.
def database_output(element_type: type[Any], sink: DatabaseSink[Any], limits: DatabaseLimits) -> DatabaseOutput:
    """The output of one sink, opened, with limits of its own."""
    pipeline = Pipeline("outputs", from_source(CollectionSource([], element_type)).sink_to(sink))
    output = DatabaseOutput(
        pipeline.step_of(pipeline.sinks[0].node), sink, Identity("query", sink.qualified_table), limits
    )
    output.open()
    return output
