"""A stream that is killed around the switch from its history to its topic loses and doubles nothing.

By hand: ``python -m tests.crash.hybrid --kills 20``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.budget import for_a_night
from tests.crash.hybrid import run


@pytest.mark.program
def test_a_stream_that_is_killed_at_its_switch_reads_each_record_once(
    kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("confluent_kafka")
    chance = random.Random(1)
    streams, kills = for_a_night((6, 2), (1, 1))
    near = [run(kafka, tmp_path / str(number), kills, chance, made=number % 2 == 1) for number in range(streams)]
    assert min(near) >= 0, capsys.readouterr().out
    assert max(near) > 0
