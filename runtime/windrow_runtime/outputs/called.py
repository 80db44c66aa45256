"""Outputs that call what the user gave: the console, a function, a sink of the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from windrow.connectors import CustomSink, SinkContext
from windrow.errors import WindrowError
from windrow.plan import Step
from windrow.sinks import ConsoleSink, FunctionSink
from windrow_runtime.operators.errors import USER_ERRORS, lifecycle_errors, sink_failed
from windrow_runtime.outputs.output import Identity, Output

# Any in this module: sinks of elements of every type.


class ConsoleOutput(Output):
    """Prints each element on a line of its own."""

    def __init__(self, step: Step, sink: ConsoleSink, identity: Identity) -> None:
        self._prefix = sink.prefix

    def write(self, batch: int, values: Sequence[object]) -> None:
        """Print a batch."""
        for value in values:
            print(f"{self._prefix}{value}")


class FunctionOutput(Output):
    """Calls the function of one sink with each batch."""

    def __init__(self, step: Step, sink: FunctionSink[Any], identity: Identity) -> None:
        self._step, self._function = step, sink.function

    def write(self, batch: int, values: Sequence[object]) -> None:
        """Call the function."""
        with _write_errors(self._step, batch, values):
            self._function(batch, values)


class CustomOutput(Output):
    """Writes to a sink of the user's own on the driver: one opening for the whole run."""

    def __init__(self, step: Step, sink: CustomSink[Any], identity: Identity, partition: int | None = None) -> None:
        self._step, self._sink = step, sink
        self._context = SinkContext(identity.query, partition)

    def open(self) -> None:
        """Call the sink's ``open``."""
        with lifecycle_errors(self._step, "open", self._sink):
            self._sink.open(self._context)

    def write(self, batch: int, values: Sequence[object]) -> None:
        """Call the sink's ``write``."""
        with _write_errors(self._step, batch, values):
            self._sink.write(batch, values)

    def close(self) -> None:
        """Call the sink's ``close``."""
        with lifecycle_errors(self._step, "close", self._sink):
            self._sink.close()


class TaskOutput(Output):
    """Writes to a sink of the user's own as a worker does: one opening for each batch, which is one task here."""

    def __init__(self, step: Step, sink: CustomSink[Any], identity: Identity) -> None:
        self._task = CustomOutput(step, sink, identity, partition=0)

    def write(self, batch: int, values: Sequence[object]) -> None:
        """Open the sink, write the batch, and close the sink."""
        self._task.open()
        try:
            self._task.write(batch, values)
        finally:
            self._task.close()


@contextmanager
def _write_errors(step: Step, batch: int, values: Sequence[object]) -> Iterator[None]:
    try:
        yield
    except WindrowError as error:
        raise error.at(step.where) from error.__cause__
    except USER_ERRORS as error:
        raise sink_failed(step, error, batch, values) from error
