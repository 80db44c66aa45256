"""Shows the errors of a command without a stack, but for that of a user's function, and has the exit codes."""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Final

from windrow.errors import InvalidArgumentError, UserFunctionError, WindrowError
from windrow_runtime.operators.errors import USER_ERRORS, first_line
from windrow_runtime.operators.outcome import is_ours

_SHOW_STACK: Final = "--verbose shows the stack"


class ExitCode(IntEnum):
    """How the command ended."""

    OK = 0
    FAILED = 1
    NOT_BEGUN = 2
    INTERRUPTED = 130
    TERMINATED = 143


def show_failure(error: BaseException, *, with_stack: bool = False) -> None:
    """Writes to stderr what went wrong: with the whole stack, or with the text of the error alone.

    If a function of the pipeline raised, its own traceback comes first, as a program shows it.
    """
    if with_stack:
        traceback.print_exception(error, file=sys.stderr)
        return
    cause = error.__cause__
    if isinstance(error, UserFunctionError) and cause is not None:
        traceback.print_exception(cause, file=sys.stderr)
    if isinstance(error, WindrowError):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"{error}\n  hint:     {_SHOW_STACK}"
    else:
        text = f"{first_line(error)}\n  hint:     no error of windrow's was raised; {_SHOW_STACK}"
    print(f"windrow: {text}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)


@contextmanager
def errors_of_file(name: str, root: Path | None, doing: str) -> Iterator[None]:
    """Turns what a user's file raises while it is imported, or called, into an error that shows the line.

    Args:
        name: The file or module.
        root: The folder whose lines are the user's; None: that of any module but windrow's.
        doing: What could not be done, as the first line of the error.
    """
    try:
        yield
    except SystemExit as error:
        raise InvalidArgumentError(
            doing,
            given=f"it ends the program, by sys.exit({error.code!r})",
            expected="a file that makes a pipeline and runs none",
            where=_line_of(error, root) or name,
            hint='put what the file does as a program below if __name__ == "__main__":',
        ) from error
    except WindrowError:
        raise
    except SyntaxError as error:
        where = name if error.filename is None else f"{shown_path(error.filename)}:{error.lineno}"
        line = (error.text or "").strip()
        raise InvalidArgumentError(
            doing, given=first_line(error), expected="Python", where=f"{where}: {line}" if line else where
        ) from error
    except USER_ERRORS as error:
        raise InvalidArgumentError(
            doing, given=first_line(error), where=_line_of(error, root) or name, hint=_SHOW_STACK
        ) from error


def _line_of(error: BaseException, root: Path | None) -> str | None:
    """Returns the innermost line of the user's at which an error was raised, with its text."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    users = [(file, line) for file, line in frames if _is_users(file, root)]
    if not users:
        return None
    file, line = users[-1]
    text = linecache.getline(file, line).strip()
    return f"{shown_path(file)}:{line}: {text}" if text else f"{shown_path(file)}:{line}"


def _is_users(file: str, root: Path | None) -> bool:
    if file.startswith("<") or is_ours(file):
        return False
    return root is None or (Path(file).is_relative_to(root) and "site-packages" not in file)


def shown_path(file: str) -> str:
    """Returns the path of a file from the working directory, if it lies there."""
    path, folder = Path(file), Path(os.getcwd())
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else file
