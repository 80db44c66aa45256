"""Defines what becomes of other matches when a match is found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from windrow.errors import InvalidArgumentError


class SkipTo(Enum):
    """Which partial and waiting matches a match drops, by where they began."""

    NOTHING = "no_skip"
    NEXT = "skip_to_next"
    PAST_LAST_EVENT = "skip_past_last_event"
    FIRST = "skip_to_first"
    LAST = "skip_to_last"


@dataclass(frozen=True, slots=True)
class AfterMatchSkipStrategy:
    """Says which other matches of the key are dropped when a match comes out.

    With any strategy but :meth:`no_skip`, matches come out one by one, in the order of their first elements: a complete
    match waits while a partial match that began with an earlier element is open. The names are those of Flink.

    Attributes:
        to: Which ones are dropped.
        part: The part of :meth:`skip_to_first` and :meth:`skip_to_last`.
        throws_on_miss: Whether a match without that part, or whose target is its first element, ends the run.
    """

    to: SkipTo = SkipTo.NOTHING
    part: str | None = None
    throws_on_miss: bool = False

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Every match comes out, as soon as it is complete. It is the default."""
        return NO_SKIP

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Drops those that began with the same element as the match, or earlier."""
        return AfterMatchSkipStrategy(SkipTo.NEXT)

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """Drops those that began at or before the last element of the match, so that matches do not overlap."""
        return AfterMatchSkipStrategy(SkipTo.PAST_LAST_EVENT)

    @staticmethod
    def skip_to_first(part: str) -> AfterMatchSkipStrategy:
        """Drops those that began before the first element of a part in the match.

        Args:
            part: The name of the part. If the match has no element of it, nothing is dropped.

        Raises:
            InvalidArgumentError: If it is no name.
        """
        return AfterMatchSkipStrategy(SkipTo.FIRST, _name(part))

    @staticmethod
    def skip_to_last(part: str) -> AfterMatchSkipStrategy:
        """Drops those that began before the last element of a part in the match.

        Args:
            part: The name of the part. If the match has no element of it, nothing is dropped.

        Raises:
            InvalidArgumentError: If it is no name.
        """
        return AfterMatchSkipStrategy(SkipTo.LAST, _name(part))

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fails the run if a match has no element of the part, or if that is the first element of the match.

        Raises:
            InvalidArgumentError: If the strategy names no part.
        """
        if self.part is None:
            raise InvalidArgumentError(
                "only a strategy that names a part can miss it",
                given=self.describe(),
                expected="skip_to_first(part) or skip_to_last(part)",
            )
        return replace(self, throws_on_miss=True)

    def describe(self) -> str:
        """Describes the strategy in a few words for ``explain()``."""
        part = "" if self.part is None else f" {self.part!r}"
        return f"{self.to.value}{part}{' or fail' if self.throws_on_miss else ''}"


NO_SKIP: Final = AfterMatchSkipStrategy()
"""Every match comes out."""


def _name(part: object) -> str:
    if not isinstance(part, str) or not part:
        raise InvalidArgumentError("a skip strategy names a part", given=part, expected="the name of a part")
    return part
