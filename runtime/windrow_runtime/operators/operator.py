"""An operator runs a keyed step, and counts what it does; both engines call it in the same way.

It hands contexts to window functions, process functions, assigners and evictors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter as Totals
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol

from windrow.errors import UnsupportedOperationError
from windrow.functions import Counter, ProcessWindowContext, RichFunction, RuntimeContext
from windrow.panes import PaneInfo
from windrow.plan import Step
from windrow.state import KeyedStateStore
from windrow.tags import OutputTag
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.operators.errors import call_description, lifecycle_errors
from windrow_runtime.operators.observer import ObservedOutput, Observer
from windrow_runtime.operators.state.handles import StateStore
from windrow_runtime.operators.state.model import NOTHING, OperatorState, TimerQueue, WindowEntry
from windrow_runtime.operators.topology import uses_clock

# Any in this module: an operator carries elements of every type.

FIRINGS_AT_ONCE: Final = 1024
"""An advance pauses after this many timers, so that the engine can take what was emitted."""

LONGEST_CHAIN: Final = 10_000
"""How many timers may follow each other at the end of the stream, each set by the callback of the one before."""


class Metrics:
    """The counters of a step, by name, and how many elements came too late, dropped or not."""

    def __init__(self) -> None:
        self.late = 0
        self.totals: Totals[str] = Totals()

    def count(self, name: str, n: int = 1) -> None:
        """Add ``n`` to a counter."""
        self.totals[name] += n

    def counter(self, name: str) -> Counter:
        """The counter of that name."""
        return _Counter(self, name)

    def drain(self) -> dict[str, int]:
        """The counters so far, which begin at zero again."""
        taken = dict(self.totals)
        self.totals.clear()
        return taken


@dataclass(frozen=True, slots=True)
class _Counter:
    metrics: Metrics
    name: str

    def inc(self, n: int = 1) -> None:
        self.metrics.totals[self.name] += n


@dataclass(slots=True)
class OperatorRuntimeContext:
    """Gives functions their step and its counters, and the key group, which the engine changes."""

    step_name: str
    metrics: Metrics
    key_group: int | None = None


class Output(Protocol):
    """Takes what an operator emits."""

    def collect(self, value: Any, timestamp: int | None) -> None:
        """Emit to the main output."""

    def side_output(self, tag: str, value: Any, timestamp: int | None) -> None:
        """Emit to the side output of that name."""


class KeyedOperator(ABC):
    """A keyed step at run time.

    An engine opens it once, binds it to a state and an output, advances time and feeds elements; it may bind it to
    another state (another key group) between calls.

    Attributes:
        observer: Is told what the operator does. An engine sets it before it binds the operator.
    """

    # One for all operators that nobody watches: these have no further attribute.
    observer: Observer | None = None

    def __init__(self, step: Step | None = None, parts: Iterable[object] = ()) -> None:
        """Make an operator; it opens and closes the functions among the parts. A harness has no plan, nor a step."""
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

    def bind(self, state: OperatorState, output: Output) -> None:
        """Work on ``state`` and emit to ``output`` from now on. Time is set anew by the next advances."""
        self.state = state
        self.output = output if self.observer is None else ObservedOutput(output, self.observer)
        self.current_watermark = MIN_TIMESTAMP
        self.current_processing_time = MIN_TIMESTAMP

    @abstractmethod
    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        """Take elements, in order, under the current watermark and clock."""

    def process_observed(
        self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]
    ) -> None:
        """Take elements as :meth:`process_batch`, one by one, and tell the observer of each."""
        assert self.observer is not None
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            self.observer.arrived(key, value, timestamp)
            self.process_batch((key,), (value,), (timestamp,))
            self.observer.taken()

    @abstractmethod
    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        """Take a timer that is due, in event time or in processing time."""

    def advance_watermark(self, watermark: int) -> None:
        """Set the watermark, which never falls, and fire due timers in order of time, those set meanwhile too."""
        for _ in self.advancing_watermark(watermark):
            pass

    def advancing_watermark(self, watermark: int) -> Iterator[None]:
        """Advance the watermark as :meth:`advance_watermark`, with pauses in which an engine takes what was emitted."""
        self.current_watermark = watermark = max(watermark, self.current_watermark)
        yield from self.firing_event_timers(watermark)

    def firing_event_timers(self, until: int) -> Iterator[None]:
        """Fire the timers in event time at or before ``until``, under the watermark as it is, with pauses."""
        return self._firing(self.state.event_timers, until, event_time=True)

    def pending_event_timers(self) -> Iterator[tuple[Hashable, Any, int]]:
        """Key, namespace and time of every timer that waits for the watermark."""
        return iter(self.state.event_timers)

    def open_windows(self) -> Iterator[tuple[Hashable, Any]]:
        """Key and window of every window that holds elements."""
        for key, key_state in self.state.keys.items():
            for window, entry in key_state.windows.items():
                if entry.contents is not NOTHING:
                    yield key, window

    def check_clock(self, what: str) -> None:
        """Refuse what waits for the clock in a step that does not say so: Spark would run no batches for it."""
        if self._unclocked is not None:
            raise UnsupportedOperationError(
                f"{what} waits for the clock, and nothing in the plan says so",
                given=self._unclocked.id,
                expected="a class that says uses_processing_time = True",
                where=self._unclocked.where,
                hint="Spark has to run batches for the clock; set the attribute on the trigger or the process function",
            )

    def set_clock(self, now: int) -> None:
        """Set the clock, which never falls, and fire nothing yet: a batch has one clock from its beginning."""
        self.current_processing_time = max(now, self.current_processing_time)

    def advance_processing_time(self, now: int) -> None:
        """Set the clock, which never falls, and fire the timers that are due, in order of their time."""
        for _ in self.advancing_processing_time(now):
            pass

    def advancing_processing_time(self, now: int) -> Iterator[None]:
        """Advance the clock as :meth:`advance_processing_time`, with pauses."""
        self.set_clock(now)
        return self._firing(self.state.processing_timers, self.current_processing_time, event_time=False)

    def ending_round(self) -> Iterator[None]:
        """Fire the timers that were set behind the clock, as Flink does right behind the call that set them."""
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
        """The error for timers that follow each other while time stands still."""
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
        """The error for timers that follow each other when no time is left that could pass."""
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
            expected=f"at most {LONGEST_CHAIN} timers that follow each other behind the last watermark",
            where=None if step is None else step.where,
            hint=f"{cure}; or leave the end of the stream open by run(pipeline, drain=False) or stop()",
        )


class _Repeats:
    """Measures how many timers, each set by the one before and none later than it, have led to a timer."""

    __slots__ = ("_lengths", "_mark", "_timers")

    def __init__(self, timers: TimerQueue) -> None:
        self._timers = timers
        self._lengths: dict[tuple[Hashable, Any, int], int] = {}
        self._mark = timers.mark()

    def grow(self, time: int, key: Hashable, namespace: Any) -> int:
        """Note the timers that the callback of a timer has set; returns how many timers have led to these."""
        length = self._lengths.pop((key, namespace, time), 0) + 1 if self._lengths else 1
        longest = 0
        if self._timers.mark() != self._mark:
            for timer in self._timers.since(self._mark):
                if timer[2] <= time:
                    self._lengths[timer] = longest = length
            self._mark = self._timers.mark()
        return longest


class _Chains:
    """Measures, while timers fire at the end of the stream, how many of them each timer has before it.

    Only timers that another one's callback has set have any. Those of a window that ends are not counted before its
    end, where they cease, nor are those of a key before the last one that was set while time passed.
    """

    __slots__ = ("_lengths", "_mark", "_reached", "_timers")

    def __init__(self, timers: TimerQueue) -> None:
        self._timers = timers
        self._lengths: dict[tuple[Hashable, Any, int], int] = {}
        self._mark = timers.mark()
        self._reached: dict[Hashable, int] = {}  # by key
        for key, namespace, time in timers:
            if namespace is None:
                self._reached[key] = max(time, self._reached.get(key, MIN_TIMESTAMP))

    def grow(self, time: int, key: Hashable, namespace: Any) -> int:
        """Note the timers that the callback of a timer has set; returns how many timers have led to these."""
        length = self._lengths.pop((key, namespace, time), 0)
        if time >= (self._reached.get(key, MIN_TIMESTAMP) if namespace is None else _end_of(namespace)):
            length += 1
        longest = 0
        for timer in self._timers.since(self._mark):
            self._lengths[timer] = longest = length
        self._mark = self._timers.mark()
        return longest


def _end_of(namespace: Any) -> int:
    """The last timestamp of a window; the lowest one for what has no end, such as the timers of a key itself."""
    last_of = getattr(namespace, "max_timestamp", None)
    last: int = MAX_TIMESTAMP if last_of is None else last_of()
    return MIN_TIMESTAMP if last == MAX_TIMESTAMP else last


class TimeContext:
    """Gives the time, which is all that assigners and evictors can ask for."""

    __slots__ = ("_operator",)

    def __init__(self, operator: KeyedOperator) -> None:
        self._operator = operator

    @property
    def current_watermark(self) -> int:
        return self._operator.current_watermark

    @property
    def current_processing_time(self) -> int:
        return self._operator.current_processing_time


class TimerContext(TimeContext):
    """Sets and deletes timers of a key and a namespace, which the operator changes from call to call."""

    __slots__ = ("_key", "_namespace")

    def __init__(self, operator: KeyedOperator) -> None:
        super().__init__(operator)
        self._key: Hashable = None
        self._namespace: Any = None

    def register_event_time_timer(self, time: int) -> None:
        self._operator.state.event_timers.register(self._key, self._namespace, time)

    def register_processing_time_timer(self, time: int) -> None:
        self._operator.check_clock("a timer in processing time")
        self._operator.state.processing_timers.register(self._key, self._namespace, time)

    def delete_event_time_timer(self, time: int) -> None:
        self._operator.state.event_timers.delete(self._key, self._namespace, time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._operator.state.processing_timers.delete(self._key, self._namespace, time)


class WindowContextImpl(TimeContext, ProcessWindowContext[Any]):
    """The context of window functions."""

    __slots__ = ("_entry", "_key_cells", "_merging", "_window", "pane_info")

    def __init__(self, operator: KeyedOperator, merging: bool, pane_info: PaneInfo | None = None) -> None:
        super().__init__(operator)
        self._merging = merging
        self.pane_info = pane_info  # of the pane that is fired; None: panes are not counted

    def at(self, window: Any, entry: WindowEntry, key_cells: dict[str, Any]) -> WindowContextImpl:
        """The context, pointed at a window."""
        self._window = window
        self._entry = entry
        self._key_cells = key_cells
        return self

    @property
    def window(self) -> Any:
        return self._window

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
        if self._entry.window_state is None:
            self._entry.window_state = {}
        return StateStore(self._entry.window_state)

    @property
    def global_state(self) -> KeyedStateStore:
        return StateStore(self._key_cells)

    def output(self, tag: OutputTag[Any], value: Any) -> None:
        self._operator.output.side_output(tag.name, value, self._window.max_timestamp())
