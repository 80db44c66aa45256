"""``python -m tests.transcripts [--engine local|spark] FILE...``: run transcripts of triggers; say what differed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import runner
from tests.transcripts.engines import ENGINES
from tests.transcripts.running import run_file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files, as :func:`tests.conformance.runner.main` says."""
    return runner.main(
        "tests.transcripts",
        "Run transcripts of triggers and say what differed.",
        arguments,
        ENGINES,
        lambda engine, files: [outcome for file in files for outcome in run_file(Path(file), engine)],
    )


if __name__ == "__main__":
    sys.exit(main())
