"""Runs keyed process functions with an error policy: a call that fails changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from windrow.failures import ErrorPolicy
from windrow.functions import TimeDomain
from windrow.plan import Step
from windrow.plan.emitting import records_of
from windrow.state import StateTtlConfig
from windrow.tags import OutputTag
from windrow_runtime.operators.broadcast.broadcast_operator import BroadcastOperator, ReadingContext
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS, call_description, first_line, shortened
from windrow_runtime.operators.guarded.guard import NO_RESULT, Guard
from windrow_runtime.operators.process_operator import ProcessContext, ProcessOperator
from windrow_runtime.operators.state.model import TimerQueue
from windrow_runtime.operators.state.time_to_live import TtlCells, TtlTimer
from windrow_runtime.operators.state.undo import UndoLog

# Any in this module: elements, keys and results of every type.


class GuardedProcessOperator(ProcessOperator):
    """Calls a process function, and discards what a call that fails has emitted, stored and set.

    A timer whose call fails has fired: it does not come again.
    """

    # Any: a subclass takes nodes of another class.
    def __init__(self, step: Step, node: Any) -> None:
        assert node.error_policy is not None, "the caller has asked"
        self.held: list[tuple[str | None, Any, int | None]] = []  # what the current call has put out
        super().__init__(step, node)
        self._policy: ErrorPolicy = node.error_policy
        self._guard = Guard(step, node.error_policy, self._put_out)

    def _make_context(self) -> Any:
        return _UndoingContext(self)

    def _put_out(self, tag: str, failed: object, timestamp: int | None) -> None:
        self.output.side_output(tag, failed, timestamp)

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        context = self._context
        process = self._with_copy if self._guard.gives_copies else self._function.process_element
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            enter = partial(context.enter, key, timestamp)
            given = partial(call_description, key, element=value)
            self._run(enter, partial(process, value, context), timestamp, value, timestamp, given, first_line)

    def _with_copy(self, value: Any, context: Any) -> Any:
        return self._function.process_element(own(value), context)

    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        if isinstance(namespace, TtlTimer):
            super().on_timer(time, key, namespace, event_time)
            return
        context = self._context
        timestamp = time if event_time else None
        domain = TimeDomain.EVENT_TIME if event_time else TimeDomain.PROCESSING_TIME
        timer = f"timer {time} in {domain.value}"
        self._run(
            partial(context.enter, key, timestamp, domain, time),
            partial(self._function.on_timer, time, context),
            timestamp,
            None,
            time,
            lambda: f"{call_description(key)}, {timer}",
            lambda error: f"{first_line(error)} (key {shortened(key)}, {timer})",
        )

    def _run(
        self,
        enter: Callable[[], None],
        call: Callable[[], Any],
        timestamp: int | None,
        element: Any,
        put_out_at: int | None,
        given: Callable[[], str],
        text: Callable[[BaseException], str],
    ) -> None:
        """Makes a call, and emits what it gave, in order, when it has succeeded."""
        once = partial(self._once, enter, call, timestamp)
        try:
            emitted = once()
        except USER_ERRORS as error:
            self._guard.metrics = self.metrics
            emitted = self._guard.settle(error, element, put_out_at, once, given=given, text=text)
            if emitted is NO_RESULT and self.observer is not None:
                self.observer.failed(self._policy)
        if emitted is not NO_RESULT:
            for tag, value, time in emitted:
                if tag is None:
                    self.output.collect(value, time)
                else:
                    self.output.side_output(tag, value, time)

    def _once(self, enter: Callable[[], None], call: Callable[[], Any], timestamp: int | None) -> Any:
        """Returns what a call emitted: the tag, None for the main output, and value and timestamp of each."""
        context = self._context
        self.held = held = []
        context.store.undo = undo = UndoLog()
        try:
            enter()
            results = call()
            if results is not None:
                for result in records_of(results, self._result_type):
                    # A generator may put something out at a side output in between.
                    held.append((None, own(result), timestamp))  # noqa: PERF401
        except BaseException:
            undo.take_back()
            raise
        finally:
            context.leave()
            context.store.undo = None
        return held


class _UndoingContext(ProcessContext):
    """The context of a call that may be taken back."""

    __slots__ = ()

    def output(self, tag: OutputTag[Any], value: Any) -> None:
        assert isinstance(self._operator, GuardedProcessOperator), "made by one"
        self._operator.held.append((tag.name, own(value), self._output_timestamp))

    def register_event_time_timer(self, time: int | datetime) -> None:
        self._note_timer(self._operator.state.event_timers, time)
        super().register_event_time_timer(time)

    def register_processing_time_timer(self, time: int | datetime) -> None:
        self._note_timer(self._operator.state.processing_timers, time)
        super().register_processing_time_timer(time)

    def delete_event_time_timer(self, time: int | datetime) -> None:
        self._note_timer(self._operator.state.event_timers, time)
        super().delete_event_time_timer(time)

    def delete_processing_time_timer(self, time: int | datetime) -> None:
        self._note_timer(self._operator.state.processing_timers, time)
        super().delete_processing_time_timer(time)

    def _note_timer(self, timers: TimerQueue, time: int | datetime) -> None:
        _note(self.store.undo, timers, self._key, self._namespace, self._due(time))

    def _expiring(self, name: str, ttl: StateTtlConfig) -> TtlCells:
        cells, timers = super()._expiring(name, ttl), self._timers_of(ttl.time_domain)
        set_timer, key = cells.set_timer, self._key

        def set_and_note(time: int) -> None:
            _note(self.store.undo, timers, key, TtlTimer(name, ttl.millis), time)
            set_timer(time)

        cells.set_timer = set_and_note
        return cells


class GuardedBroadcastOperator(GuardedProcessOperator, BroadcastOperator):
    """Calls a process function with rules; one that raises for a rule fails the run."""

    def _make_context(self) -> Any:
        return _UndoingReadingContext(self, self._declared)


class _UndoingReadingContext(_UndoingContext, ReadingContext):
    """The context of a call for a key that reads rules, and may be taken back."""

    __slots__ = ()


def _note(undo: UndoLog | None, timers: TimerQueue, key: Hashable, namespace: Any, time: int) -> None:
    """Notes whether a timer is set, before it is set or deleted."""
    if undo is not None:
        undo.add(partial(timers.put_back, key, namespace, time, timers.number(key, namespace, time)))
