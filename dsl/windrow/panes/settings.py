"""Defines the settings of panes: how they relate, which are fired, and the timestamps of their results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class AccumulationMode(Enum):
    """How the panes of one window relate to each other."""

    DISCARDING = "discarding"
    """Each pane holds the elements that came since the last one."""

    ACCUMULATING = "accumulating"
    """Each pane holds all elements of the window so far."""

    RETRACTING = "retracting"
    """As accumulating; before each pane the result that it replaces is withdrawn."""


class OnTimeBehavior(Enum):
    """Whether a pane on time is fired if nothing is new."""

    FIRE_ALWAYS = "always"
    """Also an empty one, so that somebody who waits for the result on time gets one."""

    FIRE_IF_NON_EMPTY = "if non-empty"
    """Only where elements have come since the last pane."""


class ClosingBehavior(Enum):
    """Whether a last pane is fired when a window is cleaned up and nothing is new."""

    FIRE_ALWAYS = "always"
    """Each window ends with a pane that says that it is the last one."""

    FIRE_IF_NON_EMPTY = "if non-empty"
    """Only where elements have come since the last pane."""


class TimestampCombiner(Enum):
    """The timestamp of the result of a window."""

    END_OF_WINDOW = "end of window"
    """The last timestamp of the window."""

    EARLIEST = "earliest"
    """The lowest timestamp of the elements since the last pane that were not late when they came.

    The last timestamp of the window if there are none.
    """

    LATEST = "latest"
    """The highest of these timestamps. The last timestamp of the window if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneSettings:
    """The settings that the calls of a windowed stage have made for panes.

    Attributes:
        mode: How panes relate; None: as the trigger says, by purging or not.
        on_time: Whether an empty pane on time is fired.
        closing: Whether an empty last pane is fired.
        timestamp: The timestamp of results.
        may_lose_data: Whether the user knows that the trigger may lose elements.
    """

    mode: AccumulationMode | None = None
    on_time: OnTimeBehavior | None = None
    closing: ClosingBehavior | None = None
    timestamp: TimestampCombiner | None = None
    may_lose_data: bool = False

    @property
    def describes_panes(self) -> bool:
        """Whether a call has set anything about panes themselves."""
        return any(each is not None for each in (self.mode, self.on_time, self.closing, self.timestamp))

    @property
    def may_be_empty(self) -> bool:
        """Whether a pane may hold no element, where no evictor takes any."""
        only_filled = (
            self.on_time is OnTimeBehavior.FIRE_IF_NON_EMPTY and self.closing is not ClosingBehavior.FIRE_ALWAYS
        )
        return self.mode is AccumulationMode.DISCARDING and not only_filled

    def describe(self) -> list[str]:
        """What was set, in a few words for ``explain()``."""
        settings = [] if self.mode is None else [self.mode.value]
        settings += [] if self.on_time is None else [f"on-time pane {self.on_time.value}"]
        settings += [] if self.closing is None else [f"closing pane {self.closing.value}"]
        settings += [] if self.timestamp is None else [f"timestamp {self.timestamp.value}"]
        return settings


DEFAULT_PANES: Final = PaneSettings()
"""The settings of windows whose stage has no call about panes."""
