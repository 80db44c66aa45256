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
    WindowAssigner,
)
from windrow_runtime.operators.constants import is_constant_type
from windrow_runtime.operators.windows.contents import Contents

__all__ = ["Exposure"]

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


@dataclass(frozen=True, slots=True)
class Exposure:
    """Says which parts of a window step get copies of elements, since they may change them.

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
        process = node.function.process is not None and not (
            _gives_constants(node.function.aggregate)
            if isinstance(node.function, AggregateSpec)
            else constant
        )
        if constant:
            return cls(windows=False, assigner=False, trigger=False, evictor=False, process=process)
        return cls(
            windows=not (contents.keeps_values or _gives_one_window(node.assigner)),
            assigner=type(node.assigner) not in _BY_TIME,
            trigger=_trigger_looks(node.effective_trigger),
            evictor=node.evictor is not None and type(node.evictor) not in (CountEvictor, TimeEvictor),
            process=process,
        )


def _gives_constants(function: AggregateFunction[Any, Any, Any]) -> bool:
    return is_constant_type(base_argument(function, AggregateFunction, 2))


def _gives_one_window(assigner: WindowAssigner[Any, Any]) -> bool:
    """Returns whether each element is in one window alone."""
    return type(assigner) in (*_BY_TIME, *_DYNAMIC) and type(assigner) not in _SLIDING


def _trigger_looks(trigger: Trigger[Any, Any]) -> bool:
    """Returns whether a trigger hands elements to code of the user's, or keeps them."""
    if type(trigger) in _AROUND and isinstance(trigger, (PurgingTrigger, ProcessingTimeoutTrigger)):
        return _trigger_looks(trigger.inner)
    return type(trigger) not in _BLIND
