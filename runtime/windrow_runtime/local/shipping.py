"""Holds the functions of a run to what Spark does with them: it pickles them, and each batch begins with new copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from windrow.functions.wrapper import unwrapped
from windrow.plan import MapAsyncNode, SinkNode, SourceNode, Step, WindowNode
from windrow_runtime.operators.culprits import refuse_unsendable
from windrow_runtime.operators.parcel import Renewal

# Any in this module: functions of every type.

_NOT_CALLED: Final = frozenset({"element_type", "input", "key_type", "location", "name", "rules", "streams"})


def check_sendable(steps: Sequence[Step]) -> None:
    """Refuse a plan with functions that Spark could not send to its workers.

    Raises:
        UnsupportedOperationError: If a step holds something that cannot be pickled.
    """
    for step in steps:
        if not isinstance(step.node, (SourceNode, SinkNode)):
            held = [getattr(step.node, each.name) for each in fields(step.node) if each.name not in _NOT_CALLED]
            refuse_unsendable(step, held)


def renewals_of(steps: Sequence[Step]) -> dict[str, Renewal]:
    """What gives the functions of steps what they had when they were opened, by the id of the step."""
    found: dict[str, Renewal] = {}
    for step in steps:
        node = step.node
        # The calls of an asynchronous function go on side by side, and share what it keeps on purpose.
        if isinstance(node, (SourceNode, SinkNode, MapAsyncNode)):
            continue
        function: Any = node.function.process if isinstance(node, WindowNode) else getattr(node, "function", None)
        renewal = Renewal(unwrapped(function))
        if renewal.has_state:
            found[step.id] = renewal
    return found
