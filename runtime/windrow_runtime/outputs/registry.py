"""The table of sinks that are written on the driver, each with the output that writes it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windrow.connectors import CustomSink
from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError
from windrow.plan import SinkNode, Step
from windrow.sinks import ConsoleSink, DatabaseSink, DeltaSink, FunctionSink, Sink
from windrow_runtime.outputs.called import ConsoleOutput, CustomOutput, FunctionOutput, TaskOutput
from windrow_runtime.outputs.output import Identity

if TYPE_CHECKING:
    from windrow_runtime.outputs.output import Output

# Any in this module: sinks of elements of every type.


# The libraries are imported for those who use them.
def _database(step: Step, sink: DatabaseSink[Any], identity: Identity) -> Output:
    from windrow_runtime.outputs.database import DatabaseOutput

    return DatabaseOutput(step, sink, identity)


def _delta(step: Step, sink: DeltaSink[Any], identity: Identity) -> Output:
    from windrow_runtime.outputs.delta import DeltaOutput

    return DeltaOutput(step, sink, identity)


def _custom(step: Step, sink: CustomSink[Any], identity: Identity) -> Output:
    return TaskOutput(step, sink, identity) if sink.on_workers else CustomOutput(step, sink, identity)


def _nothing(sink: Sink[Any]) -> str:
    return ""


def _table(sink: DatabaseSink[Any]) -> str:
    return sink.qualified_table


def _path(sink: DeltaSink[Any]) -> str:
    # However it is spelled, it is one table.
    return sink.path.rstrip("/") if "://" in sink.path else os.path.realpath(sink.path)


@dataclass(frozen=True, slots=True)
class _Entry:
    """The entry of a kind of sink: what writes to it.

    Attributes:
        create: Makes the output.
        target: The text that distinguishes the sinks of a query. It does not change when other steps come or go.
        extra: The extra of windrow that brings the library, if there is one.
    """

    create: Callable[[Step, Any, Identity], Output]
    target: Callable[[Any], str] = _nothing
    extra: str = ""


_ENTRIES: dict[type[Any], _Entry] = {
    ConsoleSink: _Entry(ConsoleOutput),
    CustomSink: _Entry(_custom),
    FunctionSink: _Entry(FunctionOutput),
    DatabaseSink: _Entry(_database, _table, "database"),
    DeltaSink: _Entry(_delta, _path, "delta"),
}


def has_output(sink: Sink[Any]) -> bool:
    """Returns whether an output writes for a sink."""
    return _entry(sink) is not None


def open_outputs(sinks: Sequence[Step], query: str) -> dict[str, Output]:
    """Make and open the outputs of a query, for those of its sinks that have one.

    Args:
        sinks: The sinks of the query that are not written by workers.
        query: Its identity.

    Returns:
        The outputs, by the ids of the steps; :func:`closing_outputs` closes them.

    Raises:
        SinkError: If one cannot be reached, or does not fit the elements.
        InvalidArgumentError: If the elements have no form there.
        UnsupportedOperationError: If the library is not installed.
        UserFunctionError: If a sink of the user's own cannot be opened.
    """
    outputs: dict[str, Output] = {}
    targets: Counter[str] = Counter()
    try:
        for step in sinks:
            assert isinstance(step.node, SinkNode)
            sink = step.node.sink
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

    Its end raises a UserFunctionError if a sink of the user's own raised.
    """
    stack = ExitStack()
    for output in outputs.values():
        stack.callback(output.close)
    return stack


def _entry(sink: Sink[Any]) -> _Entry | None:
    return next((_ENTRIES[kind] for kind in type(sink).__mro__ if kind in _ENTRIES), None)
