"""Draws pictures of a run: windows as in the Dataflow paper, other keyed steps with a lane for each stream."""

from windrow_tools.pictures import (
    Lane,
    Moment,
    ProcessRecording,
    RecordedElement,
    RecordedEvent,
    RecordedPane,
    RecordedWatermark,
    Recording,
    StepRecording,
    Timeline,
    lanes,
    timeline,
)

__all__ = [
    "Lane",
    "Moment",
    "ProcessRecording",
    "RecordedElement",
    "RecordedEvent",
    "RecordedPane",
    "RecordedWatermark",
    "Recording",
    "StepRecording",
    "Timeline",
    "lanes",
    "timeline",
]
