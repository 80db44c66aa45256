"""Kills ``windrow upgrade`` and ``windrow rescale`` at random moments: ``python -m tests.crash.moves --kills 20``.

Each of these commands is killed some times, in a process of its own, and the same command finishes it here. The job of
:mod:`tests.support.lives` goes on after each, and has to have each row once in the end.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.crash.starts import await_moment, end_of, log_end, started
from tests.support.lives import PARTS, RENAMED, WITH_NAMES, differences, files_alone, found, job, send
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.lock import LOCK_FILE
from windrow_spark.savepoint.description import SavepointFolder
from windrow_spark.savepoint.restoring import restored_file
from windrow_tools.command.program import main as windrow

PHASES: Final = 3
_PARTITIONS: Final = {0: 2, 1: 3}
"""The numbers of partitions that the job gets, by the phases that begin with them."""
_DELAYS: Final = {"its start": 8.0, "its first change of a file": 9.0, "the end of its savepoint": 5.0}
"""The seconds at most from a moment of a command to its kill: about what it does from there."""

_CHANCES: Final = (1, 3, 4)
"""How often kills go by each of these moments."""

_SECONDS: Final = 240.0
_COMMAND: Final = "windrow_tools.command"
_BEFORE, _ENDED = "before its work", "ended"


@dataclass(frozen=True)
class Move:
    """A command that gives a stopped job another plan, or other partitions."""

    name: str
    phase: int

    def savepoint(self, folder: Path) -> Path:
        return folder / f"checkpoint.{'upgraded' if self.name == 'upgrade' else 'rescaled'}"

    def words(self, folder: Path) -> list[str]:
        """The command line."""
        settings = ["--set", f"folder={folder}", "--set", f"phase={self.phase}"]
        words = [self.name, str(folder / "checkpoint"), "tests.support.lives:job", *settings]
        if self.name == "rescale":
            words += ["--partitions", str(_PARTITIONS[self.phase])]
        elif self.phase == WITH_NAMES:
            words += [word for old, new in RENAMED.items() for word in ("--renamed", f"{old}={new}")]
        return words


def moves_of(phase: int) -> list[Move]:
    """The commands between a phase and the one before."""
    if phase == 0:
        return []
    return [Move("upgrade", phase)] + ([Move("rescale", phase)] if phase in _PARTITIONS else [])


def run(folder: Path, kills: int, chance: random.Random, phases: int = PHASES) -> int:
    """Has a job live through its phases, while the commands between them are killed.

    Returns:
        How many kills came while a command was at work; -1 if a command or the job failed, or rows are missing, wrong
        or there twice.
    """
    ends = files_alone(folder)
    left = sum(len(moves_of(phase)) for phase in range(phases))
    places: Counter[str] = Counter()
    for phase in range(phases):
        for part in range(PARTS):
            send(ends, phase, part)
        for move in moves_of(phase):
            wanted = -(-(kills - places.total()) // left)
            left -= 1
            if not _killed(folder, move, wanted, chance, places) or windrow(move.words(folder)) != 0:
                return -1
            shutil.rmtree(move.savepoint(folder))
        live(folder, phase, is_last=phase == phases - 1)
    lines, rows = differences(ends, phases), sum(those.total() for those in found(ends).values())
    for line in lines:
        print(line)
    by_place = ", ".join(f"{number} {place}" for place, number in sorted(places.items()))
    verdict = f"{len(lines)} wrong" if lines else "each once"
    print(f"{places.total()} kills of upgrades and rescales: {by_place}; {phases} phases, {rows} rows, {verdict}")
    return -1 if lines else places.total() - places[_BEFORE]


def _killed(folder: Path, move: Move, kills: int, chance: random.Random, places: Counter[str]) -> bool:
    """Kills a command some times, and counts how far it came; returns whether no start of it failed."""
    for _ in range(kills):
        (moment,) = chance.choices([*_DELAYS], _CHANCES)
        seconds = chance.uniform(0, _DELAYS[moment])
        place = _kill(folder, move, seconds, moment)
        if place is None:
            return False
        said = f"killed {place}, {seconds:.2f} s after {moment}"
        print(f"windrow {move.name} before phase {move.phase}, {said}", flush=True)
        if place == _ENDED:
            return True
        places[place] += 1
    return True


def _kill(folder: Path, move: Move, seconds: float, moment: str) -> str | None:
    """Starts a command and kills it after a moment; returns how far it had come, or None if it failed."""
    before, saved = _entries(folder, move), SavepointFolder(move.savepoint(folder)).file

    def is_at_work() -> bool:
        return _entries(folder, move) != before

    def has_saved() -> bool:
        return is_at_work() and saved.path.exists()

    has_come = {"its first change of a file": is_at_work, "the end of its savepoint": has_saved}
    with started(folder, _COMMAND, move.words(folder)) as process:
        if moment in has_come:
            await_moment(process, folder, has_come[moment], moment, _SECONDS)
        code = end_of(process, seconds)
    if code == 0:
        return _ENDED
    if code != -signal.SIGKILL:
        print(f"windrow {move.name} ended with exit code {code} before it was killed\n{log_end(folder)}")
        return None
    return _place(folder, move) if is_at_work() else _BEFORE


def _entries(folder: Path, move: Move) -> set[tuple[str, int]]:
    """The files and folders in the checkpoint and in the savepoint, but the lock, with the times of their changes."""
    marks: set[tuple[str, int]] = set()
    for place in (folder / "checkpoint", move.savepoint(folder)):
        with suppress(FileNotFoundError):  # the command removes it meanwhile
            marks |= {(entry.path, entry.stat().st_mtime_ns) for entry in os.scandir(place) if entry.name != LOCK_FILE}
    return marks


def _place(folder: Path, move: Move) -> str:
    """How far a command had come when it was killed."""
    noted = restored_file(Checkpoint(folder / "checkpoint")).read()
    saved = SavepointFolder(move.savepoint(folder)).file.read()
    if saved is None:
        return "in the savepoint"
    if noted is None or noted.savepoint != saved.id:
        return "behind the savepoint"
    return "at its end" if noted.is_whole else "in the checkpoint"


def live(folder: Path, phase: int, *, is_last: bool) -> None:
    """Runs a phase of the job, as users do."""
    runner = SparkRunner(checkpoint=folder / "checkpoint", partitions=_PARTITIONS[0] if phase == 0 else None)
    with runner.start(job(str(folder), phase)) as running:
        running.process_available()
        if is_last:
            running.drain()
        else:
            running.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.moves", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="how often to kill (default 20)")
    parser.add_argument(
        "--phases", type=int, default=PHASES, choices=range(2, 9), help=f"of the job's life (default {PHASES})"
    )
    parser.add_argument("--seed", type=int, default=1, help="chooses the moments (default 1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="windrow-moves-") as folder:
        return 0 if run(Path(folder), options.kills, random.Random(options.seed), options.phases) > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
