"""Combines several aggregates into one, whose results are tuples or records."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, cast, final, overload

from windrow.aggregates.declared import Declaration, DeclaredAggregate
from windrow.calls.attributes import attribute_of
from windrow.errors import InvalidArgumentError, require_callable
from windrow.functions.aggregate import AggregateFunction
from windrow.functions.rich import RuntimeContext
from windrow.functions.target import check_target
from windrow.functions.type_names import type_name
from windrow.plan.fitting import accepts_none, can_fit
from windrow.plan.location import caller_location, refusal
from windrow.plan.types import base_argument, parameter_types, result_type

# Any in this module: the members have accumulators and results of every type. The overloads of combine and into prove
# that they fit, and nothing else makes a Combined.

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E")
K = TypeVar("K")
R1 = TypeVar("R1")
R2 = TypeVar("R2")
R3 = TypeVar("R3")
R4 = TypeVar("R4")
R5 = TypeVar("R5")
R6 = TypeVar("R6")
R7 = TypeVar("R7")
R8 = TypeVar("R8")
E1 = TypeVar("E1")
E2 = TypeVar("E2")
E3 = TypeVar("E3")
E4 = TypeVar("E4")
E5 = TypeVar("E5")
E6 = TypeVar("E6")
E7 = TypeVar("E7")
E8 = TypeVar("E8")

Accumulators = tuple[Any, ...]


@final
@dataclass(frozen=True, repr=False)
class Combined(DeclaredAggregate[T, Accumulators, R, E, K], Generic[T, R, E, K]):
    """See :func:`combine` and :func:`into`.

    Attributes:
        members: The aggregates, each with the name under which the target takes its result; empty: by position.
        target: Makes the result; None: it is a tuple.
    """

    members: tuple[tuple[str, AggregateFunction[Any, Any, Any, Any, Any]], ...]
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

    def retract(self, value: T, accumulator: Accumulators) -> Accumulators:
        return tuple([member.retract(value, held) for (_, member), held in zip(self.members, accumulator, strict=True)])

    def can_retract(self, element_type: object | None) -> bool:
        return all(member.can_retract(element_type) for _, member in self.members)

    def get_result(self, accumulator: Accumulators) -> R:
        results = [member.get_result(held) for (_, member), held in zip(self.members, accumulator, strict=True)]
        return self.made_of(results)

    def made_of(self, results: Sequence[Any]) -> R:
        """Calls the target with one result for each member."""
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
        members = [f"{name}={member.describe()}" if name else member.describe() for name, member in self.members]
        if self.target is None:
            return f"combine({', '.join(members)})"
        return f"into({', '.join([_name_of(self.target), *members])})"

    def result_type(
        self, element_type: object | None, *, key_type: object | None = None, may_be_empty: bool = False
    ) -> object | None:
        """See the base class.

        Raises:
            InvalidArgumentError: If a result cannot stand in the field that it is for.
        """
        kinds = [_result_type(member, element_type, key_type, may_be_empty) for _, member in self.members]
        if self.target is None:
            return None if None in kinds else cast(object, tuple.__class_getitem__(tuple(kinds)))
        expected = parameter_types(self.target)
        for (name, member), type_form in zip(self.fields_of(self.target), kinds, strict=True):
            field = expected.get(name)
            if type_form is None or field is None:
                continue
            none = _may_be_none(member, element_type, may_be_empty)
            if not can_fit(type_form, field) or (none and not accepts_none(field)):
                raise InvalidArgumentError(
                    f"field {name} of {_name_of(self.target)} cannot take what its aggregate gives",
                    given=f"{member.describe()}, which gives {type_name(type_form)}",
                    expected=type_name(field),
                )
        return self.target if isinstance(self.target, type) else result_type(self.target)

    def fields_of(self, target: Callable[..., Any]) -> list[tuple[str, AggregateFunction[Any, Any, Any, Any, Any]]]:
        """The members, each with the name of the parameter of ``target`` that takes its result; empty: not known."""
        try:
            names = list(inspect.signature(target).parameters)
        except Exception:  # as for check_target
            names = []
        names += [""] * (len(self.members) - len(names))
        return [(name or names[place], member) for place, (name, member) in enumerate(self.members)]


def _declaration_of(member: AggregateFunction[Any, Any, Any, Any, Any]) -> Declaration:
    if isinstance(member, DeclaredAggregate):
        return member.declaration
    return Declaration("function", parameters=(("function", member),))


def _result_type(
    member: AggregateFunction[Any, Any, Any, Any, Any],
    element_type: object | None,
    key_type: object | None,
    may_be_empty: bool,
) -> object | None:
    if isinstance(member, DeclaredAggregate):
        return member.result_type(element_type, key_type=key_type, may_be_empty=may_be_empty)
    return base_argument(member, AggregateFunction, 2) or result_type(member.get_result)


def _may_be_none(
    member: AggregateFunction[Any, Any, Any, Any, Any], element_type: object | None, may_be_empty: bool
) -> bool:
    """Whether an evictor may leave nothing, of which the result is None.

    A selector that may give None is no reason to refuse a field: a window may never come in which it gives None alone.
    """
    if not may_be_empty or not isinstance(member, DeclaredAggregate):
        return False
    return member.gives_none(element_type, may_be_empty=True) is True


def _name_of(target: object) -> str:
    return str(attribute_of(target, "__name__", type(target).__name__))


@overload
def combine(_1: AggregateFunction[T, Any, R1, E1, K], /) -> Combined[T, tuple[R1], tuple[E1], K]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1, E1, K], _2: AggregateFunction[T, Any, R2, E2, K], /
) -> Combined[T, tuple[R1, R2], tuple[E1, E2], K]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    /,
) -> Combined[T, tuple[R1, R2, R3], tuple[E1, E2, E3], K]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    _4: AggregateFunction[T, Any, R4, E4, K],
    /,
) -> Combined[T, tuple[R1, R2, R3, R4], tuple[E1, E2, E3, E4], K]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    _4: AggregateFunction[T, Any, R4, E4, K],
    _5: AggregateFunction[T, Any, R5, E5, K],
    /,
) -> Combined[T, tuple[R1, R2, R3, R4, R5], tuple[E1, E2, E3, E4, E5], K]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    _4: AggregateFunction[T, Any, R4, E4, K],
    _5: AggregateFunction[T, Any, R5, E5, K],
    _6: AggregateFunction[T, Any, R6, E6, K],
    /,
) -> Combined[T, tuple[R1, R2, R3, R4, R5, R6], tuple[E1, E2, E3, E4, E5, E6], K]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    _4: AggregateFunction[T, Any, R4, E4, K],
    _5: AggregateFunction[T, Any, R5, E5, K],
    _6: AggregateFunction[T, Any, R6, E6, K],
    _7: AggregateFunction[T, Any, R7, E7, K],
    /,
) -> Combined[T, tuple[R1, R2, R3, R4, R5, R6, R7], tuple[E1, E2, E3, E4, E5, E6, E7], K]: ...
@overload
def combine(
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    _4: AggregateFunction[T, Any, R4, E4, K],
    _5: AggregateFunction[T, Any, R5, E5, K],
    _6: AggregateFunction[T, Any, R6, E6, K],
    _7: AggregateFunction[T, Any, R7, E7, K],
    _8: AggregateFunction[T, Any, R8, E8, K],
    /,
) -> Combined[T, tuple[R1, R2, R3, R4, R5, R6, R7, R8], tuple[E1, E2, E3, E4, E5, E6, E7, E8], K]: ...
def combine(*members: AggregateFunction[Any, Any, Any, Any, Any]) -> Combined[Any, Any, Any, Any]:
    """Several aggregates of the same elements; the result is the tuple of their results.

    Takes up to eight, which may be aggregate functions of yours.

    Args:
        members: The aggregates, in the order of their results.

    Raises:
        InvalidArgumentError: If a member is no aggregate function, or there is none.
    """
    return Combined(tuple([("", member) for member in _checked(members, "combine")]), None)


@overload
def into(record: Callable[[R1], R], _1: AggregateFunction[T, Any, R1, E1, K], /) -> Combined[T, R, R, K]: ...
@overload
def into(
    record: Callable[[R1, R2], R], _1: AggregateFunction[T, Any, R1, E1, K], _2: AggregateFunction[T, Any, R2, E2, K], /
) -> Combined[T, R, R, K]: ...
@overload
def into(
    record: Callable[[R1, R2, R3], R],
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    /,
) -> Combined[T, R, R, K]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4], R],
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    _4: AggregateFunction[T, Any, R4, E4, K],
    /,
) -> Combined[T, R, R, K]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5], R],
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    _4: AggregateFunction[T, Any, R4, E4, K],
    _5: AggregateFunction[T, Any, R5, E5, K],
    /,
) -> Combined[T, R, R, K]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5, R6], R],
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    _4: AggregateFunction[T, Any, R4, E4, K],
    _5: AggregateFunction[T, Any, R5, E5, K],
    _6: AggregateFunction[T, Any, R6, E6, K],
    /,
) -> Combined[T, R, R, K]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5, R6, R7], R],
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    _4: AggregateFunction[T, Any, R4, E4, K],
    _5: AggregateFunction[T, Any, R5, E5, K],
    _6: AggregateFunction[T, Any, R6, E6, K],
    _7: AggregateFunction[T, Any, R7, E7, K],
    /,
) -> Combined[T, R, R, K]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5, R6, R7, R8], R],
    _1: AggregateFunction[T, Any, R1, E1, K],
    _2: AggregateFunction[T, Any, R2, E2, K],
    _3: AggregateFunction[T, Any, R3, E3, K],
    _4: AggregateFunction[T, Any, R4, E4, K],
    _5: AggregateFunction[T, Any, R5, E5, K],
    _6: AggregateFunction[T, Any, R6, E6, K],
    _7: AggregateFunction[T, Any, R7, E7, K],
    _8: AggregateFunction[T, Any, R8, E8, K],
    /,
) -> Combined[T, R, R, K]: ...
@overload
def into(record: Callable[..., R], /, **members: AggregateFunction[T, Any, Any, Any, K]) -> Combined[T, R, R, K]: ...
def into(
    record: Callable[..., Any],
    /,
    *positional: AggregateFunction[Any, Any, Any, Any, Any],
    **named: AggregateFunction[Any, Any, Any, Any, Any],
) -> Combined[Any, Any, Any, Any]:
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

    Example:
        >>> from dataclasses import dataclass
        >>> from windrow import aggregates as agg, from_collection
        >>> from windrow.windows import GlobalWindows
        >>> @dataclass
        ... class Climate:
        ...     low: float | None
        ...     n: int
        >>> windows = GlobalWindows.create_with_end_of_stream_trigger()
        >>> everything = from_collection([20.5, 18.0]).window_all(windows)
        >>> climate = everything.aggregate(agg.into(Climate, low=agg.min(lambda celsius: celsius), n=agg.count()))
        >>> climate.collect()
        [Climate(low=18.0, n=2)]
    """
    require_callable(record, "what into makes", "a record class, or a function of the results", where=caller_location())
    if positional and named:
        raise refusal(
            "into got aggregates by position and by name",
            given=f"{len(positional)} by position; {', '.join(named)}",
            expected="one or the other",
        )
    _checked((*positional, *named.values()), "into")
    check_target(record, "results", positional, named)
    members = tuple([("", member) for member in positional]) or tuple(named.items())
    return Combined(members, record)


def _checked(
    members: tuple[AggregateFunction[Any, Any, Any, Any, Any], ...], call: str
) -> tuple[AggregateFunction[Any, Any, Any, Any, Any], ...]:
    if not members:
        raise refusal(f"{call} needs aggregates", expected="at least one, such as count()")
    for member in members:
        if not isinstance(member, AggregateFunction):
            raise refusal(
                f"{call} combines aggregate functions",
                given=member,
                expected="aggregates such as count(), or instances of AggregateFunction",
                hint=f"{member.__name__}()" if callable(member) and hasattr(member, "__name__") else None,
            )
    return members
