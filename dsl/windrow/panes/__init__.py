"""Defines panes, the successive firings of one window, and how a later one replaces or completes earlier ones."""

from windrow.panes.changes import Change, ChangeKind
from windrow.panes.pane import PaneInfo, PaneTiming, WindowResult
from windrow.panes.settings import AccumulationMode, ClosingBehavior, OnTimeBehavior, TimestampCombiner

__all__ = [
    "AccumulationMode",
    "Change",
    "ChangeKind",
    "ClosingBehavior",
    "OnTimeBehavior",
    "PaneInfo",
    "PaneTiming",
    "TimestampCombiner",
    "WindowResult",
]
