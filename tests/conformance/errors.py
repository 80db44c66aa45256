"""Errors as the format names them."""

from __future__ import annotations

from windrow.errors import InvalidArgumentError, UnsupportedOperationError

__all__ = ["error_kind"]


def error_kind(error: Exception) -> str:
    """How the format names an error; the name of its class where it has no name for it."""
    if isinstance(error, InvalidArgumentError):
        return "invalid_argument"
    if isinstance(error, UnsupportedOperationError):
        return "unsupported_operation"
    return type(error).__name__
