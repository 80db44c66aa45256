"""Finds the texts in the code of functions: users' functions name their counters by such texts."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

from windrow.calls.attributes import attribute_of
from windrow.plan.closures import closure_of

__all__ = ["texts_in_code"]

# Any: attributes of users' classes, of every type.

_MOST_OBJECTS: Final = 2_000
"""How many functions, classes and values are looked at; code that names more is a library's."""


def texts_in_code(objects: Iterable[object]) -> frozenset[str]:
    """The texts that functions hold as constants, in attributes, or in variables that they look up.

    Args:
        objects: Functions, or objects whose classes have methods.

    Returns:
        The texts of these, and of the functions and classes that they name.
    """
    texts: set[str] = set()
    seen: dict[int, object] = {}  # with the objects, so that no other one gets the identity of one of them
    waiting = deque(objects)
    while waiting and len(seen) < _MOST_OBJECTS:
        value = waiting.popleft()
        if isinstance(value, str):
            texts.add(value)
            continue
        if id(value) not in seen:
            seen[id(value)] = value
            waiting += _named_by(value)
    return frozenset(texts)


def _named_by(value: object) -> Iterator[object]:
    """The values that an object names: constants and variables of code, attributes, and methods of its class."""
    if isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, FunctionType) and _is_users(value.__module__):
        yield from _of_code(value.__code__, value.__globals__)
        yield from closure_of(value).values()
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
    elif isinstance(value, (tuple, list, set, frozenset)):
        yield from value
    elif isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, type):
        yield from (each for base in value.__mro__ if _is_users(base.__module__) for each in vars(base).values())
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, property):
        yield value.fget
    elif attribute_of(value, "__dict__") is not None and _is_users(type(value).__module__):
        # Attributes of the object alone: what a property computes is not asked for.
        yield type(value)
        yield from vars(value).values()


def _is_users(module: str | None) -> bool:
    """Whether a module is neither of Python nor windrow's own. Modules themselves are objects of Python."""
    package = (module or "").partition(".")[0]
    return package not in sys.stdlib_module_names and package not in {"windrow", "windrow_runtime"}


def _of_code(code: CodeType, variables: Mapping[str, Any]) -> Iterator[object]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _of_code(constant, variables)
        else:
            yield constant
    yield from (variables[name] for name in code.co_names if name in variables)
