"""``python -m tests.conformance [--engine local|spark] FILE...``: run conformance files, and say what differed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import runner
from tests.conformance.cases import load
from tests.conformance.engines import ENGINES, Engine
from tests.conformance.skips import SKIPS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files, as :func:`tests.conformance.runner.main` says."""
    return runner.main(
        "tests.conformance", "Run window conformance files and say what differed.", arguments, ENGINES, _run
    )


def _run(engine: Engine, files: Sequence[str]) -> list[runner.Outcome]:
    skips = SKIPS["local" if engine.tells_calls else "spark"]
    cases = (case for path in Path(__file__).parent.glob("*.json") for case in load(str(path)))
    skips.check({"operator", *runner.PARTS}, cases)
    return runner.run_files(files, lambda cases: runner.run_cases(cases, engine, skips.reason))


if __name__ == "__main__":
    sys.exit(main())
