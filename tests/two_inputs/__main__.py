"""``python -m tests.two_inputs [--engine local|spark] FILE...``: run files of two inputs, and say what differed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.conformance.engines import EngineUnavailableError
from tests.conformance.runner import report, run_files
from tests.two_inputs.engines import ENGINES
from tests.two_inputs.runner import run_cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files.

    Returns:
        0 if no case failed, 1 if one did, 2 if the engine is not to be had.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.two_inputs", description="Run conformance files of two inputs and say what differed."
    )
    parser.add_argument("--engine", choices=sorted(ENGINES), default="local", help="what runs the pipelines")
    parser.add_argument("files", metavar="FILE", nargs="+", help="a file of two inputs")
    options = parser.parse_args(arguments)
    try:
        with ENGINES[options.engine]() as engine:
            outcomes = run_files(options.files, lambda cases: run_cases(cases, engine))
    except EngineUnavailableError as error:
        print(error, file=sys.stderr)
        return 2
    return report(outcomes)


if __name__ == "__main__":
    sys.exit(main())
