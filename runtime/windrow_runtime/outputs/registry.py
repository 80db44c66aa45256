"""Which output writes for which kind of sink."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError
from windrow.plan import SinkNode, Step
from windrow.sinks import DatabaseSink, DeltaSink, Sink
from windrow_runtime.outputs.output import Identity

if TYPE_CHECKING:
    from windrow_runtime.outputs.output import Output

__all__ = ["has_output", "open_outputs"]

# Any in this module: sinks of elements of every type.


# The libraries are imported for those who use them.
def _database(step: Step, sink: DatabaseSink[Any], identity: Identity) -> Output:
    from windrow_runtime.outputs.database import DatabaseOutput

    return DatabaseOutput(step, sink, identity)


def _delta(step: Step, sink: DeltaSink[Any], identity: Identity) -> Output:
    from windrow_runtime.outputs.delta import DeltaOutput

    return DeltaOutput(step, sink, identity)


def _table(sink: DatabaseSink[Any]) -> str:
    return sink.qualified_table


def _path(sink: DeltaSink[Any]) -> str:
    # However it is spelled, it is one table.
    return sink.path.rstrip("/") if "://" in sink.path else os.path.realpath(sink.path)


@dataclass(frozen=True, slots=True)
class _Entry:
    """How to write to a kind of sink.

    Attributes:
        create: Makes the output.
        target: What tells the sinks of a query apart. It does not change when other steps come or go.
        extra: The extra of windrow that brings the library.
    """

    create: Callable[[Step, Any, Identity], Output]
    target: Callable[[Any], str]
    extra: str


_ENTRIES: dict[type[Sink[Any]], _Entry] = {
    DatabaseSink: _Entry(_database, _table, "database"),
    DeltaSink: _Entry(_delta, _path, "delta"),
}


def has_output(sink: Sink[Any]) -> bool:
    """Whether an output writes for a sink."""
    return _entry(sink) is not None


def open_outputs(sinks: Sequence[Step], query: str) -> dict[str, Output]:
    """Make and open the outputs of a query, for those of its sinks that have one.

    Args:
        sinks: The sinks of the query.
        query: Its identity.

    Returns:
        The outputs, by the ids of the steps.

    Raises:
        SinkError: If one cannot be reached, or does not fit the elements.
        InvalidArgumentError: If the elements have no form there.
        UnsupportedOperationError: If the library is not installed.
    """
    outputs: dict[str, Output] = {}
    targets: Counter[str] = Counter()
    for step in sinks:
        assert isinstance(step.node, SinkNode)
        sink = step.node.sink
        entry = _entry(sink)
        if entry is None:
            continue
        target = entry.target(sink)
        targets[target] += 1
        # Of several sinks with one target, each has batches of its own. The address of a database does not tell targets
        # apart: of two spellings of one address, the second sink would find all batches written.
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
    return outputs


def _entry(sink: Sink[Any]) -> _Entry | None:
    return next((_ENTRIES[kind] for kind in type(sink).__mro__ if kind in _ENTRIES), None)
