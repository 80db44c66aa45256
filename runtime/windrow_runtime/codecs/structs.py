"""The fields of a msgspec.Struct. The Spark engine imports this module: the interpreter needs no msgspec."""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["struct_fields"]

# Any throughout this module: classes of the user's.


class _Sample(msgspec.Struct):
    held: list[int] = []


_FACTORY: Final[Any] = type(_Sample.__struct_defaults__[0])
"""The class in which msgspec keeps the factory of a default."""


def struct_fields(kind: Any) -> dict[str, dict[str, Any]]:
    """The fields of a Struct, each with what ``msgspec.field`` takes.

    Msgspec's own function resolves annotations too, which may name classes that are not known here.
    """
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    defaults = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
    columns = (names, kind.__struct_encode_fields__, defaults)
    return {name: _field(encoded, default) for name, encoded, default in zip(*columns, strict=True)}


def _field(encoded: str, default: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"name": encoded}
    if isinstance(default, _FACTORY):
        given["default_factory"] = default.factory
    elif default is not msgspec.NODEFAULT:
        given["default"] = default
    return given
