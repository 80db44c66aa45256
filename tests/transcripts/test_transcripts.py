"""The transcripts of triggers, and how wrong ones are rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.transcripts.__main__ import main
from tests.transcripts.local import local_engine
from tests.transcripts.running import run_file, run_transcript

_FOLDER = Path(__file__).parent
_FILES = sorted(_FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", _FILES, ids=[path.stem for path in _FILES])
def test_all_cases_of_a_file_pass_on_the_interpreter(path: Path) -> None:
    outcomes = list(run_file(path, local_engine))
    assert len(outcomes) >= 3
    assert [outcome for outcome in outcomes if not outcome.passed] == []


def _case(**changes: Any) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"op": "input", "timestamps": [1, 2]},
        {"op": "watermark", "to": 10},
        {"op": "expect", "panes": [{"window": [0, 10], "values": [1, 2], "index": 0, "timing": ["ON_TIME"]}]},
    ]
    return {
        "name": "case",
        "window_fn": {"kind": "fixed", "size": 10},
        "trigger": {"type": "default"},
        "accumulation_mode": "accumulating",
        "allowed_lateness": 0,
        "steps": steps,
        **changes,
    }


@pytest.mark.parametrize(
    "expected",
    [
        {"window": [0, 10], "values": [1]},
        {"window": [0, 20], "values": [1, 2]},
        {"window": [0, 10], "values": [1, 2], "index": 1},
        {"window": [0, 10], "values": [1, 2], "timing": ["EARLY", "LATE"]},
        {"window": [0, 10], "values": [1, 2], "timestamp": 3},
        {"window": [0, 10], "values": [1, 2], "final": False},
    ],
)
def test_a_transcript_that_expects_something_else_is_rejected(expected: dict[str, Any]) -> None:
    case = _case()
    case["steps"][2] = {"op": "expect", "panes": [expected]}
    with pytest.raises(AssertionError, match=r"expected .* came Pane"):
        run_transcript(case, local_engine)


def test_a_transcript_that_leaves_panes_out_is_rejected() -> None:
    case = _case()
    del case["steps"][2]
    with pytest.raises(AssertionError, match="nobody expects, before the end"):
        run_transcript(case, local_engine)


def test_a_right_transcript_that_must_fail_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="must be rejected, unmatched_pane"):
        run_transcript(_case(must_fail="unmatched_pane"), local_engine)


def test_triggers_are_asked_once_for_each_step_where_a_case_says_so() -> None:
    case = _case(trigger={"type": "repeatedly", "of": {"type": "after_count", "n": 2}}, firing="per_step")
    case["steps"] = [
        {"op": "input", "timestamps": [1, 2, 3]},
        {"op": "expect", "panes": [{"window": [0, 10], "values": [1, 2, 3], "timing": "EARLY"}]},
    ]
    run_transcript(case, local_engine)


def test_the_command_counts_what_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = _case(must_fail="unexpected_pane")
    path = tmp_path / "some.json"
    path.write_text(json.dumps({"format": "trigger-transcripts/1", "cases": [_case(), wrong]}))
    assert main([str(path)]) == 1
    assert capsys.readouterr().out.endswith("1 passed, 1 failed, 0 skipped\n")
