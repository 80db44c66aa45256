"""Triggers: when windows are evaluated."""

from windrow.triggers.count import CountTrigger
from windrow.triggers.never import EndOfStreamTrigger, NeverTrigger
from windrow.triggers.purging import MergingPurgingTrigger, PurgingTrigger
from windrow.triggers.time import EventTimeTrigger, ProcessingTimeTrigger
from windrow.triggers.trigger import MergingTrigger, OnMergeContext, Trigger, TriggerContext, TriggerResult

__all__ = [
    "CountTrigger",
    "EndOfStreamTrigger",
    "EventTimeTrigger",
    "MergingPurgingTrigger",
    "MergingTrigger",
    "NeverTrigger",
    "OnMergeContext",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
]
