"""Makes functions behave locally as on Spark: checks that they can be pickled, copies them, resets their attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import MethodType
from typing import Any

from windrow.aggregates.combined import Combined
from windrow.functions.plain import Applied, AppliedAll
from windrow.functions.wrapper import unwrapped
from windrow.plan import MapAsyncNode, Node, SinkNode, Step
from windrow.plan.own_parts import parts_of
from windrow.plan.walk import map_steps
from windrow_runtime.operators.sending.culprits import called_parts, refuse_unsendable
from windrow_runtime.operators.sending.parcel import Parcel, Renewal, check_sendable

# Any in this module: functions of every type.


def sent_steps(steps: Sequence[Step], *, copies: bool) -> list[Step]:
    """Returns steps as Spark's workers get them, with copies of the functions if they are asked for.

    A copy shares no variable with the program that made the pipeline, nor with other steps: changes that a call makes
    in a closure are not seen outside. Sources and sinks, which Spark's driver calls, are not copied.

    Raises:
        UnsupportedOperationError: If a step holds something that cannot be pickled.
    """
    parcels: dict[str, Parcel] = {}
    for step in steps:
        called = called_parts(step.node)
        try:
            if copies and called:
                parcels[step.id] = Parcel(called)
            else:
                check_sendable(called)
        except Exception:  # pickle may raise anything; the error says which part it is
            refuse_unsendable(step, called.values())
            raise
    if not copies:
        return list(steps)
    identifiers = iter([step.id for step in steps])

    def with_copies(node: Node) -> Node:
        parcel = parcels.get(next(identifiers))
        return node if parcel is None else replace(node, **parcel.unpack())

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
