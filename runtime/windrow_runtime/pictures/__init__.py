"""Pictures of a run: event time across, processing time up, as the Dataflow paper draws them."""

from windrow_runtime.operators.recording import (
    Moment,
    RecordedElement,
    RecordedPane,
    RecordedWatermark,
    Recording,
    StepRecording,
)
from windrow_runtime.pictures.drawing import Timeline, timeline

__all__ = [
    "Moment",
    "RecordedElement",
    "RecordedPane",
    "RecordedWatermark",
    "Recording",
    "StepRecording",
    "Timeline",
    "timeline",
]
