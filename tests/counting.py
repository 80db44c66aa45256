"""Aggregates of the least kind, written out as a user would: for tests that ask how one is run, not what it finds."""

from __future__ import annotations

from windrow.functions import AggregateFunction

__all__ = ["Count", "MergingCount"]


class Count(AggregateFunction[object, int, int]):
    """How many elements there are. Has no ``merge``."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: object, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator


class MergingCount(Count):
    """The same with ``merge``."""

    def merge(self, a: int, b: int) -> int:
        return a + b
