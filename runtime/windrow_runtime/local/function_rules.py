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
from windrow_runtime.operators.class_facts import attributes_of, delete_attributes, set_attributes
from windrow_runtime.operators.sending.culprits import called_parts, refuse_unsendable
from windrow_runtime.operators.sending.parcel import Parcel, Renewal, check_sendable, has_attributes, is_sendable

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
        renewal = Renewal(_objects_of(step))
        if renewal:
            renewals[step.id] = renewal
    return renewals


class OpenedFunctions:
    """Removes from functions, after a run, attributes that ``open`` set and pickle refuses, such as a connection.

    So the program can run the same pipeline on Spark afterwards.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        """Remember the attributes of the steps' functions, before these are opened."""
        owners = [each for step in steps for each in _objects_of(step) if has_attributes(each)]
        self._before = [(owner, attributes_of(owner)) for owner in owners]

    def forget(self) -> None:
        """Deletes attributes that cannot be sent, or resets them to what they were before ``open``."""
        owners = [owner for owner, _ in self._before]
        for owner, before in self._before:
            after = attributes_of(owner)
            new = [name for name in after if name not in before or after[name] is not before[name]]
            opened = [name for name in new if not is_sendable(after[name], owners)]
            delete_attributes(owner, opened)
            set_attributes(owner, {name: before[name] for name in opened if name in before})


def _objects_of(step: Step) -> list[object]:
    return [each for part in parts_of(step.node) for each in _objects_in(part)]


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
