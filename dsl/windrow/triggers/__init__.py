"""Triggers: when windows are evaluated."""

from typing import TYPE_CHECKING

from windrow.calls.other_names import unknown_name
from windrow.triggers.composable import (
    ComposableTrigger,
    Finish,
    MergingComposableTrigger,
    after_all,
    after_any,
    after_count,
    after_each,
    after_processing_time,
    after_watermark,
    always,
    default,
    never,
    or_finally,
    repeatedly,
)
from windrow.triggers.continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from windrow.triggers.count import CountOrEndOfStreamTrigger, CountTrigger
from windrow.triggers.delta import DeltaTrigger
from windrow.triggers.global_window import EndOfStreamTrigger, NeverTrigger
from windrow.triggers.purging import MergingPurgingTrigger, PurgingTrigger
from windrow.triggers.state_cleaning import StateCleaningCountTrigger
from windrow.triggers.time import EventTimeTrigger, ProcessingTimeTrigger
from windrow.triggers.timeout import (
    EventTimeoutTrigger,
    MergingEventTimeoutTrigger,
    MergingProcessingTimeoutTrigger,
    ProcessingTimeoutTrigger,
)
from windrow.triggers.trigger import (
    MergePartContext,
    MergingTrigger,
    OnMergeContext,
    PartContext,
    Trigger,
    TriggerContext,
    TriggerResult,
)

__all__ = [
    "ComposableTrigger",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountOrEndOfStreamTrigger",
    "CountTrigger",
    "DeltaTrigger",
    "EndOfStreamTrigger",
    "EventTimeTrigger",
    "EventTimeoutTrigger",
    "Finish",
    "MergePartContext",
    "MergingComposableTrigger",
    "MergingEventTimeoutTrigger",
    "MergingProcessingTimeoutTrigger",
    "MergingPurgingTrigger",
    "MergingTrigger",
    "NeverTrigger",
    "OnMergeContext",
    "PartContext",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "StateCleaningCountTrigger",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
    "after_all",
    "after_any",
    "after_count",
    "after_each",
    "after_processing_time",
    "after_watermark",
    "always",
    "default",
    "never",
    "or_finally",
    "repeatedly",
]

if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

    def __getattr__(name):
        """Says what to write instead of a name of another module, or of other systems."""
        raise unknown_name(__name__, name)
