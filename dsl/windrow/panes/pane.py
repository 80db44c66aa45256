"""Defines a pane, which is one firing of a window: its number, its timing, and a result with both."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    # windrow.windows needs triggers; at run time this module needs no window.
    from windrow.windows.window import Window

K_co = TypeVar("K_co", covariant=True)
W_co = TypeVar("W_co", bound="Window", covariant=True)
R_co = TypeVar("R_co", covariant=True)


class PaneTiming(Enum):
    """When a pane was fired, as seen from its window."""

    EARLY = "early"
    """The watermark had not passed the window."""

    ON_TIME = "on time"
    """The first pane after that, unless it is late; a window has at most one."""

    LATE = "late"
    """Any pane after the one on time.

    Also the first after the end, if it comes neither at the end nor with the clean-up of the window, and all that is
    new in it came late.
    """


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


@dataclass(frozen=True)  # with slots, Python 3.11 cannot make one of a class with arguments
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
