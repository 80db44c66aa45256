"""Makes functions behave locally as on Spark: checks that they can be pickled, copies them, resets their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, Final

from windrow.aggregates.combined import Combined
from windrow.calls.attributes import attribute_of, attributes_of, slots_of
from windrow.facts.packages import is_of_windrow
from windrow.functions.plain import Applied, AppliedAll
from windrow.functions.wrapper import unwrapped
from windrow.plan import Node, Step
from windrow.plan.walk import map_steps
from windrow_runtime.local.parcel import Parcel, check_sendable
from windrow_runtime.operators.class_facts import delete_attributes, set_attributes
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.sending.culprits import called_parts, refuse_unsendable
from windrow_runtime.operators.sending.left_on_self import may_leave_something

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
            refuse_unsendable(step, called.values(), failure=_failure)
            raise
    if not copies:
        return list(steps)
    identifiers = iter([step.id for step in steps])

    def with_copies(node: Node) -> Node:
        parcel = parcels.get(next(identifiers))
        return node if parcel is None else replace(node, **parcel.unpack())

    return map_steps(steps, with_copies)


def _failure(value: object) -> Exception | None:
    try:
        check_sendable(value)
    except Exception as error:  # pickle, and the methods of the user's class that it calls, may raise anything
        return error
    return None


def renewals_of(steps: Sequence[Step]) -> dict[str, Renewal]:
    """Returns, by step id, the renewals that reset a step's functions to their attributes after ``open``."""
    renewals: dict[str, Renewal] = {}
    for step in steps:
        # The calls of an asynchronous function run concurrently, and share its attributes on purpose.
        if step.node.shares_attributes:
            continue
        renewal = Renewal(_objects_of(step))
        if renewal:
            renewals[step.id] = renewal
    return renewals


class Renewal:
    """Resets the attributes of users' objects to the values that they had after ``open``.

    On Spark each batch begins with new copies of a step's functions, in any worker. So attributes that a call sets on
    ``self`` are gone at the next batch. An attribute that cannot be pickled, such as a connection made in ``open``, is
    kept, and so is a function with its closure.
    """

    def __init__(self, objects: Iterable[object]) -> None:
        owners = list(filter(_has_attributes, objects))
        first = [attributes_of(each) for each in owners]
        changeable = [{name: value for name, value in each.items() if _may_change(value, owners)} for each in first]
        # Most functions set no attributes, and their batches need not be processed key by key.
        if not any(changeable) and not any(map(may_leave_something, owners)):
            owners, first = [], []
        self._owners, self._first = owners, first
        # All attributes are copied together, so that those that share an object go on sharing it.
        self._parcel = Parcel(changeable, of_user=True, same=owners) if any(changeable) else None

    def __bool__(self) -> bool:
        return bool(self._owners)

    def renew(self) -> None:
        """Resets the attributes, before a batch, or before a key that may be in another worker."""
        for owner, first in zip(self._owners, self._first, strict=True):
            delete_attributes(owner, attributes_of(owner).keys() - first.keys())
            set_attributes(owner, first)
        if self._parcel is not None:
            for owner, fresh in zip(self._owners, self._parcel.unpack(), strict=True):
                set_attributes(owner, fresh)


class OpenedFunctions:
    """Removes from functions, after a run, attributes that ``open`` set and pickle refuses, such as a connection.

    So the program can run the same pipeline on Spark afterwards.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        """Remember the attributes of the steps' functions, before these are opened."""
        owners = [each for step in steps for each in _objects_of(step) if _has_attributes(each)]
        self._before = [(owner, attributes_of(owner)) for owner in owners]

    def forget(self) -> None:
        """Deletes attributes that cannot be sent, or resets them to what they were before ``open``."""
        owners = [owner for owner, _ in self._before]
        for owner, before in self._before:
            after = attributes_of(owner)
            new = [name for name in after if name not in before or after[name] is not before[name]]
            opened = [name for name in new if not _is_sendable(after[name], owners)]
            delete_attributes(owner, opened)
            set_attributes(owner, {name: before[name] for name in opened if name in before})


def _objects_of(step: Step) -> list[object]:
    return [each for part in step.node.user_parts for each in _objects_in(part)]


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


def _has_attributes(value: object) -> bool:
    """Returns whether calls may set attributes of an object; objects of windrow's own classes are left out."""
    is_plain = isinstance(value, (FunctionType, type)) or is_of_windrow(type(value).__module__)
    has_own = isinstance(attribute_of(value, "__dict__"), dict)
    return not is_plain and (has_own or bool(slots_of(type(value))))


_FUNCTIONS: Final = (FunctionType, MethodType, BuiltinMethodType)


def _may_change(value: object, owners: Sequence[object]) -> bool:
    """Returns whether an attribute's value can be copied, and is not immutable."""
    if isinstance(value, _FUNCTIONS) or any(value is owner for owner in owners) or own(value) is value:
        return False
    return _is_sendable(value, owners)


def _is_sendable(value: object, same: Sequence[object]) -> bool:
    """Returns whether a value can be pickled; the objects in ``same`` are not part of it."""
    try:
        Parcel(value, of_user=True, same=same)
    except Exception:  # pickle may raise anything
        return False
    return True
