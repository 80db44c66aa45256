"""The runner itself: every check of the format fails where it should, and nothing unknown is passed over."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.__main__ import main
from tests.conformance.cases import Case, Fields
from tests.conformance.local_engine import LocalEngine
from tests.conformance.runner import run_cases

# Any in this module: cases as JSON, to be changed at will.
PIPELINE: dict[str, Any] = {
    "keyed": True,
    "assigner": {"type": "scripted", "event_time": True, "merging": True},
    "trigger": {"type": "scripted", "on_event_time": {"default": "fire"}},
    "evictor": None,
    "allowed_lateness_ms": 0,
    "side_output_late": True,
    "function": {"type": "process_list", "with_window": True},
}
ELEMENT = {"op": "element", "key": "k", "value": 1, "ts": 1, "windows": [[0, 10]]}
FIRING = {
    "op": "watermark",
    "ts": 9,
    "expect": {
        "emits": [{"key": "k", "value": [1.0], "ts": 9, "window": [0, 10]}],
        "state": {"contents": 0, "event_timers": 0, "processing_timers": 0},
        "calls": {"on_event_time": [[9, [0, 10]]], "clear": [[0, 10]], "on_merge": [], "on_element": []},
    },
    "expect_watermark": 9,
}
LATE = {**ELEMENT, "expect": {"late": [{"key": "k", "value": 1, "ts": 1}]}}
BEHIND = {**ELEMENT, "windows": [[0, 30]], "expect": {"calls": {"on_element": [[0, 30]], "on_event_time": []}}}
ERROR = {"op": "element", "key": "k", "value": 1, "ts": None, "windows": [], "expect": {"error": "invalid_argument"}}
GOOD: dict[str, Any] = {
    "name": "good",
    "kind": "operator",
    "origin": "here",
    "pipeline": PIPELINE,
    "steps": [ELEMENT, FIRING, LATE, BEHIND, ERROR],
}


INTERSECTS = {"name": "they touch", "kind": "intersects", "origin": "here", "pairs": [[[0, 1], [1, 2], True]]}


def differences(body: dict[str, Any]) -> str:
    case = Case.of("file.json", 1, Fields(body, "case"))
    (outcome,) = run_cases([case], LocalEngine())
    return "\n".join(outcome.differences)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good case with one value replaced, or a field added."""
    body = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    place: Any = body
    for name in parents:
        place = place[int(name) if name.isdigit() else name]
    place[int(last) if last.isdigit() else last] = value
    return body


def test_the_good_case_passes() -> None:
    assert differences(GOOD) == ""


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("steps.1.expect.emits.0.value", [2], "step 2, watermark at 9: emits: expected"),
        ("steps.1.expect.emits.0.key", "other", "emits: expected"),
        ("steps.1.expect.emits.0.ts", 10, "emits: expected"),
        ("steps.1.expect.emits.0.window", [0, 11], "emits: expected"),
        ("steps.1.expect.emits", [], 'too many: [{"key": "k", "ts": 9, "value": [1], "window": [0, 10]}]'),
        ("steps.0.expect", {"emits": [{"key": "k", "value": 1, "ts": 1}]}, "missing: ["),
        ("steps.0.expect", {"side": [{"value": 1, "ts": 1}]}, "side: expected"),
        ("steps.0.expect", {"dropped": 1}, "dropped: expected 1, got 0"),
        ("steps.0.expect", {"error": "invalid_argument"}, "error: expected invalid_argument, got none"),
        ("steps.2.expect", {}, "late: expected [], got"),
        ("steps.1.expect.state.contents", 1, "contents: expected 1, got 0"),
        ("steps.1.expect.state.event_timers", 1, "event_timers: expected 1, got 0"),
        ("steps.1.expect.state.processing_timers", 1, "processing_timers: expected 1, got 0"),
        ("steps.1.expect.calls.on_event_time", [], "calls of on_event_time: expected"),
        ("steps.1.expect.calls.clear", [], "calls of clear: expected"),
        ("steps.1.expect.calls.on_merge", [[0, 1]], "calls of on_merge: expected"),
        ("steps.3.expect.calls.on_element", [], "calls of on_element: expected"),
        ("steps.1.expect_watermark", 10, "watermark downstream: expected 10, got 9"),
        ("steps.4.expect.error", "unsupported_operation", "expected unsupported_operation, got invalid_arg"),
        ("steps.4.expect", {}, "error: expected none, got invalid_argument: an element without a timestamp"),
    ],
)
def test_a_wrong_expectation_fails(path: str, value: Any, message: str) -> None:
    assert message in differences(changed(path, value))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("kind", "new", "unknown kind 'new'"),
        ("steps.0.op", "new", "unknown op 'new'"),
        ("steps.0.new", 1, "unknown 'new'"),
        ("steps.1.expect.new", 1, "unknown 'new'"),
        ("steps.1.expect.state.new", 1, "unknown 'new'"),
        ("steps.1.expect.calls.new", [], "unknown 'new'"),
        ("steps.0.trigger", {"new": []}, "unknown 'new'"),
        ("steps.0.ts", "soon", "'ts' must be an integer"),
        ("pipeline.new", 1, "unknown 'new'"),
        ("pipeline.assigner.type", "new", "unknown assigner 'new'"),
        ("pipeline.assigner.new", 1, "unknown 'new'"),
        ("pipeline.trigger.type", "new", "unknown trigger 'new'"),
        ("pipeline.trigger.on_element", {"result": "new"}, "unknown answer 'new'"),
        ("pipeline.evictor", {"type": "new"}, "unknown evictor 'new'"),
        ("pipeline.function", {"type": "new"}, "unknown function 'new'"),
        ("pipeline.keyed", 1, "'keyed' must be true or false"),
    ],
)
def test_what_is_not_known_fails(path: str, value: Any, message: str) -> None:
    assert message in differences(changed(path, value))


SESSION = {"type": "event_time_session", "gap_ms": 3}
TUMBLING = {"type": "tumbling_event_time", "size_ms": 5, "offset_ms": 0}


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("assign", {"assigner": TUMBLING, "calls": [{"ts": 1, "windows": [[1, 6]]}]},
         "windows: expected [[1, 6]], got [[0, 5]]"),
        ("assign", {"assigner": TUMBLING, "calls": [{"ts": None, "windows": []}]},
         "error: expected none, got invalid_argument"),
        ("merge", {"assigner": SESSION, "windows": [[0, 1], [1, 2]], "expect": []},
         'groups: expected [], got [{"from": [[0, 1], [1, 2]], "into": [0, 2]}]'),
        ("merge", {"assigner": TUMBLING, "windows": [], "expect": []}, "does not merge"),
        ("invalid", {"assigners": [TUMBLING], "error": "invalid_argument"},
         'assigner 1: error: expected "invalid_argument", got "none"'),
        ("properties", {"assigner": TUMBLING, "expect": {"event_time": False}}, "event_time: expected false, got true"),
        ("properties", {"assigner": TUMBLING, "expect": {"default_trigger": "never"}},
         'default_trigger: expected "never", got "event_time"'),
        ("window_start", {"size_ms": 5, "offset_ms": 0, "points": [[-1, 0]]},
         "start of the window of -1: expected 0, got -5"),
        ("intersects", {"pairs": [[[0, 1], [1, 2], False]]}, "[1, 2] and [0, 1]: expected false, got true"),
        ("stagger", {"mode": "natural", "size_ms": 5, "processing_time": 7, "expect": 3},
         "shift: expected [3], got [2]"),
        ("stagger", {"mode": "random", "size_ms": 5, "processing_time": 0, "expect_range": [5, 9]},
         "shifts outside [5, 9]"),
    ],
)  # fmt: skip
def test_a_wrong_expectation_of_a_part_fails(kind: str, body: dict[str, Any], message: str) -> None:
    assert message in differences({"name": "part", "kind": kind, "origin": "here", **body})


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"op": "element", "value": 1, "ts": 1, "window": [0, 5], "expect": {"result": "fire"}}, "result: "),
        ({"op": "watermark", "ts": 5, "expect": {"fired": [[[0, 9], "fire"]]}}, "fired: expected"),
        ({"op": "watermark", "ts": 5, "expect": {"fires_in": [[0, 9]]}}, "fires_in: expected"),
        ({"op": "watermark", "ts": 5, "expect": {"timers": {"event": [[[0, 9], 8]]}}}, "event timers: "),
        ({"op": "watermark", "ts": 5, "expect": {"timers": {"processing": [[[0, 9], 8]]}}}, "processing timers"),
        ({"op": "watermark", "ts": 5, "expect": {"state_windows": [[0, 9]]}}, "state_windows: expected"),
        ({"op": "watermark", "ts": 5, "expect": {"new": 1}}, "unknown 'new'"),
        ({"op": "new"}, "unknown op 'new'"),
    ],
)
def test_a_wrong_expectation_of_a_trigger_fails(step: dict[str, Any], message: str) -> None:
    body = {"name": "t", "kind": "trigger", "trigger": {"type": "event_time"}, "steps": [step]}
    assert message in differences(body)


ADD = {"op": "add", "window": [2, 4]}


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({**ADD, "result": [2, 4], "merged": None}, "result: expected [2, 4], got [0, 4]"),
        ({**ADD, "result": [0, 4], "merged": None}, "merged: expected [], got"),
        ({**ADD, "result": [0, 4], "merged": {"into": [0, 4], "from": [[0, 3]]}}, '"from": [[0, 3]]'),
        ({"op": "retire", "window": [2, 4]}, "expected known, got unknown"),
        ({"op": "known", "windows": []}, "windows: expected [], got [[0, 2]]"),
        ({"op": "state_window", "window": [0, 2], "one_of": None}, "known: expected false, got true"),
        ({"op": "new"}, "unknown op 'new'"),
    ],
)
def test_a_wrong_expectation_of_live_windows_fails(step: dict[str, Any], message: str) -> None:
    first = {"op": "add", "window": [0, 2], "result": [0, 2], "merged": None}
    body = {"name": "m", "kind": "merging_window_set", "assigner": SESSION, "steps": [first, step]}
    assert message in differences(body)


def test_the_command_reports_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = tmp_path / "good.json"
    good.write_text(json.dumps({"suite": "s", "cases": [GOOD]}), encoding="utf-8")
    assert main([str(good)]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed, 0 skipped\n"

    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({"suite": "s", "cases": [changed("kind", "new"), GOOD]}), encoding="utf-8")
    assert main(["--engine", "local", str(bad), str(tmp_path / "absent.json")]) == 1
    out = capsys.readouterr().out
    assert f"FAILED {bad}: good\n  not understood: unknown kind 'new'\n" in out
    assert "absent.json: the file itself\n  the file cannot be read: " in out
    assert out.endswith("1 passed, 2 failed, 0 skipped\n")


def test_an_engine_that_is_not_there_is_said_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tests.conformance.spark_engine", None)
    assert main(["--engine", "spark", "any.json"]) == 2
    assert "the Spark engine needs PySpark: " in capsys.readouterr().err


def test_skipped_cases_are_counted_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"suite": "s", "cases": [GOOD, INTERSECTS]}), encoding="utf-8")
    monkeypatch.setattr(LocalEngine, "tells_calls", False)
    assert main([str(file)]) == 0
    reason = "it tests a part of the language or of the operator, without an engine; --engine local runs it"
    assert capsys.readouterr().out == f"skipped 1: {reason}\n1 passed, 0 failed, 1 skipped\n"
