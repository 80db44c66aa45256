"""Defines the base class of operators, which run keyed steps on both engines, and the contexts of users' functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any, Final, Protocol

from windrow.errors import UnsupportedOperationError
from windrow.functions import ProcessWindowContext, RichFunction, RuntimeContext
from windrow.panes import PaneInfo
from windrow.plan import Step
from windrow.state import KeyedStateStore, StateDescriptor
from windrow.tags import OutputTag
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, timestamp_millis
from windrow_runtime.metrics.step_metrics import Metrics
from windrow_runtime.operators.errors import call_description, lifecycle_errors
from windrow_runtime.operators.observer import Observer
from windrow_runtime.operators.state.handles import StateStore
from windrow_runtime.operators.state.model import NOTHING, OperatorState, TimerQueue, WindowEntry
from windrow_runtime.operators.state.undo import UndoLog
from windrow_runtime.operators.topology import uses_clock

# Any in this module: an operator carries elements of every type.

FIRINGS_AT_ONCE: Final = 1024
"""The timers that fire before an advance pauses, so that the engine can take the results."""

LONGEST_CHAIN: Final = 10_000
"""The most timers in a chain at the end of the stream, each set by the callback of the one before."""


@dataclass(slots=True)
class OperatorRuntimeContext:
    """The runtime context of users' functions: their step, its metrics, and the key group, which the engine sets."""

    step_name: str
    metrics: Metrics
    key_group: int | None = None
    store: StateStore | None = None  # of keyed process functions

    # Any: overloads of the protocol give the type by the descriptor.
    def get_state(self, descriptor: StateDescriptor) -> Any:
        if self.store is None:
            raise UnsupportedOperationError(
                "the runtime context of this function has no keyed state",
                given=descriptor,
                expected="a KeyedProcessFunction, a KeyedCoProcessFunction or a KeyedBroadcastProcessFunction",
                hint="a window function asks context.global_state or context.window_state in process; without keys "
                "there is no state",
            )
        return self.store.get_state(descriptor)


class OperatorOutput(Protocol):
    """The engine's side of an operator, to which it emits results."""

    def collect(self, value: Any, timestamp: int | None) -> None:
        """Emit a result to the main output."""

    def side_output(self, tag: str, value: Any, timestamp: int | None) -> None:
        """Emit a result to the side output of that name."""


class _ObservedOutput:
    """Tells an observer what an operator emits, and hands it on."""

    def __init__(self, output: OperatorOutput, observer: Observer) -> None:
        self.side_output = output.side_output
        self._collect = output.collect
        self._observer = observer

    def collect(self, value: Any, timestamp: int | None) -> None:
        """Emit to the main output."""
        self._collect(value, timestamp)
        self._observer.emitted(value)


class KeyedOperator(ABC):
    """Runs a keyed step.

    An engine opens it once, binds it to a state and an output, advances time and passes elements; it may bind it to
    another state (another key group) between calls.

    Attributes:
        observer: Is told what the operator does. An engine sets it before it binds the operator.
    """

    # A class attribute, so that operators without an observer have no attribute of their own for it.
    observer: Observer | None = None

    def __init__(self, step: Step | None = None, parts: Iterable[object] = ()) -> None:
        """Make an operator, which opens and closes the functions among the parts; None: a harness without a plan."""
        self._functions = [(step, part) for part in parts if step is not None and isinstance(part, RichFunction)]
        self._runtime: RuntimeContext | None = None
        self._unclocked = None if step is None or uses_clock(step.node) else step
        self.current_watermark = MIN_TIMESTAMP
        self.current_processing_time = MIN_TIMESTAMP
        self.state = OperatorState()
        self.metrics = Metrics()

    def open(self, runtime: RuntimeContext) -> None:
        """Open the user's functions."""
        self._runtime = runtime
        for step, function in self._functions:
            with lifecycle_errors(step, "open", function):
                function.open(runtime)

    def close(self) -> None:
        """Close the user's functions."""
        for step, function in self._functions:
            with lifecycle_errors(step, "close", function):
                function.close()

    def bind(self, state: OperatorState, output: OperatorOutput) -> None:
        """Use ``state`` and ``output`` from now on. Time is reset, and set by the next advances."""
        self.state = state
        self.output = output if self.observer is None else _ObservedOutput(output, self.observer)
        self.current_watermark = MIN_TIMESTAMP
        self.current_processing_time = MIN_TIMESTAMP

    @abstractmethod
    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        """Process elements, in order, under the current watermark and clock."""

    def process_observed(
        self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]
    ) -> None:
        """Take elements as :meth:`process_batch`, one by one, and tell the observer of each."""
        assert self.observer is not None
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            self.observer.arrived(key, value, timestamp)
            self.process_batch((key,), (value,), (timestamp,))
            self.observer.processed()

    @abstractmethod
    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        """Fire a timer that is due, in event time or in processing time."""

    def advance_watermark(self, watermark: int) -> None:
        """Set the watermark, which never falls, and fire due timers in order of time, including newly set ones."""
        for _ in self.advancing_watermark(watermark):
            pass

    def advancing_watermark(self, watermark: int) -> Iterator[None]:
        """Advance the watermark as :meth:`advance_watermark` does, with pauses in which an engine takes results."""
        self.current_watermark = watermark = max(watermark, self.current_watermark)
        yield from self.firing_event_timers(watermark)

    def firing_event_timers(self, until: int) -> Iterator[None]:
        """Fire the timers in event time at or before ``until``, under the current watermark, with pauses."""
        return self._firing(self.state.event_timers, until, event_time=True)

    def pending_event_timers(self) -> Iterator[tuple[Hashable, Any, int]]:
        """Returns key, namespace and time of every timer that waits for the watermark."""
        return iter(self.state.event_timers)

    def open_windows(self) -> Iterator[tuple[Hashable, Any]]:
        """Yields key and window of every window that has elements."""
        for key, key_state in self.state.keys.items():
            for window, entry in key_state.windows.items():
                if entry.contents is not NOTHING:
                    yield key, window

    def check_clock(self, what: str) -> None:
        """Refuse timers in processing time in a step that does not declare them, since Spark would not fire them."""
        if self._unclocked is not None:
            raise UnsupportedOperationError(
                f"{what} waits for the clock, and nothing in the plan says so",
                given=self._unclocked.id,
                expected="a class that says uses_processing_time = True",
                where=self._unclocked.where,
                hint="Spark has to run batches for the clock; set the attribute on the trigger or the process function",
            )

    def set_clock(self, now: int) -> None:
        """Set the clock, which never falls, without firing timers: a batch has one clock from its beginning."""
        self.current_processing_time = max(now, self.current_processing_time)

    def advance_processing_time(self, now: int) -> None:
        """Set the clock, which never falls, and fire the timers that are due, in order of their time."""
        for _ in self.advancing_processing_time(now):
            pass

    def advancing_processing_time(self, now: int) -> Iterator[None]:
        """Advance the clock as :meth:`advance_processing_time` does, with pauses."""
        self.set_clock(now)
        return self._firing(self.state.processing_timers, self.current_processing_time, event_time=False)

    def ending_round(self) -> Iterator[None]:
        """Fire the timers that were set before the clock, as Flink does right after the call that set them."""
        return self._firing(self.state.processing_timers, self.current_processing_time - 1, event_time=False)

    def _firing(self, timers: TimerQueue, until: int, *, event_time: bool) -> Iterator[None]:
        is_last = event_time and self.current_watermark == MAX_TIMESTAMP
        chains = _Chains(timers) if is_last else None
        repeats = _Repeats(timers)
        observer = self.observer
        if observer is not None:
            observer.time_passed(until, event_time=event_time)
        for fired in count(1):
            due = timers.pop_due(until)
            if due is None:
                return
            if observer is not None:
                observer.timer_due(*due, event_time=event_time)
            self.on_timer(*due, event_time)
            if repeats.grow(*due) > LONGEST_CHAIN:
                raise self._repeated(*due)
            if chains is not None and chains.grow(*due) > LONGEST_CHAIN:
                raise self._endless(*due)
            if fired % FIRINGS_AT_ONCE == 0:
                yield

    def _repeated(self, time: int, key: Hashable, namespace: Any) -> UnsupportedOperationError:
        """Returns the error for timers that set each other for the same time without end."""
        step: Step | None = getattr(self, "step", None)  # a harness has no plan
        call = call_description(key, window=NOTHING if namespace is None else namespace)
        return UnsupportedOperationError(
            "a timer sets another one that is due at once, without end",
            given=f"{call}: {LONGEST_CHAIN} timers, one set by the other, the last of them for {time}",
            expected=f"at most {LONGEST_CHAIN} timers that follow each other, none later than the one before",
            where=None if step is None else step.where,
            hint="set a timer for a later time than that of the one that fires",
        )

    def _endless(self, time: int, key: Hashable, namespace: Any) -> UnsupportedOperationError:
        """Returns the error for timers that set each other without end at the end of the stream."""
        step: Step | None = getattr(self, "step", None)  # a harness has no plan
        window = NOTHING if namespace is None else namespace
        cure = (
            "set no other timer when the context's current_watermark is windrow.time.MAX_TIMESTAMP"
            if namespace is None
            else "give the windows an end, or end the trigger: or_finally(trigger, until)"
        )
        return UnsupportedOperationError(
            "a timer sets its successor without end, and the stream is at its end",
            given=f"{call_description(key, window=window)}: {LONGEST_CHAIN} timers in event time, one set by the "
            f"other, the last of them for {time}",
            expected=f"at most {LONGEST_CHAIN} timers that follow each other after the last watermark",
            where=None if step is None else step.where,
            hint=f"{cure}; or leave the end of the stream open by run(pipeline, drain=False) or stop()",
        )


class _Repeats:
    """Measures the length of chains of timers, each of which was set by the one before, for no later time."""

    __slots__ = ("_lengths", "_mark", "_timers")

    def __init__(self, timers: TimerQueue) -> None:
        self._timers = timers
        self._lengths: dict[tuple[Hashable, Any, int], int] = {}
        self._mark = timers.mark()

    def grow(self, time: int, key: Hashable, namespace: Any) -> int:
        """Note the timers that a timer's callback has set; returns the length of the longest chain."""
        length = self._lengths.pop((key, namespace, time), 0) + 1 if self._lengths else 1
        longest = 0
        if self._timers.mark() != self._mark:
            for timer in self._timers.since(self._mark):
                if timer[2] <= time:
                    self._lengths[timer] = longest = length
            self._mark = self._timers.mark()
        return longest


class _Chains(_Repeats):
    """Measures the length of chains of timers that fire at the end of the stream, each set by the one before.

    Timers of a window are not counted before its end, after which there are none. Nor are those of a key up to the
    last one that was set before the end of the stream.
    """

    __slots__ = ("_reached",)

    def __init__(self, timers: TimerQueue) -> None:
        super().__init__(timers)
        self._reached: dict[Hashable, int] = {}  # by key
        for key, namespace, time in timers:
            if namespace is None:
                self._reached[key] = max(time, self._reached.get(key, MIN_TIMESTAMP))

    def grow(self, time: int, key: Hashable, namespace: Any) -> int:
        length = self._lengths.pop((key, namespace, time), 0)
        if time >= (self._reached.get(key, MIN_TIMESTAMP) if namespace is None else _end_of(namespace)):
            length += 1
        longest = 0
        for timer in self._timers.since(self._mark):
            self._lengths[timer] = longest = length
        self._mark = self._timers.mark()
        return longest


def _end_of(namespace: Any) -> int:
    """Returns the last timestamp of a window; the lowest one for a window without end, and for a key's own timers."""
    last_of = getattr(namespace, "max_timestamp", None)
    last: int = MAX_TIMESTAMP if last_of is None else last_of()
    return MIN_TIMESTAMP if last == MAX_TIMESTAMP else last


class TimeContext:
    """The context of assigners and evictors, which only tells the time."""

    __slots__ = ("_operator",)

    def __init__(self, operator: KeyedOperator) -> None:
        self._operator = operator

    @property
    def current_watermark(self) -> int:
        return self._operator.current_watermark

    @property
    def current_processing_time(self) -> int:
        return self._operator.current_processing_time


_AFTER_THE_END: Final = 2**53
"""How many milliseconds programs add to the watermark, which is the highest timestamp when the stream has ended."""


class TimerContext(TimeContext):
    """Sets and deletes timers of a key and a namespace, which the operator changes from call to call."""

    __slots__ = ("_key", "_namespace")

    def __init__(self, operator: KeyedOperator) -> None:
        super().__init__(operator)
        self._key: Hashable = None
        self._namespace: Any = None

    def register_event_time_timer(self, time: int | datetime) -> None:
        self._operator.state.event_timers.register(self._key, self._namespace, self._due(time))

    def register_processing_time_timer(self, time: int | datetime) -> None:
        self._operator.check_clock("a timer in processing time")
        self._operator.state.processing_timers.register(self._key, self._namespace, self._due(time))

    def delete_event_time_timer(self, time: int | datetime) -> None:
        self._operator.state.event_timers.delete(self._key, self._namespace, self._due(time))

    def delete_processing_time_timer(self, time: int | datetime) -> None:
        self._operator.state.processing_timers.delete(self._key, self._namespace, self._due(time))

    def _due(self, time: int | datetime) -> int:
        """Returns the time of a timer in milliseconds; refuses what is no moment."""
        if type(time) is int and time >= MIN_TIMESTAMP:
            # When the stream has ended the watermark is the highest timestamp; a timer a little later never fires.
            ended = time > MAX_TIMESTAMP and self._operator.current_watermark == MAX_TIMESTAMP
            if time <= MAX_TIMESTAMP + ended * _AFTER_THE_END:
                return time
        return timestamp_millis(time, "the time of a timer")


class WindowContextImpl(TimeContext, ProcessWindowContext[Any]):
    """The context of window functions."""

    __slots__ = ("_entry", "_global_store", "_merging", "_window_store", "pane_info", "window")
    window: Any

    def __init__(self, operator: KeyedOperator, merging: bool, pane_info: PaneInfo | None = None) -> None:
        super().__init__(operator)
        self._merging = merging
        self._window_store = StateStore()
        self._global_store = StateStore()
        self.pane_info = pane_info  # describes the pane that is fired; None: panes are not counted

    def at(self, window: Any, entry: WindowEntry, key_cells: dict[str, Any]) -> WindowContextImpl:
        """Points the context at a window, and returns it."""
        self.window = window
        self._entry = entry
        self._window_store.at(self._state_of_window() if self._window_store.is_used else entry.window_state)
        self._global_store.at(key_cells)
        return self

    def note_changes(self, undo: UndoLog | None) -> None:
        """Notes from now on how to take back changes of state; None: no more."""
        self._window_store.undo = self._global_store.undo = undo

    @property
    def pane(self) -> PaneInfo:
        if self.pane_info is None:
            raise UnsupportedOperationError(
                "the panes of these windows are not counted",
                given="pane, where a trigger of Flink's kind may fire a window more than once",
                expected="windows whose accumulation mode was set, or a trigger such as after_watermark()",
                hint="call accumulating() or discarding() on the windows",
            )
        return self.pane_info

    @property
    def window_state(self) -> KeyedStateStore:
        if self._merging:
            raise UnsupportedOperationError(
                "merging windows have no per-window state",
                expected="global_state, which is kept by key",
                hint="a merge would leave per-window state behind",
            )
        return self._window_store.at(self._state_of_window())

    def _state_of_window(self) -> dict[str, Any]:
        if self._entry.window_state is None:
            self._entry.window_state = {}
        return self._entry.window_state

    @property
    def global_state(self) -> KeyedStateStore:
        return self._global_store

    def output(self, tag: OutputTag[Any], value: Any) -> None:
        self._operator.output.side_output(tag.name, value, self.window.max_timestamp())
