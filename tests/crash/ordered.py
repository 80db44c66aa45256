"""Kills a pipeline that reads files by their names, one a batch: ``python -m tests.crash.ordered --kills 20 --on s3``.

Its checkpoint lies in a folder of this machine, or on S3 or HDFS. Each file has to be read once, in its turn, and each
batch that runs again has to have the file that it had.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.crash.child import ImpatientRunner
from tests.crash.elsewhere import SYSTEMS, Elsewhere, Here
from tests.crash.starts import await_moment, end_of, log_end, started
from windrow import Pipeline, from_source
from windrow.sinks import FunctionSink
from windrow.sources import TextFileSource

_FILES = 12  # a start finds at least these, and is killed long before it has read all of them
_AFTER = 2  # new batches that a start does before it is killed
_DELAY = 3.0  # seconds at most from there to the kill: some batches
_FILES_AT_END = 2  # for the start that is not killed
_SECONDS = 300.0


def build(folder: Path) -> Pipeline:
    """Notes the files of each batch."""

    def note(batch: int, names: Sequence[str]) -> None:
        with (folder / "taken").open("a") as file:
            file.write(f"{json.dumps([batch, *names])}\n")

    source = TextFileSource(folder / "in", files_in_order="name", files_per_batch=1)
    return Pipeline("ordered", from_source(source).sink_to(FunctionSink(note)))


def taken(folder: Path) -> dict[int, set[str]]:
    """What each batch has read, each time that it ran, in JSON."""
    batch_names: dict[int, set[str]] = {}
    if (folder / "taken").exists():
        # A process that was killed may have left the last line without its end.
        for line in (folder / "taken").read_text().rpartition("\n")[0].splitlines():
            batch, *names = json.loads(line)
            batch_names.setdefault(batch, set()).add(json.dumps(names))
    return batch_names


def run(folder: Path, place: Here, kills: int, chance: random.Random) -> int:
    """Run a stream whose process is killed several times; its checkpoint is in a place.

    Returns:
        0 if each file was read once, in the order of the names.
    """
    (folder / "in").mkdir()
    for number in range(kills + 1):
        done = len(taken(folder))
        is_last = number == kills
        for name in range(done + (_FILES_AT_END if is_last else _FILES)):
            file = folder / "in" / f"{name}"
            if not file.exists():
                file.write_text(f"{name}\n")
        seconds = chance.uniform(0, _DELAY)
        code = attempt(folder, place, None if is_last else done + _AFTER, seconds)
        if code != (0 if is_last else -signal.SIGKILL):
            print(f"start {number + 1} ended with exit code {code}\n{log_end(folder)}")
            return 1
        new = len(taken(folder)) - done
        if not is_last:
            print(f"kill {number + 1}, {seconds:.2f} s after {_AFTER} new batches: {new} new ones", flush=True)
    read = taken(folder)
    expected = {number: {json.dumps([f"{number}"])} for number in range(len(list((folder / "in").iterdir())))}
    wrong = {number: read.get(number) for number in {*read, *expected} if read.get(number) != expected.get(number)}
    print(f"{kills} kills, {len(read)} batches of a file; {len(wrong)} are wrong {wrong or ''}")
    return 1 if wrong else 0


def attempt(folder: Path, place: Here, batches: int | None, seconds: float) -> int:
    """Start the pipeline, and kill it some seconds after its last of these batches; None: it reads all files."""
    arguments = ["--child", str(folder), f"{place.url}/checkpoint", "all" if batches is None else "go on"]
    with started(folder, "tests.crash.ordered", arguments, place.submit_arguments) as child:
        if batches is not None:
            await_moment(child, folder, lambda: len(taken(folder)) >= batches, "batch", _SECONDS)
        return end_of(child, _SECONDS if batches is None else seconds)


def child(folder: str, checkpoint: str, mode: str) -> None:
    """What the process that is killed does."""
    runner, pipeline = ImpatientRunner(checkpoint=checkpoint), build(Path(folder))
    if mode == "all":
        runner.run(pipeline)
    else:
        runner.start(pipeline).await_termination()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.ordered", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="how often to kill (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="chooses the moments (default 1)")
    parser.add_argument("--on", choices=SYSTEMS, help="where the checkpoint is, instead of a folder of this machine")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="windrow-ordered-") as folder:
        if options.on is None:
            return run(Path(folder), Here(folder), options.kills, chance)
        with Elsewhere.opened(options.on, Path(folder).name) as elsewhere:
            return run(Path(folder), elsewhere, options.kills, chance)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        sys.exit(main())
