"""Paths as Spark is told: a cluster may take a path without a scheme for one of a file system of its own."""

from __future__ import annotations

import os

__all__ = ["as_spark_path"]


def as_spark_path(path: str | os.PathLike[str]) -> str:
    """The path with its scheme; one without is in the file system of every machine, as the driver sees it."""
    text = os.fspath(path)
    # Not Path.as_uri: Hadoop takes the rest of the text as it is, patterns and spaces included.
    return text if "://" in text else f"file://{os.path.abspath(text)}"
