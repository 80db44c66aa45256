"""``python -m tests.patterns [--engine local|spark] FILE...``: run files of patterns, and say what differed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.conformance import runner
from tests.conformance.engines import ENGINES
from tests.patterns.cases import run_cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files, as :func:`tests.conformance.runner.main` says."""
    return runner.main(
        "tests.patterns",
        "Run conformance files of patterns and say what differed.",
        arguments,
        ENGINES,
        lambda engine, files: runner.run_files(files, lambda cases: run_cases(cases, engine)),
    )


if __name__ == "__main__":
    sys.exit(main())
