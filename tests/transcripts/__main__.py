"""``python -m tests.transcripts [--engine local|spark] FILE...``: run transcripts of triggers; say what differed."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
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
    with ENGINES[options.engine]() as engine:
        outcomes = [outcome for path in options.files for outcome in run_file(path, engine)]
    failed = [outcome for outcome in outcomes if outcome.difference is not None]
    for outcome in failed:
        print(f"FAILED {outcome.file}: {outcome.name}", outcome.difference, "", sep="\n")
    not_run = Counter(outcome.not_run for outcome in outcomes if outcome.not_run is not None)
    for reason, count in not_run.items():
        print(f"not run, {count}: {reason}")
    print(f"{len(outcomes) - len(failed) - not_run.total()} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
