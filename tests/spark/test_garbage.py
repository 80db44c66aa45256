"""What the collector passes over in a worker."""

from __future__ import annotations

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


def frozen_objects() -> list[int]:
    run = subprocess.run([sys.executable, "-c", COUNT_FROZEN], capture_output=True, text=True, check=True)
    return list(map(int, run.stdout.split()))


def test_a_worker_alone_freezes_its_modules_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    first, second, third, fourth = frozen_objects()
    assert first == 0
    assert second > 1000
    # What is made later is looked at.
    assert third <= second
    assert fourth <= second
    monkeypatch.delenv("SPARK_REUSE_WORKER")
    assert frozen_objects() == [0, 0, 0, 0]
