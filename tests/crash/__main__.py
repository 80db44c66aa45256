"""Kills a pipeline with SIGKILL at random moments, starts it again, and compares what it wrote in the end."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

from tests.crash.pipeline import PLANS, Total, build, write_input
from windrow import Pipeline, from_source
from windrow.sinks import CollectSink
from windrow.sources import JsonFileSource, ParquetFileSource
from windrow_runtime.local import LocalRunner

ROOT = Path(__file__).parents[2]
_FILES_A_KILL = 16  # more than a start gets through before it is killed
_PATIENCE = (6.0, 13.0)  # seconds: the first batch comes some six seconds after the start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=3, help="how often to kill (default 3)")
    parser.add_argument("--seed", type=int, default=1, help="chooses the moments (default 1)")
    parser.add_argument("--plan", choices=PLANS, default=PLANS[0], help="the pipeline (default %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="windrow-crash-") as folder:
        return run(Path(folder), options.kills, random.Random(options.seed), options.plan)


def run(folder: Path, kills: int, chance: random.Random, plan: str = PLANS[0]) -> int:
    """Run undisturbed in the interpreter, then on Spark with kills.

    Returns:
        0 if the outputs are equal, else 1.
    """
    source = folder / "in"
    write_input(source, files=_FILES_A_KILL * (kills + 1))
    LocalRunner().run(build(source, folder / "undisturbed", plan))
    expected = totals(folder / "undisturbed")
    killed = 0
    starts = 0
    while True:
        starts += 1
        patience = chance.uniform(*_PATIENCE) if killed < kills else None
        code = attempt(folder, plan, patience)
        if code == -signal.SIGKILL:
            killed += 1
        elif code != 0:
            print(f"start {starts} failed with exit code {code}")
            return 1
        else:
            break
    found = totals(folder / "out")
    missing, unexpected = expected - found, found - expected
    for total in missing:
        print(f"missing: {total}")
    for total in unexpected:
        print(f"unexpected: {total}")
    if killed < kills:
        print(f"the pipeline came to its end after {killed} of {kills} kills; it needs more input")
        return 1
    equal = not missing and not unexpected
    verdict = "equal to" if equal else "different from"
    print(f"{killed} kills, {starts} starts: {sum(found.values())} records, {verdict} the undisturbed run's")
    return 0 if equal else 1


def attempt(folder: Path, plan: str, patience: float | None) -> int:
    """Start the pipeline, and kill it after so many seconds, with all its processes.

    Returns:
        The exit code; -9 if it was killed.
    """
    arguments = [str(folder / name) for name in ("in", "out", "checkpoint")]
    with (folder / "log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.child", *arguments, plan],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            return child.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return child.wait()


def totals(output: Path) -> Counter[tuple[str, Total]]:
    """Everything that was written, with where that was."""
    sessions, seconds = CollectSink[Total](), CollectSink[Total]()
    result = LocalRunner().run(
        Pipeline(
            "read",
            from_source(JsonFileSource(output / "sessions", Total)).sink_to(sessions),
            from_source(ParquetFileSource(output / "seconds", Total)).sink_to(seconds),
        )
    )
    found = Counter(("file", total) for sink in (sessions, seconds) for total in result.collected(sink))
    with closing(sqlite3.connect(output / "totals.db")) as connection:
        for table in ("sessions", "latest"):
            rows = connection.execute(f"SELECT kind, key, value FROM {table}")
            found.update((table, Total(*row)) for row in rows)
    return found


if __name__ == "__main__":
    sys.exit(main())
