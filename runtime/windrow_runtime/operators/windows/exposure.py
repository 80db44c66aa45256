"""Finds the parts of a window step that see elements, and so may change them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from windrow.evictors import CountEvictor, TimeEvictor
from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, WindowNode
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
)
from windrow_runtime.operators.constants import is_constant_type
from windrow_runtime.operators.windows.contents import Contents

# Any in this module: elements and windows of every type.

# Exact types: a class that is derived from one of these may do anything.
_ALONE: Final = (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
"""Assigners that look at time alone, and give one window for each element."""

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
_AROUND: Final = (MergingProcessingTimeoutTrigger, MergingPurgingTrigger, ProcessingTimeoutTrigger, PurgingTrigger)


@dataclass(frozen=True, slots=True)
class Exposure:
    """Names the parts of a window step get copies of elements, since they may change them.

    Attributes:
        windows: Each window that an element is added to.
        assigner: The assigner.
        trigger: The trigger.
        evictor: The evictor.
        process: The process function.
    """

    windows: bool
    assigner: bool
    trigger: bool
    evictor: bool
    process: bool

    @classmethod
    def of(cls, node: WindowNode, contents: Contents) -> Exposure:
        """The exposure of a step, as far as its plan shows it: constants need no copies."""
        constant = is_constant_type(node.input.element_type)
        spec = node.function
        gives_constants = constant
        if isinstance(spec, AggregateSpec):
            gives_constants = is_constant_type(base_argument(spec.aggregate, AggregateFunction, 2))
        process = spec.process is not None and not gives_constants
        if constant:
            return cls(windows=False, assigner=False, trigger=False, evictor=False, process=process)
        return cls(
            windows=not contents.keeps_values and type(node.assigner) not in (*_ALONE, *_DYNAMIC),
            assigner=type(node.assigner) not in (*_ALONE, *_SLIDING),
            trigger=_trigger_looks(node.effective_trigger),
            evictor=node.evictor is not None and type(node.evictor) not in (CountEvictor, TimeEvictor),
            process=process,
        )


def _trigger_looks(trigger: Trigger[Any, Any]) -> bool:
    """Returns whether a trigger hands elements to code of the user's, or keeps them."""
    if type(trigger) in _AROUND and isinstance(trigger, (PurgingTrigger, ProcessingTimeoutTrigger)):
        return _trigger_looks(trigger.inner)
    return type(trigger) not in _BLIND
