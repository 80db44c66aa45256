"""The process that is killed: ``python -m tests.crash.child INPUT OUTPUT CHECKPOINT PLAN``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.crash.pipeline import build
from windrow_runtime.spark import SparkRunner

if __name__ == "__main__":
    source, output, checkpoint = map(Path, sys.argv[1:4])
    SparkRunner(checkpoint=checkpoint).run(build(source, output, sys.argv[4]))
