"""Joins without a window: what comes first waits for its partner, however long."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TypeVar

from windrow.functions import KeyedCoProcessFunction, KeyedProcessContext
from windrow.state import ListStateDescriptor, ValueStateDescriptor

__all__ = ["Meeting"]

One = TypeVar("One")
Many = TypeVar("Many")
R = TypeVar("R")


class Meeting(KeyedCoProcessFunction[int, One, Many, R]):
    """Holds the one element that a key has in the first stream, and those of the second one that come before it."""

    def __init__(self, one: type[One], many: type[Many]) -> None:
        self._one = ValueStateDescriptor("one", one)
        self._waiting = ListStateDescriptor("waiting", many)

    @abstractmethod
    def row(self, one: One, many: Many) -> R:
        """Makes a record of a pair."""

    def process_element1(self, value: One, context: KeyedProcessContext[int]) -> Iterable[R]:
        context.get_state(self._one).update(value)
        waiting = context.get_state(self._waiting)
        rows = [self.row(value, each) for each in waiting.get()]
        waiting.clear()
        return rows

    def process_element2(self, value: Many, context: KeyedProcessContext[int]) -> Iterable[R]:
        one = context.get_state(self._one).value()
        if one is not None:
            return (self.row(one, value),)
        context.get_state(self._waiting).add(value)
        return ()
