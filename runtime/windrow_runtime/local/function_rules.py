"""Holds the functions of a run to what Spark does with them: it pickles them, and each batch begins with new copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

from windrow.functions.wrapper import unwrapped
from windrow.plan import MapAsyncNode, Node, SinkNode, SourceNode, Step, WindowNode
from windrow.plan.walk import map_steps
from windrow_runtime.operators.sending.culprits import refuse_unsendable
from windrow_runtime.operators.sending.parcel import Parcel, Renewal

# Any in this module: functions of every type.

_NOT_CALLED: Final = frozenset({"element_type", "input", "key_type", "location", "name", "rules", "streams"})


def sent_steps(steps: Sequence[Step], *, copies: bool) -> list[Step]:
    """Returns steps as Spark's workers get them, with copies of the functions if they are asked for.

    A copy shares no variable with the program that made the pipeline, and none with other steps: what a call changes in
    a closure stays there. Sources and sinks, which Spark's driver calls, stay the same objects.

    Raises:
        UnsupportedOperationError: If a step holds something that cannot be pickled.
    """
    parcels: dict[str, tuple[list[str], Parcel]] = {}
    for step in steps:
        if isinstance(step.node, (SourceNode, SinkNode)):
            continue
        names = [each.name for each in fields(step.node) if each.name not in _NOT_CALLED]
        parts = [getattr(step.node, name) for name in names]
        try:
            parcels[step.id] = names, Parcel(parts)
        except Exception:  # pickle may raise anything; the error says which part it is
            refuse_unsendable(step, parts)
            raise
    if not copies:
        return list(steps)
    identifiers = iter([step.id for step in steps])

    def with_copies(node: Node) -> Node:
        identifier = next(identifiers)
        if identifier not in parcels:
            return node
        names, parcel = parcels[identifier]
        return replace(node, **dict(zip(names, parcel.unpack(), strict=True)))

    return map_steps(steps, with_copies)


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
