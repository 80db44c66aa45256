"""Defines observers, to which the operator of a keyed step reports its elements, its decisions and its results."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from windrow.failures import ErrorPolicy
from windrow.panes import PaneInfo
from windrow.triggers import TriggerResult
from windrow_runtime.operators.state.model import WindowEntry

# Any in this module: elements, windows and results of every type.


class Observer:
    """Gets the events of an operator, and ignores them; a subclass overrides the methods of the events that it needs.

    One observer makes recordings, another one explains windows in tests. An operator has one observer at most.
    """

    # Events of every keyed step

    def arrived(self, key: Hashable, value: Any, timestamp: int | None, *, for_all_keys: bool = False) -> None:
        """An element comes to the step."""

    def processed(self) -> None:
        """The step has processed the element that came, and nothing has failed."""

    def time_passed(self, until: int, *, event_time: bool) -> None:
        """The watermark or the clock moves to a time; the timers that are due by then fire next."""

    def timer_due(self, time: int, key: Hashable, namespace: Any, *, event_time: bool) -> None:
        """A timer fires."""

    def emitted(self, value: Any) -> None:
        """A result goes to the main output."""

    def failed(self, policy: ErrorPolicy) -> None:
        """A user's function raised for what the step takes or fires, and the error policy took it."""

    # Events of windows

    def assigned(self, window: Any) -> None:
        """The assigner has given the element that came a window."""

    def became(self, window: Any) -> None:
        """The assigned window has become part of this live one, where windows merge."""

    def placed(self, *, refused: bool) -> None:
        """The element goes into the assigned window, or is ``refused`` since the trigger of the window has finished."""

    def dropped(self, tag: str | None) -> None:
        """The element that came is late for all of its windows: it goes to the side output ``tag``, or is dropped."""

    def merged(self, key: Hashable, sources: Sequence[Any], into: Any) -> None:
        """Windows have become one."""

    def asked(self, key: Hashable, window: Any, entry: WindowEntry) -> None:
        """The trigger of a window is asked next; its state lies in ``entry``, and may change then."""

    def fired(self, pane: PaneInfo | None) -> None:
        """The window is evaluated; its results come next, after the withdrawals of those that they replace."""

    def answered(self, answer: TriggerResult | None, *, held: bool, purged: bool, finished: bool = False) -> None:
        """The operator has done what the trigger answered. None: the window is cleaned up, and fires unasked.

        Args:
            answer: The answer.
            held: Whether the window had contents.
            purged: Whether it has lost them.
            finished: Whether the trigger has finished with that.
        """

    def cleaned(self, key: Hashable, window: Any) -> None:
        """A window was cleaned up."""
