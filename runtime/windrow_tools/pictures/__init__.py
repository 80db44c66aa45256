"""Draws pictures of a run: windows as in the Dataflow paper, other keyed steps with a lane for each stream."""

from windrow_runtime.operators.recording import (
    Lane,
    Moment,
    ProcessRecording,
    RecordedElement,
    RecordedEvent,
    RecordedPane,
    RecordedWatermark,
    Recording,
    StepRecording,
)
from windrow_tools.pictures.drawing import timeline
from windrow_tools.pictures.lanes import lanes
from windrow_tools.pictures.picture import Timeline

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
