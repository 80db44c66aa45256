"""Checks the sinks of the interpreter, and writes its files after each batch."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from windrow.addresses.paths import local_path
from windrow.errors import UnsupportedOperationError
from windrow.plan import SinkNode, Step
from windrow.sinks import CollectSink, FileSink, ParquetFileSink
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import check_parquet
from windrow_runtime.operators.errors import errors_at, sink_errors
from windrow_runtime.outputs import has_output
from windrow_runtime.outputs.batch_folder import BatchFolder
from windrow_runtime.outputs.part_file import PartFile, file_sink_of

# Any in this module: elements of every type.


def check_sink(step: Step) -> None:
    """Refuse a sink that only Spark can write, before anything runs.

    Raises:
        UnsupportedOperationError: For such a sink.
    """
    assert isinstance(step.node, SinkNode)
    sink = step.node.sink
    if not isinstance(sink, (CollectSink, FileSink)) and not has_output(sink):
        raise UnsupportedOperationError(
            "the interpreter cannot write to this sink",
            given=sink.describe(),
            expected="memory, the console, files, a database, a Delta table, a function or a CustomSink",
            where=step.where,
            hint="run the pipeline with SparkRunner",
        )
    if isinstance(sink, ParquetFileSink):
        with errors_at(step.where):
            check_parquet()
    if isinstance(sink, FileSink):
        record_type(step.node.element_type)
        if local_path(sink.path) is None:
            raise UnsupportedOperationError(
                "the interpreter writes to mounted file systems only",
                given=sink.shown_path,
                expected="a path, or a file: URI",
                where=step.where,
                hint="run the pipeline with SparkRunner",
            )


def write_files(step: Step, batch: int, values: list[Any]) -> None:
    """Write what a file sink took in one batch.

    Raises:
        SinkError: If it cannot be written.
        InvalidArgumentError: If an element is not of its type.
    """
    sink = file_sink_of(step)
    path = local_path(sink.path)
    assert path is not None, "the sink was checked"
    folder = BatchFolder(Path(path), batch)
    with sink_errors(step, sink.path):
        if not values:
            folder.withdraw()
            return
        folder.begin()
        with closing(PartFile(step, record_type(step.node.element_type), folder.aside, "part-0")) as file:
            file.write(values)
        folder.publish()
