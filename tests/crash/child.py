"""The process that is killed: ``python -m tests.crash.child INPUT OUTPUT CHECKPOINT PLAN``, with paths or URLs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from tests.crash.elsewhere import Url
from tests.crash.pipeline import build
from windrow_runtime.spark import SparkRunner
from windrow_spark.run_limits import USUAL_LIMITS


class ImpatientRunner(SparkRunner):
    """A runner that soon takes over what a process has left that was killed."""

    _limits = replace(USUAL_LIMITS, lease_seconds=4)


if __name__ == "__main__":
    source, output, checkpoint = (Url(text) if "://" in text else Path(text) for text in sys.argv[1:4])
    ImpatientRunner(checkpoint=checkpoint).run(build(source, output, sys.argv[4]))
