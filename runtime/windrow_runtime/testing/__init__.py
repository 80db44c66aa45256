"""Harnesses to test pipelines, triggers and assigners step by step, in milliseconds, without Spark."""

from windrow_runtime.testing.parts import LiveWindows, TriggerAnswer, TriggerHarness, assign_windows
from windrow_runtime.testing.stream import OpenWindow, PendingTimer, PushSource, StreamHarness

__all__ = [
    "LiveWindows",
    "OpenWindow",
    "PendingTimer",
    "PushSource",
    "StreamHarness",
    "TriggerAnswer",
    "TriggerHarness",
    "assign_windows",
]
