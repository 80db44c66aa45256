"""The place where parts of a state lie, each under a number: pages of keys, segments of long lists, chunks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from windrow_runtime.codecs.malformed import damaged_state


class PageStore(Protocol):
    """Stores the parts of a group's state, by number."""

    def get(self, number: int) -> bytes | None:
        """A part; None: there is none."""
        ...

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        """Several parts, which takes less time than one by one."""
        ...

    def put(self, number: int, data: bytes) -> None:
        """Store a part."""
        ...

    def remove(self, number: int) -> None:
        """Forget a part that is stored."""
        ...


def present(data: bytes | None, what: str, *, given: str, expected: str | None = None) -> bytes:
    """A part that something refers to.

    Args:
        data: What the store has.
        what: What that is, such as ``a page of the stored state``.
        given: Which one.
        expected: What should be there.

    Raises:
        CheckpointError: If the store has nothing.
    """
    if data is None:
        raise damaged_state(given, message=f"{what} is missing", expected=expected)
    return data
