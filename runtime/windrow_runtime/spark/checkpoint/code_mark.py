"""Marks functions, so that a later run can tell whether a function of a plan still computes the same.

A function that windrow recognises is marked by its expression. That is the same whatever its variables are called,
however its code is laid out, and in each version of Python. Any other is marked by the names and texts in its code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from types import CodeType, FunctionType
from typing import Any, Final

from windrow.expressions.tracing import Opaque, recognise
from windrow.expressions.tree import Binary, Element, Expression, Field, Item, Unary
from windrow.functions.names import function_name
from windrow.functions.wrapper import unwrapped
from windrow.plan.closures import closure_of

# Any in this module: functions of elements of every type.

_SCALARS: Final = (str, bytes, int, float, bool, type(None))
_NO_VALUES: Final = (Element, Field, Unary, Binary)


@dataclass(frozen=True, slots=True)
class Mark:
    """What is stored of a part of a plan to compare it with that of a later run.

    Attributes:
        text: How it is shown, where that holds no values of variables; else a digest, behind a ``#``.
        names: A digest of the names and texts in the code of a function; None: it is no function.
        recognised: Whether the text is that of an expression.
    """

    text: str
    names: str | None = None
    recognised: bool = False

    def is_that_of(self, other: Mark) -> bool:
        """Returns whether two marks are those of one part."""
        if self.names is None or other.names is None or (self.recognised and other.recognised):
            return self.text == other.text
        return self.names == other.names  # another Python may recognise what this one does not

    def __str__(self) -> str:
        return "another function" if self.text.startswith("#") else self.text


def mark_of(function: Callable[..., Any]) -> Mark:
    """Makes the mark of a function of an element."""
    plain = unwrapped(function)
    names = digest(*sorted(set(_names(plain, set()))))
    found = recognise(plain)
    if isinstance(found, Opaque):
        return Mark(function_name(plain) if isinstance(plain, FunctionType) else type(plain).__name__, names)
    text = str(found)
    is_whole = _has_no_values(found) and "..." not in text  # long texts are shortened
    return Mark(text if is_whole else f"#{found.stored_digest()}", names, recognised=True)


def digest(*texts: str) -> str:
    """A digest of texts in their order."""
    given = repr(texts).encode("utf-8", "surrogatepass")
    return blake2b(given, digest_size=16).hexdigest()


def _has_no_values(expression: Expression) -> bool:
    """Whether an expression holds no constants: these may be the values of variables, and secrets."""
    return all(isinstance(part, _NO_VALUES) or _is_place(part) for part in expression.parts())


def _is_place(part: Expression) -> bool:
    return isinstance(part, Item) and isinstance(part.key, int)


def _names(function: Any, seen: set[int]) -> Iterator[str]:
    """Yields the names and texts in the code of a function, and of those of its module that it uses."""
    if isinstance(function, functools.partial):
        yield from _names(function.func, seen)
        for value in (*function.args, *function.keywords.values()):
            yield from _names_of_value(value, seen)
    elif not isinstance(function, FunctionType):
        kind = function if isinstance(function, type) else type(function)
        # Of a function that is an object the class says what it does, and its attributes; a built-in one has a name.
        yield getattr(function, "__qualname__", kind.__qualname__).rpartition("<locals>.")[2]
        for name, value in () if isinstance(function, type) else getattr(function, "__dict__", {}).items():
            if isinstance(value, _SCALARS):
                yield f"{name}={value!r}"
    elif id(function) not in seen:
        seen.add(id(function))
        yield from _names_in(function.__code__, function.__doc__)
        for name in function.__code__.co_names:
            helper = function.__globals__.get(name)
            if isinstance(helper, FunctionType) and helper.__module__ == function.__module__:
                yield from _names(helper, seen)
        for value in (*closure_of(function).values(), *(function.__defaults__ or ())):
            yield from _names_of_value(value, seen)


def _names_of_value(value: object, seen: set[int]) -> Iterator[str]:
    if isinstance(value, FunctionType):
        yield from _names(value, seen)
    elif isinstance(value, _SCALARS):
        yield repr(value)
    else:
        yield type(value).__qualname__


def _names_in(code: CodeType, doc: str | None = None) -> Iterator[str]:
    # Numbers are left out: each version of Python keeps them in another place.
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
        elif isinstance(constant, (str, bytes)) and constant != doc and "<locals>" not in str(constant):
            yield repr(constant)
