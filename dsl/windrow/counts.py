"""Checks numbers that count something, such as the files of a batch."""

from __future__ import annotations

from windrow.errors import InvalidArgumentError


def check_positive(number: int, what: str, *, where: object = None) -> None:
    """Refuse what is no int of at least 1; ``True`` is none.

    Args:
        number: What was given.
        what: What it counts, in the error.
        where: The line of the user's program.

    Raises:
        InvalidArgumentError: For such an argument.
    """
    if type(number) is not int or number < 1:
        raise InvalidArgumentError(
            f"{what} must be positive", given=repr(number), expected="an int of at least 1", where=where
        )
