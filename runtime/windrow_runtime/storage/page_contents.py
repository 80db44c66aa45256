"""The protocol by which the mechanism of pages stores, joins and splits states of either engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Protocol, TypeVar

State = TypeVar("State")
"""The state of some keys: objects, or rows."""

Keys = TypeVar("Keys", bound=Sized)
"""Different keys in order."""


class PageContents(Protocol[State, Keys]):
    """Handles the state of some keys. A state that was joined, split or taken from must not be used any more."""

    def load(self, data: bytes) -> State:
        """The state that :meth:`dump` gave; raises a CheckpointError if the bytes are damaged."""

    def dump(self, state: State) -> bytes:
        """The state as bytes, the same for the same state, so that no page is written that has not changed.

        No bytes stand for a state without keys.
        """

    def timers(self, state: State) -> tuple[int, int]:
        """The times at which something is due first, in event time and in processing time, as the record has it."""

    def open(self, pages: Mapping[int, State]) -> State:
        """One state of those of some pages, to be worked on; the working set may be among them."""

    def join(self, parts: Sequence[State]) -> State:
        """One state of several that have no key in common; an empty one of none."""

    def split(self, state: State, count: int) -> Mapping[int, State]:
        """The state of each of ``count`` pages; pages without a key are left out."""

    def take(self, state: State, keys: Keys) -> tuple[State, State]:
        """The state of those of some keys that are in it, and the rest."""

    def keys(self, state: State) -> Keys:
        """The keys of a state."""

    def pages_of(self, keys: Keys, count: int) -> set[int]:
        """The page of each key, if there are ``count`` pages."""

    def among(self, keys: Keys, others: Keys, most: int) -> Keys:
        """The first keys that are among others."""

    def beyond(self, keys: Keys, others: Keys, most: int | None = None) -> Keys:
        """The first keys that are not among others; all of them, if no number is given."""

    def remembered(self, keys: Keys, seen: bytes) -> tuple[Keys, bytes]:
        """The keys whose hashes are among some that are remembered, and the hashes of all others, 32 bits of each."""
