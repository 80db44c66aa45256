"""The runner itself: every check of the format fails where it should, and nothing unknown is passed over."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.batch_engine import BatchEngine
from tests.conformance.cases import Case, Fields
from tests.conformance.engines import Engine
from tests.conformance.local_engine import LocalEngine
from tests.two_inputs.__main__ import main
from tests.two_inputs.cases import run_cases
from windrow_runtime.local import LocalRunner

# Any in this module: cases as JSON, to be changed at will.
Body = dict[str, Any]


def element(number: int, value: int, at: int, **expect: Any) -> Body:
    return {"op": f"element{number}", "key": "k", "value": value, "ts": at, "expect": expect}


CONNECT: Body = {
    "name": "everything that a script does",
    "kind": "connect",
    "pipeline": {
        "states": {"last": "value", "all": "list"},
        "side_outputs": ["aside"],
        "on_element1": [
            ["append", "all", "$value"],
            ["if", ["less", ["get", "last"], "$value"], [["set", "last", "$value"]], [["set", "last", None]]],
            ["event_timer", ["add", "$ts", 5]],
            ["event_timer", ["add", "$ts", 6]],
            ["delete_event_timer", ["add", "$ts", 6]],
            ["processing_timer", 40],
            ["processing_timer", 41],
            ["delete_processing_timer", 41],
            ["side", "aside", "$key"],
        ],
        "on_element2": [
            ["if", ["is_null", ["get", "last"]], [["emit", "none"]]],
            ["if", ["equal", ["get", "all"], ["list", 3, 2]], [["clear", "all"], ["emit", "$watermark"]]],
        ],
        "on_timer": [["emit", ["list", "$domain", "$processing_time"]], ["side", "aside", "$ts"]],
    },
    "steps": [
        {"op": "processing_time", "ts": 30},
        element(1, 3, 10, side=[{"tag": "aside", "value": "k", "ts": 10}]),
        element(1, 2, 10, side=[{"tag": "aside", "value": "k", "ts": 10}]),
        {"op": "watermark2", "ts": 9},
        {"op": "watermark1", "ts": 20, "expect_watermark": 9},
        element(2, 0, 11, emits=[{"value": "none", "ts": 11}, {"value": 9, "ts": 11}]),
        {
            "op": "watermark2",
            "ts": 15,
            "expect_watermark": 15,
            "expect": {
                "emits": [{"value": ["event", 30], "ts": 15}],
                "side": [{"tag": "aside", "value": 15, "ts": 15}],
            },
        },
        {
            "op": "processing_time",
            "ts": 50,
            "expect": {
                "emits": [{"value": ["processing", 50], "ts": None}],
                "side": [{"tag": "aside", "value": 40, "ts": 40}],
            },
        },
    ],
}
JOIN: Body = {
    "name": "late elements of an interval join",
    "kind": "interval_join",
    "pipeline": {
        "lower_ms": 0,
        "upper_ms": 5,
        "lower_exclusive": False,
        "upper_exclusive": False,
        "side_output_left_late": False,
        "side_output_right_late": True,
    },
    "steps": [
        element(1, 1, 10),
        element(2, 2, 12, emits=[{"key": "k", "value": [1, 2], "ts": 12}]),
        {"op": "watermark1", "ts": 20},
        {"op": "idle2", "expect_watermark": 20, "expect_status": "active"},
        element(1, 3, 19, dropped=1),
        {"op": "active2"},
        element(2, 4, 19, late=[{"input": 2, "key": "k", "value": 4, "ts": 19}]),
    ],
}
FAILS: Body = {
    "name": "rules are changed where they may not be",
    "kind": "broadcast",
    "pipeline": {"broadcast_states": ["rules"], "on_element1": [["remove", "rules", "a"]]},
    "steps": [element(1, 1, 1, error="unsupported_operation")],
}
INVALID: Body = {
    "name": "bounds the wrong way round",
    "kind": "invalid",
    "of": "interval_join",
    "pipeline": {"lower_ms": 2, "upper_ms": 1},
    "error": "invalid_argument",
}

ENGINES: dict[str, Engine] = {
    "harness": LocalEngine(),
    "batches": BatchEngine(lambda _, clock: LocalRunner(clock=clock)),
}


def lines_of(body: Body, engine: str = "harness") -> tuple[str, ...]:
    (outcome,) = run_cases([Case.of("file.json", 1, Fields(body, "case"))], ENGINES[engine])
    return outcome.differences


def changed(body: Body, change: Callable[[Body], object]) -> Body:
    found = copy.deepcopy(body)
    change(found)
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("body", [CONNECT, JOIN, FAILS, INVALID], ids=lambda body: body["name"])
def test_right_cases_pass(body: Body, engine: str) -> None:
    assert lines_of(body, engine) == ()


def expects(number: int, **parts: Any) -> Callable[[Body], None]:
    def change(body: Body) -> None:
        body["steps"][number].setdefault("expect", {}).update(parts)

    return change


def does(*instruction: object) -> Callable[[Body], None]:
    return lambda body: body["pipeline"]["on_timer"].append(list(instruction))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("body", "change", "line"),
    [
        (CONNECT, expects(1, side=[]), "step 2, element1 at 10: side: expected []"),
        (CONNECT, expects(5, emits=[]), "step 6, element2 at 11: emits: expected []"),
        (CONNECT, expects(0, emits=[{"value": 1, "ts": 1}]), "step 1, processing_time at 30: emits: expected [{"),
        (CONNECT, lambda body: body["steps"][4].pop("expect_watermark"), "watermark downstream: expected null, got 9"),
        (CONNECT, lambda body: body["steps"][3].update(expect_watermark=9), "expected 9, got null"),
        (CONNECT, expects(7, error="no_key"), "step 8, processing_time at 50: error: expected no_key, got none"),
        (JOIN, expects(6, late=[]), "step 7, element2 at 19: late: expected []"),
        (JOIN, expects(1, emits=[{"key": "j", "value": [1, 2], "ts": 12}]), "emits: expected"),
        (JOIN, expects(4, dropped=0), "dropped"),
        (FAILS, lambda body: body["steps"][0].pop("expect"), "error: expected none, got unsupported_operation: "),
        (FAILS, expects(0, error="missing_timestamp"), "error: expected missing_timestamp, got unsupported_operation"),
    ],
)
def test_a_wrong_expectation_fails(body: Body, change: Callable[[Body], object], line: str, engine: str) -> None:
    assert line in "\n".join(lines_of(changed(body, change), engine))


@pytest.mark.parametrize(
    ("body", "change", "line"),
    [
        (CONNECT, lambda body: body.update(hint=1), "unknown 'hint'"),
        (CONNECT, lambda body: body["pipeline"].update(late=True), "unknown 'late'"),
        (CONNECT, lambda body: body["steps"][0].update(op="pause"), "unknown op 'pause'"),
        (CONNECT, lambda body: body["steps"][0].update(op="element"), "unknown op 'element'"),
        (CONNECT, lambda body: body["steps"][0].update(op="processing_time1"), "unknown op 'processing_time1'"),
        (CONNECT, expects(1, fires=1), "unknown 'fires'"),
        (CONNECT, expects(1, error="oops"), "an error is one of"),
        (CONNECT, expects(1, error="no_key"), "in the last step"),
        (CONNECT, does("shout", 1), 'unknown instruction ["shout", 1]'),
        (CONNECT, does("emit"), "emit has 1 arguments, not 0"),
        (CONNECT, does("emit", "$now"), "unknown variable '$now'"),
        (CONNECT, does("emit", ["sub", 1, 2]), "unknown expression"),
        (CONNECT, does("if", ["more", 1, 2], []), "unknown condition"),
        (CONNECT, does("emit", ["get", "x"]), "get has an unknown name"),
        (CONNECT, does("append", "last", 1), "append has an unknown"),
        (CONNECT, lambda body: body["pipeline"]["states"].update(last="map"), "unknown kind of state 'map'"),
        (CONNECT, lambda body: body.update(kind="merge_join"), "unknown kind 'merge_join'"),
        (INVALID, lambda body: body.update(of="merge_join"), "unknown operator 'merge_join'"),
        (INVALID, lambda body: body.update(error="no_key"), "unknown error 'no_key'"),
        (INVALID, lambda body: body["pipeline"].update(upper_ms=3), "error: expected"),
        (INVALID, lambda body: body["pipeline"].update(size=3), "unknown 'size'"),
    ],
)
def test_what_is_not_understood_fails(body: Body, change: Callable[[Body], object], line: str) -> None:
    assert line in "\n".join(lines_of(changed(body, change)))


def test_the_end_of_a_run_says_how_it_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = tmp_path / "right.json", tmp_path / "wrong.json"
    right.write_text(json.dumps({"suite": "right", "cases": [CONNECT, INVALID]}))
    wrong.write_text(json.dumps({"suite": "wrong", "cases": [changed(CONNECT, expects(5, emits=[])), JOIN]}))
    assert main([str(right)]) == 0
    assert capsys.readouterr().out == "2 passed, 0 failed, 0 skipped\n"
    assert main([str(wrong), str(tmp_path / "none.json")]) == 1
    told = capsys.readouterr().out
    assert f"FAILED {wrong}: {CONNECT['name']}\n" in told
    assert told.endswith("\n1 passed, 2 failed, 0 skipped\n")
