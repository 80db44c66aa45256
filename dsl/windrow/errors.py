"""Defines windrow's errors: each says what was given, what was expected, where, and what to do.

Every error that windrow raises is a :class:`WindrowError`. Its text is put together from parts, so that each
message reads the same way::

    window size must be positive
      given:    0 ms
      expected: a timedelta of at least one millisecond
      where:    sensors.3.window, pipeline.py:41
      hint:     TumblingEventTimeWindows.of(timedelta(seconds=5))
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from keyword import iskeyword
from typing import Final, Self

from windrow.facts.arity import unfit_signature
from windrow.facts.lazy import lazy_result

__all__ = [
    "AggregateOverflowError",
    "CheckpointError",
    "EngineError",
    "Fault",
    "IncompatibleStateError",
    "InvalidArgumentError",
    "Location",
    "MalformedRecordError",
    "MissingTimestampError",
    "PlanError",
    "SinkError",
    "SourceError",
    "UnsupportedOperationError",
    "UserFunctionError",
    "WindrowError",
    "WindrowWarning",
]


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the user's program: where a step was written.

    Attributes:
        file: The path of the file.
        line: The number of the line, from 1.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


_ADDRESS: Final = re.compile(r" at 0x[0-9A-Fa-f]+")
"""The address in memory that the repr of a function or of another object holds."""


AN_INSTANCE: Final = "an instance, not the class"
"""The hint where an object is needed, and its class was given."""


def _describe(
    message: str, *, given: object = ..., expected: str | None = None, where: object = None, hint: str | None = None
) -> str:
    lines = [message]
    if given is not ...:
        # Nobody sees an empty text, and half of a surrogate pair cannot be printed.
        is_shown = isinstance(given, str) and given.strip() and not any("\ud800" <= each <= "\udfff" for each in given)
        lines.append(f"  given:    {given if is_shown else _ADDRESS.sub('', repr(given))}")
    if expected is not None:
        lines.append(f"  expected: {expected}")
    if where is not None:
        lines.append(f"  where:    {where}")
    if hint is not None:
        lines.append(f"  hint:     {hint}")
    return "\n".join(lines)


class WindrowError(Exception):
    """The root of all errors that windrow raises.

    Args:
        message: What is wrong, in one line.
        given: What was given; shown by ``repr`` unless it is a string that can be seen. Left out where the fault is no
            value.
        expected: What was expected instead.
        where: The step and the line of the user's program.
        hint: What to write instead.

    Attributes:
        details: The whole text of an engine's error, with its stack, where this error shows the gist; else None.
    """

    details: str | None = None

    def __init__(
        self,
        message: str,
        *,
        given: object = ...,
        expected: str | None = None,
        where: object = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.given = None if given is ... else given
        self._has_given = given is not ...
        self.expected = expected
        self.where = where
        self.hint = hint
        super().__init__(_describe(message, given=given, expected=expected, where=where, hint=hint))

    def at(self, where: object) -> Self:
        """This error, with the step and line filled in if it does not know them yet.

        Args:
            where: The step and the line of the user's program.
        """
        if self.where is None:
            self.where = where
            self.args = (
                _describe(self.message, **self.given_part, expected=self.expected, where=where, hint=self.hint),
            )
        return self

    @property
    def given_part(self) -> dict[str, object]:
        """The argument ``given`` by its name, where there was one."""
        return {"given": self.given} if self._has_given else {}

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries (Spark's workers); keyword-only arguments do not pickle by themselves.
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(kind: type[WindrowError], args: tuple[object, ...], state: dict[str, object]) -> WindrowError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class WindrowWarning(UserWarning):
    """A run goes on, but the program probably does not do what its author wants.

    For example, a window does not fire, or no pipeline has a sink.

    ``warnings.simplefilter("error", WindrowWarning)`` makes it an error.
    """


def warn(message: str, *, given: object = None, where: object, hint: str, location: Location | None) -> None:
    """Issue a :class:`WindrowWarning` with the parts of an error, at a line of the user's program.

    Args:
        message: What will not come out, in one line.
        given: What was given.
        where: The step and the line of the user's program.
        hint: What to write instead.
        location: The line, by which Python filters warnings.
    """
    text = _describe(message, given=given, where=where, hint=hint)
    file, line = ("<windrow>", 1) if location is None else (location.file, location.line)
    warnings.warn_explicit(text, WindrowWarning, file, line)


class InvalidArgumentError(WindrowError, ValueError):
    """An argument has a value that makes no sense: a size of zero, an offset beyond the size.

    Or a function of the user's returned such a value: a key without a hash, an element that does not fit its sink.
    """


def function_hint(given: object) -> str | None:
    """The function that a name stands for: users of Spark and PyFlink select a field by its name.

    Args:
        given: What was given in place of a function.

    Returns:
        The lambda that takes a field of that name; None where what was given is no name.
    """
    if not isinstance(given, str):
        return None
    if given.isidentifier() and not iskeyword(given):
        return f"lambda element: element.{given}"
    return "a function of the element, such as lambda element: ..., in place of a text"


def similar_name(name: str, names: Iterable[str]) -> str | None:
    """A hint for a name that is probably misspelt.

    Args:
        name: The name that does not exist.
        names: The names that exist.

    Returns:
        A hint with the name that is most like it; None where no name is.
    """
    similar = get_close_matches(name, names, n=1)
    return f"did you mean {similar[0]}?" if similar else None


def no_attribute(owner: object, name: str, elsewhere: Mapping[str, str]) -> AttributeError:
    """Makes the error for a name that an object does not have.

    Args:
        owner: The object.
        name: The name.
        elsewhere: What to write instead, by names that users of other systems know, in snake case or as they are.

    Returns:
        The error to raise, with a hint where the name is one of these, or is one of the object's in camel case.
    """
    text = f"{type(owner).__name__!r} object has no attribute {name!r}"
    snake = snake_case(name)
    own = f"{snake}(...)" if not name.startswith("_") and hasattr(type(owner), snake) else None
    hint = elsewhere.get(name) or own or elsewhere.get(snake)
    return AttributeError(text if hint is None else f"{text}\n  hint:     {hint}", name=name, obj=owner)


def snake_case(name: str) -> str:
    """A name of Java's as Python writes it: ``withColumn`` is ``with_column``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def require_callable(
    given: object, what: str, expected: str, *, takes: str | None = None, where: object = None, hint: str | None = None
) -> None:
    """Refuse what cannot be called, and what gives no result when it is called.

    Args:
        given: The argument.
        what: What it is, such as ``the delta of a delta trigger``.
        expected: What it takes and gives.
        takes: The names of the arguments that it is called with, divided by commas; None: nobody knows.
        where: The line of the user's program.
        hint: What to write instead; by default a function of the field that a text names.

    Raises:
        InvalidArgumentError: If it cannot be called, or with other arguments, or if its call gives a generator or a
            coroutine.
    """
    if not callable(given):
        raise InvalidArgumentError(
            f"{what} must be a function", given=given, expected=expected, where=where, hint=hint or function_hint(given)
        )
    lazy = lazy_result(given)
    if lazy is not None:
        raise InvalidArgumentError(
            f"{what} must return its result, and a call of it gives {lazy}",
            given=given,
            expected=expected,
            where=where,
            hint="write it without yield and async",
        )
    if takes is not None:
        check_arity(given, what, takes, where)


def check_arity(function: object, what: str, takes: str, where: object) -> None:
    """Refuse a function that certainly cannot be called with the arguments that it will get.

    Args:
        function: The function.
        what: What it is, or the call that takes it.
        takes: The names of the arguments, divided by commas; empty for none.
        where: The line of the user's program.

    Raises:
        InvalidArgumentError: If its signature has no place for them, or for more.
    """
    count = len(takes.split(",")) if takes else 0
    signature = unfit_signature(function, count)
    if signature is not None:
        arguments = "no argument" if count == 0 else "one argument" if count == 1 else f"{count} arguments"
        raise InvalidArgumentError(
            f"{what} is called with {arguments}" if " " in what else f"{what} calls its function with {arguments}",
            given=signature,
            expected=f"a function of {takes}" if takes else "a function of nothing",
            where=where,
            hint=f"lambda {takes}: ..." if takes else "lambda: ...",
        )


class UnsupportedOperationError(WindrowError):
    """An operation that the model does not have: a merge below the watermark, per-window state in merging windows."""


class MissingTimestampError(InvalidArgumentError):
    """An element without a timestamp reached an event-time step."""


class MalformedRecordError(WindrowError):
    """A source read a record that does not fit its record type."""


class SourceError(WindrowError):
    """A source cannot be read: an unknown path, a missing column."""


class SinkError(WindrowError):
    """A sink cannot be written: a full disk, a database that is not reachable, a table with other columns."""


class CheckpointError(WindrowError):
    """A checkpoint cannot be used: it is damaged or not whole, another run uses it, or its folder cannot be written."""


class EngineError(WindrowError):
    """The engine gave up for a reason outside of the pipeline: a full disk, no memory, workers that are gone."""


class UserFunctionError(WindrowError):
    """A function of the user's raised; the original exception is the cause."""


class AggregateOverflowError(WindrowError, OverflowError):
    """The result of an aggregate does not fit into the type of its column."""


class IncompatibleStateError(CheckpointError):
    """Stored state does not belong to this plan, or was written by an unknown version."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a plan: what is wrong, in which step, and how to mend it.

    Attributes:
        message: What is wrong, in one line.
        where: The step, and the line of the user's program.
        hint: What to write instead.
    """

    message: str
    where: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message}\n  where:    {self.where}\n  hint:     {self.hint}"


class PlanError(WindrowError):
    """A plan has faults. All of them are raised together.

    Attributes:
        faults: Every fault that was found, in the order of the plan.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        count = len(self.faults)
        title = "the plan has a fault" if count == 1 else f"the plan has {count} faults"
        body = "\n".join(f"{number}. {fault}" for number, fault in enumerate(self.faults, start=1))
        super().__init__(f"{title}\n{body}")
