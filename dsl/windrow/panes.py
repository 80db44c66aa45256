"""Panes: the results that one window lets out, one after the other, and how they relate."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    # windrow.windows needs triggers, which need this package; at run time this module needs no window.
    from windrow.windows.window import Window

__all__ = [
    "AccumulationMode",
    "ClosingBehavior",
    "OnTimeBehavior",
    "PaneInfo",
    "PaneTiming",
    "TimestampCombiner",
    "WindowResult",
]

K_co = TypeVar("K_co", covariant=True)
W_co = TypeVar("W_co", bound="Window", covariant=True)
R_co = TypeVar("R_co", covariant=True)


class AccumulationMode(Enum):
    """How the panes of one window relate to each other."""

    DISCARDING = "discarding"
    """Each pane holds the elements that came since the last one."""

    ACCUMULATING = "accumulating"
    """Each pane holds all elements of the window so far."""

    RETRACTING = "retracting"
    """As accumulating; before each pane the result that it replaces is withdrawn."""


class PaneTiming(Enum):
    """When a pane was let out, as seen from its window."""

    EARLY = "early"
    """The watermark had not passed the window."""

    ON_TIME = "on time"
    """The first pane behind that; a window has at most one."""

    LATE = "late"
    """Any pane after the one on time; also the first, if all its elements came behind the watermark."""


class OnTimeBehavior(Enum):
    """Whether a pane on time is let out where nothing is new."""

    FIRE_ALWAYS = "always"
    """Also an empty one, so that somebody who waits for the result on time gets one."""

    FIRE_IF_NON_EMPTY = "if non-empty"
    """Only where elements have come since the last pane."""


class ClosingBehavior(Enum):
    """Whether a last pane is let out when a window is cleaned up and nothing is new."""

    FIRE_ALWAYS = "always"
    """Each window ends with a pane that says that it is the last one."""

    FIRE_IF_NON_EMPTY = "if non-empty"
    """Only where elements have come since the last pane."""


class TimestampCombiner(Enum):
    """The timestamp of the result of a window."""

    END_OF_WINDOW = "end of window"
    """The last timestamp of the window."""

    EARLIEST = "earliest"
    """The lowest timestamp of the elements since the last pane that were not behind the watermark when they came.

    The last timestamp of the window if there are none.
    """

    LATEST = "latest"
    """The highest of these timestamps. The last timestamp of the window if there are none."""


@dataclass(frozen=True, slots=True)
class PaneInfo:
    """The place of a pane among those of its window.

    Windows that merge become another window, whose panes are counted anew.

    Attributes:
        timing: Whether it is early, on time or late.
        index: Its number among all panes of the window; 0 for the first.
        nonspeculative_index: Its number among those that are not early; -1 for an early one.
        is_first: Whether it is the first pane.
        is_last: Whether no pane follows: the trigger is finished, or the window is cleaned up.
    """

    timing: PaneTiming
    index: int
    nonspeculative_index: int
    is_first: bool
    is_last: bool


@dataclass(frozen=True, slots=True)
class WindowResult(Generic[K_co, W_co, R_co]):
    """A result with the key, the window and the pane that it belongs to; see :func:`windrow.functions.with_pane`.

    Attributes:
        key: The key; None without keys.
        window: The window.
        pane: The pane.
        value: What the window computed.
    """

    key: K_co
    window: W_co
    pane: PaneInfo
    value: R_co


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneSettings:
    """What the calls of a windowed stage have said about panes.

    Attributes:
        mode: How panes relate; None: as the trigger says, by purging or not.
        on_time: Whether an empty pane on time is let out.
        closing: Whether an empty last pane is let out.
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
        """Whether anything was said about panes themselves."""
        return any(each is not None for each in (self.mode, self.on_time, self.closing, self.timestamp))

    def describe(self) -> list[str]:
        """What was said, in a few words for ``explain()``."""
        found = [] if self.mode is None else [self.mode.value]
        found += [] if self.on_time is None else [f"on-time pane {self.on_time.value}"]
        found += [] if self.closing is None else [f"closing pane {self.closing.value}"]
        found += [] if self.timestamp is None else [f"timestamp {self.timestamp.value}"]
        return found


NOTHING_SAID: Final = PaneSettings()
"""The settings of windows about whose panes nothing was said."""
