"""What the tests of operators share: events, and short ways to feed them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["Event", "key_of", "millis"]


@dataclass(frozen=True)
class Event:
    """An element.

    Attributes:
        key: The key.
        at: The timestamp in milliseconds.
        value: A number to tell events apart.
    """

    key: str
    at: int
    value: int


def key_of(event: Event) -> str:
    return event.key


def millis(number: int) -> timedelta:
    return timedelta(milliseconds=number)
