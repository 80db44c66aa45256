"""Calls Spark from separate threads, so that no exception of a signal handler interrupts a call.

Python raises exceptions of signal handlers, such as the KeyboardInterrupt of Ctrl-C, anywhere in the main thread. If
that thread waits for an answer of Java, the answer comes later, and the next call takes it for its own. PySpark's
handler for Ctrl-C calls Java itself, over the same connection. So the caller's thread waits in Python, without it.
"""

from __future__ import annotations

import contextvars
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pyspark import InheritableThread

from windrow_spark.quiet import interrupted_by
from windrow_spark.run_limits import USUAL_LIMITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger("windrow")
_TURN_SECONDS: Final = 0.5
_TASK_POLL_SECONDS: Final = 0.05
_TASKS_SECONDS: Final = 10.0
_NEWEST_JOBS: Final = 4

T = TypeVar("T")


@contextmanager
def interrupted_alone() -> Iterator[None]:
    """Has Ctrl-C interrupt this thread alone within the block: PySpark's handler also cancels the jobs of all queries.

    A handler of the user's stays. Other threads than the main one get no signals.
    """
    before = signal.getsignal(signal.SIGINT)
    is_sparks = str(getattr(before, "__module__", "")).startswith("pyspark.")
    if not is_sparks or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class BackgroundCall(Generic[T]):
    """Calls a function in a separate thread, which inherits the caller's properties in Spark if a session is given."""

    def __init__(self, work: Callable[[], T], spark: SparkSession | None = None) -> None:
        self._work = work
        self._spark = spark
        self._context = contextvars.copy_context()
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._begins = threading.Lock()

    def start(self) -> None:
        """Begin the call. If this is interrupted, the call has begun or will not begin any more."""
        work, finish = self._run, self._finish
        thread = _Thread(work, finish) if self._spark is None else _SparkThread(work, finish, session=self._spark)
        try:
            # With a session, starting the thread calls Java.
            with ctrl_c_kept():
                thread.start()
        except BaseException as error:
            if self._begins.acquire(blocking=False):
                self._finish(error)
            raise

    def _run(self) -> None:
        if self._begins.acquire(blocking=False):
            self._results.append(self._context.run(self._work))

    def _finish(self, error: BaseException | None) -> None:
        if not self._done.is_set():
            self._error = error
            self._done.set()

    @interrupted_alone()
    def wait(self) -> None:
        """Wait for the end of the call. It raises only exceptions of signal handlers, and the call goes on then."""
        # Without a limit, the wait could not be interrupted on Windows.
        while not self._done.wait(_TURN_SECONDS):
            pass

    def is_over(self, seconds: float) -> bool:
        """Waits some seconds for the end of the call, despite interruptions; returns whether it has ended."""
        return wait_through(self._done, seconds)

    def result(self) -> T:
        """Returns the result of the call, or raises its error, once it is over."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback refers to this frame
        return self._results[0]


class _Thread(threading.Thread):
    """A thread that calls ``finish`` with its exception, or None, at its end."""

    def __init__(
        self,
        work: Callable[[], None],
        finish: Callable[[BaseException | None], None],
        **arguments: Any,  # passed to the next class in the order of method resolution
    ) -> None:
        super().__init__(target=work, name="windrow calls Spark", daemon=True, **arguments)
        self._finish = finish

    def run(self) -> None:
        failure: BaseException | None = None
        try:
            super().run()
        except BaseException as error:  # it is raised in the waiting thread
            failure = error
        self._finish(failure)


class _SparkThread(_Thread, InheritableThread):
    """A thread that inherits its parent's properties in Spark; if that fails, ``finish`` gets the exception, too."""


@contextmanager
def ctrl_c_kept() -> Iterator[None]:
    """Turns an error of py4j into a KeyboardInterrupt if Ctrl-C caused it."""
    try:
        yield
    except Exception as error:
        if interrupted_by(error) is not None:
            raise KeyboardInterrupt from None
        raise


@interrupted_alone()
def in_background(work: Callable[[], T]) -> T:
    """Returns the result of a call in the background, which continues if this thread is interrupted."""
    call = BackgroundCall(work)
    call.start()
    call.wait()
    return call.result()


@interrupted_alone()
def uninterrupted(work: Callable[[], T], spark: SparkSession | None = None) -> T:
    """Returns the result of a short call in the background; interruptions of this thread are raised after its end."""
    call = BackgroundCall(work, spark)
    try:
        call.start()
        call.wait()
    except BaseException:
        call.is_over(USUAL_LIMITS.end_seconds)
        raise
    return call.result()


@interrupted_alone()
def wait_through(event: threading.Event, seconds: float) -> bool:
    """Waits for an event despite interruptions; returns whether it has come within some seconds."""
    deadline = time.monotonic() + seconds
    while not event.is_set():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        # The first interruption has ended the run; later ones do not change how it ends.
        with suppress(BaseException):
            event.wait(min(left, _TURN_SECONDS))
    return True


class Ending:
    """Ends the query or jobs of a run, then closes what the run has opened: first sinks, and finally locks.

    A thread of its own, which no signal interrupts, calls ``end``, which returns when nothing of the run is at work any
    more, and then ``close``. If the end takes longer than ``seconds``, all stays open and locked until then, and
    the log says so.
    """

    def __init__(
        self,
        end: Callable[[], None],
        close: Callable[[], object],
        shown: str,
        seconds: float = USUAL_LIMITS.end_seconds,
    ) -> None:
        self._end, self._close, self._shown, self._seconds = end, close, shown, seconds
        self._begins = threading.Lock()
        self._has_begun = False
        self._over = threading.Event()
        self._closed = threading.Event()
        self._failure: BaseException | None = None

    @property
    def is_pending(self) -> bool:
        """Whether something of the run may still be at work, or open."""
        return not self._closed.is_set()

    @interrupted_alone()
    def close(self, error: BaseException) -> None:
        """End and close because of an exception, which gets a note if the end takes too long.

        Later calls do nothing: an exception passes several blocks that call this, and a further interruption may have
        kept the innermost of them from beginning.
        """
        if self._has_begun:
            return
        while not self._has_begun:
            try:
                threading.Thread(target=self._run, name="windrow ends a run", daemon=True).start()
                self._has_begun = True
            except RuntimeError:  # there are too many threads
                self._run()
            except BaseException:
                # The thread may have begun. If so, a second one does nothing.
                continue
        if not wait_through(self._over, self._seconds):
            text = (
                f"{self._shown} has not ended within {self._seconds:.0f} seconds: until it ends, its sinks stay open, "
                "and its checkpoint and folders locked"
            )
            _LOG.warning(text)
            error.add_note(text)
            return
        # Closing a sink may take long, and a further interruption ends this wait.
        while not self._closed.wait(_TURN_SECONDS):
            pass
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        if not self._begins.acquire(blocking=False):
            return
        self._has_begun = True
        try:
            self._end()
        except Exception:
            # The session was stopped, or its process is gone, and so are the query and jobs of the run.
            _LOG.debug("the end of %s could not be asked for", self._shown, exc_info=True)
        self._over.set()
        try:
            self._close()
        except BaseException as failure:  # it is raised in the waiting thread
            self._failure = failure
            _LOG.debug("%s could not be closed", self._shown, exc_info=True)
        finally:
            self._closed.set()


class JobCalls:
    """Runs the actions of one batch job, and can cancel all of Spark's jobs for them.

    Attributes:
        interruption: The exception that interrupted the wait for an action; None: there was none.
    """

    def __init__(self, spark: SparkSession, tag: str) -> None:
        self._spark, self._tag = spark, tag
        self._context = getattr(spark, "sparkContext", None)  # a session of a Spark Connect server has none
        self._group: str | None = None
        self._running: BackgroundCall[Any] | None = None
        self.interruption: BaseException | None = None

    @interrupted_alone()
    def run(self, action: Callable[[], T]) -> T:
        """Runs an action of Spark's in the background, and waits for it."""
        call: BackgroundCall[T] = BackgroundCall(lambda: self._tagged(action), self._spark)
        self._running = call
        try:
            call.start()
            call.wait()
        except BaseException as error:
            self.interruption = error
            raise
        return call.result()

    def _tagged(self, action: Callable[[], T]) -> T:
        context = self._context
        if context is None:
            self._spark.addTag(self._tag)
            return action()
        context.addJobTag(self._tag)
        # If the user has set a job group, it stays.
        self._group = context.getLocalProperty("spark.jobGroup.id")
        if self._group is None:
            self._group = self._tag
            shown = context.getLocalProperty("spark.job.description") or self._tag
            context.setJobGroup(self._tag, shown, interruptOnCancel=True)
        return action()

    def end(self) -> None:
        """Cancel the jobs, and wait until none of their tasks runs."""
        running = self._running
        if running is None:
            return
        while not running.is_over(0.0):
            # Cancelling is repeated, since an action has several jobs, one after the other.
            if self._context is None:
                self._spark.interruptTag(self._tag)
            else:
                self._context.cancelJobsWithTag(self._tag)
            running.is_over(_TASK_POLL_SECONDS)
        if self._group is not None:
            wait_for_tasks(self._spark, self._group)


def wait_for_tasks(spark: SparkSession, group: str) -> None:
    """Wait until no task of a group of jobs runs any more, some seconds at most.

    Spark ends a job at once when it is cancelled or fails, and its tasks, which may write to sinks, a little later. A
    Spark Connect server does not report on tasks.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return
    tracker = context.statusTracker()
    deadline = time.monotonic() + _TASKS_SECONDS
    jobs = [tracker.getJobInfo(job) for job in sorted(tracker.getJobIdsForGroup(group))[-_NEWEST_JOBS:]]
    stages = [stage for job in jobs if job is not None for stage in job.stageIds]
    while stages and time.monotonic() < deadline:
        infos = [tracker.getStageInfo(stage) for stage in stages]
        stages = [info.stageId for info in infos if info is not None and info.numActiveTasks > 0]
        if stages:
            time.sleep(_TASK_POLL_SECONDS)
