"""The table of sinks that are written on the driver, and the outputs that call what the user gave."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from windrow.connectors import CustomSink, SinkContext
from windrow.distribution import install_hint
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, WindrowError
from windrow.plan import Step
from windrow.sinks import ConsoleSink, DatabaseSink, DeltaSink, FunctionSink, Sink
from windrow_runtime.operators.errors import connector_errors, lifecycle_errors, shortened
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.outputs.output import Identity, Output
from windrow_runtime.outputs.process_lock import OwnStack

# Any in this module: sinks of elements of every type.


class ConsoleOutput(Output):
    """Prints each element on a line of its own."""

    def __init__(self, step: Step, sink: ConsoleSink, identity: Identity) -> None:
        self._prefix = sink.prefix

    def write(self, batch: int, values: Sequence[object]) -> None:
        for value in values:
            print(f"{self._prefix}{value}")


class FunctionOutput(Output):
    """Calls the function of one sink with each batch."""

    def __init__(self, step: Step, sink: FunctionSink[Any], identity: Identity) -> None:
        self._step, self._function = step, sink.function

    def write(self, batch: int, values: Sequence[object]) -> None:
        with _write_errors(self._step, batch, values):
            self._function(batch, values)


class CustomOutput(Output):
    """Writes to a sink of the user's own on the driver: one opening for the whole run."""

    def __init__(self, step: Step, sink: CustomSink[Any], identity: Identity, partition: int | None = None) -> None:
        self._step, self._sink = step, sink
        self._context = SinkContext(identity.query, partition)
        self._failed: WindrowError | None = None

    def open(self) -> None:
        with lifecycle_errors(self._step, "open", self._sink):
            self._sink.open(self._context)

    def write(self, batch: int, values: Sequence[object]) -> None:
        try:
            with _write_errors(self._step, batch, values):
                self._sink.write(batch, values)
        except WindrowError as error:
            self._failed = error
            raise

    def close(self) -> None:
        try:
            with lifecycle_errors(self._step, "close", self._sink):
                self._sink.close()
        except WindrowError as error:
            if self._failed is None:
                raise
            # A connection that was lost fails twice; the first time says of which elements.
            self._failed.add_note(f"close() of the sink failed as well: {error.__cause__ or error}")


class TaskOutput(Output):
    """Writes to a sink of the user's own as a worker does: one opening for each batch, which is one task here."""

    def __init__(self, step: Step, sink: CustomSink[Any], identity: Identity) -> None:
        self._task = CustomOutput(step, sink, identity, partition=0)

    def write(self, batch: int, values: Sequence[object]) -> None:
        self._task.open()
        with closing(self._task):
            self._task.write(batch, values)


def _write_errors(step: Step, batch: int, values: Sequence[object]) -> AbstractContextManager[None]:
    def given() -> str:
        return f"batch {batch} of {len(values)} elements, beginning with {', '.join(map(shortened, values[:1]))}"

    return connector_errors(step.where, "the function of the sink", given)


def _custom(step: Step, sink: CustomSink[Any], identity: Identity) -> Output:
    return TaskOutput(step, sink, identity) if is_on_workers(sink, step) else CustomOutput(step, sink, identity)


def is_on_workers(sink: CustomSink[Any], step: Step) -> bool:
    """Returns whether workers write a sink of the user's own."""
    with lifecycle_errors(step, "on_workers", sink):
        given: object = sink.on_workers
    if not isinstance(given, bool):
        raise InvalidArgumentError(
            "on_workers says whether workers write a sink",
            given=given,
            expected="True or False",
            where=step.where,
            hint="@property in front of a method",
        )
    return given


# The libraries are imported for those who use them.
def _database(step: Step, sink: DatabaseSink[Any], identity: Identity) -> Output:
    from windrow_runtime.outputs.database import DatabaseOutput

    return DatabaseOutput(step, sink, identity)


def _delta(step: Step, sink: DeltaSink[Any], identity: Identity) -> Output:
    from windrow_runtime.outputs.delta import DeltaOutput

    return DeltaOutput(step, sink, identity)


def _path(sink: DeltaSink[Any]) -> str:
    # However it is spelled, it is one table.
    return sink.path.rstrip("/") if "://" in sink.path else os.path.realpath(sink.path)


@dataclass(frozen=True, slots=True)
class _Entry:
    """The entry of a kind of sink."""

    create: Callable[[Step, Any, Identity], Output]
    # Gives the text that distinguishes the sinks of a query. It does not change when other steps come or go.
    target: Callable[[Any], str] = lambda _: ""
    extra: str = ""  # the extra of windrow that brings the library, if there is one


_ENTRIES: dict[type[Any], _Entry] = {
    ConsoleSink: _Entry(ConsoleOutput),
    CustomSink: _Entry(_custom),
    FunctionSink: _Entry(FunctionOutput),
    DatabaseSink: _Entry(_database, attrgetter("qualified_table"), "database"),
    DeltaSink: _Entry(_delta, _path, "delta"),
}


def _entry(sink: Sink[Any]) -> _Entry | None:
    return next((_ENTRIES[kind] for kind in type(sink).__mro__ if kind in _ENTRIES), None)


def has_output(sink: Sink[Any]) -> bool:
    """Returns whether an output writes for a sink."""
    return _entry(sink) is not None


def open_outputs(sinks: Sequence[Step], query: str) -> dict[str, Output]:
    """Make and open the outputs of a query, by the ids of their steps; sinks that have none are passed over."""
    outputs: dict[str, Output] = {}
    targets: Counter[str] = Counter()
    try:
        for step in sinks:
            sink = sink_of(step)
            entry = _entry(sink)
            if entry is None:
                continue
            target = entry.target(sink)
            targets[target] += 1
            # Of several sinks with one target, each has batches of its own. The address of a database does not tell
            # targets apart: of two spellings of one address, the second sink would find all batches written.
            name = target if targets[target] == 1 else f"{target}#{targets[target]}"
            try:
                output = entry.create(step, sink, Identity(query, name))
                output.open()
            except ModuleNotFoundError as error:
                raise UnsupportedOperationError(
                    "a library is missing that this sink needs",
                    given=f"{sink.describe()}, without {error.name}",
                    where=step.where,
                    hint=install_hint(entry.extra),
                ) from error
            outputs[step.id] = output
    except BaseException:
        with closing_outputs(outputs):
            raise
    return outputs


def closing_outputs(outputs: Mapping[str, Output]) -> ExitStack:
    """Returns a context that closes all outputs of a query at its end, also where closing one of them fails.

    In a process that was forked it does nothing.
    """
    stack = OwnStack()
    for output in outputs.values():
        stack.callback(output.close)
    return stack
