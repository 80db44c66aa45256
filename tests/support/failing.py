"""Functions of every kind that raise for some elements, and steps of a stream with them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from windrow import DataStream, OutputTag, WatermarkStrategy
from windrow.failures import Failed, OnError
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessContext,
    ProcessFunction,
    ProcessWindowContext,
    ProcessWindowFunction,
    TimeDomain,
)
from windrow.state import (
    AggregatingStateDescriptor,
    KeyedStateStore,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from windrow.windows import TimeWindow


class Number(NamedTuple):
    """An element.

    Attributes:
        key: The key.
        at: The timestamp in milliseconds.
        value: The number, by which functions decide whether to raise.
    """

    key: str
    at: int
    value: int


class UnluckyError(Exception):
    """What the functions raise."""


ONE_IN: Final = 10
SEEN: Final = OutputTag[int]("seen")


def is_bad(number: Number) -> bool:
    """Whether functions raise for an element."""
    return number.value % ONE_IN == ONE_IN // 2


def checked(number: Number) -> Number:
    """The element itself."""
    if is_bad(number):
        raise UnluckyError(f"the number {number.value}\nand a second line")
    return number


def keeps(number: Number) -> bool:
    return checked(number).value % 3 > 0


def twice(number: Number) -> Iterator[Number]:
    yield number
    yield checked(number)


def several(numbers: Sequence[Number]) -> list[Number]:
    return [checked(number) for number in numbers]


async def awaited(number: Number) -> Number:
    return checked(number)


class Puts(ProcessFunction[Number, Number]):
    """Puts something out before and behind what may raise."""

    def process_element(self, value: Number, context: ProcessContext) -> Iterator[Number]:
        context.output(SEEN, value.value)
        yield value
        yield checked(value)


def stamp(number: Number) -> int:
    return checked(number).at


def key_of(number: Number) -> str:
    return checked(number).key


# Any: keyed streams and others.
Step = Callable[[DataStream[Number], OnError[Number]], Any]


STEPS: Final[dict[str, Step]] = {
    "map": lambda numbers, on_error: numbers.map(checked, on_error=on_error),
    "filter": lambda numbers, on_error: numbers.filter(keeps, on_error=on_error),
    "flat_map": lambda numbers, on_error: numbers.flat_map(twice, on_error=on_error),
    "map_batches": lambda numbers, on_error: numbers.map_batches(several, size=7, on_error=on_error),
    "map_async": lambda numbers, on_error: numbers.map_async(awaited, capacity=4, on_error=on_error),
    "process": lambda numbers, on_error: numbers.process(Puts(), on_error=on_error),
    "timestamps": lambda numbers, on_error: numbers.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), stamp, on_error=on_error
    ),
    "key_by": lambda numbers, on_error: numbers.key_by(key_of, on_error=on_error),
}
"""A step of each kind without state, by its name."""


def good_of(name: str, numbers: Sequence[Number]) -> list[Number]:
    """What a step of :data:`STEPS` makes of the elements for which its function does not raise."""
    good = [number for number in numbers if not is_bad(number)]
    if name == "filter":
        return [number for number in good if keeps(number)]
    if name in {"flat_map", "process"}:
        return [number for number in good for _ in range(2)]
    return good


def failed_of(step: str, numbers: Sequence[Number]) -> list[Failed[Number]]:
    """What the side output of failed elements has."""
    return [Failed(each, f"UnluckyError: the number {each.value}...", step) for each in numbers if is_bad(each)]


class Collected(AggregateFunction[int, list[int], tuple[int, ...]]):
    """Collects numbers in a list that it changes in place."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(accumulator)


class Gathered(AggregateFunction[Number, list[int], list[int]]):
    """Gathers values in lists that it changes in place before it raises."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Number, accumulator: list[int]) -> list[int]:
        accumulator.append(value.value)
        checked(value)
        return accumulator

    def merge(self, first: list[int], second: list[int]) -> list[int]:
        first.extend(second)
        return first

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator


class Seen(ProcessWindowFunction[Number, tuple[Any, ...], str, TimeWindow]):
    """Counts the elements of windows in state of the key and of the window, and raises for some windows.

    Attributes:
        raises: Whether a bad call raises at its end; else it does nothing at all.
    """

    COUNT = ValueStateDescriptor("count", int)
    VALUES = ListStateDescriptor("values", int)

    def __init__(self, *, raises: bool) -> None:
        self.raises = raises

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Sequence[Number]
    ) -> Iterator[tuple[Any, ...]]:
        is_bad_window = sum(each.value for each in elements) % 3 == 0
        if is_bad_window and not self.raises:
            return
        context.output(SEEN, len(elements))
        of_key, of_window = context.global_state.get_state(self.COUNT), context.window_state.get_state(self.VALUES)
        of_key.update((of_key.value() or 0) + len(elements))
        of_window.add(len(elements))
        yield (key, context.window.start, of_key.value(), list(of_window.get()))
        if is_bad_window:
            raise UnluckyError(f"the window {context.window.start}")


class Keeps(KeyedProcessFunction[str, Number, tuple[Any, ...]]):
    """Changes state of every kind and timers in each call, puts out all that it has, and raises in some calls.

    Attributes:
        raises: Whether a bad call raises at its end; else it does nothing at all.
    """

    VALUE = ValueStateDescriptor("value", int)
    LIST = ListStateDescriptor("list", int)
    MAP = MapStateDescriptor("map", int, int)
    SUM = ReducingStateDescriptor("sum", lambda a, b: a + b)
    SETS = AggregatingStateDescriptor("sets", Collected())
    TTL = StateTtlConfig(timedelta(milliseconds=40), time_domain=TimeDomain.EVENT_TIME, refresh_on_read=True)
    SHORT = ValueStateDescriptor("short", int, ttl=TTL)
    SHORTS = ListStateDescriptor("shorts", int, ttl=TTL)
    BY_KEY = MapStateDescriptor("by key", int, int, ttl=TTL)

    def __init__(self, *, raises: bool) -> None:
        self.raises = raises

    def process_element(self, value: Number, context: KeyedProcessContext[str]) -> Iterator[tuple[Any, ...]]:
        if is_bad(value) and not self.raises:
            return
        context.output(SEEN, value.value)
        yield (value.key, "seen", value.value)
        yield (value.key, *self._change(context, value.value))
        service = context.timer_service
        service.register_event_time_timer(value.at + value.value % 37)
        service.delete_event_time_timer(value.at + value.value % 5)
        checked(value)

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterator[tuple[Any, ...]]:
        is_bad_timer = timestamp % ONE_IN == ONE_IN // 2
        if is_bad_timer and not self.raises:
            return
        yield (context.key, timestamp, *self._change(context, timestamp))
        context.timer_service.register_event_time_timer(timestamp + 11 + timestamp % 7)
        if timestamp > 400:
            context.timer_service.delete_event_time_timer(timestamp + 11 + timestamp % 7)
        if is_bad_timer:
            raise UnluckyError(f"the timer {timestamp}")

    def _change(self, context: KeyedStateStore, number: int) -> tuple[Any, ...]:
        """Changes states by a number, and returns what they hold."""
        value, list_, map_ = context.get_state(self.VALUE), context.get_state(self.LIST), context.get_state(self.MAP)
        total, sets = context.get_state(self.SUM), context.get_state(self.SETS)
        short, shorts = context.get_state(self.SHORT), context.get_state(self.SHORTS)
        by_key = context.get_state(self.BY_KEY)

        def moved() -> None:
            map_.remove(1)
            map_.put(1, number)
            map_.put(2, number)

        changes: list[Callable[[], object]] = [
            lambda: value.update(number),
            lambda: list_.add(number),
            lambda: map_.put(number % 5, number),
            lambda: total.add(number),
            lambda: sets.add(number),
            lambda: short.update(number),
            lambda: shorts.add(number),
            lambda: by_key.put(number % 4, number),
            lambda: list_.update([number, number]),
            lambda: list_.add_all([1, number]),
            lambda: map_.remove(number % 3),
            lambda: by_key.remove(number % 3),
            lambda: shorts.update([number]),
            value.clear,
            map_.clear,
            total.clear,
            sets.clear,
            by_key.clear,
            lambda: by_key.get(number % 4),
            moved,
        ]
        chance = random.Random(number)
        for _ in range(3):
            chance.choice(changes)()
        held = (value.value(), list(list_.get()), list(map_.items()), total.get(), sets.get())
        return (*held, short.value(), list(shorts.get()), list(by_key.items()))
