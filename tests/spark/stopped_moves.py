"""A run that is stopped between two moves of a batch's files, in a file system that is not mounted."""

from __future__ import annotations

from tests.spark.comparison import Event
from windrow import Pipeline, from_source
from windrow.sinks import FileSink
from windrow.sources import CollectionSource
from windrow_runtime.outputs import whole_files
from windrow_spark.checkpoint.storage import HadoopPath

__all__ = ["ROWS", "Stopper", "pipeline"]

_KEYS = ("a:b", "é %2F/", "_c{}")
#  batch   0: 0 ... 7    1: 8 ... 15    2: none of them    3: 24 ... 31
_EVENTS = [Event(_KEYS[number % 3], number, number % 2) for number in range(32)]

ROWS = [event for event in _EVENTS if not 16 <= event.at < 24]
"""What the sink of the pipeline gets."""


class Stopper:
    """Stops a run at a move to the places of batch 1, as if the machine were gone; it begins when it is made.

    Args:
        moves: How many moves are made before.
    """

    def __init__(self, moves: int) -> None:
        self._left = moves
        self._before = HadoopPath.rename, whole_files._AT_ONCE
        rename = HadoopPath.rename

        def stopping(source: HadoopPath, target: HadoopPath) -> None:
            if "windrow_batch=1" in target.url:
                self._left -= 1
                if self._left < 0:
                    raise OSError(5, "the machine is gone")
            rename(source, target)

        HadoopPath.rename = stopping  # type: ignore[assignment, method-assign]
        whole_files._AT_ONCE = 1  # type: ignore[misc]

    def end(self) -> None:
        """Let runs go on."""
        HadoopPath.rename, whole_files._AT_ONCE = self._before  # type: ignore[method-assign, misc]


def pipeline(sink: FileSink[Event]) -> Pipeline:
    """Writes files in batches."""
    events = from_source(CollectionSource(_EVENTS, Event, batch_size=8))
    return Pipeline("stopped", events.filter(lambda event: not 16 <= event.at < 24).sink_to(sink))
