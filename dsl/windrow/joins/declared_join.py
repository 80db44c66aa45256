"""Defines declared joins: functions of pairs that say which fields of both elements make a result."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Generic, TypeVar, final, get_args

from windrow.aggregates.declared import optional
from windrow.aggregates.selectors import selector_text
from windrow.errors import UnsupportedOperationError
from windrow.functions.marked import LEFT, RIGHT, JoinKind, SideKey
from windrow.functions.names import function_name
from windrow.functions.rich import RichFunction, RuntimeContext
from windrow.functions.type_names import type_name
from windrow.plan.base_node import Node
from windrow.plan.fitting import accepts_none, can_fit, holds_none
from windrow.plan.keys import key_type
from windrow.plan.location import refusal
from windrow.plan.types import made_type, parameter_types, result_type

L_contra = TypeVar("L_contra", contravariant=True)
U_contra = TypeVar("U_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)

# Any in this module: keys, elements and fields of every type; the functions of windrow.joins prove that they fit.


class JoinSide(Enum):
    """The origin of a field of a result: the left element, the right one, or their key."""

    LEFT = "left"
    RIGHT = "right"
    KEY = "key"


_SIDES: Final = {LEFT: JoinSide.LEFT, RIGHT: JoinSide.RIGHT}


@final
@dataclass(frozen=True)
class JoinField(Generic[L_contra, U_contra, V_co]):
    """A value of a result: what a selector takes from one of the elements, or their key.

    Attributes:
        side: What it is taken from.
        selector: Takes it from an element of that side; None, it is the key.
        or_none: Whether it is None where the element is missing.
    """

    side: JoinSide
    selector: Callable[[Any], V_co] | None = None  # None: the key
    or_none: bool = False  # whether it is None where the element is missing

    def value(self, element: Any) -> Any:
        """The value for an element of its side, which may be missing.

        Args:
            element: The element, or None where it is missing.
        """
        assert self.selector is not None, "the key is taken elsewhere"
        return None if element is None and self.or_none else self.selector(element)

    def describe(self) -> str:
        """The call that made it, such as ``left(.id)``."""
        if self.selector is None:
            return "key()"
        return f"{self.side.value}{'_or_none' if self.or_none else ''}({selector_text(self.selector)})"


@final
@dataclass(frozen=True)
class DeclaredJoin(RichFunction, Generic[L_contra, U_contra, R_co]):
    """A function of a left and a right element; made by :func:`windrow.joins.into`.

    Attributes:
        fields: The values of a result, each with the name under which the target takes it; empty: by position.
        target: Makes the result.
        keys: The selectors of the keys, of left and of right elements; None: no join has taken it yet.
    """

    fields: tuple[tuple[str, JoinField[Any, Any, Any]], ...]
    target: Callable[..., R_co]
    keys: tuple[Callable[[Any], Any], Callable[[Any], Any]] | None = None

    def __post_init__(self) -> None:
        # How a plan shows it, as it does the name of another function.
        fields = [f"{name}={field.describe()}" if name else field.describe() for name, field in self.fields]
        object.__setattr__(self, "__qualname__", f"into({', '.join([function_name(self.target), *fields])})")

    def __call__(self, left: L_contra, right: U_contra) -> R_co:
        """Makes the result of a pair; a side that an outer join has not found is None."""
        values: list[Any] = []
        for _, field in self.fields:
            if field.side is JoinSide.KEY:
                values.append(self._key(left, right))
            else:
                values.append(field.value(left if field.side is JoinSide.LEFT else right))
        if not self.fields[0][0]:
            return self.target(*values)
        return self.target(**dict(zip([name for name, _ in self.fields], values, strict=True)))

    def _key(self, left: Any, right: Any) -> Any:
        if self.keys is None:
            raise UnsupportedOperationError(
                "key() is known where a join calls the function, and nowhere else",
                expected="apply(into(...)) of two streams that are joined",
            )
        of_left, of_right = self.keys
        return of_right(right) if left is None else of_left(left)

    def open(self, runtime_context: RuntimeContext) -> None:
        for _, field in self.fields:
            if isinstance(field.selector, RichFunction):
                field.selector.open(runtime_context)

    def close(self) -> None:
        for _, field in self.fields:
            if isinstance(field.selector, RichFunction):
                field.selector.close()

    @property
    def has_key(self) -> bool:
        """Whether the key is a part of the result."""
        return any(field.side is JoinSide.KEY for _, field in self.fields)

    def parameters(self) -> list[str]:
        """The parameter of the target that takes each field; an empty text where it is not known."""
        try:
            names = list(inspect.signature(self.target).parameters)
        except ValueError:
            names = []
        names += [""] * (len(self.fields) - len(names))
        return [name or names[place] for place, (name, _) in enumerate(self.fields)]


def joined_by(function: Callable[[Any, Any], Any], node: Node, kind: JoinKind) -> tuple[Any, object | None]:
    """A function of pairs as the join of a stage takes it, and the type of what it makes; None: not known.

    Args:
        function: The function; a declared one gets the selectors of the keys.
        node: The keys of both streams.
        kind: Which sides may be missing.

    Raises:
        InvalidArgumentError: If a declared join takes a field of an element that may be missing, if a value cannot
            stand in its field, or if it asks for a key whose selector is a rich function.
    """
    sides = get_args(node.element_type) or (None, None)
    if not isinstance(function, DeclaredJoin):
        side_types = [optional(of) if side in kind.missing else of for side, of in zip(_SIDES, sides, strict=True)]
        return function, made_type(function, *side_types)
    keys = node.keys
    assert keys is not None, "joins are by key"
    assert isinstance(keys.selector, SideKey), "the streams are marked"
    _check_missing(function, kind)
    if function.has_key and any(isinstance(selector, RichFunction) for selector in keys.selector.selectors):
        raise refusal(
            "key() of a join takes no key by a rich function",
            given=keys.selector.__qualname__,
            expected="a selector that is a plain function",
            hint="take the value from an element: left(lambda order: ...)",
        )
    _check_types(function, {JoinSide.LEFT: sides[0], JoinSide.RIGHT: sides[1]}, key_type(keys))
    kind_made = function.target if isinstance(function.target, type) else result_type(function.target)
    return replace(function, keys=keys.selector.selectors), kind_made


def _check_missing(function: DeclaredJoin[Any, Any, Any], kind: JoinKind) -> None:
    """Refuses fields of an element that may be missing, unless they say what stands in their place."""
    missing = [_SIDES[side] for side in kind.missing]
    for _, field in function.fields:
        if field.side in missing and not field.or_none:
            raise refusal(
                f"an outer join may find no {field.side.value} element, of which a field is taken",
                given=field.describe(),
                expected=f"{field.side.value}_or_none(...), which gives None there",
            )


def _check_types(
    function: DeclaredJoin[Any, Any, Any], elements: dict[JoinSide, object | None], key: object | None
) -> None:
    """Refuses values that cannot stand in their fields, as far as types are known."""
    expected = parameter_types(function.target)
    for name, (_, field) in zip(function.parameters(), function.fields, strict=True):
        wanted = expected.get(name)
        field_type = key
        if field.selector is not None:
            field_type = made_type(field.selector, elements[field.side])
            field_type = optional(field_type) if field.or_none else field_type
        if field_type is None or wanted is None:
            continue
        if not can_fit(field_type, wanted) or (field.or_none and holds_none(field_type) and not accepts_none(wanted)):
            raise refusal(
                f"field {name} of {function_name(function.target)} cannot take what the join gives",
                given=f"{field.describe()}, which gives {type_name(field_type)}",
                expected=type_name(wanted),
            )
