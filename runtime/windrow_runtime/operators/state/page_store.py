"""Where parts of a state are stored, each under a number: pages of keys, segments of long lists, chunks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["PageStore"]


class PageStore(Protocol):
    """Where the parts of a group's state are stored, by number."""

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
