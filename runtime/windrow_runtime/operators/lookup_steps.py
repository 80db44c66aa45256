"""Defines the steps of a fragment for process functions and functions of batches, and their side outputs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any, NoReturn, Protocol, TypeAlias

from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.plan import MapBatchesNode, ProcessNode, Step
from windrow.plan.emitting import records_of
from windrow.tags import OutputTag
from windrow_runtime.operators.class_facts import is_constant_type
from windrow_runtime.operators.copies import own, own_all
from windrow_runtime.operators.errors import USER_ERRORS, raise_call_error, shortened
from windrow_runtime.operators.fused_step import FusedStep, Timestamps, Values
from windrow_runtime.operators.guarded.guard import NO_RESULT, Guard, is_failure
from windrow_runtime.operators.guarded.trail import Trail, both, kept, unknown

# Any in this module: elements of every type.

Observe: TypeAlias = Callable[[str, Values, Timestamps], None]
"""Is called with the elements of side outputs, by the name of the tag, whether or not the pipeline reads them."""


class Taps:
    """Passes elements of side outputs to their readers, by the names of tags, and to an observer."""

    def __init__(
        self, step: Step, taps: Mapping[str, Sequence[FusedStep]], trail: Trail, observe: Observe | None = None
    ) -> None:
        self._steps = {tag: _Tap(step, readers, constant=False) for tag, readers in taps.items()}
        for tap in self._steps.values():
            tap.trail = trail
        self._observe = observe

    def push(self, tag: str, values: Values, timestamps: Timestamps) -> None:
        """Passes on elements of one side output."""
        if self._observe is not None:
            self._observe(tag, own_all(values), timestamps)
        step = self._steps.get(tag)
        if step is not None:
            step.push(values, timestamps)


class _Tap(FusedStep):
    """Passes on elements of a side output, of which nobody knows out of which elements they were made."""

    def push(self, values: Values, timestamps: Timestamps) -> None:
        self._forward(values, timestamps, unknown)


class StepTimes(Protocol):
    """The engine's clock for steps without keys, in milliseconds."""

    def watermark_of(self, step: Step) -> int:
        """Returns the watermark of the step's input; ``MIN_TIMESTAMP`` if there is none."""

    def processing_time(self) -> int:
        """Returns the processing time."""


class _TimeOnly:
    """The timer service of a step without keys, which tells the time and refuses timers."""

    __slots__ = ("_step", "_times")

    def __init__(self, step: Step, times: StepTimes) -> None:
        self._step = step
        self._times = times

    @property
    def current_watermark(self) -> int:
        return self._times.watermark_of(self._step)

    @property
    def current_processing_time(self) -> int:
        return self._times.processing_time()

    def register_event_time_timer(self, time: object) -> NoReturn:
        raise _no_timers("register_event_time_timer", time)

    def register_processing_time_timer(self, time: object) -> NoReturn:
        raise _no_timers("register_processing_time_timer", time)

    def delete_event_time_timer(self, time: object) -> NoReturn:
        raise _no_timers("delete_event_time_timer", time)

    def delete_processing_time_timer(self, time: object) -> NoReturn:
        raise _no_timers("delete_processing_time_timer", time)


def _no_timers(method: str, time: object) -> UnsupportedOperationError:
    verb = "deleting" if method.startswith("delete") else "setting"
    return UnsupportedOperationError(
        f"a stream without keys has no timers: {verb} timers is only supported on keyed streams",
        given=f"timer_service.{method}({time!r})",
        expected="a function of a keyed stream, or timer_service for the time alone",
        hint="call key_by first, and make the function a KeyedProcessFunction or KeyedCoProcessFunction",
    )


class ProcessStep(FusedStep):
    """Calls a process function without keys."""

    def __init__(self, step: Step, then: Sequence[FusedStep], taps: Taps, node: ProcessNode, times: StepTimes) -> None:
        super().__init__(step, then, constant=False)
        self.function: Any = node.function  # the fragment opens and closes it
        self._taps = taps
        self._context = _Context(_TimeOnly(step, times))
        self._element_type = node.element_type

    def push(self, values: Values, timestamps: Timestamps) -> None:
        """Processes elements; main results are passed on first, then side outputs by the names of their tags."""
        context, process = self._context, self.function.process_element
        main_results: Values = []
        stamps: Timestamps = []
        ends: list[int] = []  # how many results there are up to each element
        context.sides = {}
        for index, (value, timestamp) in enumerate(zip(values, timestamps, strict=True)):
            ends.append(len(main_results))
            context.timestamp = timestamp
            if self.guard is not None:
                made = self._guarded(self.guard, value, timestamp, index)
                main_results += made
                stamps += [timestamp] * len(made)
                continue
            try:
                results = process(value, context)
                if results is not None:
                    for result in records_of(results, self._element_type):
                        main_results.append(own(result))
                        stamps.append(timestamp)
            except USER_ERRORS as error:
                raise_call_error(self.step, error, f"element {shortened(value)}")
        sides, context.sides = context.sides, {}
        self._forward(main_results, stamps, lambda index: bisect_right(ends, index) - 1)
        for tag in sorted(sides):
            self._taps.push(tag, *sides[tag])
        self._pass_failed()

    def _guarded(self, guard: Guard, value: Any, timestamp: int | None, index: int) -> Values:
        """Returns the results for an element; what a failed call has put out is discarded."""
        sides = self._context.sides
        made: Any  # a list of results, or NO_RESULT

        def call() -> Values:
            self._context.sides = {}
            results = self.function.process_element(own(value) if guard.gives_copies else value, self._context)
            return [] if results is None else [own(each) for each in records_of(results, self._element_type)]

        try:
            try:
                made = call()
            except USER_ERRORS as error:
                given, origin = partial("element {}".format, shortened(value)), partial(self.trail.origin_of, index)
                made = guard.settle(error, value, timestamp, call, given=given, origin=origin)
                if made is NO_RESULT:
                    self._context.sides = {}
                    return []
            for tag, (values, timestamps) in self._context.sides.items():
                earlier_values, earlier_timestamps = sides.setdefault(tag, ([], []))
                earlier_values += values
                earlier_timestamps += timestamps
            results: Values = made
            return results
        finally:
            self._context.sides = sides


class _Context:
    """The context of process functions without keys; one instance serves all calls."""

    __slots__ = ("sides", "timer_service", "timestamp")

    def __init__(self, timer_service: _TimeOnly) -> None:
        self.timer_service = timer_service
        self.timestamp: int | None = None
        self.sides: dict[str, tuple[Values, Timestamps]] = {}

    def output(self, tag: OutputTag[Any], value: Any) -> None:
        values, timestamps = self.sides.setdefault(tag.name, ([], []))
        values.append(own(value))
        timestamps.append(self.timestamp)


class BatchStep(FusedStep):
    """Calls a function with batches of several elements."""

    def __init__(self, step: Step, then: Sequence[FusedStep], node: MapBatchesNode) -> None:
        super().__init__(step, then, constant=False)
        self.function: Any = node.function
        self._size = node.size
        self._element_type = node.element_type
        self._takes_constants = is_constant_type(node.input.element_type)

    def push(self, values: Values, timestamps: Timestamps) -> None:
        """Cuts elements into batches, and calls the function with each."""
        for start in range(0, len(values), self._size):
            batch = values[start : start + self._size]
            what = f"{len(batch)} elements, the first of them {shortened(batch[0])}"
            stamps = timestamps[start : start + self._size]
            self._kept = None
            try:
                # What a call that raises has changed is not given to the function again.
                is_copied = self.guard is not None and not self._takes_constants
                results = self._results(own_all(batch) if is_copied else batch, what)
            except USER_ERRORS as error:
                if self.guard is None or not is_failure(error):
                    raise_call_error(self.step, error, what)
                # The function may have changed its list.
                results, stamps = self._one_by_one(self.guard, values[start : start + self._size], stamps, start)
            self._forward(results, stamps, both(kept(self._kept), start.__add__))
        self._pass_failed()

    def _results(self, batch: Values, what: str) -> Values:
        """Returns a result for each element of a batch."""
        results = [own(result) for result in _in_order(records_of(self.function(batch), self._element_type))]
        if len(results) != len(batch):
            raise InvalidArgumentError(
                "a function of batches gave another number of results",
                given=f"{len(results)} results for {what}",
                expected="one result for each element, in the same order",
                where=self.step.where,
                hint="map_batches makes one element of each; flat_map makes any number",
            )
        return results

    def _one_by_one(self, guard: Guard, batch: Values, timestamps: Timestamps, start: int) -> tuple[Values, Timestamps]:
        """Calls the function with each element of a failed batch alone; returns the results, with timestamps."""
        results: Values = []
        stamps: Timestamps = []
        self._kept = is_kept = bytearray(b"\1") * len(batch)
        for index, (value, timestamp) in enumerate(zip(batch, timestamps, strict=True)):
            made = self._settled(guard, value, timestamp, start + index)
            if made is NO_RESULT:
                is_kept[index] = False
            else:
                results += made
                stamps.append(timestamp)
        return results, stamps

    def _settled(self, guard: Guard, value: Any, timestamp: int | None, index: int) -> Any:
        """Returns a list of the result for one element, or ``NO_RESULT``."""
        what = f"element {shortened(value)}"

        def call() -> Values:
            # The function may change its list.
            return self._results([own(value) if guard.gives_copies else value], what)

        try:
            return call()
        except USER_ERRORS as error:
            origin = partial(self.trail.origin_of, index)
            return guard.settle(error, value, timestamp, call, given=lambda: what, origin=origin)


# Any: results of every type.
def _in_order(results: Iterable[Any]) -> Iterable[Any]:
    """Refuses a set of results, which has no order to match results with elements."""
    if isinstance(results, Set):
        raise InvalidArgumentError(
            "a function of batches gave results without an order",
            given=f"a {type(results).__name__}",
            expected="a list with one result for each element, in the same order",
            hint="[f(element) for element in elements]",
        )
    return results
