"""Keeps the newest row of each key, and makes changes of elements: what ``latest`` and ``from_changes`` run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from windrow.errors import InvalidArgumentError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.panes.changes import Change, ChangeKind
from windrow.state import ListStateDescriptor

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")

# A list of at most one row with its timestamp, so that None can be a row.
_NEWEST: Final[ListStateDescriptor[Any]] = ListStateDescriptor("newest")


@dataclass(frozen=True)
class TimedChange(Change[R]):
    """A change whose row has a timestamp of its own: a withdrawn row has that with which it came.

    Attributes:
        timestamp: In milliseconds since 1970; None: the row came without one.
    """

    timestamp: int | None = None


class NewestRow(KeyedProcessFunction[K, T, Change[R]], Generic[K, T, R]):
    """Keeps the newest row of each key, and withdraws it when the next one comes, or when it is deleted."""

    def __init__(self, change: Callable[[T], Change[R]], description: str) -> None:
        self._change = change
        self._description = description

    def process_element(self, value: T, context: KeyedProcessContext[K]) -> list[Change[R]]:
        """Emits the changes that an element makes; none if it deletes a row that is not there."""
        change = self._change(value)
        if change.kind is ChangeKind.UPDATE_BEFORE:
            return []
        state = context.get_state(_NEWEST)
        held, now = state.get(), context.timestamp
        if change.kind is ChangeKind.DELETE:
            state.clear()
            return [TimedChange(ChangeKind.DELETE, *row) for row in held]
        state.update(((change.value, now),))
        if not held:
            return [TimedChange(ChangeKind.INSERT, change.value, now)]
        before = TimedChange(ChangeKind.UPDATE_BEFORE, *held[0])
        return [before, TimedChange(ChangeKind.UPDATE_AFTER, change.value, now)]

    def describe(self) -> str:
        return self._description


class RowChange(Generic[T]):
    """Makes a change of an element, which is the row itself or has it."""

    # Any: rows of every type.
    def __init__(self, op: Callable[[T], ChangeKind], row: Callable[[T], Any] | None) -> None:
        self._op = op
        self._row = row

    def __call__(self, element: T) -> Change[Any]:
        """Returns the change; refuses what is no kind of one."""
        kind: object = self._op(element)
        if not isinstance(kind, ChangeKind):
            raise InvalidArgumentError(
                "op of from_changes has to say what a record does", given=kind, expected="a ChangeKind, such as INSERT"
            )
        return Change(kind, element if self._row is None else self._row(element))


class NewestOrDeleted(Generic[T]):
    """Makes a change of an element that is the newest row of its key, unless it says that the row is deleted."""

    def __init__(self, is_deleted: Callable[[T], bool] | None) -> None:
        self._is_deleted = is_deleted

    def __call__(self, element: T) -> Change[T]:
        """Returns the change."""
        deleted = self._is_deleted is not None and self._is_deleted(element)
        return Change(ChangeKind.DELETE if deleted else ChangeKind.UPDATE_AFTER, element)
