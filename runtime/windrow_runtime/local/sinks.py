"""Checks the sinks of the interpreter, and writes its files after each batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windrow.addresses.paths import local_path
from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.plan import SinkNode, Step
from windrow.sinks import CollectSink, FileSink, ParquetFileSink
from windrow_runtime.codecs.line_encoder import line_encoder
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import check_parquet
from windrow_runtime.operators.errors import errors_at, sink_errors, with_field
from windrow_runtime.outputs import has_output
from windrow_runtime.outputs.batch_folder import BatchFolder

__all__ = ["check_sink", "write_files"]

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
    """Write what a file sink took in one batch."""
    assert isinstance(step.node, SinkNode)
    sink = step.node.sink
    assert isinstance(sink, FileSink)
    try:
        with sink_errors(step, sink.path):
            _write_files(step, sink, batch, values)
    except InvalidArgumentError as error:
        raise with_field(step.where, error) from error.__cause__


def _write_files(step: Step, sink: FileSink[Any], batch: int, values: list[Any]) -> None:
    path = local_path(sink.path)
    assert path is not None, "the sink was checked"
    folder = BatchFolder(Path(path), batch)
    if not values:
        folder.withdraw()
        return
    kind = record_type(step.node.element_type)
    folder.begin()
    aside = folder.aside
    aside.mkdir(parents=True)
    lines = line_encoder(sink, kind)
    if lines is not None:
        with (aside / f"part-0{lines.ending}").open("w", encoding="utf-8", newline="\n") as file:
            if lines.header is not None:
                file.write(f"{lines.header}\n")
            file.writelines(f"{lines.encode(value)}\n" for value in values)
    else:
        # Arrow only where parquet is written: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.parquet import write_parquet

        write_parquet(values, kind, aside / "part-0.parquet")
    folder.publish()
