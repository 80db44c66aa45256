"""Harnesses to test pipelines, triggers and assigners step by step, in milliseconds, without Spark."""

from windrow_runtime.local.journal import Cause, Fate, Firing, Moment, Outcome, Placement
from windrow_tools.testing.explanations import ElementExplanation, Standing, WindowExplanation
from windrow_tools.testing.parts import LiveWindows, TriggerAnswer, TriggerHarness, assign_windows
from windrow_tools.testing.stream import OpenWindow, PendingTimer, PushSource, StreamHarness

__all__ = [
    "Cause",
    "ElementExplanation",
    "Fate",
    "Firing",
    "LiveWindows",
    "Moment",
    "OpenWindow",
    "Outcome",
    "PendingTimer",
    "Placement",
    "PushSource",
    "Standing",
    "StreamHarness",
    "TriggerAnswer",
    "TriggerHarness",
    "WindowExplanation",
    "assign_windows",
]
