"""Writes the readings in ``examples/data/readings``, the same bytes every time.

Ten sensors measure once a second. Each temperature is a random walk. A reading arrives up to three seconds after it
was taken, so the files are out of order; one reading in a hundred gets lost for minutes and arrives late.

    python examples/generate_readings.py [FOLDER]
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "data" / "readings"
SEED = 20260105
BEGIN = datetime(2026, 1, 5, 6, 0, tzinfo=UTC)
SENSORS = 10
SECONDS = 1_000
FILES = 10
DISORDER_MILLIS = 3_000
LATE_MILLIS = (60_000, 180_000)
LATE_SHARE = 0.01


class Arrival(NamedTuple):
    """A reading with the moment it arrives; times are milliseconds since ``BEGIN``."""

    arrives: int
    taken: int
    sensor: int
    centidegrees: int

    def line(self) -> str:
        at = (BEGIN + timedelta(milliseconds=self.taken)).isoformat(timespec="milliseconds")
        celsius = f"{self.centidegrees / 100:.2f}"
        return f'{{"sensor":"sensor-{self.sensor}","at":"{at.replace("+00:00", "Z")}","celsius":{celsius}}}\n'


def arrivals(seed: int = SEED) -> Iterator[Arrival]:
    # Only random() is promised to give the same numbers in every version of Python.
    rng = random.Random(seed)
    for sensor in range(SENSORS):
        centidegrees = 1_800 + int(rng.random() * 600)
        phase = int(rng.random() * 1_000)
        for second in range(SECONDS):
            centidegrees += int(rng.random() * 41) - 20
            taken = second * 1_000 + phase
            delay = int(rng.random() * DISORDER_MILLIS)
            if rng.random() < LATE_SHARE:
                low, high = LATE_MILLIS
                delay = low + int(rng.random() * (high - low))
            yield Arrival(taken + delay, taken, sensor, centidegrees)


def write_readings(folder: Path, seed: int = SEED) -> None:
    """Write the files, each with what arrived in its share of the time, in the order of arrival."""
    files: list[list[str]] = [[] for _ in range(FILES)]
    for arrival in sorted(arrivals(seed)):
        share = arrival.arrives * FILES // (SECONDS * 1_000)
        files[min(share, FILES - 1)].append(arrival.line())
    folder.mkdir(parents=True, exist_ok=True)
    for number, lines in enumerate(files):
        (folder / f"readings-{number:02}.json").write_text("".join(lines), encoding="utf-8", newline="\n")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path, default=FOLDER, help="where to")
    write_readings(parser.parse_args(arguments).folder)


if __name__ == "__main__":
    main(sys.argv[1:])
