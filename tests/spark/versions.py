"""Two versions of the records of one program: the second has a new field in the middle of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["records"]


def records(version: int) -> tuple[Any, Any]:
    """The classes `Measured` and `Highest`, under the same names in both versions."""
    made = _first() if version == 1 else _second()
    for kind in made:
        # As the class of a module that was changed between two runs; it travels by value, for the module has none.
        kind.__qualname__ = kind.__name__
    return made


# Any: the same class has other fields in each version.
def _first() -> tuple[Any, Any]:
    @dataclass(frozen=True)
    class Measured:
        key: str
        at: int
        value: float = 0.0

    class Highest(NamedTuple):
        at: int
        value: float = 0.0

    return Measured, Highest


def _second() -> tuple[Any, Any]:
    @dataclass(frozen=True)
    class Measured:
        key: str
        at: int
        unit: str = "C"
        value: float = 0.0

    class Highest(NamedTuple):
        at: int
        unit: str = "C"
        value: float = 0.0

    return Measured, Highest
