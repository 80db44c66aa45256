"""Removes secrets and the engine's frames from the errors of a run, and checks the names of counters."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from itertools import chain
from types import TracebackType
from typing import Concatenate, Final, ParamSpec, TypeVar

from windrow.addresses.redaction import hide, longest_first
from windrow.errors import InvalidArgumentError, WindrowError, similar_name
from windrow.plan import Step
from windrow.plan.location import LANGUAGE
from windrow.plan.own_parts import counter_names
from windrow_runtime.metrics.step_metrics import is_loss
from windrow_runtime.operators.errors import RUNTIME

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

_PATHS = tuple(f"{os.path.abspath(folder)}{os.sep}" for folder in (LANGUAGE, *RUNTIME))

_OWN_COUNTERS: Final = (
    "closed_window_records_dropped",
    "failed_records_dropped",
    "late_records_dropped",
    "records_malformed",
    "unfired_window_records_dropped",
)
"""What windrow counts by itself, of each step that drops records."""


def losses_in(counters: Mapping[str, int]) -> dict[str, int]:
    """Returns those counters of a step that count elements which it dropped."""
    return {name: count for name, count in counters.items() if is_loss(name)}


def check_counter(name: str, counted: Iterable[str], steps: Iterable[Step]) -> None:
    """Refuse the name of a counter that nothing counts: a misspelt name would pass for a counter that is 0.

    Args:
        name: The name.
        counted: The names of the counters that are above 0.
        steps: The steps, whose functions may have counters that are 0.

    Raises:
        InvalidArgumentError: If windrow has no such counter, and no function of the steps names one.
    """
    counters = {*_OWN_COUNTERS, *counted}
    if name in counters:
        return
    in_code = counter_names(steps)
    if name not in in_code:
        raise InvalidArgumentError(
            "no step has a counter of that name",
            given=name,
            expected=", ".join(sorted(counters)),
            hint=similar_name(name, [*sorted(counters), *sorted(in_code)])
            or "names that a function makes at run time exist once they count: result.counters has these",
        )


def is_ours(file: str) -> bool:
    """Returns whether a file of a traceback belongs to windrow."""
    return os.path.abspath(file).startswith(_PATHS)


def from_users_code(whole: TracebackType | None) -> TracebackType | None:
    """Cuts off the engine's frames above the user's code; returns the whole traceback if it has none of the user's."""
    frame = whole
    while frame is not None and is_ours(frame.tb_frame.f_code.co_filename):
        frame = frame.tb_next
    return whole if frame is None else frame


def short_tracebacks(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Makes a method of a runner raise its WindrowErrors without the frames of the engine.

    Their texts say what was wrong and where, and the engine's frames between the user's call and the user's function
    are of no use. A runner with a true attribute ``_is_verbose`` raises them unchanged.
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


class RedactedError(Exception):
    """Replaces the cause of an error if its text has a secret: has its traceback as text, without the secret."""

    def __init__(self, text: str) -> None:
        super().__init__(f"without what is secret in it\n{text}")


def secrets_of(steps: Iterable[Step]) -> tuple[str, ...]:
    """Returns the secrets of sources and sinks; the longest first, since one may contain another."""
    ends = [end for step in steps for end in (step.node.reads, step.node.writes)]
    secrets = [end.secrets for end in ends if end is not None]
    return longest_first(set(chain.from_iterable(secrets)))


def shown_in(error: BaseException, secrets: Sequence[str]) -> bool:
    """Returns whether the traceback of an error, with its causes, shows a secret."""
    text = "".join(traceback.format_exception(error))
    return any(secret in text for secret in secrets)


def without_secrets(error: WindrowError, secrets: Sequence[str]) -> WindrowError:
    """Removes secrets from an error and its cause, from which it is to be raised; returns the same one without any."""
    cause = error.__cause__
    if cause is not None and shown_in(cause, secrets):
        cause = RedactedError(hide("".join(traceback.format_exception(cause)).rstrip(), secrets))
    texts = [str(error), *map(str, error.__dict__.values())]
    if not any(secret in text for secret in secrets for text in texts):
        error.__cause__ = cause
        return error
    # The constructor is not called, since each class of errors has another one.
    clean = error.__class__.__new__(error.__class__)
    clean.__dict__.update({name: _hidden(value, secrets) for name, value in error.__dict__.items()})
    clean.args = tuple([_hidden(value, secrets) for value in error.args])
    clean.__cause__ = cause
    return clean


def _hidden(value: object, secrets: Sequence[str]) -> object:
    """Returns an attribute's value, as a text without secrets if it shows one."""
    if value is None or not any(secret in str(value) for secret in secrets):
        return value
    return hide(str(value), secrets)
