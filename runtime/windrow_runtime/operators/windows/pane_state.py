"""Keeps what a window remembers of the panes that it has output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from windrow.panes import PaneInfo, PaneTiming
from windrow_runtime.operators.state.model import WindowEntry

# Any in this module: results of every type.

PANES: Final = "\0panes"
"""The name of a window's panes among the cells of its trigger, which are dropped with the window."""


@dataclass(slots=True)
class PaneState:
    """The panes of one window so far, and what the next one needs."""

    index: int = 0  # that of the next pane
    nonspeculative_index: int = 0  # that of the next pane that is not early
    fresh: bool = False  # whether elements have come since the last pane
    in_time: bool = False  # whether one of those came before the time of the window was over
    stamp: int | None = None  # the timestamps since the last pane, combined; None: there is none to combine
    # The results that the next pane withdraws, with their timestamps: those of the last pane, and those of windows that
    # merged into this one. None: nothing is ever withdrawn.
    shown: list[tuple[Any, int]] | None = None
    absorbed: list[tuple[Any, int]] | None = None

    @classmethod
    def of(cls, entry: WindowEntry) -> PaneState:
        """Returns the panes of a window, which the caller may change."""
        cells = entry.trigger_cells()
        panes = cells.get(PANES)
        if panes is None:
            panes = cells[PANES] = cls()
        assert isinstance(panes, cls)
        return panes

    def timing(self, *, is_over: bool, at_end: bool) -> PaneTiming:
        """The timing of the next pane.

        Args:
            is_over: Whether the time of the window is over.
            at_end: Whether it is over at this very moment, or the window is cleaned up.
        """
        if not is_over:
            return PaneTiming.EARLY
        is_first = self.nonspeculative_index == 0
        return PaneTiming.ON_TIME if is_first and (at_end or self.in_time) else PaneTiming.LATE

    def settle(self) -> None:
        """Marks that no element has come since the last pane."""
        self.fresh = self.in_time = False

    def take_next(self, timing: PaneTiming, *, is_last: bool) -> PaneInfo:
        """Counts a pane that is fired."""
        early = timing is PaneTiming.EARLY
        info = PaneInfo(timing, self.index, -1 if early else self.nonspeculative_index, self.index == 0, is_last)
        self.index += 1
        self.nonspeculative_index += not early
        return info

    def absorb(self, other: PaneState, *, same_window: bool) -> None:
        """Takes over the panes of a window that merged into this one; the same window goes on with their numbers."""
        if same_window:
            self.index, self.nonspeculative_index = other.index, other.nonspeculative_index
            self.shown = other.shown
        else:
            self.absorbed = [*(self.absorbed or ()), *(other.shown or ())] or None
        self.absorbed = [*(self.absorbed or ()), *(other.absorbed or ())] or None
        self.fresh = self.fresh or other.fresh
        self.in_time = self.in_time or other.in_time
