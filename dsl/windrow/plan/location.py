"""Where in the user's program a step was written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Final

from windrow.errors import Location

__all__ = ["caller_location"]

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep


def caller_location(*others: str) -> Location | None:
    """The innermost line on the stack that is neither windrow's own nor of a file in one of the folders ``others``."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect.stack() reads files
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_PACKAGE, *others)):
            return Location(file, frame.f_lineno)
        frame = frame.f_back
    return None
