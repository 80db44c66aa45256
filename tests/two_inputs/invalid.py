"""Cases of kind "invalid": pipelines of two inputs that cannot be built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from tests.conformance.assigners import build_assigner, millis
from tests.conformance.cases import Case, CaseError, Fields
from tests.conformance.compare import Differences, error_kind
from tests.conformance.elements import Element, Record
from tests.conformance.triggers import build_trigger
from windrow import Pipeline, from_source
from windrow.errors import PlanError, WindrowError
from windrow.functions import CoFlatMapFunction, KeyedCoProcessFunction, KeyedProcessContext
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.state import MapStateDescriptor
from windrow_runtime.testing import PushSource

_REFUSALS: Final = ("invalid_argument", "unsupported_operation")
"""Flink's two kinds of a refusal. Which one it is differs from method to method there, so either will do."""

# Any in this module: a case leaves out arguments, and gives wrong ones, which the type checker would not let it do.


def run_invalid(case: Case, differences: Differences) -> None:
    """A pipeline that cannot be built."""
    kind, expected, fields = case.body.text("of"), case.body.text("error"), case.body.fields("pipeline")
    case.body.done()
    if kind not in _BUILDERS:
        raise CaseError(f"unknown operator {kind!r}")
    if expected not in _REFUSALS:
        raise CaseError(f"unknown error {expected!r}")
    got = "none"
    try:
        stream = _BUILDERS[kind](fields, fields.text("missing", ""))
        Pipeline("invalid", stream.sink_to(CollectSink[Any]()))
    except (PlanError, WindrowError) as error:
        is_refusal = isinstance(error, PlanError) or error_kind(error) in _REFUSALS
        got = expected if is_refusal else f"{error_kind(error)}: {error}"
    for name in _NOT_REACHED & fields.data.keys():
        fields.raw(name)
    fields.done()
    differences.equal("error", expected, got)


_NOT_REACHED: Final = {
    *("assigner", "trigger", "evictor", "allowed_lateness_ms", "lower_exclusive", "upper_exclusive", "key_types"),
    *("side_output_left_late", "side_output_right_late", "on_element1"),
}
"""The fields that a builder need not come to."""


def _streams(*, with_timestamps: bool = True) -> list[Any]:
    return [from_source(PushSource(Element) if with_timestamps else CollectionSource([], Element)) for _ in range(2)]


def _selectors(fields: Fields) -> list[Callable[[Element], Any]]:
    """The key selectors of both inputs."""
    known = {"string": _text, "integer": _integer}
    return [known[str(kind)] for kind in fields.items("key_types", ["string", "string"])]


def _text(element: Element) -> str:
    return element.key


def _integer(element: Element) -> int:
    return 0


def _windowed(fields: Fields, missing: str, *, grouped: bool) -> Any:
    left, right = _streams()
    where, equal_to = _selectors(fields)
    keyed = (left.co_group(right) if grouped else left.join(right)).where(None if missing == "where" else where)
    assigner = None if missing == "assigner" else build_assigner(fields.fields("assigner"))
    stage, trigger = keyed.equal_to(equal_to).window(assigner), fields.fields_or_none("trigger")
    if trigger is not None:
        stage = stage.trigger(build_trigger(trigger))
    return stage.apply(_no_records if grouped else _one_record)


def _interval(fields: Fields, missing: str) -> Any:
    # There is no interval join by the clock to ask for: one of streams without timestamps is what comes near it.
    left, right = _streams(with_timestamps=fields.text("time", "event") == "event")
    where, equal_to = _selectors(fields)
    lower, upper = (None if missing == name else millis(fields, name) for name in ("lower_ms", "upper_ms"))
    return left.key_by(where).interval_join(right.key_by(equal_to)).between(lower, upper).apply(_one_record)


def _connected(fields: Fields, missing: str) -> Any:
    sides = zip(_streams(), _selectors(fields), fields.items("keyed", [True, True]), strict=True)
    first, second = (stream.key_by(selector) if is_keyed else stream for stream, selector, is_keyed in sides)
    return first.connect(second).process(_ByKey())


def _broadcast(fields: Fields, missing: str) -> Any:
    left, right = _streams()
    rules = right.broadcast(*(MapStateDescriptor(str(name), str, str) for name in fields.items("broadcast_states")))
    if fields.text("function") != "non_keyed":
        raise CaseError(f"unknown function {fields.text('function')!r}")
    return left.key_by(_text).connect(rules).process(_WithoutKeys())


_BUILDERS: Mapping[str, Callable[[Fields, str], Any]] = {
    "window_join": partial(_windowed, grouped=False),
    "co_group": partial(_windowed, grouped=True),
    "interval_join": _interval,
    "connect": _connected,
    "broadcast": _broadcast,
}


def _one_record(left: object, right: object) -> Record:
    return Record("null", "null")


def _no_records(left: object, right: object) -> list[Record]:
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
