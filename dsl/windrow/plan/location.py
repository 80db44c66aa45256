"""Where in the user's program a step was written."""

from __future__ import annotations

import os
import sys
from types import FrameType

import windrow
from windrow.errors import Location

__all__ = ["caller_location"]


def caller_location() -> Location | None:
    """The innermost line on the stack that is not windrow's own."""
    package = _package_path()
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect.stack() reads files
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(package):
            return Location(file, frame.f_lineno)
        frame = frame.f_back
    return None


def _package_path() -> str:
    return windrow.__path__[0] + os.sep
