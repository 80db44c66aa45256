"""Paths as Spark is told: a cluster may take a path without a scheme for one of a file system of its own."""

from __future__ import annotations

import os
from collections.abc import Collection

__all__ = ["as_spark_path", "is_pattern", "may_give_columns"]


def as_spark_path(path: str | os.PathLike[str]) -> str:
    """The path with its scheme; one without is in the file system of every machine, as the driver sees it."""
    text = os.fspath(path)
    # Not Path.as_uri: Hadoop takes the rest of the text as it is, patterns and spaces included.
    return text if "://" in text else f"file://{os.path.abspath(text)}"


def is_pattern(path: str) -> bool:
    """Whether a path stands for several, as Spark reads it."""
    return any(sign in path for sign in "*?[{")


def may_give_columns(path: str, columns: Collection[str]) -> bool:
    """Whether Spark may take a folder's name for a value of one of these columns, as in ``day=2026-01-31``.

    Args:
        path: A local file or folder. Patterns, and folders that are links or cannot be read, are not looked into:
            they may.
        columns: Names of columns; it does not matter how letters are cased.
    """
    if is_pattern(path):
        return True
    begins = tuple(f"{column.lower()}=" for column in columns)
    if any(part.lower().startswith(begins) for part in os.path.abspath(path).split(os.sep)):
        return True
    try:
        return os.path.isdir(path) and _holds_folder(path, begins)
    except OSError:
        return True


def _holds_folder(folder: str, begins: tuple[str, ...]) -> bool:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and (
                entry.is_symlink()
                or entry.name.lower().startswith(begins)
                or _holds_folder(entry.path, begins)
            ):
                return True
    return False
