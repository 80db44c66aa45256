"""The contract of the engines that run transcripts: operations in, the panes behind each of them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.transcripts.checking import Pane

# Any in this module: what JSON holds, and values of every type.


@dataclass(frozen=True)
class Input:
    """Elements come, each a timestamp and a value."""

    elements: tuple[tuple[int, Any], ...]


@dataclass(frozen=True)
class Watermark:
    """The watermark moves, in ticks as transcripts have them; or to the end, ``inf``."""

    to: int | str


@dataclass(frozen=True)
class Clock:
    """The clock moves."""

    to: int


Operation: TypeAlias = Input | Watermark | Clock

Engine: TypeAlias = Callable[[Mapping[str, Any], Sequence[Operation]], list[list[Pane]]]
"""Runs the operations of a case; returns the panes behind each of them."""


class NotStatedError(Exception):
    """An engine cannot state a case, for the reason that is given."""
