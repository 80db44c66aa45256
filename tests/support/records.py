"""The records that tests of several rooms share, their keys and times, and sums of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from windrow.functions import AggregateFunction

__all__ = ["Event", "Highest", "KeyAt", "Reading", "Total", "add", "key_of", "millis", "sensor"]


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


@dataclass(frozen=True)
class Reading:
    """What a sensor measured."""

    sensor: str
    at: int
    celsius: float


class KeyAt(NamedTuple):
    """No more than a key and a timestamp."""

    key: str
    at: int


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


class Highest(AggregateFunction[int, int, int]):
    """The highest number, none of which is negative."""

    def create_accumulator(self) -> int:
        return -1

    def add(self, value: int, accumulator: int) -> int:
        return max(value, accumulator)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return max(a, b)


def add(a: int, b: int) -> int:
    return a + b


def sensor(reading: Reading) -> str:
    return reading.sensor


def key_of(event: Event) -> str:
    return event.key


def millis(number: int) -> timedelta:
    return timedelta(milliseconds=number)
