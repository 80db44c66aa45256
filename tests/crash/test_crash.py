"""A pipeline that is killed loses and doubles nothing. By hand: ``python -m tests.crash --kills 20``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.budget import for_a_night
from tests.crash.__main__ import run


@pytest.mark.program
def test_a_killed_pipeline_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kills = for_a_night(5, 1)
    code = run(tmp_path, kills, random.Random(1))
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.splitlines()[-1].startswith(f"{kills} kills, {kills} of them after new batches, ")
