"""The functions of random pipelines. They show all that a function can see, so that a difference shows."""

from __future__ import annotations

import math
import operator
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.spark.comparison import Event, key_of, millis
from tests.support.records import Highest
from windrow import OutputTag
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessAllWindowFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
    RuntimeContext,
)
from windrow.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from windrow.time import MAX_TIMESTAMP
from windrow.watermarks import WatermarkGenerator, WatermarkOutput

# Any in this module: keys and windows of every type.

SIDE = OutputTag("side", tuple[Any, int])

# Keys


def event_key(event: Event) -> str:
    return event.key


def pair_key(event: Event) -> tuple[str, int]:
    return event.key, event.value % 2


def remainder_key(event: Event) -> int:
    return event.value % 3 - 1


def no_key(event: Event) -> None:
    return None


def coarse(event: Event) -> int:
    """A key that elements of several upstream keys share."""
    return event.value % 2


def all_key(element: Any) -> str:
    """The key where all elements have one order."""
    return "all"


# Times


def as_millis(event: Event) -> int:
    return event.at


def as_datetime(event: Event) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + millis(event.at)


class Punctuated(WatermarkGenerator[Event]):
    """A watermark behind every third element or so."""

    def __init__(self, delay: int) -> None:
        self._delay = delay

    def on_event(self, element: Event, timestamp: int, output: WatermarkOutput) -> None:
        if element.value % 3 == 0:
            output.emit_watermark(timestamp - self._delay)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emits nothing: it is punctuated."""


def gap_of(size: int, event: Event) -> timedelta:
    return millis(1 + event.value * 13 % size)


def distance(a: Event, b: Event) -> float:
    return float(b.at - a.at)


# Element by element


def value_of(event: Event) -> int:
    return event.value % 11


def unlike(remainder: int, event: Event) -> bool:
    return event.value % 5 != remainder


def shifted(by: int, event: Event) -> Event:
    return Event(event.key, event.at + by, event.value + by)


def copies(most: int, event: Event) -> Iterator[Event]:
    for number in range(event.value % (most + 1)):
        yield Event(event.key, event.at, event.value + 7 * number)


def folded(element: Any) -> Event:
    """What a step emitted as an element for the next one, with the same key, or the key as text."""
    return _numbered(str(key_of(element)), element)


def has_key(event: Event) -> bool:
    """Whether what :func:`folded` made of an element has a key."""
    return event.key != ""


def alone(element: Any) -> Event:
    """What a step emitted that does not begin with a key, as an element for the next one; all have one key."""
    return _numbered("all", element)


def in_order(values: frozenset[Any]) -> list[Any]:
    """The values of a set in an order that each process gives them, as other steps go by their texts."""
    return sorted(values)


def _numbered(key: str, element: Any) -> Event:
    number = zlib.crc32(repr(element).encode()) % 1000
    return Event(key, number * 7 % 331, number)


# Windows


def joined(a: Event, b: Event) -> Event:
    """Differs for every order of elements."""
    return Event(a.key, (a.at + 2 * b.at) % 100_003, (31 * a.value + b.value) % 1_000_003)


def total(a: Event, b: Event) -> Event:
    """The same for every order of elements."""
    return Event(min(a.key, b.key), max(a.at, b.at), a.value + b.value)


class Joined(AggregateFunction[Event, tuple[str, str], tuple[str, str]]):
    """Shows the elements in their order, and how accumulators merged."""

    def create_accumulator(self) -> tuple[str, str]:
        return "", ""

    def add(self, value: Event, accumulator: tuple[str, str]) -> tuple[str, str]:
        return value.key, f"{accumulator[1]},{value.value}"

    def get_result(self, accumulator: tuple[str, str]) -> tuple[str, str]:
        return accumulator

    def merge(self, a: tuple[str, str], b: tuple[str, str]) -> tuple[str, str]:
        return max(a[0], b[0]), f"{a[1]}+{b[1]}"


@dataclass(frozen=True)
class Summary:
    """What declared aggregates found in a window.

    Attributes:
        key: The key.
        found: The result.
        start: The start of the window, where it is asked for.
        end: Its end.
    """

    key: Any
    found: Any
    start: int = 0
    end: int = 0


def rounded(key: Any, spread: float | None, *found: Any) -> tuple[Any, ...]:
    """Results with the first one rounded down.

    What is added keeps fractions of small denominators, whose last bits may differ, away from the edge. 0.123456789 did
    not: it is 10 / 81, all but a billionth.
    """
    return key, None if spread is None else math.floor(spread * 1e6 + 0.14159265), *found


class Everything(ProcessWindowFunction[Any, tuple[Any, Any, int, list[Any]], Any, Any]):
    """Key, window, watermark and contents, whatever their order."""

    def process(
        self, key: Any, context: ProcessWindowContext[Any], elements: Sequence[Any]
    ) -> list[tuple[Any, Any, int, list[Any]]]:
        return [(key, context.window, context.current_watermark, sorted(elements, key=repr))]


class Now(ProcessWindowFunction[Any, tuple[Any, Any, int, int, list[Any]], Any, Any]):
    """Key, window, both times and contents."""

    def process(
        self, key: Any, context: ProcessWindowContext[Any], elements: Sequence[Any]
    ) -> list[tuple[Any, Any, int, int, list[Any]]]:
        times = context.current_watermark, context.current_processing_time
        return [(key, context.window, *times, list(elements))]


class Firings(ProcessWindowFunction[Any, tuple[Any, Any, int, int, int, int], Any, Any]):
    """Counts the firings of a window, those of its key, and the windows that were cleaned up.

    Args:
        of_window: Whether there is state of the window; windows that merge have none.
    """

    def __init__(self, of_window: bool) -> None:
        self._of_window = of_window
        self._fired = ValueStateDescriptor("fired", type_=int)
        self._cleared = ReducingStateDescriptor[int]("cleared", operator.add)
        self._sizes = ListStateDescriptor("sizes", type_=int)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.metrics.counter("firings")

    def process(
        self, key: Any, context: ProcessWindowContext[Any], elements: Sequence[Any]
    ) -> Iterator[tuple[Any, Any, int, int, int, int]]:
        self._count.inc()
        store = context.global_state
        of_key = store.get_state(self._fired)
        of_key.update((of_key.value() or 0) + 1)
        sizes = store.get_state(self._sizes)
        sizes.add(len(elements))
        if len(sizes.get()) > 4:
            sizes.update(sizes.get()[2:])
        firings = 0
        if self._of_window:
            of_window = context.window_state.get_state(self._fired)
            firings = (of_window.value() or 0) + 1
            of_window.update(firings)
        if len(elements) % 3 != 1:
            context.output(SIDE, (key, sum(sizes.get())))
        cleared = store.get_state(self._cleared).get() or 0
        for part in range(1 + len(elements) % 2):
            yield key, context.window, part, firings, of_key.value() or 0, cleared

    def clear(self, context: ProcessWindowContext[Any]) -> None:
        context.global_state.get_state(self._cleared).add(1)


class AllOf(ProcessAllWindowFunction[Any, Any, Any]):
    """A window function of keyed windows, for windows without keys. Its key is ``all``."""

    def __init__(self, function: ProcessWindowFunction[Any, Any, Any, Any]) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        self._function.open(runtime_context)

    def process(self, context: ProcessWindowContext[Any], elements: Sequence[Any]) -> Iterable[Any] | None:
        return self._function.process("all", context, elements)

    def clear(self, context: ProcessWindowContext[Any]) -> None:
        self._function.clear(context)


def spread(key: Any, window: Any, elements: Sequence[Any]) -> Iterator[tuple[Any, Any, Any]]:
    """For ``apply``: an element of the result for each of the window."""
    for element in elements:
        yield key, window, element


# Process functions


class Timers(KeyedProcessFunction[Any, Event, tuple[Any, str, int, int, int]]):
    """Sets timers, deletes some, sets others from timers, and keeps state of every kind.

    Args:
        delay: How long after an element its timer is due, in milliseconds.
        forget: Elements whose value this number divides delete the timers of their key.
        again: How many timers of a key may set others.
    """

    def __init__(self, delay: int, forget: int, again: int) -> None:
        self._delay = delay
        self._forget = forget
        self._again = again
        self._total = ReducingStateDescriptor[int]("total", operator.add)
        self._highest = AggregatingStateDescriptor("highest", Highest())
        self._pending = ListStateDescriptor("pending", type_=int)
        self._by_value = MapStateDescriptor("by value", key_type=int, value_type=int)
        self._fired = ValueStateDescriptor("fired", type_=int)

    def describe(self) -> str:
        return f"Timers(delay={self._delay}, forget={self._forget}, again={self._again})"

    def open(self, runtime_context: RuntimeContext) -> None:
        self._timers = runtime_context.metrics.counter("timers")

    def process_element(
        self, value: Event, context: KeyedProcessContext[Any]
    ) -> Iterator[tuple[Any, str, int, int, int]]:
        timers = context.timer_service
        context.get_state(self._total).add(value.value)
        highest = context.get_state(self._highest)
        highest.add(value.value)
        by_value = context.get_state(self._by_value)
        by_value.put(value.value % 4, (by_value.get(value.value % 4) or 0) + 1)
        pending = context.get_state(self._pending)
        if value.value % self._forget == 0:
            for time in pending.get():
                timers.delete_event_time_timer(time)
            pending.clear()
            by_value.remove((value.value + 1) % 4)
        assert context.timestamp is not None
        due = min(context.timestamp + self._delay, MAX_TIMESTAMP)
        timers.register_event_time_timer(due)
        pending.add(due)
        if value.value % 2:
            context.output(SIDE, (context.key, highest.get() or 0))
        yield context.key, "element", context.timestamp, timers.current_watermark, sum(by_value.values())

    def on_timer(self, timestamp: int, context: OnTimerContext[Any]) -> Iterable[tuple[Any, str, int, int, int]]:
        self._timers.inc()
        fired = context.get_state(self._fired)
        fired.update((fired.value() or 0) + 1)
        if (fired.value() or 0) <= self._again:
            # One ahead, and one behind the watermark, which fires at the next advance.
            timers = context.timer_service
            timers.register_event_time_timer(min(timestamp + 2 * self._delay + 1, MAX_TIMESTAMP))
            timers.register_event_time_timer(timestamp - 1)
        if timestamp % 3 == 0:
            context.get_state(self._total).clear()
        total_so_far = context.get_state(self._total).get() or 0
        yield context.key, "timer", timestamp, context.timer_service.current_watermark, total_so_far


class ClockTimers(KeyedProcessFunction[Any, Event, tuple[Any, str, int, int, int, int]]):
    """Sets timers in both domains, deletes some by the clock, and keeps state that expires.

    Args:
        delay: How long after an element its timers are due, in milliseconds.
        time_to_live: How long state lives, in milliseconds.
        refresh: Whether a read keeps it alive.
    """

    uses_processing_time = True

    def __init__(self, delay: int, time_to_live: int, refresh: bool) -> None:
        self._delay = delay
        self._time_to_live = time_to_live
        ttl = StateTtlConfig(millis(time_to_live), refresh_on_read=refresh)
        self._sum = ReducingStateDescriptor[int]("sum", operator.add, ttl=ttl)
        self._recent = ListStateDescriptor("recent", type_=int, ttl=ttl)
        self._by_value = MapStateDescriptor("by value", key_type=int, value_type=int, ttl=ttl)
        self._due = ValueStateDescriptor("due", type_=int)

    def describe(self) -> str:
        return f"ClockTimers(delay={self._delay}, time to live={self._time_to_live})"

    def process_element(
        self, value: Event, context: KeyedProcessContext[Any]
    ) -> Iterator[tuple[Any, str, int, int, int, int]]:
        timers = context.timer_service
        now = timers.current_processing_time
        due = context.get_state(self._due)
        if value.value % 3 == 0 and due.value() is not None:
            timers.delete_processing_time_timer(due.value() or 0)
        due.update(now + self._delay)
        timers.register_processing_time_timer(now + self._delay)
        assert context.timestamp is not None
        timers.register_event_time_timer(min(context.timestamp + self._delay, MAX_TIMESTAMP))
        context.get_state(self._sum).add(value.value)
        context.get_state(self._recent).add(value.value)
        if value.value % 2:
            context.get_state(self._by_value).put(value.value % 5, value.value)
        yield context.key, "element", now, *self._kept(context)

    def on_timer(self, timestamp: int, context: OnTimerContext[Any]) -> Iterator[tuple[Any, str, int, int, int, int]]:
        yield context.key, f"{context.time_domain.value} timer", timestamp, *self._kept(context)

    def _kept(self, context: KeyedProcessContext[Any]) -> tuple[int, int, int]:
        return (
            context.get_state(self._sum).get() or 0,
            sum(context.get_state(self._recent).get()),
            sum(context.get_state(self._by_value).values()),
        )
