"""Lists whose older part lies in the engine's storage: adding to one does not read what it holds already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

# Any in this module: lists hold elements of every type.


class GrowingList(list[Any]):
    """A list of the engine's own: elements of a window, or the state behind a handle on a list.

    It may come back from storage as a :class:`StoredList`. A list of the user's, such as an accumulator, may not.
    """

    __slots__ = ()


class SegmentReader(Protocol):
    """Reads the segments that an engine has stored."""

    def read_segment(self, number: int) -> list[Any]:
        """The elements of a segment, in order."""
        ...


class StoredList:
    """A list in segments that are stored and never change, and a tail.

    Attributes:
        segments: The numbers of the segments, in order.
        tail: The elements behind them.
    """

    __slots__ = ("_reader", "segments", "tail")

    def __init__(self, reader: SegmentReader, segments: tuple[int, ...], tail: list[Any]) -> None:
        self._reader = reader
        self.segments = segments
        self.tail = tail

    def append(self, value: Any) -> None:
        """Add one element."""
        self.tail.append(value)

    def extend(self, values: Iterable[Any]) -> None:
        """Add elements."""
        self.tail.extend(values)

    def __iter__(self) -> Iterator[Any]:
        """Reads the segments, and yields all elements in order."""
        for number in self.segments:
            yield from self._reader.read_segment(number)
        yield from self.tail
