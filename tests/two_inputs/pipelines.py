"""The pipelines of cases of two inputs, written in the public language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from tests.conformance.assigners import build_assigner, millis
from tests.conformance.cases import CaseError, Fields, Json, decode, encode
from tests.conformance.elements import Element, Record
from tests.conformance.engines import STEP, Computed
from tests.conformance.pipeline import build_evictor, build_if_given
from tests.conformance.triggers import build_trigger
from tests.two_inputs.scripts import ScriptedBroadcast, ScriptedConnect, ScriptedConnectWithoutKeys, Scripts
from windrow import DataStream, OutputTag
from windrow.evictors import Evictor
from windrow.state import MapStateDescriptor
from windrow.triggers import Trigger
from windrow.windows import WindowAssigner

_LATE = {1: OutputTag("late of the left input", Element), 2: OutputTag("late of the right input", Element)}

# Any in this module: a case chooses the type of its windows.


class TwoInputs(ABC):
    """The pipeline of a case, before its elements are put in front of it."""

    has_key: ClassVar[bool] = True
    """Whether records tell their key."""

    inputs: ClassVar[int] = 2
    calls: ClassVar[None] = None

    @property
    def keyed(self) -> tuple[bool, bool]:
        """Whether the elements of each input have keys."""
        return True, True

    @abstractmethod
    def compute(self, inputs: Sequence[DataStream[Element]], name: str = STEP) -> Computed:
        """What the pipeline makes of two streams. ``name`` names the step under test."""

    def plain(self, value: Json) -> Json:
        """The value of a record as it is compared."""
        return value


@dataclass(frozen=True)
class WindowPipeline(TwoInputs):
    """A window join or a co-group."""

    grouped: bool
    assigner: WindowAssigner[Element, Any]
    trigger: Trigger[Element, Any] | None
    evictor: Evictor[Element, Any] | None
    lateness: timedelta

    @classmethod
    def of(cls, fields: Fields, *, grouped: bool) -> WindowPipeline:
        return cls(
            grouped=grouped,
            assigner=build_assigner(fields.fields("assigner")),
            trigger=build_if_given(build_trigger, fields.fields_or_none("trigger")),
            evictor=build_if_given(build_evictor, fields.fields_or_none("evictor")),
            lateness=millis(fields, "allowed_lateness_ms", 0),
        )

    def compute(self, inputs: Sequence[DataStream[Element]], name: str = STEP) -> Computed:
        left, right = inputs
        if self.grouped:
            groups = left.co_group(right).where(_key).equal_to(_key).window(self.assigner)
            return Computed(self._configured(groups).apply(_group, name=name))
        pairs = left.join(right).where(_key).equal_to(_key).window(self.assigner)
        return Computed(self._configured(pairs).apply(_pair, name=name))

    def _configured(self, stage: Any) -> Any:
        if self.trigger is not None:
            stage = stage.trigger(self.trigger)
        if self.evictor is not None:
            stage = stage.evictor(self.evictor)
        # Lateness counts in event time only; windrow refuses it elsewhere.
        return stage.allowed_lateness(self.lateness) if self.assigner.is_event_time else stage

    def plain(self, value: Json) -> Json:
        if not self.grouped or not isinstance(value, list):
            return value
        return [sorted(side, key=encode) if isinstance(side, list) else side for side in value]


@dataclass(frozen=True)
class IntervalPipeline(TwoInputs):
    """An interval join."""

    lower: timedelta
    upper: timedelta
    lower_exclusive: bool
    upper_exclusive: bool
    late: tuple[bool, bool]

    @classmethod
    def of(cls, fields: Fields) -> IntervalPipeline:
        return cls(
            lower=millis(fields, "lower_ms"),
            upper=millis(fields, "upper_ms"),
            lower_exclusive=fields.flag("lower_exclusive", False),
            upper_exclusive=fields.flag("upper_exclusive", False),
            late=(fields.flag("side_output_left_late", False), fields.flag("side_output_right_late", False)),
        )

    def compute(self, inputs: Sequence[DataStream[Element]], name: str = STEP) -> Computed:
        left, right = inputs
        joined = left.key_by(_key).interval_join(right.key_by(_key)).between(self.lower, self.upper)
        if self.lower_exclusive:
            joined = joined.lower_bound_exclusive()
        if self.upper_exclusive:
            joined = joined.upper_bound_exclusive()
        if self.late[0]:
            joined = joined.side_output_left_late_data(_LATE[1])
        if self.late[1]:
            joined = joined.side_output_right_late_data(_LATE[2])
        records = joined.apply(_pair, name=name)
        late = {side: records.get_side_output(tag) for side, tag in _LATE.items() if self.late[side - 1]}
        return Computed(records, late)


@dataclass(frozen=True)
class ConnectPipeline(TwoInputs):
    """Connected streams."""

    scripts: Scripts
    is_keyed: bool

    has_key: ClassVar[bool] = False

    @classmethod
    def of(cls, fields: Fields) -> ConnectPipeline:
        return cls(_scripts(fields, with_rules=False), fields.flag("keyed", True))

    @property
    def keyed(self) -> tuple[bool, bool]:
        return self.is_keyed, self.is_keyed

    def compute(self, inputs: Sequence[DataStream[Element]], name: str = STEP) -> Computed:
        left, right = inputs
        connected = left.connect(right)
        if not self.is_keyed:
            records = connected.process(ScriptedConnectWithoutKeys(self.scripts), name=name)
        else:
            records = connected.key_by(_key, _key).process(ScriptedConnect(self.scripts), name=name)
        return Computed(records, sides=_sides(records, self.scripts))


@dataclass(frozen=True)
class BroadcastPipeline(TwoInputs):
    """A keyed stream with broadcast rules."""

    scripts: Scripts

    has_key: ClassVar[bool] = False

    @classmethod
    def of(cls, fields: Fields) -> BroadcastPipeline:
        return cls(_scripts(fields, with_rules=True))

    @property
    def keyed(self) -> tuple[bool, bool]:
        return True, False

    def compute(self, inputs: Sequence[DataStream[Element]], name: str = STEP) -> Computed:
        left, right = inputs
        rules = right.broadcast(*(MapStateDescriptor(name, str, str) for name in self.scripts.maps))
        records = left.key_by(_key).connect(rules).process(ScriptedBroadcast(self.scripts), name=name)
        return Computed(records, sides=_sides(records, self.scripts))


KINDS: Mapping[str, Any] = {
    "window_join": lambda fields: WindowPipeline.of(fields, grouped=False),
    "co_group": lambda fields: WindowPipeline.of(fields, grouped=True),
    "interval_join": IntervalPipeline.of,
    "connect": ConnectPipeline.of,
    "broadcast": BroadcastPipeline.of,
}
"""Reads the pipeline of a kind; raises CaseError, or an error of windrow where a parameter is refused."""


def _scripts(fields: Fields, *, with_rules: bool) -> Scripts:
    kinds = fields.fields_or_none("states")
    scripts = Scripts(
        states={} if kinds is None else {name: kinds.text(name) for name in kinds.data},
        tags=_names(fields, "side_outputs"),
        maps=_names(fields, "broadcast_states") if with_rules else (),
        on_element1=fields.items("on_element1", []),
        on_element2=fields.items("on_element2", []),
        on_timer=fields.items("on_timer", []),
    )
    scripts.check()
    return scripts


def _names(fields: Fields, name: str) -> tuple[str, ...]:
    names = fields.items(name, [])
    if not all(isinstance(item, str) for item in names):
        raise CaseError(f"{name} are names, not {encode(names)}")
    return tuple(map(str, names))


def _sides(records: DataStream[Record], scripts: Scripts) -> dict[str, DataStream[str]]:
    return {tag: records.get_side_output(OutputTag(tag, str)) for tag in scripts.tags}


def _key(element: Element) -> str:
    return element.key


def _pair(left: Element, right: Element) -> Record:
    return Record(left.key, encode([decode(left.value), decode(right.value)]))


def _group(left: Sequence[Element], right: Sequence[Element]) -> list[Record]:
    # An evictor may have taken all elements, and their key with them.
    key = next((element.key for element in (*left, *right)), "null")
    both: Json = [[decode(element.value) for element in side] for side in (left, right)]
    return [Record(key, encode(both))]
