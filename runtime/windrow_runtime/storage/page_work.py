"""Pages of a key group to load together, and the elements for the keys in them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Chunk", "Share", "divide", "keys_among"]

# Any in this module: elements are of every type.


class Chunk(Protocol):
    """Some elements with their keys and timestamps: three lists side by side."""

    @property
    def keys(self) -> Sequence[Any]:
        """The keys."""
        ...

    @property
    def values(self) -> Sequence[Any]:
        """The elements; they may be made when they are asked for."""
        ...

    @property
    def timestamps(self) -> Sequence[int | None]:
        """Milliseconds; None: an element has no timestamp."""
        ...

    def pick(self, places: Sequence[int]) -> Chunk:
        """Those at some places."""
        ...


@dataclass(slots=True)
class Share:
    """Pages that are worked on together, and what comes for their keys.

    Attributes:
        pages: Their numbers; that of the working set may be among them.
        before: Elements that precede the watermark.
        after: Elements that follow it.
    """

    pages: list[int]
    before: Sequence[Chunk]
    after: Sequence[Chunk]


def divide(
    chunks: Sequence[Chunk], parts: Sequence[Sequence[int]], home: Callable[[Hashable], int]
) -> list[list[Chunk]]:
    """Elements by the parts that have the pages of their keys.

    Args:
        chunks: The elements.
        parts: The pages of each part.
        home: The page of a key.
    """
    part_of = {page: number for number, part in enumerate(parts) for page in part}
    found: list[list[Chunk]] = [[] for _ in parts]
    for chunk in chunks:
        places: list[list[int]] = [[] for _ in parts]
        for place, page in enumerate(map(home, chunk.keys)):
            places[part_of[page]].append(place)
        for number, chosen in enumerate(places):
            if chosen:
                found[number].append(chunk.pick(chosen))
    return found


def keys_among(before: Sequence[Chunk], after: Sequence[Chunk], most: int) -> dict[Hashable, None]:
    """The keys of elements in their order; all of them, where they are fewer than ``most``."""
    seen: dict[Hashable, None] = {}
    for elements in (*before, *after):
        seen.update(dict.fromkeys(elements.keys))
        if len(seen) >= most:
            break
    return seen
