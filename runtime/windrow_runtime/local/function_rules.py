"""Makes functions behave locally as on Spark: checks that they can be pickled, copies them, resets their attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from types import MethodType
from typing import Any, Final

from windrow.aggregates.combined import Combined
from windrow.functions.plain import Applied, AppliedAll
from windrow.functions.wrapper import unwrapped
from windrow.plan import MapAsyncNode, Node, SinkNode, SourceNode, Step
from windrow.plan.own_parts import parts_of
from windrow.plan.walk import map_steps
from windrow_runtime.operators.sending.culprits import refuse_unsendable
from windrow_runtime.operators.sending.parcel import Parcel, Renewal, check_sendable

# Any in this module: functions of every type.

_NOT_CALLED: Final = frozenset({"element_type", "input", "key_type", "location", "name", "rules", "streams"})


def sent_steps(steps: Sequence[Step], *, copies: bool) -> list[Step]:
    """Returns steps as Spark's workers get them, with copies of the functions if they are asked for.

    A copy shares no variable with the program that made the pipeline, nor with other steps: changes that a call makes
    in a closure are not seen outside. Sources and sinks, which Spark's driver calls, are not copied.

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
            if copies:
                parcels[step.id] = names, Parcel(parts)
            else:
                check_sendable(parts)
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
    """Returns, by step id, the renewals that reset a step's functions to their attributes after ``open``."""
    renewals: dict[str, Renewal] = {}
    for step in steps:
        # The calls of an asynchronous function run concurrently, and share its attributes on purpose.
        if isinstance(step.node, (SinkNode, MapAsyncNode)):
            continue
        renewal = Renewal([each for part in parts_of(step.node) for each in _objects_in(part)])
        if renewal:
            renewals[step.id] = renewal
    return renewals


def _objects_in(part: Any) -> Iterator[object]:
    """Yields the users' objects in a part of a step; :class:`Renewal` ignores those of windrow's classes."""
    part = unwrapped(part)
    if isinstance(part, partial):
        yield from _objects_in(part.func)
    elif isinstance(part, MethodType):
        yield part.__self__
    elif isinstance(part, (Applied, AppliedAll)):
        yield from _objects_in(part.function)
    elif isinstance(part, Combined):
        for _, member in part.members:
            yield from _objects_in(member)
    else:
        yield part
