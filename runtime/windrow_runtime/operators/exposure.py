"""Which parts of a window step look at elements, and so may change them."""

from __future__ import annotations

from typing import Any, Final

from windrow.evictors import CountEvictor, Evictor, TimeEvictor
from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, FunctionSpec
from windrow.plan.types import base_argument
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    MergingProcessingTimeoutTrigger,
    MergingPurgingTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    StateCleaningCountTrigger,
    Trigger,
)
from windrow.windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from windrow_runtime.operators.constants import is_constant_type

__all__ = ["assigner_looks", "evictor_looks", "gives_one_window", "process_looks", "trigger_looks"]

# Any in this module: elements and windows of every type.

_BY_TIME: Final = (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
_SLIDING: Final = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)
_DYNAMIC: Final = (DynamicEventTimeSessionWindows, DynamicProcessingTimeSessionWindows)
_BLIND: Final = (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    StateCleaningCountTrigger,
)
_AROUND: Final = (
    MergingProcessingTimeoutTrigger,
    MergingPurgingTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
)


def gives_one_window(assigner: WindowAssigner[Any, Any]) -> bool:
    """Whether each element is in one window alone."""
    return type(assigner) in (*_BY_TIME, *_DYNAMIC) and type(assigner) not in _SLIDING


def assigner_looks(assigner: WindowAssigner[Any, Any]) -> bool:
    """Whether an assigner hands elements to code of the user's."""
    return type(assigner) not in _BY_TIME


def trigger_looks(trigger: Trigger[Any, Any]) -> bool:
    """Whether a trigger hands elements to code of the user's, or keeps them."""
    if type(trigger) in _AROUND and isinstance(trigger, (PurgingTrigger, ProcessingTimeoutTrigger)):
        return trigger_looks(trigger.inner)
    return type(trigger) not in _BLIND


def process_looks(function: FunctionSpec, *, constant_elements: bool) -> bool:
    """Whether a window hands something changeable to a process function.

    Args:
        function: What the window computes.
        constant_elements: Whether its elements are constants.
    """
    if function.process is None:
        return False
    if isinstance(function, AggregateSpec):
        return not is_constant_type(base_argument(function.aggregate, AggregateFunction, 2))
    return not constant_elements


def evictor_looks(evictor: Evictor[Any, Any] | None) -> bool:
    """Whether an evictor hands elements to code of the user's."""
    return evictor is not None and type(evictor) not in (CountEvictor, TimeEvictor)
