"""The folder that keeps what services need between runs of the tests, outside of the clone."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CACHE_VARIABLE", "cache_folder"]

CACHE_VARIABLE = "WINDROW_SERVICES"
"""The environment variable that names another folder."""


def cache_folder() -> Path:
    """The folder: that of ``WINDROW_SERVICES``, or ``windrow-services`` in the user's cache."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windrow-services"
