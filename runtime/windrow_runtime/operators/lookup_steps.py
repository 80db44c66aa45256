"""Steps of a fragment that put elements out at side outputs, take several at a time, or wait for many side by side."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from windrow.errors import InvalidArgumentError, UserFunctionError
from windrow.plan import MapAsyncNode, MapBatchesNode, ProcessNode, Step
from windrow.plan.emitting import records_of
from windrow.tags import OutputTag
from windrow_runtime.operators.copies import own, own_all
from windrow_runtime.operators.errors import USER_ERRORS, function_failed, raise_call_error, shortened
from windrow_runtime.operators.fused_step import FusedStep, Timestamps, Values

# Any in this module: elements of every type.

R = TypeVar("R")
_NONE: Final = object()
"""Stands for the result of an element that has timed out, since None may be one."""


Observe: TypeAlias = Callable[[str, Values, Timestamps], None]
"""Is shown what leaves a step at a side output, by the name of its tag, whether or not something reads it."""


class Taps:
    """Hands elements to the readers of side outputs, by the names of their tags, and shows them to an observer."""

    def __init__(self, step: Step, taps: Mapping[str, Sequence[FusedStep]], observe: Observe | None = None) -> None:
        self._steps = {tag: FusedStep(step, readers, constant=False) for tag, readers in taps.items()}
        self._observe = observe

    def push(self, tag: str, values: Values, timestamps: Timestamps) -> None:
        """Hands on elements of one side output."""
        if self._observe is not None:
            self._observe(tag, own_all(values), timestamps)
        step = self._steps.get(tag)
        if step is not None:
            step.push(values, timestamps)


class ProcessStep(FusedStep):
    """Calls a process function without keys."""

    def __init__(self, step: Step, then: Sequence[FusedStep], taps: Taps, node: ProcessNode) -> None:
        super().__init__(step, then, constant=False)
        self.function: Any = node.function  # is opened and closed
        self._taps = taps
        self._context = _Context()
        self._kind = node.element_type

    def push(self, values: Values, timestamps: Timestamps) -> None:
        """Takes elements; main results go first, then side outputs by the names of their tags."""
        context, process = self._context, self.function.process_element
        found: Values = []
        stamps: Timestamps = []
        context.sides = {}
        for value, timestamp in zip(values, timestamps, strict=True):
            context.timestamp = timestamp
            try:
                results = process(value, context)
                if results is not None:
                    for result in records_of(results, self._kind):
                        found.append(own(result))
                        stamps.append(timestamp)
            except USER_ERRORS as error:
                raise_call_error(self.step, error, f"element {shortened(value)}")
        sides, context.sides = context.sides, {}
        self._forward(found, stamps)
        for tag in sorted(sides):
            self._taps.push(tag, *sides[tag])


class _Context:
    """The context of process functions without keys; one serves all calls."""

    __slots__ = ("sides", "timestamp")

    def __init__(self) -> None:
        self.timestamp: int | None = None
        self.sides: dict[str, tuple[Values, Timestamps]] = {}

    def output(self, tag: OutputTag[Any], value: Any) -> None:
        values, timestamps = self.sides.setdefault(tag.name, ([], []))
        values.append(own(value))
        timestamps.append(self.timestamp)


class BatchStep(FusedStep):
    """Calls a function of several elements."""

    def __init__(self, step: Step, then: Sequence[FusedStep], node: MapBatchesNode) -> None:
        super().__init__(step, then, constant=False)
        self.function: Any = node.function
        self._size = node.size
        self._kind = node.element_type

    def push(self, values: Values, timestamps: Timestamps) -> None:
        """Takes elements, and cuts them into batches."""
        for start in range(0, len(values), self._size):
            some = values[start : start + self._size]
            what = f"{len(some)} elements, the first of them {shortened(some[0])}"
            try:
                results = [own(result) for result in records_of(self.function(some), self._kind)]
            except USER_ERRORS as error:
                raise_call_error(self.step, error, what)
            if len(results) != len(some):
                raise InvalidArgumentError(
                    "a function of batches gave another number of results",
                    given=f"{len(results)} results for {what}",
                    expected="one result for each element, in the same order",
                    where=self.step.where,
                    hint="map_batches makes one element of each; flat_map makes any number",
                )
            self._forward(results, timestamps[start : start + self._size])


class AsyncStep(FusedStep):
    """Runs a coroutine for each element, a number of them side by side, until all are done."""

    def __init__(self, step: Step, then: Sequence[FusedStep], taps: Taps, node: MapAsyncNode) -> None:
        super().__init__(step, then, constant=False)
        self.function: Any = node.function
        self._node = node
        self._taps = taps
        self._loop = _Loop()

    def push(self, values: Values, timestamps: Timestamps) -> None:
        """Takes elements, and hands their results on when all of them are done."""
        if not values:
            return
        order, results = self._loop.run(self._all(values))
        done = [place for place in order if results[place] is not _NONE]
        self._forward([own(results[place]) for place in done], [timestamps[place] for place in done])
        late = [place for place in range(len(values)) if results[place] is _NONE]
        if late and self._node.timed_out is not None:
            tag = self._node.timed_out.name
            self._taps.push(tag, [values[place] for place in late], [timestamps[place] for place in late])

    def close(self) -> None:
        """Ends the event loop."""
        self._loop.close()

    async def _all(self, values: Values) -> tuple[list[int], list[Any]]:
        """The places of elements in the order in which they come out, and the results by place."""
        results: list[Any] = [_NONE] * len(values)
        finished: list[int] = []
        places = iter(range(len(values)))

        async def work() -> None:
            for place in places:
                results[place] = await self._one(values[place])
                finished.append(place)

        workers = [asyncio.ensure_future(work()) for _ in range(min(self._node.capacity, len(values)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return (list(range(len(values))) if self._node.ordered else finished), results

    async def _one(self, value: Any) -> Any:
        """The result for an element, after as many tries as are allowed."""
        node = self._node
        timeout = None if node.timeout is None else node.timeout / 1000
        for left in range(node.retries, -1, -1):
            limit = asyncio.timeout(timeout)
            try:
                async with limit:
                    return await self.function(own(value))
            except TimeoutError as error:
                if not limit.expired():
                    if not left:
                        raise_call_error(self.step, error, f"element {shortened(value)}")
                elif not left:
                    if node.timed_out is not None:
                        return _NONE
                    raise self._timed_out(value) from None
            except asyncio.CancelledError as error:
                # The step cancels its own work where another element has failed; else the coroutine did it.
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                if not left:
                    raise function_failed(self.step, error, f"element {shortened(value)}") from error
            except USER_ERRORS as error:
                if not left:
                    raise_call_error(self.step, error, f"element {shortened(value)}")
        raise AssertionError("the last try returns or raises")

    def _timed_out(self, value: Any) -> UserFunctionError:
        return UserFunctionError(
            "a coroutine of the step took too long",
            given=f"element {shortened(value)}, {self._node.retries + 1} tries",
            expected=f"an answer within {self._node.timeout} ms",
            where=self.step.where,
            hint="allow more time or more retries, or send such elements to a side output: timed_out=tag",
        )


class _Loop:
    """An event loop in a thread of its own, which begins with the first call: a notebook has one in the main thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Runs a coroutine to its end, and gives its result."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="windrow-map-async", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Ends the thread."""
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None
