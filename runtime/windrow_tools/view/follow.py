"""Follows a running pipeline: a thread reads its reports, and how it ends, into a history."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from windrow.errors import WindrowError
from windrow.plan import Form, Pipeline
from windrow_tools.view.history import RunHistory

if TYPE_CHECKING:
    from windrow_spark import PipelineProgress

_TURN_SECONDS: Final = 0.5
_SECONDS_TO_LEAVE: Final = 5.0


class Running(Protocol):
    """A pipeline that runs, as far as views ask: a :class:`~windrow_runtime.spark.RunningPipeline`."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline."""
        ...

    @property
    def progress(self) -> PipelineProgress | None:
        """The report on its newest batch."""
        ...

    @property
    def recent_progress(self) -> Sequence[PipelineProgress]:
        """The reports on its newest batches, oldest first."""
        ...

    @property
    def is_active(self) -> bool:
        """Whether it runs."""
        ...

    def forms(self, pipeline: Pipeline) -> Mapping[str, Form]:
        """The form in which each keyed step runs."""
        ...

    def counters(self) -> Mapping[str, Mapping[str, int]]:
        """The counters since its start."""
        ...

    def await_termination(self, timeout_seconds: float | None = None) -> bool:
        """Waits for its end, which may be a failure."""
        ...


class Follower:
    """Reads the reports of a running pipeline into a history, in a thread, until its end or :meth:`leave`.

    The pipeline does not wait for this: its reports are in the memory of this process, or over Spark Connect in files.

    Raises:
        UnsupportedOperationError: If the pipeline makes no reports, since Spark writes a sink by itself.
    """

    def __init__(self, running: Running) -> None:
        self.history = RunHistory(running.pipeline, running.forms(running.pipeline))
        self._running = running
        self._newest = -1
        self._left = threading.Event()
        self._read()
        self._thread = threading.Thread(target=self._run, name="windrow follows a run", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Stops following, after what there is now was read, if the engine answers within some seconds."""
        self._left.set()
        self._thread.join(_SECONDS_TO_LEAVE)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Waits for the end of the run; returns whether it has ended."""
        self._thread.join(timeout_seconds)
        return self.history.is_over

    def _run(self) -> None:
        try:
            while self._step() and not self._left.wait(_TURN_SECONDS):
                pass
            if not self.history.is_over:
                self._step()
        except Exception as error:
            # The session was stopped, or the files of its reports are gone.
            self.history.end(error)

    def _step(self) -> bool:
        """Reads what is new; returns whether the pipeline runs."""
        # Reports that are read after the end of the run are complete.
        active = self._running.is_active
        self._read()
        if not active:
            try:
                self._running.await_termination(0.0)
            except WindrowError as error:
                self.history.end(error)
            else:
                self.history.end()
        return active

    def _read(self) -> None:
        newest = self._running.progress
        if newest is None or newest.batch == self._newest:
            return
        # Over Spark Connect each report is a file.
        for report in self._running.recent_progress:
            self.history.add(report)
            self._newest = report.batch
        self.history.count(self._running.counters())


@contextmanager
def history_of(running: Running | RunHistory) -> Iterator[tuple[RunHistory, Callable[[], None]]]:
    """Follows a running pipeline within the block; a history is taken as it is.

    Yields:
        The history, and a function that ends following it, after what there is by then was read.
    """
    if isinstance(running, RunHistory):
        yield running, lambda: None
        return
    follower = Follower(running)
    try:
        yield follower.history, follower.leave
    finally:
        follower.leave()
