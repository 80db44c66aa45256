"""What the tests of operators share: events, and short ways to feed them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from windrow.functions import AggregateFunction

__all__ = ["Event", "Total", "key_of", "millis"]


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


class Total(AggregateFunction[Event, int, int]):
    """The sum of values."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Event, accumulator: int) -> int:
        return accumulator + value.value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


def key_of(event: Event) -> str:
    return event.key


def millis(number: int) -> timedelta:
    return timedelta(milliseconds=number)
