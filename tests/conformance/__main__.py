"""``python -m tests.conformance [--engine local|spark] FILE...``: run conformance files, and say what differed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.conformance import runner
from tests.conformance.engines import ENGINES


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files, as :func:`tests.conformance.runner.main` says."""
    return runner.main(
        "tests.conformance",
        "Run window conformance files and say what differed.",
        arguments,
        ENGINES,
        lambda engine, files: runner.run_files(files, lambda cases: runner.run_cases(cases, engine)),
    )


if __name__ == "__main__":
    sys.exit(main())
