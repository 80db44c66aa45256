"""A pipeline that is killed loses and doubles nothing.

By hand: ``python -m tests.crash --kills 20``, and with all files elsewhere ``--plan parquet --on s3`` or ``hdfs``.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from tests.budget import for_a_night
from tests.crash.__main__ import run
from tests.crash.elsewhere import Elsewhere
from tests.support.thorough import thorough


@pytest.mark.timeout(900)  # each starts Spark several times
@pytest.mark.program
@pytest.mark.parametrize(
    ("system", "plan"),
    [
        (None, "one"),
        thorough("s3", "partitions", reason="the other cases kill one, tests/elsewhere/test_elsewhere.py runs on S3"),
        ("hdfs", "parquet"),
    ],
)
def test_a_killed_pipeline_goes_on_where_it_was(
    system: str | None, plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    kills = for_a_night(5, 1)
    with ExitStack() as stack:
        elsewhere = None
        if system is not None:
            request.getfixturevalue(system)  # skips where there is none
            elsewhere = stack.enter_context(Elsewhere.opened(system, f"crash-{uuid4().hex[:8]}"))
        code = run(tmp_path, kills, random.Random(1), plan, elsewhere)
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.splitlines()[-2].startswith(f"{kills} kills, {kills} of them after new batches, ")
