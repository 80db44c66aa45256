"""A pipeline that is killed loses and doubles nothing. By hand: ``python -m tests.crash --kills 20``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.__main__ import run


@pytest.mark.program
def test_a_killed_pipeline_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(tmp_path, 2, random.Random(1))
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.splitlines()[-1].startswith("2 kills, 2 of them after new batches, ")
