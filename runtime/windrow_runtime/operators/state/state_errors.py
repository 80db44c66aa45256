"""Errors of stored state that every form of it can meet."""

from __future__ import annotations

from windrow.errors import CheckpointError

__all__ = ["part_missing"]


def part_missing(what: str, *, given: str, expected: str | None = None) -> CheckpointError:
    """The error for a part of the stored state that is not there, though something refers to it.

    Args:
        what: What is missing, such as ``a page of the stored state``.
        given: Which one.
        expected: What should be there.
    """
    return CheckpointError(
        f"{what} is missing",
        given=given,
        expected=expected,
        hint="restore the checkpoint folder as a whole from a copy, or begin a new one",
    )
