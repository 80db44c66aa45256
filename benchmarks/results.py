"""The figures of workloads on Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.workloads import SparkWorkload

if TYPE_CHECKING:
    from benchmarks.measure import Timing
    from benchmarks.memory import PeakMemory

__all__ = ["InputResult", "Run", "SparkWorkloadResult"]


@dataclass(frozen=True, slots=True)
class Run:
    """One contender over one input: all its rounds.

    Attributes:
        contender: Its name.
        timings: The time of each round.
        memory: The peak of each round; None where it cannot be read.
        loads: The load average of the machine at the end of each round.
        rows: How many rows it was given, the closing one left out.
        version: Of what is not in this Python: the version, else None.
        conditions: In which ways its run was another one than that of the others; None: in none.
    """

    contender: str
    rows: int
    timings: list[Timing] = field(default_factory=list)
    memory: list[PeakMemory | None] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    version: str | None = None
    conditions: str | None = None

    @property
    def rows_per_second(self) -> float:
        """The rows of the steady state of all rounds by its time."""
        rows = sum(timing.rows_per_batch * len(timing.batches) for timing in self.timings)
        return rows / sum(sum(timing.batches) for timing in self.timings)

    @property
    def microseconds_per_row(self) -> float:
        """The time of a row of the steady state."""
        return 1e6 / self.rows_per_second

    @property
    def slowest_and_fastest_batch(self) -> tuple[float, float]:
        """Rows a second of the slowest and of the fastest batch: how steady the steady state was."""
        speeds = [timing.rows_per_batch / batch for timing in self.timings for batch in timing.batches]
        return min(speeds), max(speeds)

    @property
    def batch_ms(self) -> float | None:
        """Milliseconds that a batch of the steady state takes, the median of all rounds; None for what has none."""
        seconds = [batch for timing in self.timings if timing.first_batch is not None for batch in timing.batches]
        return 1_000 * median(seconds) if seconds else None

    @property
    def first_batch(self) -> float | None:
        """Seconds for the first batch: the best round; None for what has no batches."""
        return min([t.first_batch for t in self.timings if t.first_batch is not None], default=None)

    @property
    def peak_memory(self) -> PeakMemory | None:
        """The peak of the round that took most."""
        peaks = [peak for peak in self.memory if peak]
        return max(peaks, key=lambda peak: peak.driver + peak.workers, default=None)


@dataclass(frozen=True, slots=True)
class InputResult:
    """All contenders over one input.

    Attributes:
        keys: How many keys it has.
        rows_per_batch: Rows of a batch.
        batches: How many batches, the closing one left out.
        windows: How many windows every contender got right.
        late: How many readings were too late; None where nobody asked.
        runs: A run for each contender.
    """

    keys: int
    rows_per_batch: int
    batches: int
    windows: int
    late: int | None
    runs: list[Run]

    def times(self, name: str, run: Run) -> float | None:
        """How many times as fast a run is as another contender on the same input; None where that one did not run.

        Never across inputs: each contender speeds up with the size of a batch, and not alike.
        """
        for other in self.runs:
            if other.contender == name:
                return run.rows_per_second / other.rows_per_second
        return None


@dataclass(frozen=True, slots=True)
class SparkWorkloadResult:
    """All figures of a workload on Spark."""

    workload: SparkWorkload
    inputs: list[InputResult]
