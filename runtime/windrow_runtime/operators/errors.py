"""Makes errors that name the step, the line of the program, and what the user's function or the sink was given."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import Final, NoReturn

from windrow.addresses.paths import is_object_address
from windrow.addresses.redaction import redact, redact_address, secrets_in_address
from windrow.calls.results import UnusableResultError
from windrow.distribution import PACKAGES
from windrow.errors import (
    CheckpointError,
    InvalidArgumentError,
    Location,
    MissingTimestampError,
    SinkError,
    UserFunctionError,
    WindrowError,
)
from windrow.facts.packages import is_of_runtime
from windrow.functions import KeyedProcessContext
from windrow.functions.marked import without_mark
from windrow.plan import Step
from windrow.plan.keys import HINT as HASH_HINT
from windrow.plan.location import LANGUAGE, caller_location
from windrow.state import KeyedStateStore
from windrow_runtime.operators.state.model import NOTHING

USER_ERRORS: Final = (Exception, SystemExit)
"""The exceptions that count as failures of users' functions, ``sys.exit()`` among them, as it would end a worker."""

RUNTIME: Final = tuple(f"{Path(__file__).parents[2] / name}{os.sep}" for name in PACKAGES[1:])
"""The folders of the packages that run pipelines."""

_SHOWN = 200
_LONGEST_LINE = 500


class DeclinedError(Exception):
    """Says why a step, a function or an expression has no faster form, in a few words for ``explain()``."""


def shortened(value: object) -> str:
    """Returns the shortened ``repr`` of a user's value; never raises."""
    try:
        text = repr(without_mark(value))
    except Exception as error:
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def function_failed(step: Step, error: BaseException, given: str) -> UserFunctionError:
    """Returns the error for a step's function that raised ``error``, from which it is to be raised."""
    return UserFunctionError(
        f"a function of the step raised {first_line(error)}",
        given=given,
        where=step.where,
        hint="a function that gives several results returns a list of them, or yields them"
        if _is_no_iterable(error)
        else _name_here(error) or "the original error is the cause, with its traceback",
    )


def raise_call_error(step: Step, error: BaseException, given: str) -> NoReturn:
    """Raises the error of a call: windrow's own again, with the step; others as the cause of a UserFunctionError."""
    if isinstance(error, UnusableResultError):
        message = f"a function of the step returned {error.given}: {error.message}"
        raise UserFunctionError(
            message, given=given, expected=error.expected, where=step.where, hint=error.hint
        ) from error
    if isinstance(error, WindrowError):
        line = _line_in_function(error)
        is_elsewhere = line is not None and line != step.node.location
        raise error.at(f"{step.where}, by the call at {line}" if is_elsewhere else step.where) from error.__cause__
    raise function_failed(step, error, given) from error


def _line_in_function(error: BaseException) -> Location | None:
    """Returns the innermost line of a user's function through which an error was raised; None if it came from none."""
    lines = [Location(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    return next((line for line in reversed(lines) if not line.file.startswith((*RUNTIME, LANGUAGE, "<"))), None)


def folded_behind(watermark: int, where: str | None = None) -> CheckpointError:
    """The error for elements that crossed the exchange as those on time, and are behind the watermark."""
    return CheckpointError(
        "elements that crossed the exchange as those on time are behind the watermark",
        given=f"watermark {watermark}",
        expected="the watermark that the end of the batch before has left in the checkpoint",
        where=where,
        hint="let one run at a time write to a checkpoint, and restore it as a whole",
    )


def line_of_caller() -> Location | None:
    """Returns the innermost line on the stack that belongs neither to the language nor to the runtime."""
    return caller_location(*RUNTIME)


def misuse(message: str, *, given: object = ..., expected: str, hint: str | None = None) -> InvalidArgumentError:
    """Makes the error of a wrong argument, with the line of the user's program that called windrow."""
    return InvalidArgumentError(message, given=given, expected=expected, where=line_of_caller(), hint=hint)


@contextmanager
def errors_at(where: object) -> Iterator[None]:
    """Adds ``where`` (a step with its line, or a file) to windrow errors of the block that do not have it."""
    try:
        yield
    except WindrowError as error:
        error.at(where)
        raise


def _is_no_iterable(error: BaseException) -> bool:
    """Returns whether windrow, not the user's code, could not iterate over the result of a function."""
    if not (isinstance(error, TypeError) and str(error).endswith("object is not iterable")):
        return False
    frames = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].startswith(RUNTIME)


def _name_here(error: BaseException) -> str | None:
    """Returns a hint if a context was asked for a key that it lacks, or for a name that it has in Flink."""
    if isinstance(error, TypeError):
        return _called_property(error)
    if not (isinstance(error, AttributeError) and is_of_runtime(type(error.obj).__module__)):
        return None
    member = error.name or ""
    snake = re.sub("([A-Z])", r"_\1", member).lower()
    names, class_ = [snake.removeprefix(prefix) for prefix in ("", "get_", "current_", "get_current_")], type(error.obj)
    for name in names:
        if name != member and hasattr(class_, name):
            is_method = callable(getattr(class_, name))
            return (
                f"write {name}(...) in place of {member}" if is_method else f"write {name}, a property, for {member}()"
            )
    if "key" in names and hasattr(class_, "window"):
        return "the key of a window is the first argument of process; a window of window_all has none"
    if hasattr(class_, "timer_service") and not hasattr(class_, "key") and any(map(_KEYED.__contains__, names)):
        return f"a stream without keys has no {member}: use key_by(...) and a KeyedProcessFunction"
    return None


_KEYED: Final = frozenset(vars(KeyedProcessContext)) | frozenset(vars(KeyedStateStore))
"""What the context of a function with keys has."""


def _called_property(error: TypeError) -> str | None:
    """Returns a hint if a property of a context was called, as in ``context.timestamp()``."""
    if error.__traceback__ is None or not str(error).endswith("object is not callable"):
        return None
    *_, (frame, line) = walk_tb(error.__traceback__)
    for variable, service, name in _CALLED.findall(linecache.getline(frame.f_code.co_filename, line)):
        class_ = type(frame.f_locals.get(variable))
        if service and "timer_service" in getattr(class_, "__slots__", ()):
            class_ = type(frame.f_locals[variable].timer_service)  # others are the service themselves
        if is_of_runtime(class_.__module__) and not callable(getattr(class_, name, callable)):
            return f"write {name}, a property, for {name}()"
    return None


_CALLED: Final = re.compile(r"\b(\w+)\.(timer_service\.)?(\w+)\(")


def call_description(
    key: object, *, window: object = NOTHING, element: object = NOTHING, left: object = NOTHING, right: object = NOTHING
) -> str:
    """Describes what a keyed function was given, for :func:`function_failed`; ``NOTHING`` is left out."""
    arguments = (("key", key), ("window", window), ("element", element), ("left", left), ("right", right))
    return ", ".join(f"{name} {shortened(value)}" for name, value in arguments if value is not NOTHING)


def no_timestamp(value: object, reached: str, where: str | None = None) -> MissingTimestampError:
    """The error for an element without a timestamp that reached a step in event time."""
    return MissingTimestampError(
        f"an element without a timestamp reached {reached}",
        given=shortened(value),
        expected="a timestamp on every element",
        where=where,
        hint="assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...)",
    )


def check_hashable(keys: Sequence[object], where: str | None) -> None:
    """Raise the error for the first key without a hash, if any; ``where`` is the step that has selected the keys."""
    for key in keys:
        try:
            hash(key)
        except Exception as error:  # a hash of the user's may raise anything
            raise InvalidArgumentError(
                "a key cannot be hashed",
                given=f"{shortened(key)}: {first_line(error)}",
                expected="a key that stays the same, with a hash",
                where=where,
                hint=HASH_HINT,
            ) from error


@contextmanager
def field_errors(step_where: str | None) -> Iterator[None]:
    """Adds the step, before the field, to errors for values that do not fit the columns of its elements."""
    try:
        yield
    except WindrowError as error:
        field, error.where = error.where, None
        raise error.at(step_where if field is None else f"{step_where}, {field}") from error.__cause__


@contextmanager
def connector_errors(where: str, what: str, given: Callable[[], str], hint: str = "") -> Iterator[None]:
    """Adds the step to errors of a user's source or sink, and turns other exceptions into a ``UserFunctionError``."""
    try:
        yield
    except WindrowError as error:
        raise error.at(where) from error.__cause__
    except USER_ERRORS as error:
        raise UserFunctionError(
            f"{what} raised {first_line(error)}",
            given=given(),
            where=where,
            hint=f"the original error is the cause, with its traceback{hint}",
        ) from error


def sink_unwritable(step: Step, path: str, reason: str) -> SinkError:
    """Returns the error for a file sink whose files cannot be written."""
    secrets = secrets_in_address(path)
    mended = "mend that and run again: with a checkpoint the batch is written then"
    is_object = is_object_address(path)
    return SinkError(
        "the files of a sink cannot be written",
        given=f"{redact_address(path)}: {redact(reason, secrets) if secrets else reason}",
        expected="a bucket in which the credentials may read, write and delete objects"
        if is_object
        else "a folder with space left, in which this user may make folders",
        where=step.where,
        hint=f"check the address, the endpoint and the credentials; {mended}" if is_object else mended,
    )


@contextmanager
def sink_errors(step: Step, path: str) -> Iterator[None]:
    """Turns errors of the operating system into the error for a file sink whose files cannot be written."""
    try:
        yield
    except OSError as error:
        raise sink_unwritable(step, path, f"{error}") from error


@contextmanager
def lifecycle_errors(step: Step, name: str, function: object) -> Iterator[None]:
    """Adds the step to errors of a call of a user's object that is not made for an element, such as ``open``."""
    try:
        yield
    except USER_ERRORS as error:
        raise_call_error(step, error, f"{name}() of {type(function).__name__}")


def first_line(error: BaseException) -> str:
    """Returns the type of an error and the first line of its text."""
    try:
        text = str(error)
    except Exception:
        text = ""
    first, _, rest = text.strip().partition("\n")
    if rest or len(first) > _LONGEST_LINE:
        first = f"{first[:_LONGEST_LINE]}..."
    return encodable(f"{type(error).__name__}: {first}" if first else type(error).__name__)


def encodable(text: str) -> str:
    """Returns a text that UTF-8 can encode: half a surrogate pair is written as a backslash and its number."""
    return text.encode(errors="backslashreplace").decode()
