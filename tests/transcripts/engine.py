"""The contract of the engines that run transcripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tests.transcripts.checking import Pane

# Any in this module: what JSON holds.


class Run(Protocol):
    """One case in an engine."""

    def input(self, elements: list[tuple[int, Any]]) -> None: ...

    def watermark(self, ticks: int | str) -> None: ...

    def clock(self, now: int) -> None: ...

    def take(self) -> list[Pane]: ...


Engine = Callable[[Mapping[str, Any]], AbstractContextManager[Run]]
