"""Writes a file as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file such that nobody sees half of it."""
    # Several tasks may write the same: each has a name of its own aside. Spark does not list names with an underscore.
    aside = file.with_name(f"_{file.name}.{os.getpid()}")
    aside.write_bytes(content if isinstance(content, bytes) else content.encode())
    aside.replace(file)
