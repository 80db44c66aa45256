"""Finds the line of the user's program that made a step, and the calls of the user's functions around it."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from windrow.errors import InvalidArgumentError, Location, WindrowError
from windrow.facts.packages import is_of_windrow
from windrow.text_options import is_line

LANGUAGE: Final = str(Path(__file__).parents[1]) + os.sep
"""The folder of the language."""


def caller_location(*others: str) -> Location | None:
    """The innermost line on the stack that is neither windrow's own nor of a file in one of the folders ``others``."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect.stack() reads files
    while frame is not None:
        file = frame.f_code.co_filename
        # The __init__ of a dataclass is made of a text, in the namespace of its module.
        is_made = file == "<string>" and is_of_windrow(frame.f_globals.get("__name__", ""))
        if not is_made and not file.startswith((LANGUAGE, *others)):
            return Location(file, frame.f_lineno)
        frame = frame.f_back
    return None


def refusal(
    message: str, *, given: object = ..., expected: str | None = None, hint: str | None = None
) -> InvalidArgumentError:
    """Makes the error of a wrong argument, which stands in the line of the user's program that called."""
    return InvalidArgumentError(message, given=given, expected=expected, where=caller_location(), hint=hint)


class AtCaller:
    """Fills the line of the user's program that called into the error that leaves the block."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, WindrowError):
            error.at(caller_location())


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """One call of a user's function that makes steps, by ``pipe`` or ``apply_transform``.

    Attributes:
        name: Its name.
        is_given: Whether the user gave the name; else it is that of the function.
        parent: The scope in which the call was made; None for none.
        location: The line of the user's program that called.
    """

    name: str
    is_given: bool = False
    parent: Scope | None = None
    location: Location | None = None

    @property
    def path(self) -> str:
        """What stands before the names of its steps, ``outer/inner/``; a plan numbers uses of one name."""
        return f"{'' if self.parent is None else self.parent.path}{self.name}/"


_CURRENT: Final[ContextVar[Scope | None]] = ContextVar("windrow scope", default=None)


def current_scope() -> Scope | None:
    """The scope in which steps are made at this point of the program; None for none."""
    return _CURRENT.get()


@contextmanager
def within_scope(name: str, *, is_given: bool, location: Location | None) -> Generator[None, None, None]:
    """Puts the steps that the block makes into a scope of their own."""
    token = _CURRENT.set(Scope(name, is_given, _CURRENT.get(), location))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def scope_name(name: object, location: Location | None) -> str:
    """The name that a user gave a scope.

    Raises:
        InvalidArgumentError: If it is no line of text, is empty, or has one of the characters between names.
    """
    if not isinstance(name, str) or not name or "/" in name or "#" in name or not is_line(name):
        raise InvalidArgumentError(
            "a scope needs a name",
            given=ascii(name) if isinstance(name, str) else name,
            expected="a non-empty line without / and #, which stand between names and before numbers",
            where=location,
            hint='apply_transform(function, name="cleaned")',
        )
    return name
