"""``python -m tests.conformance [--engine local|spark] FILE...``: run conformance files, and say what differed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.cases import load
from tests.conformance.engines import ENGINES, EngineUnavailableError
from tests.conformance.runner import PARTS, report, run_cases, run_files
from tests.conformance.skips import SKIPS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files.

    Returns:
        0 if no case failed, 1 if one did, 2 if the engine is not to be had.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description="Run window conformance files and say what differed."
    )
    parser.add_argument("--engine", choices=sorted(ENGINES), default="local", help="what runs the pipelines")
    parser.add_argument("files", metavar="FILE", nargs="+", help="a conformance file")
    options = parser.parse_args(arguments)
    skips = SKIPS[options.engine]
    cases = (case for path in Path(__file__).parent.glob("*.json") for case in load(str(path)))
    skips.check({"operator", *PARTS}, cases)
    try:
        with ENGINES[options.engine]() as engine:
            outcomes = run_files(options.files, lambda cases: run_cases(cases, engine, skips))
    except EngineUnavailableError as error:
        print(error, file=sys.stderr)
        return 2
    return report(outcomes)


if __name__ == "__main__":
    sys.exit(main())
