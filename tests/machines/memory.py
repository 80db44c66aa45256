"""Measures how much memory the processes of machines have, early in a run and late."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import mean, median
from typing import Final

from tests.machines.machines import DRIVER, Machine

__all__ = ["Memory"]

_SHARE: Final = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
_OF_WORKER: Final = (
    b"org.apache.spark.deploy.worker.Worker"  # Spark's worker, which starts executors and does nothing else
)
_GROWTH: Final = 1.25
_MEGABYTES: Final = 50.0


class Memory:
    """The memory of a driver and of executors: of the JVM, and of Python with its workers.

    Attributes:
        samples: Megabytes, by what has them.
    """

    def __init__(self) -> None:
        self.samples: list[Mapping[str, float]] = []

    def take(self, machines: Mapping[str, Machine]) -> None:
        """Takes a sample: megabytes of the driver, and of the mean executor that is there."""
        of_machines: dict[str, list[float]] = defaultdict(list)
        for name, machine in machines.items():
            if machine.is_up:
                whose = "driver" if name == DRIVER else "executor"
                for what, size in _sizes(machine).items():
                    of_machines[f"{whose}'s {what}"].append(size)
        self.samples.append({what: mean(sizes) for what, sizes in of_machines.items()})

    def faults(self) -> Iterator[str]:
        """Tells what has grown."""
        for what, (first, last) in self._thirds().items():
            if last > first * _GROWTH + _MEGABYTES:
                yield f"{what} has grown from {first:.0f} MB to {last:.0f} MB"

    def told(self) -> str:
        """The medians of the first third of the samples and of the last one."""
        thirds = self._thirds().items()
        return "memory " + ", ".join(f"{what} {first:.0f} and {last:.0f} MB" for what, (first, last) in thirds)

    def _thirds(self) -> Mapping[str, tuple[float, float]]:
        sizes: dict[str, list[float]] = defaultdict(list)
        for sample in self.samples:
            for what, size in sample.items():
                sizes[what].append(size)
        thirds = {what: max(1, len(taken) // 3) for what, taken in sizes.items()}
        return {
            what: (median(sizes[what][: thirds[what]]), median(sizes[what][-thirds[what] :])) for what in sorted(sizes)
        }


def _sizes(machine: Machine) -> Mapping[str, float]:
    """Resident memory of the processes of a machine, in megabytes; what forks share is divided among them."""
    sizes: dict[str, float] = defaultdict(float)
    for process in machine.processes():
        with suppress(OSError):  # it has ended
            folder = Path(f"/proc/{process}")
            command = (folder / "cmdline").read_bytes()
            share = _SHARE.search((folder / "smaps_rollup").read_text())
            program = command.partition(b"\0")[0].rpartition(b"/")[2]
            if share is not None and _OF_WORKER not in command:
                what = "JVM" if program == b"java" else "Python" if program.startswith(b"python") else ""
                sizes[what] += int(share[1]) / 1024
    sizes.pop("", None)
    return sizes
