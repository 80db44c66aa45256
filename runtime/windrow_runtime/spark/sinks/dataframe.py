"""Hands the elements at the end of a plan to Spark as columns, for ``to_dataframe``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from windrow import DataStream, DataStreamSink, Pipeline
from windrow.addresses.paths import local_path
from windrow.errors import IncompatibleStateError, InvalidArgumentError
from windrow.plan import SinkNode
from windrow.sinks import Sink
from windrow_runtime.spark.checkpoint.folder import Checkpoint

_FOLDER = "windrow"


class ColumnsSink(Sink[Any]):  # elements of every type
    """The end of a plan whose elements the user's own query takes as a DataFrame."""

    @property
    def needs_schema(self) -> bool:
        """Returns True: the columns need types."""
        return True

    def describe(self) -> str:
        return "DataFrame"


def pipeline_of(stream: DataStream[Any], name: str) -> Pipeline:  # Any: as above
    """Makes a plan that ends in the columns of a stream's elements.

    Raises:
        InvalidArgumentError: If it is not a stream.
        PlanError: If the plan has faults, such as a type of elements that is not known.
    """
    if not isinstance(stream, DataStream):
        raise InvalidArgumentError("a DataFrame is made of a stream", given=type(stream), expected="a DataStream")
    node = stream.node
    end = SinkNode(input=node, sink=ColumnsSink(), element_type=node.element_type, location=node.location)
    return Pipeline(name, DataStreamSink(end))


def checkpoint_inside(folder: str | os.PathLike[str] | None) -> Checkpoint:
    """Returns the part of windrow inside the checkpoint folder of a query that is the user's own.

    Raises:
        InvalidArgumentError: If there is no folder, or it is not in a mounted file system.
        IncompatibleStateError: If a runner wrote a checkpoint of its own there.
    """
    if folder is None:
        raise InvalidArgumentError(
            "a streaming DataFrame needs a checkpoint",
            expected="SparkRunner(checkpoint=folder)",
            hint='give Spark the same folder: df.writeStream.option("checkpointLocation", folder)',
        )
    text = os.fspath(folder)
    if Checkpoint(Path(local_path(text) or text)).plan.path.exists():
        raise IncompatibleStateError(
            "the checkpoint belongs to a run of a pipeline", given=text, expected="a folder of its own for each query"
        )
    return Checkpoint.at(f"{text}/{_FOLDER}", inside=True)
