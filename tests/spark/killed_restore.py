"""Gives a checkpoint other partitions in a process of its own, which a test kills: ``FOLDER PARTITIONS``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.test_columns_go_on import Plan
from windrow_runtime.savepoint import rescale

if __name__ == "__main__":
    folder, partitions = Path(sys.argv[1]), int(sys.argv[2])
    rescale(folder / "checkpoint", Plan(folder / "in", out=None).pipeline, partitions=partitions)
