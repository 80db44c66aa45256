"""Writes the call that makes a trigger, with its arguments, as a program does."""

from __future__ import annotations

import inspect
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from windrow.calls.attributes import attribute_of
from windrow.functions.names import function_name
from windrow.time import MAX_TIMESTAMP

_LONGEST: Final = 200
"""How many characters of an argument are shown."""

_UNITS: Final = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1_000))

_SHOWN: Final = (type(None), bool, int, float, timedelta, datetime, Enum)

_MISSING: Final = object()


def millis_text(millis: int) -> str:
    """The ``timedelta`` of a number of milliseconds, in the largest unit of which it is a whole number."""
    if millis == MAX_TIMESTAMP:
        return "timedelta.max"
    if millis == 0:
        return "timedelta(0)"
    unit, size = next(((unit, size) for unit, size in _UNITS if millis % size == 0), ("milliseconds", 1))
    return f"timedelta({unit}={millis // size})"


def call_text(function: str, *texts: str, **named: str | None) -> str:
    """A call of ``function`` with the texts of its arguments; a named one that is None is left out."""
    return f"{function}({', '.join([*texts, *(f'{name}={text}' for name, text in named.items() if text is not None)])})"


def constructor_text(instance: object, parts: type) -> str:
    """The call of the constructor that made an object, with the arguments that it keeps under their names.

    An argument ``limit`` is looked for in the attributes ``limit`` and ``_limit``. Numbers, times and arguments of the
    class ``parts`` are shown; anything else may be a secret of the user's class.
    """
    class_ = type(instance)
    try:
        names = list(inspect.signature(class_.__init__).parameters)[1:]
    except (TypeError, ValueError):
        names = []
    arguments = {name: attribute_of(instance, name, attribute_of(instance, f"_{name}", _MISSING)) for name in names}
    return call_text(
        class_.__name__, **{name: _value(value, parts) for name, value in arguments.items() if value is not _MISSING}
    )


def _value(value: object, parts: type) -> str:
    if isinstance(value, timedelta) and value.microseconds % 1_000 == 0:
        return "timedelta.max" if value == timedelta.max else millis_text(value // timedelta(milliseconds=1))
    if callable(value) or type(value).__repr__ is object.__repr__:
        # The repr of another object holds its address in memory.
        return function_name(value)
    if not isinstance(value, (*_SHOWN, parts)):
        return "..."
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
