"""Cases of kind "invalid": pipelines of two inputs that cannot be built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from tests.conformance.assigners import build_assigner, millis
from tests.conformance.cases import Case, CaseError, Fields, Json, encode
from tests.conformance.compare import Differences
from tests.conformance.elements import Element, Record
from tests.conformance.errors import error_kind
from tests.conformance.pipeline import build_evictor
from tests.conformance.triggers import build_trigger
from windrow import DataStream, Pipeline, from_source
from windrow.errors import PlanError, WindrowError
from windrow.functions import (
    CoFlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    ProcessJoinContext,
    ProcessJoinFunction,
    ReadOnlyContext,
)
from windrow.functions.broadcast import BroadcastContext
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.state import MapStateDescriptor
from windrow_runtime.testing import PushSource

__all__ = ["run_invalid"]

_REFUSALS: Final = ("invalid_argument", "unsupported_operation")
"""Flink's two kinds of a refusal. Which one it is differs from method to method there, so either will do."""

# Any in this module: a case leaves out arguments, and gives wrong ones, which the type checker would not let it do.


def run_invalid(case: Case, differences: Differences) -> None:
    """A pipeline that cannot be built."""
    kind = case.body.text("of")
    expected = case.body.text("error")
    fields = case.body.fields("pipeline")
    case.body.done()
    if kind not in _BUILDERS:
        raise CaseError(f"unknown operator {kind!r}")
    if expected not in _REFUSALS:
        raise CaseError(f"unknown error {expected!r}")
    missing = fields.text("missing", "")
    got = "none"
    try:
        stream = _BUILDERS[kind](fields, missing)
        Pipeline("invalid", stream.sink_to(CollectSink[Any]()))
    except TypeError as error:
        if not missing:
            raise
        got = expected if "missing" in str(error) else f"TypeError: {error}"
    except (PlanError, WindrowError) as error:
        got = (
            expected
            if isinstance(error, PlanError) or error_kind(error) in _REFUSALS
            else f"{error_kind(error)}: {error}"
        )
    for name in fields.data:
        if name in _LEFT_OUT:
            fields.raw(name)  # what is not reached
    fields.done()
    differences.equal("error", expected, got)


_LEFT_OUT: Final = frozenset(
    {
        "assigner",
        "trigger",
        "evictor",
        "allowed_lateness_ms",
        "lower_ms",
        "upper_ms",
        "lower_exclusive",
        "upper_exclusive",
        "side_output_left_late",
        "side_output_right_late",
        "states",
        "side_outputs",
        "broadcast_states",
        "on_element1",
        "on_element2",
        "on_timer",
        "key_types",
        "keyed",
        "function",
        "time",
    }
)
"""The fields that a builder need not come to."""


def _streams(*, with_timestamps: bool = True) -> tuple[DataStream[Element], DataStream[Element]]:
    if with_timestamps:
        return from_source(PushSource(Element)), from_source(PushSource(Element))
    return from_source(CollectionSource([], Element)), from_source(CollectionSource([], Element))


def _unless(missing: str, names: tuple[str, ...], argument: Any) -> Any:
    """The argument of a call, or None where it is left out."""
    return None if missing in names else argument


def _selectors(fields: Fields) -> tuple[Any, Any]:
    """The key selectors of both inputs."""
    types = fields.items("key_types", ["string", "string"])
    if len(types) != 2:
        raise CaseError(f"there are two types of keys, not {encode(types)}")
    return _selector(types[0]), _selector(types[1])


def _selector(kind: Json) -> Callable[[Element], Any]:
    found = {"string": _text, "integer": _integer, "double": _double, "boolean": _boolean}.get(str(kind))
    if found is None:
        raise CaseError(f"unknown type of keys {encode(kind)}")
    return found


def _text(element: Element) -> str:
    return element.key


def _integer(element: Element) -> int:
    return 0


def _double(element: Element) -> float:
    return 0.0


def _boolean(element: Element) -> bool:
    return False


def _windowed(fields: Fields, missing: str, *, grouped: bool) -> DataStream[Any]:
    left, right = _streams(with_timestamps=True)
    other: Any = _unless(missing, ("other", "right", "input2"), right)
    where, equal_to = _selectors(fields)
    together: Any = left.co_group(other) if grouped else left.join(other)
    keyed = together.where(_unless(missing, ("where", "key1"), where))
    keyed = keyed.equal_to(_unless(missing, ("equal_to", "key2"), equal_to))
    assigner = None if missing == "assigner" else build_assigner(fields.fields("assigner"))
    stage = keyed.window(assigner)
    trigger, evictor = fields.fields_or_none("trigger"), fields.fields_or_none("evictor")
    if trigger is not None or missing == "trigger":
        stage = stage.trigger(None if trigger is None else build_trigger(trigger))
    if evictor is not None or missing == "evictor":
        stage = stage.evictor(None if evictor is None else build_evictor(evictor))
    lateness = fields.integer("allowed_lateness_ms", 0)
    if lateness:
        stage = stage.allowed_lateness(timedelta(milliseconds=lateness))
    function: Any = _no_records if grouped else _one_record
    made: DataStream[Any] = stage.apply(_unless(missing, ("function", "apply"), function))
    return made


def _keyed_sides(fields: Fields) -> Iterator[bool]:
    """Whether each input is keyed."""
    keyed = fields.data.get("keyed")
    if isinstance(keyed, list):
        sides = fields.items("keyed")
        if len(sides) != 2 or not all(isinstance(side, bool) for side in sides):
            raise CaseError(f"keyed says it of both inputs, not {encode(sides)}")
        yield from map(bool, sides)
        return
    both = fields.flag("keyed", True)
    yield both
    yield both


def _interval(fields: Fields, missing: str) -> DataStream[Any]:
    time = fields.text("time", "event")
    if time not in ("event", "processing"):
        raise CaseError(f"unknown time {time!r}")
    # There is no interval join by the clock to ask for: one of streams without timestamps is what comes near it.
    left, right = _streams(with_timestamps=time == "event")
    first, second = _either_keyed(fields, missing, left, right)
    joined: Any = first.interval_join(_unless(missing, ("other", "right", "input2"), second))
    lower = None if missing == "lower_ms" else millis(fields, "lower_ms")
    upper = None if missing == "upper_ms" else millis(fields, "upper_ms")
    stage = joined.between(lower, upper)
    if fields.flag("lower_exclusive", False):
        stage = stage.lower_bound_exclusive()
    if fields.flag("upper_exclusive", False):
        stage = stage.upper_bound_exclusive()
    for name, call in (
        ("side_output_left_late", "side_output_left_late_data"),
        ("side_output_right_late", "side_output_right_late_data"),
    ):
        if missing in (name, call):
            stage = getattr(stage, call)(None)
    function = fields.text("function", "")
    if function == "non_keyed":
        made: DataStream[Any] = stage.process(_WithoutKeys())
    else:
        made = stage.process(_unless(missing, ("function", "process"), _Pairs()))
    return made


def _either_keyed(fields: Fields, missing: str, left: Any, right: Any) -> tuple[Any, Any]:
    """Both streams, each keyed if the case says so."""
    selectors = _selectors(fields)
    names = (("where", "key1"), ("equal_to", "key2"))
    first, second = (
        stream.key_by(_unless(missing, name, selector)) if is_keyed else stream
        for stream, selector, name, is_keyed in zip((left, right), selectors, names, _keyed_sides(fields), strict=True)
    )
    return first, second


def _connected(fields: Fields, missing: str) -> DataStream[Any]:
    left, right = _either_keyed(fields, missing, *_streams())
    connected: Any = left.connect(_unless(missing, ("other", "right", "input2"), right))
    function = fields.text("function", "keyed")
    given: Any = {"keyed": _ByKey(), "non_keyed": _WithoutKeys()}.get(function)
    if given is None:
        raise CaseError(f"unknown function {function!r}")
    made: DataStream[Any] = connected.process(_unless(missing, ("function", "process"), given))
    return made


def _broadcast(fields: Fields, missing: str) -> DataStream[Any]:
    left, right = _streams()
    keyed = next(_keyed_sides(fields))
    first: Any = left.key_by(_unless(missing, ("where", "key1"), _selectors(fields)[0])) if keyed else left
    maps = [MapStateDescriptor(str(name), str, str) for name in fields.items("broadcast_states", [])]
    rules: Any = right.broadcast(*([None] if missing == "broadcast_states" else maps))
    connected: Any = first.connect(_unless(missing, ("other", "right", "input2"), rules))
    function = fields.text("function", "keyed")
    given: Any = {"keyed": _Rules(), "non_keyed": _WithoutKeys()}.get(function)
    if given is None:
        raise CaseError(f"unknown function {function!r}")
    made: DataStream[Any] = connected.process(_unless(missing, ("function", "process"), given))
    return made


_BUILDERS: Mapping[str, Callable[[Fields, str], DataStream[Any]]] = {
    "window_join": lambda fields, missing: _windowed(fields, missing, grouped=False),
    "co_group": lambda fields, missing: _windowed(fields, missing, grouped=True),
    "interval_join": _interval,
    "connect": _connected,
    "broadcast": _broadcast,
}


def _one_record(left: Element, right: Element) -> Record:
    return Record(left.key, right.key)


def _no_records(left: object, right: object) -> list[Record]:
    return []


class _Pairs(ProcessJoinFunction[Element, Element, Record]):
    def process_element(self, left: Element, right: Element, context: ProcessJoinContext) -> list[Record]:
        return []


class _ByKey(KeyedCoProcessFunction[str, Element, Element, Record]):
    def process_element1(self, value: Element, context: KeyedProcessContext[str]) -> list[Record]:
        return []

    def process_element2(self, value: Element, context: KeyedProcessContext[str]) -> list[Record]:
        return []


class _WithoutKeys(CoFlatMapFunction[Element, Element, Record]):
    def flat_map1(self, value: Element) -> list[Record]:
        return []

    def flat_map2(self, value: Element) -> list[Record]:
        return []


class _Rules(KeyedBroadcastProcessFunction[str, Element, Element, Record]):
    def process_element(self, value: Element, context: ReadOnlyContext[str]) -> list[Record]:
        return []

    def process_broadcast_element(self, value: Element, context: BroadcastContext[str, Record]) -> list[Record]:
        return []
