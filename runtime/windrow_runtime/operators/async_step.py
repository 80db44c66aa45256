"""Defines the step that runs a coroutine for each element, with its event loop, its tries and its limits of time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Coroutine, Sequence
from concurrent.futures import wait as wait_for_any
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from windrow.calls.results import truth
from windrow.errors import UserFunctionError
from windrow.functions import AsyncFunction, RuntimeContext
from windrow.plan import MapAsyncNode, Step
from windrow.time import duration_text
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import (
    USER_ERRORS,
    first_line,
    function_failed,
    lifecycle_errors,
    raise_call_error,
    shortened,
)
from windrow_runtime.operators.fused_step import FusedStep, Timestamps, Values
from windrow_runtime.operators.guarded.guard import is_failure
from windrow_runtime.operators.lookup_steps import Taps

# Any in this module: elements of every type.

R = TypeVar("R")

# A worker outlives the steps: each batch of Spark makes one anew.
_next_tries: Final[dict[str, float]] = {}
"""When a worker may begin the next try of a step with a rate limit, by where the step stands in the program."""

_turns: Final = threading.Lock()


def _seconds_to_wait(where: str, seconds: float) -> float:
    """Takes the turn of a step, so that the next one is so many seconds later, or returns how long it has to wait."""
    with _turns:  # several runs of a process may have the step
        now = time.monotonic()
        wait = _next_tries.get(where, now) - now
        if wait <= 0:
            _next_tries[where] = now + seconds
        return wait


CLEAN_UP_SECONDS: Final = 5.0
"""The seconds in which coroutines may clean up when the step ends, or too many were left behind."""


class AsyncStep(FusedStep):
    """Runs a coroutine for each element, several concurrently, and waits until all are done."""

    def __init__(
        self,
        step: Step,
        then: Sequence[FusedStep],
        taps: Taps,
        node: MapAsyncNode,
        clean_up_seconds: float = CLEAN_UP_SECONDS,
    ) -> None:
        super().__init__(step, then, constant=False)
        self.function: Any = node.function
        self._node = node
        self._taps = taps
        self._clean_up = clean_up_seconds
        self._loop = _Loop(clean_up_seconds)
        self._queue = asyncio.Lock()  # of tries that wait for their turn
        self._left: set[asyncio.Task[Any]] = set()  # coroutines that go on though they were cancelled
        self._is_open = False

    def open(self, runtime: RuntimeContext) -> None:
        """Calls ``open_async`` of the function in the event loop, if the function has it."""
        self._is_open = True
        if self._overrides("open_async"):
            try:
                with lifecycle_errors(self.step, "open_async", self.function):
                    self._loop.run(_guarded(self.function.open_async(runtime)))
            except BaseException:
                # A function that could not be opened is not closed, and the loop's thread ends.
                self._is_open = False
                self._loop.close()
                raise

    def push(self, values: Values, timestamps: Timestamps) -> None:
        """Processes elements, and passes on their results when all of them are done."""
        if not values:
            return
        try:
            order, results = self._loop.run(self._all(values))
        except SystemExit as error:
            # A task that a user's coroutine has started raised it, which has ended the loop.
            raise_call_error(self.step, error, f"one of {len(values)} elements")
        done_indices = [index for index in order if not isinstance(results[index], _SideOutput)]
        done, stamps = [results[index] for index in done_indices], [timestamps[index] for index in done_indices]
        self._forward(done, stamps, done_indices.__getitem__)
        side_outputs: dict[str, list[int]] = {}
        for index, result in enumerate(results):
            if isinstance(result, _SideOutput):
                if result.error is not None:
                    assert self.guard is not None, "it has decided"
                    origin = partial(self.trail.origin_of, index)
                    self.guard.refuse(first_line(result.error), values[index], timestamps[index], origin)
                else:
                    side_outputs.setdefault(result.tag, []).append(index)
        for tag in sorted(side_outputs):
            indices = side_outputs[tag]
            self._taps.push(tag, [values[index] for index in indices], [timestamps[index] for index in indices])
        self._pass_failed()

    def close(self) -> None:
        """Calls ``close_async`` of the function in the event loop, if the function has it, and ends the loop."""
        try:
            if self._is_open and self._overrides("close_async"):
                with lifecycle_errors(self.step, "close_async", self.function):
                    self._loop.run(_guarded(self.function.close_async()))
        finally:
            self._is_open = False
            self._loop.close()

    def _overrides(self, name: str) -> bool:
        """Returns whether the function overrides a method; otherwise no event loop is started for it."""
        return isinstance(self.function, AsyncFunction) and getattr(type(self.function), name) is not getattr(
            AsyncFunction, name
        )

    async def _all(self, values: Values) -> tuple[list[int], list[Any]]:
        """Returns the indices of elements in the order of output, and the results by index."""
        results: list[Any] = [None] * len(values)
        finished: list[int] = []
        indices = iter(range(len(values)))

        async def work() -> None:
            for index in indices:
                results[index] = await self._one(values[index])
                finished.append(index)

        workers = [asyncio.ensure_future(work()) for _ in range(min(self._node.capacity, len(values)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return (list(range(len(values))) if self._node.ordered else finished), results

    async def _one(self, value: Any) -> Any:
        """Returns the result for an element, after as many tries as are allowed, or a ``_SideOutput``; else raises."""
        for attempts in count(1):
            outcome = await self._try(value)
            error = outcome.error
            if error is not None and not isinstance(error, (*USER_ERRORS, asyncio.CancelledError)):
                raise _InterruptedError(error)
            try:
                delay = self._delay(outcome, attempts)
            except USER_ERRORS as failure:
                raise_call_error(self.step, failure, f"element {shortened(value)}, try {attempts}")
            if delay is None:
                return self._settled(value, outcome, attempts)
            await asyncio.sleep(delay)
        raise AssertionError("the loop has no end")

    def _delay(self, outcome: _Outcome, attempts: int) -> float | None:
        """Returns the seconds until an element is tried again; None: the outcome is final."""
        strategy, error = self._node.retry, outcome.error
        if error is None:
            again = strategy.retries_result(outcome.result)
        else:
            # The strategy sees a RuntimeError if a coroutine was cancelled, or called sys.exit().
            again = strategy.retries_error(error if isinstance(error, Exception) else RuntimeError(first_line(error)))
        if not truth(again) or not truth(strategy.can_retry(attempts)):
            return None
        return max(strategy.backoff(attempts).total_seconds(), 0.0)

    def _settled(self, value: Any, outcome: _Outcome, attempts: int) -> Any:
        """Returns the result for a final outcome, or a ``_SideOutput``, or raises its error."""
        node, error = self._node, outcome.error
        if error is None:
            return self._for_each([value], own, [outcome.result])[0]
        if outcome.is_late and node.timed_out is not None:
            return _SideOutput(node.timed_out.name)
        if node.failed is not None:
            return _SideOutput(node.failed.name)
        if self.guard is not None and is_failure(error):
            return _SideOutput(self.guard.tag, error)
        if outcome.is_late:
            raise self._timed_out(value, attempts)
        if isinstance(error, asyncio.CancelledError):
            raise function_failed(self.step, error, f"element {shortened(value)}") from error
        return raise_call_error(self.step, error, f"element {shortened(value)}")

    async def _try(self, value: Any) -> _Outcome:
        """Calls the function once. An answer after the timeout does not count, whatever the function does then."""
        limit = None if self._node.timeout is None else self._node.timeout / 1000
        if self._node.rate_limit is not None:
            await self._turn(1 / self._node.rate_limit)
        clock = asyncio.get_running_loop().time
        begin_time = clock()
        # The call is a separate task, which may be abandoned if it does not end when it is cancelled.
        task = asyncio.ensure_future(self._call(value))
        try:
            await asyncio.wait({task}, timeout=limit)
        except asyncio.CancelledError:
            # Another element has failed, or the run was interrupted: the coroutine may clean up.
            await self._leave(task, self._clean_up)
            raise
        if not task.done():
            await self._leave(task, _GRACE)
            return _LATE
        if task.cancelled():
            return _Outcome(error=asyncio.CancelledError())
        outcome, ended = task.result()
        return _LATE if limit is not None and ended - begin_time > limit else outcome

    async def _turn(self, seconds: float) -> None:
        """Waits until the next try of the step may begin; tries begin at least so many seconds after each other."""
        async with self._queue:
            while (wait := _seconds_to_wait(self.step.where, seconds)) > 0:
                await asyncio.sleep(wait)

    async def _call(self, value: Any) -> tuple[_Outcome, float]:
        """Returns the outcome of a call and its time. It raises no exception but a cancellation.

        ``KeyboardInterrupt`` and ``SystemExit`` would end the event loop, and the reason would be lost.
        """
        clock = asyncio.get_running_loop().time
        try:
            outcome = _Outcome(await self.function(own(value)))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            outcome = _Outcome(error=error)
        except BaseException as error:  # it is raised later, in the thread of the step
            outcome = _Outcome(error=error)
        return outcome, clock()

    async def _leave(self, task: asyncio.Task[Any], seconds: float) -> None:
        """Cancels a coroutine and gives it some time to end; one that goes on is abandoned."""
        task.cancel()
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return
        self._left.add(task)
        task.add_done_callback(self._left.discard)
        if len(self._left) <= self._node.capacity:
            return
        # Others wait until one has ended.
        await asyncio.wait(set(self._left), timeout=self._clean_up, return_when=asyncio.FIRST_COMPLETED)
        if len(self._left) > self._node.capacity:
            raise UserFunctionError(
                "coroutines of the step go on though they were cancelled",
                given=f"{len(self._left)} at a time",
                expected=f"{self._node.capacity} at most, the capacity of the step",
                where=self.step.where,
                hint="a client that catches asyncio.CancelledError raises it again; give it a timeout of its own",
            )

    def _timed_out(self, value: Any, attempts: int) -> UserFunctionError:
        timeout = self._node.timeout
        assert timeout is not None, "else no try takes too long"
        return UserFunctionError(
            "a coroutine of the step took too long",
            given=f"element {shortened(value)}, {attempts} tries",
            expected=f"an answer within {duration_text(timeout)}",
            where=self.step.where,
            hint="allow more time or more retries, or send such elements to a side output: timed_out=tag",
        )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a try: a result or an error."""

    result: Any = None
    error: BaseException | None = None
    is_late: bool = False


_LATE: Final = _Outcome(error=TimeoutError("the try took too long"), is_late=True)


@dataclass(frozen=True, slots=True)
class _SideOutput:
    """Replaces the result of an element that goes to a side output, or with an error is one that failed."""

    tag: str
    error: BaseException | None = None


class _InterruptedError(Exception):
    """Wraps a ``KeyboardInterrupt``, or another exception that would end the event loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


async def _guarded(work: Awaitable[R]) -> R:
    """Runs a coroutine, and wraps exceptions that would end the event loop."""
    try:
        return await work
    except (KeyboardInterrupt, SystemExit, GeneratorExit) as error:
        raise _InterruptedError(error) from error


_GRACE: Final = 0.05
"""The seconds that a coroutine has to clean up after its timeout, before it is abandoned."""

_LOOK: Final = 0.25
"""The seconds after which a waiting caller checks again whether the event loop still runs."""


class _Loop:
    """An event loop in a separate thread, started by the first call; a notebook has one in the main thread already."""

    def __init__(self, clean_up_seconds: float) -> None:
        self._clean_up = clean_up_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._fatal: BaseException | None = None
        self._is_closing = False

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Runs a coroutine to its end, and returns its result.

        If the caller is interrupted, the coroutine is cancelled, and has some time to clean up.
        """
        loop, thread = self._started()
        ended = threading.Event()
        tasks: list[asyncio.Task[Any] | None] = []

        async def watched() -> R:
            tasks.append(asyncio.current_task())
            try:
                return await work
            finally:
                ended.set()

        def cancel() -> None:
            for task in tasks:
                if task is not None:
                    task.cancel()
            if not tasks:
                ended.set()  # it has not begun

        try:
            # An interruption may come after the loop has got the work, and before there is a future for it.
            future = asyncio.run_coroutine_threadsafe(watched(), loop)
            while not future.done():
                wait_for_any([future], timeout=_LOOK)
                if not thread.is_alive() and not future.done():
                    raise self._fatal or RuntimeError("the event loop has ended")
            return future.result()
        except _InterruptedError as interrupted:
            raise interrupted.error from None
        except BaseException:
            if not ended.is_set() and thread.is_alive():
                loop.call_soon_threadsafe(cancel)
                ended.wait(self._clean_up + 1)
            raise

    def _started(self) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
        if self._loop is None:
            self._loop, self._fatal, self._is_closing = asyncio.new_event_loop(), None, False
            self._begin_thread(self._loop)
        assert self._thread is not None, "the loop has one"
        return self._loop, self._thread

    def _begin_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._thread = threading.Thread(target=self._serve, args=(loop,), name="windrow-map-async", daemon=True)
        self._thread.start()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
                return
            except BaseException as error:  # of a task that a user's coroutine has started; `run` raises it
                self._fatal = self._fatal or error
                # While the loop closes, it is run again, so that other coroutines can clean up.
                if not self._is_closing:
                    return

    def close(self) -> None:
        """Cancels all tasks, gives them time to clean up, and ends the thread."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None
        self._is_closing = True
        if not thread.is_alive():
            # If a coroutine has ended the loop, it is run again, so that others can clean up.
            self._begin_thread(loop)
            thread, self._thread = self._thread, None
        assert thread is not None, "it has just begun"
        ending = asyncio.run_coroutine_threadsafe(_end_tasks(self._clean_up), loop)
        wait_for_any([ending], timeout=self._clean_up + 1)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(self._clean_up)
        # A coroutine that holds the thread up, without awaiting anything, keeps its loop: the thread is a daemon.
        if not thread.is_alive():
            loop.close()


async def _end_tasks(seconds: float) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=seconds)
    await asyncio.get_running_loop().shutdown_asyncgens()
