"""Runs cases whose checkpoint gets other partitions twice, 2 to 7 to 3, while the driver dies in the middle of it.

A driver that dies is one whose changes of files fail from some moment on, those of its clean-up too.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from tests.differential.live import both
from tests.differential.saved import stopped
from windrow import Pipeline
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.savepoint import rescale
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.lock import LOCK_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITIONS: Final = (2, 7, 3)
_CHANGES: Final = 120
"""About how many changes of files a call makes."""

_CHANGING: Final = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "shutil.rmtree"}
_WRITING: Final = os.O_WRONLY | os.O_RDWR

_ENDS: Final = Counter[str]()
"""How many calls died, and how many were done before their moment came, in all cases of this process."""


class Died(BaseException):
    """The driver is dead: it changes no file any more."""


class _Driver:
    """Counts the changes of files below a folder, and lets them fail from one of them on."""

    def __init__(self) -> None:
        self.folder: str | None = None  # None: nothing is counted
        self._left = 0
        self._lock = threading.Lock()
        sys.addaudithook(self._see)

    @contextmanager
    def dying_after(self, folder: Path, changes: int) -> Iterator[None]:
        self.folder, self._left = str(folder), changes
        try:
            yield
        finally:
            self.folder = None

    def _see(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.folder is None:
            return
        if event not in _CHANGING and not (event == "open" and _writes(*arguments[1:])):
            return
        path = arguments[0]
        if not isinstance(path, str | os.PathLike) or LOCK_FILE in (text := os.fspath(path)):
            return
        if not str(text).startswith(self.folder):
            return
        with self._lock:
            self._left -= 1
            if self._left < 0:
                raise Died


def _writes(mode: object, flags: object) -> bool:
    """Returns whether a file is opened to be written, by its mode, or by its flags where there is no mode."""
    if isinstance(mode, str):
        return not {*"wax+"}.isdisjoint(mode)
    return isinstance(flags, int) and bool(flags & _WRITING)


_DRIVER: Final = _Driver()


def run_rescaled(spark: SparkSession, pipeline: Pipeline, clock: Callable[[], int] | None) -> PipelineResult:
    """Runs a pipeline on two partitions for a batch, on seven for another one, and on three to its end."""
    chance = random.Random(f"{pipeline.name}, {len(pipeline.steps)}")
    with TemporaryDirectory(prefix="windrow-rescaled-") as name:
        folder = Path(name)
        checkpoint = folder / "checkpoint"
        before, *following = _PARTITIONS
        runner = SparkRunner(spark, checkpoint=checkpoint, partitions=before, clock=clock)
        result = stopped(runner, pipeline, 0)
        for number, partitions in enumerate(following, start=1):
            _rescale(spark, checkpoint, pipeline, partitions, chance)
            runner = SparkRunner(spark, checkpoint=checkpoint, clock=clock)
            is_last = number == len(following)
            result = both(result, runner.run(pipeline) if is_last else stopped(runner, pipeline, number))
        return result


def rescale_twice(spark: SparkSession, checkpoint: Path, pipeline: Pipeline, chance: random.Random) -> None:
    """Gives a checkpoint seven partitions, and then three; one without a batch has no state to move."""
    if not Checkpoint(checkpoint).is_committed(0):
        return
    for partitions in _PARTITIONS[1:]:
        _rescale(spark, checkpoint, pipeline, partitions, chance)


def _rescale(spark: SparkSession, checkpoint: Path, pipeline: Pipeline, partitions: int, chance: random.Random) -> None:
    """Gives a checkpoint other partitions; the call dies at most twice, and is made once more."""
    folder = checkpoint.parent
    for _ in range(2):
        try:
            with _DRIVER.dying_after(folder, chance.randrange(_CHANGES)):
                rescale(checkpoint, pipeline, partitions=partitions, spark=spark)
        except Died:
            _ENDS["died"] += 1
        else:
            _ENDS["done before"] += 1
            break
    else:
        rescale(checkpoint, pipeline, partitions=partitions, spark=spark)
    description = Checkpoint(checkpoint).description()
    assert description is not None, "the checkpoint has a plan"
    assert description.partitions == partitions, f"{description.partitions} partitions"
    for savepoint in folder.glob("checkpoint.*"):
        savepoint.rename(folder / f"savepoint-{partitions}")


def print_ends() -> None:
    """Prints how many calls died."""
    print(f"{_ENDS['died']} calls died, {_ENDS['done before']} were done before their moment came")
