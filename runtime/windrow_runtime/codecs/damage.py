"""The error for stored bytes that are not what was written."""

from __future__ import annotations

from windrow.errors import CheckpointError


def damaged_state(
    given: str, *, message: str = "stored state is damaged", expected: str | None = None
) -> CheckpointError:
    """The error to raise.

    Args:
        given: What the bytes are, or lead to.
        message: What is wrong.
        expected: What should be there.
    """
    return CheckpointError(
        message,
        given=given,
        expected=expected,
        hint="restore the checkpoint folder as a whole from a copy, or begin a new one",
    )
