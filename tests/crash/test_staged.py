"""A stream that is killed while its rows are staged in PostgreSQL loses and doubles none.

By hand: ``python -m tests.crash.staged --kills 20``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.staged import run


@pytest.mark.program
@pytest.mark.thorough(reason="tests/outputs/test_staged_rows.py has what a kill leaves; this kills whole programs")
def test_a_stream_that_is_killed_while_it_stages_rows_writes_each_once(
    postgres: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    within = run(postgres, tmp_path, 3, random.Random(1))
    assert within >= 0, capsys.readouterr().out
    assert within > 0
