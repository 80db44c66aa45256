"""Memory and processor time of the driver and of Python workers, read from /proc."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

__all__ = ["PeakMemory", "PeakMemorySampler", "Resident", "ResidentPeak", "processor_seconds", "resident", "tree_mib"]

_PROC = Path("/proc")
_INTERVAL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """Peaks of resident memory in MiB.

    Attributes:
        driver: This process and the JVM. The JVM keeps what earlier contenders made it take.
        workers: Sum over the Python workers that the run started. Workers are forks, so pages that they share are
            counted in each.
        worker: The largest single worker.
    """

    driver: float
    workers: float
    worker: float


class PeakMemorySampler:
    """Samples memory while its ``with`` block runs. Where there is no /proc, :attr:`peak` stays None.

    Workers that exist when the block begins belong to an earlier contender and are left out.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)
        self._before: set[int] = set()
        self.peak: PeakMemory | None = None

    def __enter__(self) -> PeakMemorySampler:
        if _PROC.is_dir():
            self._before = set(_parents())
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._stop.set()
            self._thread.join()

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(_INTERVAL_SECONDS):
            self._sample()

    def _sample(self) -> None:
        own = os.getpid()
        parents = _parents()
        driver = _resident(own)
        workers: list[float] = []
        for process in _descendants(own, parents):
            name = _name(process)
            if name == "java":
                driver += _resident(process)
            elif name.startswith("python") and process not in self._before:
                workers.append(_resident(process))
        peak = self.peak or PeakMemory(0, 0, 0)
        self.peak = PeakMemory(max(peak.driver, driver), max(peak.workers, sum(workers)), max(peak.worker, *workers, 0))


@dataclass(frozen=True, slots=True)
class Resident:
    """Resident memory in MiB, of each part of an embedded Spark.

    Attributes:
        jvm: The JVM, which is driver and executor.
        python: This process.
        workers: Sum over the Python workers, Spark's daemon included. They are forks of it, so pages that they share
            are counted in each.
        worker: The largest one of them.
    """

    jvm: float
    python: float
    workers: float
    worker: float


def resident() -> Resident:
    """The memory of this process and of those that it started; zeros where there is no /proc."""
    if not _PROC.is_dir():
        return Resident(0, 0, 0, 0)
    own = os.getpid()
    jvm = workers = worker = 0.0
    for process in _descendants(own, _parents()):
        name = _name(process)
        if name == "java":
            jvm += _resident(process)
        elif name.startswith("python"):
            size = _resident(process)
            workers, worker = workers + size, max(worker, size)
    return Resident(jvm, _resident(own), workers, worker)


class ResidentPeak:
    """Samples :func:`resident` while its ``with`` block runs; :attr:`peak` holds the peak of each part by itself."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)
        self.peak = Resident(0, 0, 0, 0)

    def __enter__(self) -> ResidentPeak:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(_INTERVAL_SECONDS):
            now, peak = resident(), self.peak
            self.peak = Resident(
                max(now.jvm, peak.jvm),
                max(now.python, peak.python),
                max(now.workers, peak.workers),
                max(now.worker, peak.worker),
            )


def tree_mib(process: int) -> float:
    """The resident memory of a process and of all that it started, in MiB; 0 where there is no /proc."""
    if not _PROC.is_dir():
        return 0.0
    return sum(map(_resident, [process, *_descendants(process, _parents())]))


def processor_seconds() -> float:
    """Processor time of the Python workers and of the JVM so far, in seconds; 0 where there is no /proc.

    Time of workers that have ended counts, as their parents' does.
    """
    if not _PROC.is_dir():
        return 0.0
    ticks = 0
    for process in _descendants(os.getpid(), _parents()):
        try:
            stat = (_PROC / str(process) / "stat").read_text()
        except OSError:  # it ended meanwhile
            continue
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _parents() -> dict[int, int]:
    """The parent of every process."""
    parents: dict[int, int] = {}
    for entry in os.listdir(_PROC):
        if entry.isdigit():
            try:
                stat = (_PROC / entry / "stat").read_text()
            except OSError:  # it ended meanwhile
                continue
            # The name may hold spaces and parentheses; what follows the last one does not.
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    return parents


def _descendants(root: int, parents: dict[int, int]) -> list[int]:
    found: list[int] = []
    level = {root}
    while level:
        level = {process for process, parent in parents.items() if parent in level}
        found.extend(level)
    return found


def _resident(process: int) -> float:
    try:
        pages = int((_PROC / str(process) / "statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _name(process: int) -> str:
    try:
        return (_PROC / str(process) / "comm").read_text().strip()
    except OSError:
        return ""
