"""Topics lose and double nothing where parts are killed. By hand: ``python -m tests.kafka.kills --kills 20``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.budget import for_a_night
from tests.kafka.kills import KINDS, run


@pytest.mark.program
@pytest.mark.timeout(1200)
def test_what_is_killed_loses_and_doubles_no_record(
    client: None, kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = for_a_night(KINDS, ("worker", "broker", "driver"))
    code = run(tmp_path, len(kinds), random.Random(1), kinds)
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.splitlines()[-1].startswith(f"{len(kinds)} kills (")
