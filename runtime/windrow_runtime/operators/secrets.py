"""Keeps the secrets of a plan's sources and sinks out of its errors."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence

from windrow.addresses.redaction import hide, longest_first
from windrow.errors import WindrowError
from windrow.plan import SinkNode, SourceNode, Step


class RedactedError(Exception):
    """Stands as the cause of an error for one whose text held a secret: has its traceback as text, without it."""

    def __init__(self, text: str) -> None:
        super().__init__(f"without what is secret in it\n{text}")


def secrets_of(steps: Iterable[Step]) -> tuple[str, ...]:
    """Returns the secrets of some steps; the longest first, since one may hold another."""
    found: set[str] = set()
    for step in steps:
        if isinstance(step.node, SourceNode):
            found.update(step.node.source.secrets)
        elif isinstance(step.node, SinkNode):
            found.update(step.node.sink.secrets)
    return longest_first(found)


def shown_in(error: BaseException, secrets: Sequence[str]) -> bool:
    """Returns whether the traceback of an error, with its causes, shows a secret."""
    if not secrets:
        return False
    text = "".join(traceback.format_exception(error))
    return any(secret in text for secret in secrets)


def without_secrets(error: WindrowError, secrets: Sequence[str]) -> WindrowError:
    """An error that shows none of some secrets, nor does its cause: the same one where it shows none already.

    The caller raises it, from its cause.
    """
    cause = error.__cause__
    if cause is not None and shown_in(cause, secrets):
        cause = RedactedError(hide("".join(traceback.format_exception(cause)).rstrip(), secrets))
    if not any(secret in text for secret in secrets for text in _texts(error)):
        error.__cause__ = cause
        return error
    kind = type(error)
    # Not by the constructor: each kind has its own.
    clean = kind.__new__(kind)
    clean.__dict__.update({name: _hidden(value, secrets) for name, value in error.__dict__.items()})
    clean.args = tuple([_hidden(value, secrets) for value in error.args])
    clean.__cause__ = cause
    return clean


def _texts(error: WindrowError) -> list[str]:
    return [str(error), *map(str, error.__dict__.values())]


def _hidden(value: object, secrets: Sequence[str]) -> object:
    """Attributes are texts, or shown as such."""
    if value is None or not any(secret in str(value) for secret in secrets):
        return value
    return hide(str(value), secrets)
