"""Finds the line of a test that called a harness."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from windrow.errors import Location
from windrow.plan.location import caller_location

__all__ = ["line_of_test"]

_RUNTIME: Final = str(Path(__file__).parents[1]) + os.sep


def line_of_test() -> Location | None:
    """The innermost line on the stack that belongs neither to the language nor to the runtime."""
    return caller_location(_RUNTIME)
