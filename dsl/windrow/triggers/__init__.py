"""Triggers: when windows are evaluated."""

from windrow.triggers.continuous import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from windrow.triggers.count import CountTrigger
from windrow.triggers.delta import DeltaTrigger
from windrow.triggers.never import EndOfStreamTrigger, NeverTrigger
from windrow.triggers.purging import MergingPurgingTrigger, PurgingTrigger
from windrow.triggers.state_cleaning import StateCleaningCountTrigger
from windrow.triggers.time import EventTimeTrigger, ProcessingTimeTrigger
from windrow.triggers.timeout import MergingProcessingTimeoutTrigger, ProcessingTimeoutTrigger
from windrow.triggers.trigger import MergingTrigger, OnMergeContext, Trigger, TriggerContext, TriggerResult

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "DeltaTrigger",
    "EndOfStreamTrigger",
    "EventTimeTrigger",
    "MergingProcessingTimeoutTrigger",
    "MergingPurgingTrigger",
    "MergingTrigger",
    "NeverTrigger",
    "OnMergeContext",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "StateCleaningCountTrigger",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
]
