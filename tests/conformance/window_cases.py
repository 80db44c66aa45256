"""Cases of the kinds that look at assigners and windows on their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.conformance.assigners import build_assigner, stagger_of
from tests.conformance.cases import AnyWindow, Case, CaseError, Fields, Json, encode, to_window, window_json
from tests.conformance.compare import Differences, error_kind
from tests.conformance.elements import Element
from tests.conformance.triggers import trigger_name
from windrow.errors import WindrowError
from windrow.time import MIN_TIMESTAMP
from windrow.windows import MergingWindowAssigner, TimeWindow, WindowAssigner, window_start
from windrow_runtime.testing import assign_windows

_DRAWS = 200


def run_assign(case: Case, differences: Differences) -> None:
    """The windows that an assigner gives elements."""
    assigner = build_assigner(case.body.fields("assigner"))
    calls = case.body.all_fields("calls")
    case.body.done()
    for number, call in enumerate(calls, start=1):
        got, error = _assign(assigner, call)
        expected = call.text("error", "none")
        if error != expected:
            differences.add(f"call {number}: error", expected, error)
        differences.same_set(f"call {number}: windows", call.items("windows", []), got)
        call.done()


# Any in this module: assigners give windows of every type.
def _assign(assigner: WindowAssigner[Element, Any], call: Fields) -> tuple[list[Json], str]:
    key, value = (call.raw(name) if name in call else None for name in ("key", "value"))
    timestamp, clock = call.integer_or_none("ts"), call.integer("processing_time", MIN_TIMESTAMP)
    try:
        windows = assign_windows(assigner, Element.of(key, value), timestamp, processing_time=clock)
    except WindrowError as error:
        return [], error_kind(error)
    return [window_json(window) for window in windows], "none"


def run_merge(case: Case, differences: Differences) -> None:
    """The groups of windows that an assigner merges."""
    assigner = build_assigner(case.body.fields("assigner"))
    if not isinstance(assigner, MergingWindowAssigner):
        raise CaseError("the assigner does not merge")
    windows = case.body.windows("windows")
    expected = [_group(group.windows("from"), group.window("into")) for group in case.body.all_fields("expect")]
    case.body.done()
    got = [_group(merge.sources, merge.result) for merge in assigner.merge_windows(windows)]
    differences.same_items("groups", expected, got)


def _group(sources: Iterable[AnyWindow], into: AnyWindow) -> Json:
    return {"from": sorted(map(window_json, set(sources)), key=encode), "into": window_json(into)}


def run_invalid(case: Case, differences: Differences) -> None:
    """Assigners that cannot be built."""
    expected = case.body.text("error")
    assigners = case.body.all_fields("assigners")
    case.body.done()
    for number, fields in enumerate(assigners, start=1):
        got = "none"
        try:
            build_assigner(fields)
        except WindrowError as error:
            got = error_kind(error)
        differences.equal(f"assigner {number}: error", expected, got)


def run_properties(case: Case, differences: Differences) -> None:
    """The time domain and the default trigger of an assigner."""
    assigner = build_assigner(case.body.fields("assigner"))
    expect = case.body.fields("expect")
    case.body.done()
    if "event_time" in expect:
        differences.equal("event_time", expect.flag("event_time"), assigner.is_event_time)
    if "default_trigger" in expect:
        name = trigger_name(assigner.default_trigger())
        differences.equal("default_trigger", expect.text("default_trigger"), name)
    expect.done()


def run_window_start(case: Case, differences: Differences) -> None:
    """The start of the window that holds a timestamp."""
    size = case.body.integer("size_ms")
    offset = case.body.integer("offset_ms", 0)
    points = case.body.items("points")
    case.body.done()
    for point in points:
        timestamp, start = point if isinstance(point, list) and len(point) == 2 else (None, None)
        if not isinstance(timestamp, int):
            raise CaseError(f"a point is [ts, start], not {encode(point)}")
        differences.equal(f"start of the window of {timestamp}", start, window_start(timestamp, offset, size))


def run_intersects(case: Case, differences: Differences) -> None:
    """Whether windows overlap or touch, asked both ways."""
    pairs = case.body.items("pairs")
    case.body.done()
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 3:
            raise CaseError(f"a pair is [a, b, answer], not {encode(pair)}")
        a, b = to_window(pair[0]), to_window(pair[1])
        if not isinstance(a, TimeWindow) or not isinstance(b, TimeWindow):
            raise CaseError("only windows of time intersect")
        differences.equal(f"{encode(pair[0])} and {encode(pair[1])}", pair[2], a.intersects(b))
        differences.equal(f"{encode(pair[1])} and {encode(pair[0])}", pair[2], b.intersects(a))


def run_stagger(case: Case, differences: Differences) -> None:
    """The shift of staggered windows."""
    mode = case.body.text("mode")
    size = case.body.integer("size_ms")
    now = case.body.integer("processing_time", MIN_TIMESTAMP)
    expected = case.body.integer_or_none("expect")
    bounds = case.body.items("expect_range", [])
    case.body.done()
    stagger = stagger_of(mode)
    shifts = [stagger.offset(now, size) for _ in range(_DRAWS)]
    if expected is not None:
        differences.same_set("shift", [expected], shifts)
    if bounds:
        low, high = bounds
        if not isinstance(low, int) or not isinstance(high, int):
            raise CaseError(f"a range is [low, high), not {encode(bounds)}")
        outside: list[Json] = [shift for shift in shifts if not low <= shift < high]
        differences.same_set(f"shifts outside {encode(bounds)}", [], outside)
