"""The pipeline of a case, written in the public language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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

__all__ = ["Pipeline", "build_evictor"]

_LATE = OutputTag("late", Element)

Stage = TypeVar("Stage", WindowedStream[Element, str, Any], AllWindowedStream[Element, Any])


# Any in this module: a case chooses the type of its windows.
@dataclass
class Pipeline:
    """The pipeline of a case, before its elements are put in front of it.

    Attributes:
        keyed: Whether elements have keys.
        assigner: The assigner.
        trigger: The trigger; None: the assigner's default.
        evictor: The evictor.
        lateness: The allowed lateness.
        late: Whether late elements go to a side output.
        function: The function, in JSON.
        calls: The calls of the trigger, where they are noted.
    """

    keyed: bool
    assigner: WindowAssigner[Element, Any]
    trigger: Trigger[Element, Any] | None
    evictor: Evictor[Element, Any] | None
    lateness: timedelta
    late: bool
    function: Fields
    calls: Calls | None = field(default=None)
    inputs: ClassVar[int] = 1

    @classmethod
    def of(cls, fields: Fields, *, note_calls: bool) -> Pipeline:
        """Read a pipeline.

        Args:
            fields: Describe it.
            note_calls: Whether to note the calls of the trigger.

        Raises:
            CaseError: If a part is not known.
            InvalidArgumentError: If a parameter is refused.
        """
        trigger = fields.fields_or_none("trigger")
        evictor = fields.fields_or_none("evictor")
        pipeline = cls(
            keyed=fields.flag("keyed"),
            assigner=build_assigner(fields.fields("assigner")),
            trigger=None if trigger is None else build_trigger(trigger),
            evictor=None if evictor is None else build_evictor(evictor),
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


def build_evictor(fields: Fields) -> Evictor[Element, Any]:
    """The evictor that ``fields`` describe.

    Raises:
        CaseError: If there is no such evictor.
        InvalidArgumentError: If a parameter is refused.
    """
    evictor = _evictor(fields)
    fields.done()
    return evictor


def _evictor(fields: Fields) -> Evictor[Element, Any]:
    kind = fields.text("type")
    after = fields.flag("after", False)
    if kind == "count":
        return CountEvictor.of(fields.integer("max"), after)
    if kind == "time":
        return TimeEvictor.of(millis(fields, "window_ms"), after)
    if kind == "delta":
        return DeltaEvictor.of(fields.number("threshold"), _shortfall, after)
    raise CaseError(f"unknown evictor {kind!r}")


def _shortfall(element: Element, last: Element) -> float:
    return number(last) - number(element)
