"""Defines the parts of a pattern, as the builder of patterns makes them and engines read them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from windrow.errors import check_arity, require_callable
from windrow.plan.location import caller_location
from windrow.time import duration_text

# Any in this module: a part carries conditions on elements of every type; the builder has proved that they fit.


class Relation(Enum):
    """Where the first element of a part stands, counted from the element that was matched before."""

    BEGIN = "begin"
    NEXT = "next"
    FOLLOWED_BY = "followed_by"
    FOLLOWED_BY_ANY = "followed_by_any"
    NOT_NEXT = "not_next"
    NOT_FOLLOWED_BY = "not_followed_by"

    @property
    def forbids(self) -> bool:
        """Whether elements of the part must not come."""
        return self in {Relation.NOT_NEXT, Relation.NOT_FOLLOWED_BY}


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A condition on an element.

    Attributes:
        function: The user's function; None, every element meets the condition.
        sees_matched: Whether it also takes the elements that were matched before, by the names of parts.
    """

    function: Callable[..., Any] | None = None
    sees_matched: bool = False

    @staticmethod
    def of(function: object, what: str) -> Condition:
        """Wraps a function of the user's.

        Args:
            function: A function of an element, or of an element and what was matched before; None for every element.
            what: Names the function in errors.

        Raises:
            InvalidArgumentError: If it cannot be called, or gives a generator or a coroutine.
        """
        if function is None:
            return EVERY_ELEMENT
        # A text is a value that elements have, more often than the name of a field that is true or false.
        where = caller_location()
        hint = f"lambda event: event.kind == {function!r}" if isinstance(function, str) else None
        require_callable(
            function, what, "a function of an element, such as lambda event: event.amount < 1", where=where, hint=hint
        )
        assert callable(function)
        sees_matched = _required_arguments(function) > 1
        check_arity(function, what, "element, matched" if sees_matched else "element", where)
        return Condition(function, sees_matched)


EVERY_ELEMENT = Condition()
"""The condition of a part that names none."""


def _required_arguments(function: Callable[..., Any]) -> int:
    """Counts the arguments without defaults."""
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is inspect.Parameter.empty for each in parameters)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """A part of a pattern: elements that meet a condition, or a group of parts.

    Attributes:
        relation: Where its first element stands.
        name: The name; None for a group.
        condition: What its elements meet.
        group: The parts of a group.
        least: How many elements, or rounds of the group, it has at least where it is not left out.
        most: How many at most; None, any number.
        has_quantifier: Whether the number was said.
        is_optional: Whether it may be left out.
        is_greedy: Whether no element that it could take is left to later parts.
        until: Ends a loop.
        between: How an element of the part follows the one before it.
        is_contiguity_set: Whether ``between`` was said.
        within_previous: The time from the element before the part to its first one, in milliseconds, not reached.
        gap: The same between two elements of the part.
    """

    relation: Relation
    name: str | None = None
    condition: Condition = EVERY_ELEMENT
    group: tuple[Part, ...] = ()
    least: int = 1
    most: int | None = 1
    has_quantifier: bool = False
    is_optional: bool = False
    is_greedy: bool = False
    until: Condition | None = None
    between: Relation = Relation.FOLLOWED_BY
    is_contiguity_set: bool = False
    within_previous: int | None = None
    gap: int | None = None

    @property
    def is_loop(self) -> bool:
        """Whether any number of elements may follow."""
        return self.most is None

    @property
    def may_be_empty(self) -> bool:
        """Whether a match may have no element of the part."""
        return (
            self.is_optional
            or self.relation.forbids
            or (bool(self.group) and all(part.may_be_empty for part in self.group))
        )

    def leaves(self) -> Iterator[Part]:
        """Yields the parts with elements of their own: the part itself, or those of its group."""
        if not self.group:
            yield self
        for part in self.group:
            yield from part.leaves()

    def all_parts(self) -> Iterator[Part]:
        """Yields the part itself, and the parts in it."""
        yield self
        for part in self.group:
            yield from part.all_parts()

    def conditions(self) -> Iterator[Condition]:
        """Yields the conditions of the part and of the parts in it."""
        yield self.condition
        if self.until is not None:
            yield self.until
        for part in self.group:
            yield from part.conditions()

    def describe(self) -> str:
        """Describes the part as the calls that make it."""
        inside = f"({describe_parts(self.group)})" if self.group else f"({self.name})"
        return self.relation.value + inside + "".join(self._calls())

    def _calls(self) -> Iterator[str]:
        if self.has_quantifier:
            yield f".{self._quantifier()}"
        if self.between is Relation.NEXT:
            yield ".consecutive()"
        elif self.between is Relation.FOLLOWED_BY_ANY:
            yield ".allow_combinations()"
        if self.is_optional:
            yield ".optional()"
        if self.is_greedy:
            yield ".greedy()"
        if self.until is not None:
            yield ".until(...)"
        if self.within_previous is not None:
            yield f".within_previous({duration_text(self.within_previous)})"

    def _quantifier(self) -> str:
        gap = "" if self.gap is None else f"gap={duration_text(self.gap)}"
        if self.most is None:
            call, numbers = ("one_or_more", "") if self.least == 1 else ("times_or_more", str(self.least))
        else:
            call, numbers = "times", str(self.least) if self.least == self.most else f"{self.least}, {self.most}"
        return f"{call}({', '.join(filter(None, (numbers, gap)))})"


def describe_parts(parts: tuple[Part, ...]) -> str:
    """Describes parts in their order."""
    return ".".join([part.describe() for part in parts])
