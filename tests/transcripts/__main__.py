"""``python -m tests.transcripts [--engine local|spark] FILE...``: run transcripts of triggers; say what differed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.transcripts.engines import ENGINES
from tests.transcripts.running import run_file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files.

    Returns:
        0 if no case failed, else 1.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.transcripts", description="Run transcripts of triggers and say what differed."
    )
    parser.add_argument("--engine", choices=sorted(ENGINES), default="local", help="what runs the pipelines")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="a file of transcripts")
    options = parser.parse_args(arguments)
    outcomes = [outcome for path in options.files for outcome in run_file(path, ENGINES[options.engine])]
    failed = [outcome for outcome in outcomes if outcome.difference is not None]
    for outcome in failed:
        print(f"FAILED {outcome.file}: {outcome.name}", outcome.difference, "", sep="\n")
    print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
