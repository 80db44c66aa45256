"""Several aggregates at once: as a tuple, or as a record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast, overload

from typing_extensions import final

from windrow.aggregates.declared import Declaration, DeclaredAggregate
from windrow.errors import InvalidArgumentError
from windrow.functions.aggregate import AggregateFunction
from windrow.functions.rich import RuntimeContext
from windrow.plan.fitting import can_fit
from windrow.plan.nodes import type_name
from windrow.plan.types import base_argument, parameter_types, result_type

__all__ = ["Combined", "combine", "into"]

# Any in this module: the members have accumulators and results of every type. The overloads of combine and into prove
# that they fit, and nothing else makes a Combined.

T = TypeVar("T")
R = TypeVar("R")
R1 = TypeVar("R1")
R2 = TypeVar("R2")
R3 = TypeVar("R3")
R4 = TypeVar("R4")
R5 = TypeVar("R5")
R6 = TypeVar("R6")
R7 = TypeVar("R7")
R8 = TypeVar("R8")

Accumulators = tuple[Any, ...]


@final
@dataclass(frozen=True)
class Combined(DeclaredAggregate[T, Accumulators, R]):
    """See :func:`combine` and :func:`into`.

    Attributes:
        members: The aggregates, each with the name under which the target takes its result; empty: by position.
        target: Makes the result; None: it is a tuple.
    """

    members: tuple[tuple[str, AggregateFunction[Any, Any, Any]], ...]
    target: Callable[..., Any] | None

    @cached_property
    def _unrolled(self) -> Callable[[Any, Accumulators], Accumulators]:
        """The members' ``add`` in one function without a loop, which takes half the time; made in each process."""
        places = range(len(self.members))
        held = "".join([f"held{place}, " for place in places])
        added = "".join([f"add{place}(value, held{place}), " for place in places])
        code = f"def add(value, accumulator):\n    {held}= accumulator\n    return ({added})"
        names: dict[str, Any] = {f"add{place}": self.members[place][1].add for place in places}
        exec(code, names)
        unrolled: Callable[[Any, Accumulators], Accumulators] = names["add"]
        return unrolled

    def __getstate__(self) -> dict[str, Any]:
        # A function made at run time is not sent.
        return {name: value for name, value in self.__dict__.items() if name != "_unrolled"}

    def open(self, runtime_context: RuntimeContext) -> None:
        for _, member in self.members:
            member.open(runtime_context)

    def close(self) -> None:
        for _, member in self.members:
            member.close()

    def create_accumulator(self) -> Accumulators:
        return tuple([member.create_accumulator() for _, member in self.members])

    def add(self, value: T, accumulator: Accumulators) -> Accumulators:
        return self._unrolled(value, accumulator)

    def get_result(self, accumulator: Accumulators) -> R:
        results = [
            member.get_result(held) for (_, member), held in zip(self.members, accumulator, strict=True)
        ]
        return self.made_of(results)

    def made_of(self, results: Sequence[Any]) -> R:
        """What the target makes of one result for each member."""
        if self.target is None:
            return cast(R, tuple(results))  # the overloads of combine say which tuple
        if not self.members[0][0]:
            return cast(R, self.target(*results))  # the overloads of into say that the target gives R
        names = [name for name, _ in self.members]
        return cast(R, self.target(**dict(zip(names, results, strict=True))))

    def merge(self, a: Accumulators, b: Accumulators) -> Accumulators:
        triples = zip(self.members, a, b, strict=True)
        return tuple([member.merge(first, second) for (_, member), first, second in triples])

    @property
    def can_merge(self) -> bool:
        return all(member.can_merge for _, member in self.members)

    @property
    def can_share(self) -> bool:
        return all(member.can_share for _, member in self.members)

    @property
    def declaration(self) -> Declaration:
        declared = tuple([(name, _declaration_of(member)) for name, member in self.members])
        return Declaration("combine" if self.target is None else "into", members=declared, target=self.target)

    def describe(self) -> str:
        parts = [
            f"{name}={member.describe()}" if name else member.describe() for name, member in self.members
        ]
        if self.target is None:
            return f"combine({', '.join(parts)})"
        return f"into({', '.join([_name_of(self.target), *parts])})"

    def result_type(self, element_type: object | None) -> object | None:
        """See the base class.

        Raises:
            InvalidArgumentError: If a result cannot stand in the field that it is for.
        """
        if self.target is not None:
            self._check_fields(self.target, element_type)
            return self.target if isinstance(self.target, type) else result_type(self.target)
        kinds = [_result_type(member, element_type) for _, member in self.members]
        known: object | None = None if None in kinds else tuple.__class_getitem__(tuple(kinds))
        return known

    def _check_fields(self, target: Callable[..., Any], element_type: object | None) -> None:
        expected = parameter_types(target)
        for (name, member), parameter in zip(self.members, self._parameters(target), strict=False):
            field = name or parameter
            kind = _result_type(member, element_type)
            if kind is not None and field in expected and not can_fit(kind, expected[field]):
                raise InvalidArgumentError(
                    f"field {field} of {_name_of(target)} cannot take what its aggregate gives",
                    given=f"{member.describe()}, which gives {type_name(kind)}",
                    expected=type_name(expected[field]),
                )

    def _parameters(self, target: Callable[..., Any]) -> list[str]:
        """The names of the parameters in their order, for members that have none."""
        try:
            names = list(inspect.signature(target).parameters)
        except ValueError:
            names = []
        return [*names, *[""] * (len(self.members) - len(names))]


def _declaration_of(member: AggregateFunction[Any, Any, Any]) -> Declaration:
    if isinstance(member, DeclaredAggregate):
        return member.declaration
    return Declaration("function", parameters=(("function", member),))


def _result_type(member: AggregateFunction[Any, Any, Any], element_type: object | None) -> object | None:
    if isinstance(member, DeclaredAggregate):
        return member.result_type(element_type)
    return base_argument(member, AggregateFunction, 2) or result_type(member.get_result)


def _name_of(target: object) -> str:
    return getattr(target, "__name__", type(target).__name__)


@overload
def combine(_1: AggregateFunction[T, Any, R1], /) -> Combined[T, tuple[R1]]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1], _2: AggregateFunction[T, Any, R2], /
) -> Combined[T, tuple[R1, R2]]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1], _2: AggregateFunction[T, Any, R2], _3: AggregateFunction[T, Any, R3], /
) -> Combined[T, tuple[R1, R2, R3]]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1],
    _2: AggregateFunction[T, Any, R2],
    _3: AggregateFunction[T, Any, R3],
    _4: AggregateFunction[T, Any, R4],
    /,
) -> Combined[T, tuple[R1, R2, R3, R4]]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1],
    _2: AggregateFunction[T, Any, R2],
    _3: AggregateFunction[T, Any, R3],
    _4: AggregateFunction[T, Any, R4],
    _5: AggregateFunction[T, Any, R5],
    /,
) -> Combined[T, tuple[R1, R2, R3, R4, R5]]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1],
    _2: AggregateFunction[T, Any, R2],
    _3: AggregateFunction[T, Any, R3],
    _4: AggregateFunction[T, Any, R4],
    _5: AggregateFunction[T, Any, R5],
    _6: AggregateFunction[T, Any, R6],
    /,
) -> Combined[T, tuple[R1, R2, R3, R4, R5, R6]]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1],
    _2: AggregateFunction[T, Any, R2],
    _3: AggregateFunction[T, Any, R3],
    _4: AggregateFunction[T, Any, R4],
    _5: AggregateFunction[T, Any, R5],
    _6: AggregateFunction[T, Any, R6],
    _7: AggregateFunction[T, Any, R7],
    /,
) -> Combined[T, tuple[R1, R2, R3, R4, R5, R6, R7]]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1],
    _2: AggregateFunction[T, Any, R2],
    _3: AggregateFunction[T, Any, R3],
    _4: AggregateFunction[T, Any, R4],
    _5: AggregateFunction[T, Any, R5],
    _6: AggregateFunction[T, Any, R6],
    _7: AggregateFunction[T, Any, R7],
    _8: AggregateFunction[T, Any, R8],
    /,
) -> Combined[T, tuple[R1, R2, R3, R4, R5, R6, R7, R8]]: ...
def combine(*members: AggregateFunction[Any, Any, Any]) -> Combined[Any, Any]:
    """Several aggregates of the same elements; the result is the tuple of their results.

    Takes up to eight, which may be aggregate functions of yours.

    Raises:
        InvalidArgumentError: If a member is no aggregate function, or there is none.
    """
    return Combined(tuple([("", member) for member in _checked(members, "combine")]), None)


@overload
def into(record: Callable[[R1], R], _1: AggregateFunction[T, Any, R1], /) -> Combined[T, R]: ...
@overload
def into(
    record: Callable[[R1, R2], R], _1: AggregateFunction[T, Any, R1], _2: AggregateFunction[T, Any, R2], /
) -> Combined[T, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3], R],
    _1: AggregateFunction[T, Any, R1],
    _2: AggregateFunction[T, Any, R2],
    _3: AggregateFunction[T, Any, R3],
    /,
) -> Combined[T, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4], R],
    _1: AggregateFunction[T, Any, R1],
    _2: AggregateFunction[T, Any, R2],
    _3: AggregateFunction[T, Any, R3],
    _4: AggregateFunction[T, Any, R4],
    /,
) -> Combined[T, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5], R],
    _1: AggregateFunction[T, Any, R1],
    _2: AggregateFunction[T, Any, R2],
    _3: AggregateFunction[T, Any, R3],
    _4: AggregateFunction[T, Any, R4],
    _5: AggregateFunction[T, Any, R5],
    /,
) -> Combined[T, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5, R6], R],
    _1: AggregateFunction[T, Any, R1],
    _2: AggregateFunction[T, Any, R2],
    _3: AggregateFunction[T, Any, R3],
    _4: AggregateFunction[T, Any, R4],
    _5: AggregateFunction[T, Any, R5],
    _6: AggregateFunction[T, Any, R6],
    /,
) -> Combined[T, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5, R6, R7], R],
    _1: AggregateFunction[T, Any, R1],
    _2: AggregateFunction[T, Any, R2],
    _3: AggregateFunction[T, Any, R3],
    _4: AggregateFunction[T, Any, R4],
    _5: AggregateFunction[T, Any, R5],
    _6: AggregateFunction[T, Any, R6],
    _7: AggregateFunction[T, Any, R7],
    /,
) -> Combined[T, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5, R6, R7, R8], R],
    _1: AggregateFunction[T, Any, R1],
    _2: AggregateFunction[T, Any, R2],
    _3: AggregateFunction[T, Any, R3],
    _4: AggregateFunction[T, Any, R4],
    _5: AggregateFunction[T, Any, R5],
    _6: AggregateFunction[T, Any, R6],
    _7: AggregateFunction[T, Any, R7],
    _8: AggregateFunction[T, Any, R8],
    /,
) -> Combined[T, R]: ...
@overload
def into(record: Callable[..., R], /, **members: AggregateFunction[T, Any, Any]) -> Combined[T, R]: ...
def into(
    record: Callable[..., Any],
    /,
    *positional: AggregateFunction[Any, Any, Any],
    **named: AggregateFunction[Any, Any, Any],
) -> Combined[Any, Any]:
    """Several aggregates of the same elements; the result is a record of their results.

    By position, ``into(Climate, min(...), count())``, the type checker proves that each result fits its field; up to
    eight. By name, ``into(Climate, low=min(...), n=count())``, it proves the type of the record; the names are
    checked when the call is made, and the types when a stream whose element type is known takes the aggregate.

    Args:
        record: A record class, or any function that makes the result; it is called at each firing.
        positional: The aggregates in the order of its parameters.
        named: The aggregates by its parameters.

    Raises:
        InvalidArgumentError: If there are aggregates of both kinds or none, if a member is no aggregate function, or if
            ``record`` does not take them.
    """
    if not callable(record):
        raise InvalidArgumentError(
            "into needs something to make",
            given=record,
            expected="a record class, or a function of the results",
        )
    if positional and named:
        raise InvalidArgumentError(
            "into got aggregates by position and by name",
            given=f"{len(positional)} by position; {', '.join(named)}",
            expected="one or the other",
        )
    _checked((*positional, *named.values()), "into")
    try:
        inspect.signature(record).bind(*positional, **named)
    except TypeError as error:
        raise InvalidArgumentError(
            f"{_name_of(record)} does not take these results: {error}",
            given=", ".join(named) or f"{len(positional)} aggregates",
            expected=f"{_name_of(record)}{inspect.signature(record)}",
        ) from error
    except ValueError:
        pass  # a class of an extension that has no signature; it says itself what it takes, when it is called
    members = tuple([("", member) for member in positional]) or tuple(named.items())
    return Combined(members, record)


def _checked(
    members: tuple[AggregateFunction[Any, Any, Any], ...], call: str
) -> tuple[AggregateFunction[Any, Any, Any], ...]:
    if not members:
        raise InvalidArgumentError(f"{call} needs aggregates", expected="at least one, such as count()")
    for member in members:
        if not isinstance(member, AggregateFunction):
            raise InvalidArgumentError(
                f"{call} combines aggregate functions",
                given=member,
                expected="aggregates such as count(), or instances of AggregateFunction",
                hint=f"{member.__name__}()" if callable(member) and hasattr(member, "__name__") else None,
            )
    return members
