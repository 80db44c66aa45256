"""Sinks in the interpreter: what is written after each batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from windrow.addresses.paths import local_path
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, WindrowError
from windrow.plan import SinkNode, Step
from windrow.sinks import (
    CollectSink,
    ConsoleSink,
    CsvFileSink,
    FileSink,
    FunctionSink,
    JsonFileSink,
    ParquetFileSink,
    TextFileSink,
)
from windrow_runtime.codecs.line_encoder import line_encoder
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import check_parquet
from windrow_runtime.operators.errors import USER_ERRORS, sink_errors, sink_failed, with_field
from windrow_runtime.outputs import has_output
from windrow_runtime.outputs.batch_folder import BatchFolder

__all__ = ["check_sink", "write_batch"]

# Any in this module: elements of every type.

_KNOWN: Final = (
    CollectSink,
    ConsoleSink,
    CsvFileSink,
    FunctionSink,
    JsonFileSink,
    ParquetFileSink,
    TextFileSink,
)


def check_sink(step: Step) -> None:
    """Refuse a sink that only Spark can write, before anything runs.

    Raises:
        UnsupportedOperationError: For such a sink.
    """
    assert isinstance(step.node, SinkNode)
    sink = step.node.sink
    if not isinstance(sink, _KNOWN) and not has_output(sink):
        raise UnsupportedOperationError(
            "the interpreter cannot write to this sink",
            given=sink.describe(),
            expected="memory, the console, files, a database, a Delta table or a function",
            where=step.where,
            hint="run the pipeline with SparkRunner",
        )
    if isinstance(sink, ParquetFileSink):
        try:
            check_parquet()
        except WindrowError as error:
            raise error.at(step.where) from error.__cause__
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


def write_batch(step: Step, batch: int, values: list[Any]) -> None:
    """Write what a sink took in one batch.

    What a :class:`CollectSink` takes stays where it is, and what has an output is written by it.
    """
    assert isinstance(step.node, SinkNode)
    sink = step.node.sink
    if isinstance(sink, ConsoleSink):
        for value in values:
            print(f"{sink.prefix}{value}")
    elif isinstance(sink, FunctionSink):
        try:
            sink.function(batch, values)
        except WindrowError:
            raise
        except USER_ERRORS as error:
            raise sink_failed(step, error, batch, values) from error
    elif isinstance(sink, FileSink):
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
