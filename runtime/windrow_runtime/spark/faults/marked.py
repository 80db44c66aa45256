"""Marks the errors of workers, so that the driver finds them in Spark's exceptions.

Spark wraps an error of a worker into the text of several exceptions, among hundreds of lines of its own. So windrow's
errors are written into that text in a form that the driver finds again.
"""

from __future__ import annotations

import base64
import json
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from windrow import errors
from windrow.addresses.redaction import redact, redact_address
from windrow.errors import SourceError, WindrowError
from windrow_runtime.operators.outgoing_errors import is_ours

_MARK = re.compile(r"windrow-failure:([A-Za-z0-9_-]+=*);")
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (\S+)\. (.+)")
_FRAMES_SHOWN = 5


class MarkedError(Exception):
    """Carries one of windrow's errors out of a worker: its text is readable, and ends in the mark for the driver."""

    def __init__(self, error: WindrowError) -> None:
        given = error.given
        fields = {
            "given": given if given is None or isinstance(given, str) else repr(given),
            "expected": error.expected,
            "where": None if error.where is None else str(error.where),
            "hint": error.hint,
        }
        parts = (type(error).__name__, error.message, fields, _user_traceback(error))
        encoded = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()
        super().__init__(f"{error}\nwindrow-failure:{encoded};")


class RemoteError(Exception):
    """The cause of an error: the lines of the user's code in which a worker failed, or the messages of Spark."""

    def __init__(self, text: str, place: str = "in a Spark worker") -> None:
        super().__init__(f"{place}\n{text}")


@contextmanager
def failures_marked() -> Iterator[None]:
    """Marks windrow's errors for the driver. All other exceptions pass as they are."""
    try:
        yield
    except WindrowError as error:
        raise MarkedError(error) from error


def find_failure(error: BaseException) -> WindrowError | None:
    """Returns the error that a worker marked in Spark's exception, or one for a file that Spark cannot read."""
    found = _MARK.search(str(error))
    if found is not None:
        name, message, fields, user_traceback = json.loads(base64.urlsafe_b64decode(found[1]))
        failure: WindrowError = getattr(errors, name, WindrowError)(message, **fields)
        failure.__cause__ = RemoteError(user_traceback) if user_traceback else None
        return failure
    unreadable = _UNREADABLE.search(str(error))
    if unreadable is None:
        return None
    return SourceError(
        "Spark cannot read a file of a source",
        given=redact_address(unreadable[1]),
        hint=f"Spark says: {redact(unreadable[2].partition(' SQLSTATE')[0])}",
    )


def without_marks(text: str) -> str:
    """Returns a text of Spark's without the marks of workers."""
    return _MARK.sub("", text)


def _user_traceback(error: WindrowError) -> str | None:
    """Returns the innermost lines of the user's code behind the error's cause."""
    cause = error.__cause__
    if cause is None:
        return None
    # Frames above the user's code are the engine's, which do not help the user.
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if not is_ours(frame.filename)]
    lines = traceback.format_list(frames[-_FRAMES_SHOWN:])
    return "".join([*lines, *traceback.format_exception_only(cause)]).rstrip()
