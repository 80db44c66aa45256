"""Samples of a long run, and whether they stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.section import Claim

__all__ = ["Sample", "flat_claims"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen at one moment.

    Attributes:
        seconds: Since the beginning.
        jvm: Resident memory of the JVM in MiB.
        heap: What its heap holds behind a collection, in MiB.
        python: Resident memory of the Python driver in MiB.
        objects: Containers that live in the Python driver, without tuples.
        workers: The same of all Python workers.
        batch: The median time of a batch since the sample before, in seconds.
        batches: How many batches there were since then.
        waiting: Events that were written and not read yet.
        state_rows: The rows of Spark's state.
        state_mib: The size of its files in MiB.
        open_windows: Tumbling windows that have begun and not fired.
        checkpoint_files: Files in the checkpoint.
        load: The load average of the machine.
    """

    seconds: float
    jvm: float
    heap: float
    python: float
    objects: int
    workers: float
    batch: float
    batches: int
    waiting: int
    state_rows: int
    state_mib: float
    open_windows: int
    checkpoint_files: int
    load: float

    def cells(self) -> list[str]:
        """As they are printed, in the order of :data:`HEADER`."""
        sizes = (self.jvm, self.heap, self.python, self.objects, self.workers)
        return [
            f"{self.seconds:,.0f}",
            *(f"{size:,.0f}" for size in sizes),
            f"{self.batch:.2f}",
            str(self.batches),
            f"{self.waiting:,}",
            f"{self.state_rows:,}",
            f"{self.state_mib:.2f}",
            f"{self.open_windows:,}",
            f"{self.checkpoint_files:,}",
            f"{self.load:.1f}",
        ]


HEADER: Final = (
    "s",
    "JVM MiB",
    "heap MiB",
    "driver MiB",
    "driver objects",
    "workers MiB",
    "batch s",
    "batches",
    "waiting",
    "state rows",
    "state MiB",
    "open windows",
    "files",
    "load",
)

# What may not grow: name, figure, factor, and how much more than that.
_LIMITS: Final[tuple[tuple[str, Callable[[Sample], float], float, float], ...]] = (
    ("JVM, resident, MiB", lambda s: s.jvm, 1.15, 50),
    ("JVM, heap, MiB", lambda s: s.heap, 1.15, 20),
    ("Python driver, resident, MiB", lambda s: s.python, 1.10, 20),
    ("Python driver, objects", lambda s: s.objects, 1.0, 100),
    ("Python workers, resident, MiB", lambda s: s.workers, 1.15, 50),
    ("batch time, s", lambda s: s.batch, 1.5, 0.5),
    ("state rows", lambda s: s.state_rows, 1.25, 20),
    ("state, MiB", lambda s: s.state_mib, 1.5, 1),
    ("open windows", lambda s: s.open_windows, 1.5, 100),
)


def flat_claims(samples: Sequence[Sample]) -> list[Claim]:
    """For each figure, whether the median of the last quarter is at most a little above that of the second.

    The first quarter is left out: caches fill, and the JVM compiles and takes its heap.
    """
    quarter = len(samples) // 4
    if not quarter:
        return []
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    claims: list[Claim] = []
    for name, figure, factor, more in _LIMITS:
        before, after = median(map(figure, second)), median(map(figure, last))
        limit = before * factor + more
        text = f"{name}: {before:,.2f} in the second quarter, {after:,.2f} in the last (at most {limit:,.2f})"
        claims.append(Claim(text, after <= limit))
    return claims
