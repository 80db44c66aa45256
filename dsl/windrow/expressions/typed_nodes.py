"""The nodes of which only the type is known: what engines do not compute, and types can be told of all the same."""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from windrow.expressions.generics import class_of
from windrow.expressions.member_types import kinds_of, present, united
from windrow.expressions.node import Expression, Narrowing, Texts, Types

__all__ = ["Argument", "IsInstance", "IsNone", "Result", "Rule", "dict_type", "list_type", "set_type"]

# Any in this module: classes of every type.

Rule: TypeAlias = "Callable[[Sequence[object | None]], object | None]"
"""Says the type of a result from those of the arguments; None where it is not known."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Argument(Expression):
    """An argument of a function of several, by its name."""

    name: str

    @property
    def reads_same(self) -> bool:
        return True

    def _text(self, texts: Texts) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Result(Expression):
    """What a function, a method or a display of a list gives.

    Attributes:
        name: How it is shown, with a dot before the name of a method, which has its object for first argument.
        rule: Says its type.
        arguments: What it is given.
        number: Tells it from other calls, which may give something else.
    """

    name: str
    rule: Rule
    arguments: tuple[Expression, ...] = ()
    number: int = 0

    def _type(self, types: Types) -> object | None:
        return self.rule([types[each] for each in self.arguments])

    def _text(self, texts: Texts) -> str:
        shown = [texts[each] for each in self.arguments]
        if self.name.startswith("."):
            return f"{self.arguments[0]._operand(texts)}{self.name}({', '.join(shown[1:])})"
        return f"{self.name}({', '.join(shown)})" if shown else self.name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IsNone(Expression):
    """Whether a value is None."""

    of: Expression

    def _type(self, types: Types) -> object | None:
        return bool

    def _text(self, texts: Texts) -> str:
        return f"{self.of._operand(texts)} is None"

    def narrowing(self, *, is_true: bool) -> tuple[Expression, Narrowing]:
        return self.of, (lambda kind: type(None)) if is_true else present


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IsInstance(Expression):
    """Whether a value is of one of some classes."""

    of: Expression
    classes: tuple[type[Any], ...]

    def _type(self, types: Types) -> object | None:
        return bool

    def _text(self, texts: Texts) -> str:
        return f"isinstance({texts[self.of]}, {' | '.join([each.__name__ for each in self.classes])})"

    def narrowing(self, *, is_true: bool) -> tuple[Expression, Narrowing]:
        return self.of, self._of_them if is_true else self._others

    def _of_them(self, kind: object | None) -> object | None:
        options = _possible(kind)
        matching = [option for option in options if self._has(option)]
        matching += [each for each in self.classes if each not in matching and _is_base_of_one(options, each)]
        if matching or not options:
            return united(matching)
        # A value of a class may be one of another class at once, but for Python's own.
        owners = (*map(class_of, options), *self.classes)
        return typing.Never if all(each is not None and each.__module__ == "builtins" for each in owners) else None

    def _others(self, kind: object | None) -> object | None:
        options = _possible(kind)
        remaining = [option for option in options if not self._has(option)]
        return united(remaining) if remaining or not options else typing.Never

    def _has(self, kind: object) -> bool:
        plain = class_of(kind)
        return plain is not None and issubclass(plain, self.classes)


def _possible(kind: object | None) -> list[object]:
    """The types that values of a type may have; one that is declared as a float may be an int."""
    options = kinds_of(kind)
    return [*options, int] if float in options and int not in options else options


def _is_base_of_one(options: Sequence[object], kind: type[Any]) -> bool:
    """Whether values of a class are of one of some types, of classes without type arguments."""
    return any(isinstance(option, type) and option is not kind and issubclass(kind, option) for option in options)


def list_type(kinds: Sequence[object | None]) -> object | None:
    """The type of a list of values of some types; None where they have no type in common, but for None."""
    item = _in_common(kinds)
    return None if item is None else list.__class_getitem__(item)


def set_type(kinds: Sequence[object | None]) -> object | None:
    """The type of a set of values of some types."""
    item = _in_common(kinds)
    return None if item is None else set.__class_getitem__(item)


def dict_type(kinds: Sequence[object | None]) -> object | None:
    """The type of a dict, of the types of its keys and then of its values."""
    half = len(kinds) // 2
    both = _in_common(kinds[:half]), _in_common(kinds[half:])
    return None if None in both else dict.__class_getitem__(both)


def _in_common(kinds: Sequence[object | None]) -> object | None:
    # Any: the type of nothing, which type checkers take for no value.
    nothing: Any = typing.Never
    item = united(kinds) if kinds else nothing
    return item if sum(option is not type(None) for option in kinds_of(item)) <= 1 else None
