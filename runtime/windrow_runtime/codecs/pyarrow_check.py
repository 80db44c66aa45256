"""Raises the error for uses of pyarrow where it is not installed."""

from __future__ import annotations

from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError


def check_pyarrow(use: str) -> None:
    """Raises an ``UnsupportedOperationError`` that names the use of pyarrow, where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UnsupportedOperationError(f"{use} by pyarrow", expected="pyarrow", hint=install_hint("spark")) from error


def check_parquet() -> None:
    """Raises an ``UnsupportedOperationError`` where Parquet can be neither read nor written: without pyarrow."""
    check_pyarrow("Parquet files are read and written")
