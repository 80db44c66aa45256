"""Panes: the results that one window fires, one after the other, and how they relate."""

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
