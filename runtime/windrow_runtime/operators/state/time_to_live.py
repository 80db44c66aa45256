"""Lets state expire: a view of a dictionary keeps the time at which one name was last written."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from windrow_runtime.operators.operator import KeyedOperator

# Any in this module: state of every type.


class TtlTimer(NamedTuple):
    """The namespace of the timers that take expired state away: its name, and its time to live in milliseconds."""

    name: str
    millis: int


@dataclass(slots=True, eq=False)
class TtlCells:
    """The cells of a key, seen through a handle whose state expires: the last write's time stands beside the value."""

    _cells: dict[str, Any]
    _operator: KeyedOperator
    _key: Hashable
    _timer: TtlTimer
    _refresh_on_read: bool = False
    _stamp: str = field(init=False)

    def __post_init__(self) -> None:
        self._stamp = f"{self._timer.name}\0written"
        self.expire()

    def expire(self) -> int | None:
        """Take the value away if its time is over; returns when it will be over, if there is a value left."""
        written = self._cells.get(self._stamp)
        if written is None:
            return None
        due: int = written + self._timer.millis
        if due <= self._operator.current_processing_time:
            self._cells.pop(self._stamp, None)
            self._cells.pop(self._timer.name, None)
            return None
        return due

    def _touch(self) -> None:
        now = self._operator.current_processing_time
        if self._stamp not in self._cells:
            self._operator.state.processing_timers.register(self._key, self._timer, now + self._timer.millis)
        self._cells[self._stamp] = now

    def get(self, name: str, default: Any = None, /) -> Any:
        if self._refresh_on_read and name in self._cells:
            self._touch()
        return self._cells.get(name, default)

    def setdefault(self, name: str, default: Any, /) -> Any:
        self._touch()
        return self._cells.setdefault(name, default)

    def pop(self, name: str, default: Any, /) -> Any:
        self._cells.pop(self._stamp, None)
        return self._cells.pop(name, default)

    def __getitem__(self, name: str, /) -> Any:
        if self._refresh_on_read:
            self._touch()
        return self._cells[name]

    def __setitem__(self, name: str, value: Any, /) -> None:
        self._touch()
        self._cells[name] = value

    def __contains__(self, name: object, /) -> bool:
        return name in self._cells


Cells: TypeAlias = dict[str, Any] | TtlCells
"""The state of a key by name, as handles on state use it."""
