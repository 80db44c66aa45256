"""Every case of the files beside this one, on the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.cases import Case, load
from tests.conformance.local_engine import LocalEngine
from tests.conformance.runner import run_cases

CASES = [case for path in sorted(Path(__file__).parent.glob("*.json")) for case in load(str(path))]


@pytest.mark.parametrize("explains", [False, True], ids=["", "with journals"])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case: Case, explains: bool) -> None:
    (outcome,) = run_cases([case], LocalEngine(explains=explains))
    assert outcome.passed, "\n".join((outcome.name, *outcome.differences))
