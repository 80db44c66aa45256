"""Panes: the results that one window lets out, one after the other, and how they relate."""

from windrow.panes.changes import Change, ChangeKind
from windrow.panes.pane import PaneInfo, PaneTiming, WindowResult
from windrow.panes.settings import (
    NOTHING_SAID,
    AccumulationMode,
    ClosingBehavior,
    OnTimeBehavior,
    PaneSettings,
    TimestampCombiner,
)

__all__ = [
    "NOTHING_SAID",
    "AccumulationMode",
    "Change",
    "ChangeKind",
    "ClosingBehavior",
    "OnTimeBehavior",
    "PaneInfo",
    "PaneSettings",
    "PaneTiming",
    "TimestampCombiner",
    "WindowResult",
]
