"""Tracebacks of errors that leave a runner: the lines of the user's program, without those of the engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

import windrow
from windrow.errors import WindrowError

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

_PATHS = tuple(f"{os.path.abspath(path)}{os.sep}" for path in (*windrow.__path__, str(Path(__file__).parents[1])))


def is_ours(file: str) -> bool:
    """Returns whether a file of a traceback belongs to windrow."""
    return os.path.abspath(file).startswith(_PATHS)


def from_users_code(found: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of the engine above the user's code; all of it if there is no user's code."""
    frame = found
    while frame is not None and is_ours(frame.tb_frame.f_code.co_filename):
        frame = frame.tb_next
    return found if frame is None else frame


def short_tracebacks(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Makes a method of a runner raise its WindrowErrors without the frames of the engine.

    They say in words what was wrong and where, and the engine's frames between the user's call and the user's function
    say nothing more. A runner with a true attribute ``_is_verbose`` raises them as they are.
    """

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except WindrowError as error:
            if getattr(self, "_is_verbose", False):
                raise
            cause = error.__cause__
            if cause is not None:
                cause.__traceback__ = from_users_code(cause.__traceback__)
            raise error.with_traceback(None) from cause

    return call
