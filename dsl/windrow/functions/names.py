"""Names functions in plans."""

from __future__ import annotations

from windrow.calls.attributes import attribute_of


def function_name(function: object) -> str:
    """The name of a function in a plan."""
    name = attribute_of(function, "__qualname__")
    if isinstance(name, str):
        return "lambda" if "<lambda>" in name else name.rpartition("<locals>.")[2]
    return type(function).__name__
