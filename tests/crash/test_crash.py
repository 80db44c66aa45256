"""A pipeline that is killed loses and doubles nothing.

By hand: ``python -m tests.crash --kills 20``, and with all files elsewhere ``--plan parquet --on s3`` or ``hdfs``.
"""

from __future__ import annotations

import random
from pathlib import Path
from uuid import uuid4

import pytest

from tests.budget import for_a_night
from tests.crash.__main__ import run
from tests.crash.elsewhere import Elsewhere
from tests.support.thorough import thorough


@pytest.mark.program
def test_a_killed_pipeline_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kills = for_a_night(5, 1)
    code = run(tmp_path, kills, random.Random(1))
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.splitlines()[-2].startswith(f"{kills} kills, {kills} of them after new batches, ")


@pytest.mark.timeout(900)  # each starts Spark several times
@pytest.mark.program
@pytest.mark.parametrize(
    ("system", "plan"),
    [
        thorough("s3", "partitions", reason="the other case kills one, tests/elsewhere/test_elsewhere.py runs on S3"),
        ("hdfs", "parquet"),
    ],
)
def test_a_killed_pipeline_goes_on_elsewhere(
    system: str, plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(system)  # skips where there is none
    kills = for_a_night(5, 1)
    with Elsewhere.opened(system, f"crash-{uuid4().hex[:8]}") as elsewhere:
        code = run(tmp_path, kills, random.Random(1), plan, elsewhere)
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.splitlines()[-2].startswith(f"{kills} kills, {kills} of them after new batches, ")
