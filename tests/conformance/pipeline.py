"""The pipeline of a case, written in the public language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

from tests.conformance.assigners import build_assigner, millis
from tests.conformance.cases import CaseError, Fields
from tests.conformance.elements import Element, number
from tests.conformance.engines import STEP, Computed
from tests.conformance.functions import compute
from tests.conformance.triggers import Calls, build_trigger, recording
from windrow import DataStream, OutputTag
from windrow.builder.windowed import AllWindowedStream, WindowedStream
from windrow.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from windrow.triggers import Trigger
from windrow.windows import WindowAssigner

_LATE = OutputTag("late", Element)

Part = TypeVar("Part")
Stage = TypeVar("Stage", WindowedStream[Element, str, Any], AllWindowedStream[Element, Any])


# Any in this module: a case chooses the type of its windows.
@dataclass
class Pipeline:
    """The pipeline of a case, before its elements are put in front of it."""

    keyed: bool
    assigner: WindowAssigner[Element, Any]
    trigger: Trigger[Element, Any] | None  # None: the assigner's default
    evictor: Evictor[Element, Any] | None
    lateness: timedelta
    late: bool  # whether late elements go to a side output
    function: Fields  # in JSON
    calls: Calls | None = None  # of the trigger, where they are noted
    inputs: ClassVar[int] = 1

    @classmethod
    def of(cls, fields: Fields, *, note_calls: bool) -> Pipeline:
        """Read a pipeline; ``note_calls`` says whether to note the calls of its trigger."""
        pipeline = cls(
            keyed=fields.flag("keyed"),
            assigner=build_assigner(fields.fields("assigner")),
            trigger=build_if_given(build_trigger, fields.fields_or_none("trigger")),
            evictor=build_if_given(build_evictor, fields.fields_or_none("evictor")),
            lateness=millis(fields, "allowed_lateness_ms", 0),
            late=fields.flag("side_output_late", False),
            function=fields.fields("function"),
        )
        fields.done()
        if note_calls:
            pipeline.calls = Calls()
            trigger_of_case = pipeline.trigger or pipeline.assigner.default_trigger()
            pipeline.trigger = recording(trigger_of_case, pipeline.calls)
        return pipeline

    def compute(self, inputs: Sequence[DataStream[Element]], name: str = STEP) -> Computed:
        """What the pipeline makes of its one input. ``name`` names the step under test."""
        (elements,) = inputs
        late = _LATE if self._has_late_output else None
        if self.keyed:
            return compute(self._configure(elements.key_by(_key).window(self.assigner)), self.function, name, late)
        return compute(self._configure(elements.window_all(self.assigner)), self.function, name, late)

    @property
    def _has_late_output(self) -> bool:
        return self.late and self.assigner.is_event_time

    def _configure(self, stage: Stage) -> Stage:
        if self.trigger is not None:
            stage = stage.trigger(self.trigger)
        if self.evictor is not None:
            stage = stage.evictor(self.evictor)
        # Lateness is a notion of event time. The format gives a figure everywhere and says that it counts in event
        # time only; windrow refuses it elsewhere, so it is left out there.
        if self.assigner.is_event_time:
            stage = stage.allowed_lateness(self.lateness)
            if self._has_late_output:
                stage = stage.side_output_late_data(_LATE)
        return stage


def _key(element: Element) -> str:
    return element.key


def build_if_given(build: Callable[[Fields], Part], fields: Fields | None) -> Part | None:
    """What ``build`` makes of ``fields``; None where a case leaves them out."""
    return None if fields is None else build(fields)


def build_evictor(fields: Fields) -> Evictor[Element, Any]:
    """The evictor that ``fields`` describe."""
    kind, after = fields.text("type"), fields.flag("after", False)
    evictor: Evictor[Element, Any]
    match kind:
        case "count":
            evictor = CountEvictor.of(fields.integer("max"), after)
        case "time":
            evictor = TimeEvictor.of(millis(fields, "window_ms"), after)
        case "delta":
            evictor = DeltaEvictor.of(fields.number("threshold"), _shortfall, after)
        case _:
            raise CaseError(f"unknown evictor {kind!r}")
    fields.done()
    return evictor


def _shortfall(element: Element, last: Element) -> float:
    return number(last) - number(element)
