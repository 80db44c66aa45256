"""Makes declared joins, by functions that are typed for each number of fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from windrow.errors import require_callable
from windrow.functions.target import check_target
from windrow.joins.declared_join import DeclaredJoin, JoinField, JoinSide
from windrow.plan.location import caller_location, refusal

# Any in this module: elements and fields of every type; the overloads prove that they fit.

L = TypeVar("L")
U = TypeVar("U")
V = TypeVar("V")
R = TypeVar("R")
R1 = TypeVar("R1")
R2 = TypeVar("R2")
R3 = TypeVar("R3")
R4 = TypeVar("R4")
R5 = TypeVar("R5")
R6 = TypeVar("R6")
R7 = TypeVar("R7")
R8 = TypeVar("R8")


# The type variables of the other stream are solved by the call around, as for the facts of windows.
def left(selector: Callable[[L], V]) -> JoinField[L, U, V]:  # pyright: ignore[reportInvalidTypeVarUse]
    """A field of the left element, such as ``left(lambda order: order.id)``.

    Args:
        selector: Takes the value from a left element.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    return JoinField(JoinSide.LEFT, _checked(selector, "left"))


def right(selector: Callable[[U], V]) -> JoinField[L, U, V]:  # pyright: ignore[reportInvalidTypeVarUse]
    """A field of the right element.

    Args:
        selector: Takes the value from a right element.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    return JoinField(JoinSide.RIGHT, _checked(selector, "right"))


def left_or_none(selector: Callable[[L], V]) -> JoinField[L | None, U, V | None]:  # pyright: ignore[reportInvalidTypeVarUse]
    """A field of the left element, or None where an outer join has found none for the right one.

    Args:
        selector: Takes the value from a left element, and is not called where there is none.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    return JoinField(JoinSide.LEFT, _checked(selector, "left_or_none"), or_none=True)


def right_or_none(selector: Callable[[U], V]) -> JoinField[L, U | None, V | None]:  # pyright: ignore[reportInvalidTypeVarUse]
    """A field of the right element, or None where an outer join has found none for the left one.

    Args:
        selector: Takes the value from a right element, and is not called where there is none.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    return JoinField(JoinSide.RIGHT, _checked(selector, "right_or_none"), or_none=True)


def key() -> JoinField[L, U, Any]:  # pyright: ignore[reportInvalidTypeVarUse]
    """The key that both elements share. The plan compares its type with the field, where it knows both."""
    return JoinField(JoinSide.KEY)


def _checked(selector: Callable[[Any], V], call: str) -> Callable[[Any], V]:
    expected = "a function of an element, such as lambda order: order.id"
    require_callable(selector, f"the selector of {call}", expected, takes="element", where=caller_location())
    return selector


@overload
def into(record: Callable[[R1], R], _1: JoinField[L, U, R1], /) -> DeclaredJoin[L, U, R]: ...
@overload
def into(
    record: Callable[[R1, R2], R], _1: JoinField[L, U, R1], _2: JoinField[L, U, R2], /
) -> DeclaredJoin[L, U, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3], R], _1: JoinField[L, U, R1], _2: JoinField[L, U, R2], _3: JoinField[L, U, R3], /
) -> DeclaredJoin[L, U, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4], R],
    _1: JoinField[L, U, R1],
    _2: JoinField[L, U, R2],
    _3: JoinField[L, U, R3],
    _4: JoinField[L, U, R4],
    /,
) -> DeclaredJoin[L, U, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5], R],
    _1: JoinField[L, U, R1],
    _2: JoinField[L, U, R2],
    _3: JoinField[L, U, R3],
    _4: JoinField[L, U, R4],
    _5: JoinField[L, U, R5],
    /,
) -> DeclaredJoin[L, U, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5, R6], R],
    _1: JoinField[L, U, R1],
    _2: JoinField[L, U, R2],
    _3: JoinField[L, U, R3],
    _4: JoinField[L, U, R4],
    _5: JoinField[L, U, R5],
    _6: JoinField[L, U, R6],
    /,
) -> DeclaredJoin[L, U, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5, R6, R7], R],
    _1: JoinField[L, U, R1],
    _2: JoinField[L, U, R2],
    _3: JoinField[L, U, R3],
    _4: JoinField[L, U, R4],
    _5: JoinField[L, U, R5],
    _6: JoinField[L, U, R6],
    _7: JoinField[L, U, R7],
    /,
) -> DeclaredJoin[L, U, R]: ...
@overload
def into(
    record: Callable[[R1, R2, R3, R4, R5, R6, R7, R8], R],
    _1: JoinField[L, U, R1],
    _2: JoinField[L, U, R2],
    _3: JoinField[L, U, R3],
    _4: JoinField[L, U, R4],
    _5: JoinField[L, U, R5],
    _6: JoinField[L, U, R6],
    _7: JoinField[L, U, R7],
    _8: JoinField[L, U, R8],
    /,
) -> DeclaredJoin[L, U, R]: ...
@overload
def into(record: Callable[..., R], /, **fields: JoinField[L, U, Any]) -> DeclaredJoin[L, U, R]: ...
def into(
    record: Callable[..., Any], /, *positional: JoinField[Any, Any, Any], **named: JoinField[Any, Any, Any]
) -> DeclaredJoin[Any, Any, Any]:
    """A join whose result is a record of fields of both elements.

    By position, ``into(Paid, key(), left(...), right(...))``, the type checker proves that each value fits its field;
    up to eight. By name, ``into(Paid, order=left(...), sum=right(...))``, it proves the type of the record; the names
    are checked when the call is made, and the types when streams whose element types are known take the join.

    Where an outer join may find no partner, fields are taken by :func:`left_or_none` and :func:`right_or_none`.

    Args:
        record: A record class, or any function that makes the result; it is called for each pair.
        positional: The fields in the order of its parameters.
        named: The fields by its parameters.

    Raises:
        InvalidArgumentError: If there are fields of both kinds or none, if one is no field of a join, or if ``record``
            does not take them.
    """
    require_callable(record, "what into makes", "a record class, or a function of the values", where=caller_location())
    if positional and named:
        raise refusal(
            "into got fields by position and by name",
            given=f"{len(positional)} by position; {', '.join(named)}",
            expected="one or the other",
        )
    fields = tuple([("", field) for field in positional]) or tuple(named.items())
    if not fields:
        raise refusal("into needs fields", expected="at least one, such as key()")
    for _, field in fields:
        if not isinstance(field, JoinField):
            raise refusal(
                "into makes a record of fields of a join",
                given=field,
                expected="left(...), right(...) or key() of windrow.joins",
            )
    check_target(record, "fields", positional, named)
    return DeclaredJoin(fields, record)
