"""What happens to the machines while a job runs."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from tests.machines.cluster import WORKERS, Cluster
from tests.machines.machines import DRIVER, Machine

__all__ = ["MODES", "Mode"]


class Mode:
    """Nothing happens.

    Attributes:
        workers: How many workers there are from the beginning.
        settings: Those of the session.
        kills: How many machines were killed.
        failures: How often the program has failed because of that, and was started again.
        pause: The least seconds from one kill to the next.
    """

    workers: ClassVar[int] = len(WORKERS)
    settings: ClassVar[Mapping[str, str]] = {}

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.kills = 0
        self.failures = 0
        self.pause = 0.0

    def counts(self) -> dict[str, int]:
        """What an unfinished run has counted, for the run that goes on."""
        return {"kills": self.kills, "failures": self.failures}

    def take_up(self, counts: Mapping[str, int]) -> None:
        """Goes on with the counts of an unfinished run."""
        self.kills, self.failures = counts["kills"], counts["failures"]

    def sends(self) -> int:
        """How many times as much input as usual the job gets now; asked each second."""
        return 1

    def step(self, cluster: Cluster) -> None:
        """Called each second while input comes."""

    def end(self, cluster: Cluster) -> None:
        """Called when no more input comes."""

    def faults(self, cluster: Cluster) -> Iterator[str]:
        """Tells of what should have happened and did not, at the end."""
        yield from ()

    def told(self, cluster: Cluster) -> str:
        """What happened, for the closing line."""
        return f"{self.kills} kills"


class Kills(Mode):
    """Machines of workers and the driver's die and come back after some seconds; half of them by a power failure."""

    _DOWN: Final = 3.0  # seconds

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self._left: list[str] = []
        self._batches = 0
        self._down: tuple[str, float] | None = None
        self._of_driver = self._silent = 0
        self._killed = time.monotonic()

    def counts(self) -> dict[str, int]:
        return {**super().counts(), "of_driver": self._of_driver, "silent": self._silent}

    def take_up(self, counts: Mapping[str, int]) -> None:
        super().take_up(counts)
        self._of_driver, self._silent = counts["of_driver"], counts["silent"]

    def step(self, cluster: Cluster) -> None:
        if self._down is not None:
            name, since = self._down
            if time.monotonic() > since + self._DOWN:
                cluster.revive(name)
                self._down, self._batches = None, cluster.batches
            return
        # Two batches after the one before, so that there is something to lose.
        if cluster.batches < self._batches + 2 or time.monotonic() < self._killed + self.pause:
            return
        if not self._left:
            self._left = [*WORKERS, DRIVER]
            self._chance.shuffle(self._left)
        name = self._left.pop()
        time.sleep(self._chance.uniform(0, 1.5))
        silently = self._chance.random() < 0.5
        cluster.kill(name, silently=silently)
        self.kills += 1
        self._silent += silently
        self._of_driver += name == DRIVER
        self._killed = time.monotonic()
        self._down = name, self._killed
        how = "by a power failure" if silently else "by SIGKILL"
        print(f"kill {self.kills}, of {name} {how}, behind {cluster.batches} batches", flush=True)

    def end(self, cluster: Cluster) -> None:
        if self._down is not None:
            cluster.revive(self._down[0])

    def told(self, cluster: Cluster) -> str:
        kinds = f"{self._of_driver} of them of the driver, {self._silent} by power failures"
        return f"{self.kills} kills ({kinds}), {self.failures} restarts besides"


class Speculation(Mode):
    """One machine is slow, and Spark runs its tasks a second time elsewhere."""

    settings: ClassVar[Mapping[str, str]] = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.quantile": "0.5",
    }
    _SHARE: Final = 0.2  # of the time in which the machine runs
    _TURN: Final = 0.5  # seconds

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def step(self, cluster: Cluster) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._slow, args=(cluster.machines[WORKERS[-1]],), daemon=True)
            self._thread.start()

    def _slow(self, machine: Machine) -> None:
        while not self._ended.is_set():
            stopped = machine.processes()
            _signal(stopped, signal.SIGSTOP)
            time.sleep(self._TURN * (1 - self._SHARE))
            _signal(stopped, signal.SIGCONT)
            time.sleep(self._TURN * self._SHARE)

    def end(self, cluster: Cluster) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def faults(self, cluster: Cluster) -> Iterator[str]:
        if not cluster.driver.text.count("as speculatable"):
            yield "no task ran twice"

    def told(self, cluster: Cluster) -> str:
        return f"{cluster.driver.text.count('as speculatable')} tasks to be run twice"


class Dynamic(Mode):
    """Input pauses, so that Spark gives executors back, and asks for them again."""

    settings: ClassVar[Mapping[str, str]] = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.timeout": "5s",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.executorIdleTimeout": "4s",
        "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    }
    _PAUSE, _PERIOD = 20.0, 35.0  # seconds
    _TIMES: Final = 20  # Spark asks for an executor when tasks wait for a second, which those of small batches do not

    def sends(self) -> int:
        return self._TIMES if time.monotonic() % self._PERIOD > self._PAUSE else 0

    def faults(self, cluster: Cluster) -> Iterator[str]:
        if not self._gone(cluster) or _came(cluster) <= len(WORKERS):
            yield f"executors did not come and go: {self.told(cluster)}"

    def told(self, cluster: Cluster) -> str:
        return f"{_came(cluster)} executors came, {self._gone(cluster)} times some went"

    @staticmethod
    def _gone(cluster: Cluster) -> int:
        return cluster.driver.text.count("removed due to idle timeout")


class Late(Mode):
    """There is one worker at first; others join while batches run."""

    workers = 1

    def step(self, cluster: Cluster) -> None:
        there = sum(name in cluster.machines for name in WORKERS)
        if there < len(WORKERS) and cluster.batches >= 2 * there:
            cluster.start_worker(WORKERS[there])

    def faults(self, cluster: Cluster) -> Iterator[str]:
        if _came(cluster) < len(WORKERS):
            yield "not all workers have joined"

    def told(self, cluster: Cluster) -> str:
        return f"{_came(cluster) - 1} workers joined late"


def _came(cluster: Cluster) -> int:
    """How many executors the driver has seen."""
    return cluster.driver.text.count("Registered executor NettyRpcEndpointRef")


def _signal(processes: Sequence[int], number: signal.Signals) -> None:
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, number)


MODES: Final = {"plain": Mode, "kills": Kills, "speculation": Speculation, "dynamic": Dynamic, "late": Late}
