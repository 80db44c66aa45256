"""What the collector passes over in a worker."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COUNT_FROZEN = """
import gc
from windrow_spark.worker import infrequent_gc

for _ in range(4):
    with infrequent_gc():
        print(gc.get_freeze_count())
    kept = [[] for _ in range(1000)]
"""


def _counts(environment: dict[str, str]) -> list[int]:
    run = subprocess.run(
        [sys.executable, "-c", COUNT_FROZEN], env=environment, capture_output=True, text=True, check=True
    )
    return list(map(int, run.stdout.split()))


def test_a_worker_freezes_its_modules_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    first, second, third, fourth = _counts(dict(os.environ))
    assert first == 0
    assert second > 1000
    # What is made later is looked at.
    assert third <= second
    assert fourth <= second


def test_other_processes_keep_all_their_garbage_in_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    assert _counts(dict(os.environ)) == [0, 0, 0, 0]
