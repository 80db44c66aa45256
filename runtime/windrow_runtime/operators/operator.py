"""An operator runs a keyed step, and counts what it does; both engines call it in the same way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter as Totals
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol

from windrow.functions import Counter, RichFunction, RuntimeContext
from windrow.plan import Step
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.operators.errors import lifecycle_errors
from windrow_runtime.operators.state.model import NOTHING, OperatorState, TimerQueue

# Any in this module: an operator carries elements of every type.

FIRINGS_AT_ONCE: Final = 1024
"""An advance pauses after this many timers, so that the engine can take what was emitted."""


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
        return _Counter(self.totals, name)

    def drain(self) -> dict[str, int]:
        """The counters so far, which begin at zero again."""
        taken = dict(self.totals)
        self.totals.clear()
        return taken


@dataclass(frozen=True, slots=True)
class _Counter:
    totals: Totals[str]
    name: str

    def inc(self, n: int = 1) -> None:
        self.totals[self.name] += n


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
    another state (another key group) at any time between calls. It may put metrics of its own in place before that.
    """

    def __init__(self, step: Step | None = None, parts: Iterable[object] = ()) -> None:
        """Make an operator; it opens and closes the functions among the parts. A harness has no plan, nor a step."""
        self._functions = [(step, part) for part in parts if step is not None and isinstance(part, RichFunction)]
        self._runtime: RuntimeContext | None = None
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
        self.output = output
        self.current_watermark = MIN_TIMESTAMP
        self.current_processing_time = MIN_TIMESTAMP

    @abstractmethod
    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        """Take elements, in order, under the current watermark and clock."""

    @abstractmethod
    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        """Take a timer that is due, in event time or in processing time."""

    def advance_watermark(self, watermark: int) -> None:
        """Set the watermark, which never falls, and fire the timers that are due, in order of their time.

        Timers that are set while others fire, and that are due, fire too.
        """
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

    def set_clock(self, now: int) -> None:
        """Set the clock, which never falls, and fire nothing yet: a batch has one clock from its beginning."""
        self.current_processing_time = max(now, self.current_processing_time)

    def advance_processing_time(self, now: int) -> None:
        """Set the clock, which never falls, and fire the timers that are due, in order of their time."""
        for _ in self.advancing_processing_time(now):
            pass

    def advancing_processing_time(self, now: int) -> Iterator[None]:
        """Advance the clock as :meth:`advance_processing_time`, with pauses."""
        self.current_processing_time = now = max(now, self.current_processing_time)
        return self._firing(self.state.processing_timers, now, event_time=False)

    def _firing(self, timers: TimerQueue, until: int, *, event_time: bool) -> Iterator[None]:
        for fired in count(1):
            due = timers.pop_due(until)
            if due is None:
                return
            self.on_timer(*due, event_time)
            if fired % FIRINGS_AT_ONCE == 0:
                yield
