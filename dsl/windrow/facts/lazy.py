"""Tells whether a call of a function runs none of its code: it gives a coroutine, or a generator, in place of a result.

``inspect`` answers for plain functions. Here objects with a ``__call__``, partial functions, caches and wrappers that
return what they wrap are looked into as well.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterable, Iterator
from inspect import getattr_static, isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from types import FunctionType, MethodType
from typing import Final

from windrow.calls.attributes import holds
from windrow.facts.code import closure_of

COROUTINE: Final = "a coroutine"
"""What the call of an ``async def`` gives, with ``yield`` in it or without."""

GENERATOR: Final = "a generator"
"""What the call of a function with ``yield`` gives."""

_DEEPEST: Final = 20
_CALLS: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_FILLING: Final = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PRECALL"})
_HOLDERS: Final = (staticmethod, classmethod, type(functools.cache(len)))


def lazy_result(function: object, methods: Iterable[str] = ()) -> str | None:
    """What a call of a function gives in place of a result.

    Args:
        function: Anything; what cannot be called gives nothing.
        methods: The methods of its class that windrow calls besides, as far as it has them.

    Returns:
        :data:`COROUTINE` or :data:`GENERATOR`; None: its result.
    """
    codes = list(_codes(function))
    codes += [code for name in methods for code in _codes(getattr_static(type(function), name, None))]
    if any(holds(iscoroutinefunction, code) or holds(isasyncgenfunction, code) for code in codes):
        return COROUTINE
    return GENERATOR if any(holds(isgeneratorfunction, code) for code in codes) else None


def _codes(function: object) -> Iterator[object]:
    """Yields the functions whose results a call of a function returns as they are."""
    yield function
    for _ in range(_DEEPEST):
        following: object = None
        if isinstance(function, (functools.partial, functools.partialmethod)):
            following = function.func
        elif isinstance(function, MethodType):
            following = function.__func__
        elif isinstance(function, FunctionType):
            wrapped: object = function.__dict__.get("__wrapped__")
            following = wrapped if wrapped is not None and _returns_call_of(wrapped, function) else None
        elif isinstance(function, _HOLDERS):
            following = function.__wrapped__
        elif isinstance(function, Callable) and not isinstance(function, type):  # type: ignore[arg-type]  # a protocol for isinstance
            # An object that is no plain function is called by a method of its class.
            following = getattr_static(type(function), "__call__", None)
        if following is None:
            return
        yield following
        function = following


def _returns_call_of(wrapped: object, wrapper: FunctionType) -> bool:
    """Whether a wrapper certainly returns what the wrapped function returns, and does not read a generator itself."""
    names = [name for name, value in closure_of(wrapper).items() if value is wrapped]
    code = [each for each in dis.get_instructions(wrapper) if each.opname not in _FILLING]
    for place, instruction in enumerate(code):
        around = (code[place - 1].opname, code[place + 1].opname if place + 1 < len(code) else "")
        if instruction.argval in names and instruction.opname == "LOAD_DEREF" and "PUSH_NULL" in around:
            later = [each.opname for each in code[place:]]
            call = next((at for at, name in enumerate(later) if name in _CALLS), None)
            if call is not None and later[call + 1] == "RETURN_VALUE":
                return True
    return False
