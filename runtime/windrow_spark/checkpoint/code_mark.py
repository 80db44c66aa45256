"""Makes marks of functions, by which a later run can tell whether a function of a plan still computes the same.

The mark of a function that windrow recognises is its expression. The mark of any other is a digest of the names, texts
and numbers in its code, and of the values that it uses. Neither depends on the names of variables, on the layout of the
code or on the version of Python; so what a function does with the same names and values is not compared.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from types import FunctionType, MethodType
from typing import Any, Final

from windrow.calls.attributes import attribute_of, attributes_of
from windrow.expressions.node import Expression
from windrow.expressions.tracing import Opaque, recognise
from windrow.expressions.tree import Binary, Constant, Element, Field, Item, Unary
from windrow.facts.code import closure_of, facts, globals_of
from windrow.facts.packages import is_library, is_of_windrow
from windrow.functions.names import function_name
from windrow.functions.wrapper import unwrapped

# Any in this module: functions of elements of every type.

_SCALARS: Final = (str, bytes, int, float, bool, type(None))
_COLLECTIONS: Final = (tuple, list, dict, set, frozenset)
_NUMBERS: Final = (int, float)
_NO_VALUES: Final = (Element, Field, Unary, Binary)


@dataclass(frozen=True, slots=True)
class Mark:
    """The stored description of a function, or of another part of a plan, to be compared with that of a later run.

    Attributes:
        text: The text to compare; ``#`` and a digest, if it depends on values.
        names: A digest of the names and texts in the code of a function; None: the part is no function.
        recognised: Whether the text is that of an expression.
        shown: The text to show, with the names of variables, if ``text`` is a digest.
    """

    text: str
    names: str | None = None
    recognised: bool = False
    shown: str | None = None

    def is_that_of(self, other: Mark) -> bool:
        """Returns whether two marks belong to the same part."""
        if self.names is None or other.names is None or (self.recognised and other.recognised):
            return self.text == other.text
        return self.names == other.names  # another Python may recognise what this one does not

    def change_to(self, now: Mark) -> str:
        """Returns the words for the change of a part."""
        other = "the same with other values" if self.recognised and now.recognised else "another one"
        return f"was {self} and is {now if str(now) != str(self) else other}"

    def __str__(self) -> str:
        return self.shown or ("another function" if self.text.startswith("#") else self.text)


def mark_of(function: Callable[..., Any]) -> Mark:
    """Makes the mark of a function of an element."""
    plain = unwrapped(function)
    names = digest(*sorted(set(_Walk().of_function(plain))))
    expression = recognise(plain)
    if isinstance(expression, Opaque):
        return Mark(function_name(plain) if isinstance(plain, FunctionType) else type(plain).__name__, names)
    text = str(expression)
    is_whole = _has_no_values(expression) and "..." not in text  # long texts are shortened
    if is_whole:
        return Mark(text, names, recognised=True)
    return Mark(f"#{expression.stored_digest()}", names, recognised=True, shown=text)


def object_digest(value: object) -> str:
    """Returns a digest of an object's class, and of the texts and numbers in its attributes."""
    return digest(*_Walk().of_object(value))


def code_of(function: Any) -> str:
    """Returns a digest of all that a function, or another object, computes and holds, for comparisons within a run."""
    plain = unwrapped(function)
    expression = recognise(plain) if callable(plain) else Opaque("")
    if not isinstance(expression, Opaque):
        return expression.stored_digest()
    # The functions that windrow's own wrappers hold are the user's.
    own = attributes_of(plain).values() if is_of_windrow(type(plain).__module__) else ()
    return digest(*_Walk(is_whole=True).of_function(plain), *_Walk(is_whole=True).of_values(own))


def outline_of(function: Callable[..., Any]) -> str:
    """Returns a digest of a function without its numbers, which is the same in each version of Python."""
    plain = unwrapped(function)
    expression = recognise(plain)
    if isinstance(expression, Opaque):
        return digest(*sorted(set(_Walk(has_numbers=False).of_function(plain))))
    changed: dict[Expression, Expression] = {}
    for part in expression.parts():
        is_number = isinstance(part, Constant) and type(part.value) in _NUMBERS
        changed[part] = Constant(0) if is_number else part.with_children(changed)
    return changed[expression].stored_digest()


def digest(*texts: str) -> str:
    """Returns a digest of texts, which depends on their order."""
    data = repr(texts).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=16).hexdigest()


def _has_no_values(expression: Expression) -> bool:
    """Returns whether an expression has no constants, which may be the values of variables, and secrets."""
    return all(isinstance(part, _NO_VALUES) or _is_place(part) for part in expression.parts())


def _is_place(part: Expression) -> bool:
    return isinstance(part, Item) and isinstance(part.key, int)


class _Walk:
    """Collects texts of a function, and of the functions, objects and values that it uses.

    Texts of a walk that ``is_whole`` have the bytecode as well, which differs between versions of Python.
    """

    def __init__(self, *, has_numbers: bool = True, is_whole: bool = False) -> None:
        self._is_whole = is_whole
        self._has_numbers = has_numbers
        self._seen: set[int] = set()
        self._within: set[int] = set()  # the collections that are walked through at the moment

    def of_function(self, function: Any) -> Iterator[str]:
        """Yields the texts of a function, and of the functions of its module that it uses."""
        if isinstance(function, functools.partial):
            yield from self.of_function(function.func)
            yield from self.of_values((*function.args, *function.keywords.values()))
        elif isinstance(function, MethodType):
            yield from self.of_function(function.__func__)
            yield from self.of_object(function.__self__)
        elif not isinstance(function, FunctionType):
            yield from self.of_object(function)
        elif id(function) not in self._seen:
            self._seen.add(id(function))
            code = facts(function)
            yield from code.names_and_texts(function.__doc__)
            yield from code.numbers if self._has_numbers else ()
            yield from code.whole if self._is_whole else ()
            for variable in globals_of(function).values():
                is_helper = isinstance(variable, FunctionType) and variable.__module__ == function.__module__
                if is_helper or isinstance(variable, (*_SCALARS, *_COLLECTIONS)):
                    yield from self.of_values((variable,))
            around = (*closure_of(function).values(), *(function.__defaults__ or ()))
            yield from self.of_values((*around, *(function.__kwdefaults__ or {}).values()))

    def of_object(self, value: Any) -> Iterator[str]:
        """Yields the name of an object's class, and the texts of its attributes and of its class's methods."""
        class_ = value if isinstance(value, type) else type(value)
        yield attribute_of(value, "__qualname__", class_.__qualname__).rpartition("<locals>.")[2]
        if id(value) in self._seen or isinstance(value, type) or is_library(class_.__module__):
            return
        self._seen.add(id(value))
        for name, each in sorted(attributes_of(value).items()):
            yield name
            yield from self.of_values((each,))
        for owner in class_.__mro__:
            methods = () if is_library(owner.__module__) or is_of_windrow(owner.__module__) else vars(owner).values()
            for method in methods:
                if isinstance(method, FunctionType) and (method.__name__ == "__call__" or method.__name__[:2] != "__"):
                    yield from self.of_function(method)

    def of_values(self, values: Iterable[object]) -> Iterator[str]:
        """Yields the texts of values."""
        for value in values:
            if isinstance(value, (FunctionType, functools.partial, MethodType)):
                yield from self.of_function(value)
            elif isinstance(value, _SCALARS):
                if self._has_numbers or type(value) not in _NUMBERS:
                    yield repr(value)
            elif isinstance(value, _COLLECTIONS):
                yield from self._of_collection(value)
            else:
                yield from self.of_object(value)

    def _of_collection(self, value: Any) -> Iterator[str]:
        if id(value) in self._within:
            return  # the collection contains itself
        self._within.add(id(value))
        if isinstance(value, dict):
            yield from sorted(digest(*self.of_values(pair)) for pair in value.items())
        elif isinstance(value, (set, frozenset)):
            yield from sorted(digest(*self.of_values((each,))) for each in value)
        else:
            yield from self.of_values(value)
        self._within.discard(id(value))
