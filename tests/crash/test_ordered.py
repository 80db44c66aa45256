"""A pipeline that reads files in an order of one's own, and is killed, reads each of them once and in its turn.

By hand: ``python -m tests.crash.ordered --kills 20``, and with the checkpoint elsewhere ``--on s3`` or ``hdfs``.
"""

from __future__ import annotations

import random
from pathlib import Path
from uuid import uuid4

import pytest

from tests.budget import for_a_night
from tests.crash.elsewhere import Elsewhere, Here
from tests.crash.ordered import run
from tests.support.thorough import thorough


@pytest.mark.timeout(900)  # each starts Spark several times
@pytest.mark.program
@pytest.mark.parametrize(
    "system",
    [
        thorough(None, reason="test_hybrid.py kills one that reads files by their names"),
        thorough("s3", reason="test_hybrid.py kills one, and tests/elsewhere reads in order on S3"),
        thorough("hdfs", reason="test_crash.py kills on HDFS"),
    ],
)
def test_a_killed_pipeline_reads_each_file_in_its_turn(
    system: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    kills, chance = for_a_night(5, 1), random.Random(1)
    if system is None:
        code = run(tmp_path, Here(str(tmp_path)), kills, chance)
    else:
        request.getfixturevalue(system)  # skips where there is none
        with Elsewhere.opened(system, f"ordered-{uuid4().hex[:8]}") as elsewhere:
            code = run(tmp_path, elsewhere, kills, chance)
    assert code == 0, capsys.readouterr().out
