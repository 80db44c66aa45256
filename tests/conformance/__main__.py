"""``python -m tests.conformance [--engine local|spark] FILE...``: run conformance files, and say what differed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.conformance.engines import ENGINES, EngineUnavailableError
from tests.conformance.runner import run_file


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
    try:
        engine = ENGINES[options.engine]()
    except EngineUnavailableError as error:
        print(error, file=sys.stderr)
        return 2
    passed = failed = 0
    for path in options.files:
        for outcome in run_file(path, engine):
            if outcome.passed:
                passed += 1
                continue
            failed += 1
            print(f"FAILED {outcome.file}: {outcome.name}", *outcome.differences, "", sep="\n")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
