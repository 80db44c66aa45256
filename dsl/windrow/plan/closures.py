"""Reads the variables of the functions around a function."""

from __future__ import annotations

from types import FunctionType

__all__ = ["closure_of"]


def closure_of(function: FunctionType) -> dict[str, object]:
    """The variables of the functions around that a function uses, by name. Those without a value are left out."""
    found: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found
