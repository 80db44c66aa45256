"""The plan warns of functions that keep something on ``self`` from one call to the next, and of nothing else."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from windrow import DataStream, Pipeline, from_collection
from windrow.errors import WindrowWarning
from windrow.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from windrow.sinks import CollectSink, FunctionSink
from windrow.state import ValueStateDescriptor
from windrow.triggers import Trigger, TriggerResult
from windrow.windows import GlobalWindows

# Any in this module: functions of every type.

numbers = from_collection([1, 2])
keyed = numbers.key_by(lambda number: number)
TOTAL = 0
SEEN: set[int] = set()
_model: Any = None


class Counts(MapFunction[int, int]):
    def __init__(self) -> None:
        self.n = 0

    def map(self, value: int) -> int:
        self.n += 1
        return self.n


class CountsInOpen(MapFunction[int, int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.n = 0

    def map(self, value: int) -> int:
        self.n = self.n + value
        return self.n


class CountsInHelper(MapFunction[int, int]):
    n = 0

    def map(self, value: int) -> int:
        return self._next()

    def _next(self) -> int:
        self.n += 1
        return self.n


class CountsIfThere(MapFunction[int, int]):
    def map(self, value: int) -> int:
        if not hasattr(self, "n"):
            self.n = 0
        self.n += 1
        return self.n


class CountsByName(MapFunction[int, int]):
    def map(self, value: int) -> int:
        self.n = getattr(self, "n", 0) + 1
        return self.n


class Changed(MapFunction[int, int]):
    def __init__(self) -> None:
        self.last: int | None = None

    def map(self, value: int) -> int:
        change = 0 if self.last is None else value - self.last
        self.last = value
        return change


class Buffers(KeyedProcessFunction[int, int, int]):
    def __init__(self) -> None:
        self.held: list[int] = []

    def process_element(self, value: int, context: Any) -> Iterator[int]:
        self.held.append(value)
        yield from ()

    def on_timer(self, timestamp: int, context: Any) -> Iterator[int]:
        yield from self.held


class CountsByKey(MapFunction[int, int]):
    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def map(self, value: int) -> int:
        self.counts[value] = self.counts.get(value, 0) + 1
        return self.counts[value]


class AddsByKey(MapFunction[int, int]):
    def __init__(self) -> None:
        self.counts: dict[int, int] = {1: 0, 2: 0}

    def map(self, value: int) -> int:
        self.counts[value] += 1
        return self.counts[value]


class Sums(AggregateFunction[int, int, int]):
    adds = 0

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        self.adds += 1
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class Firings(Trigger[int, Any]):
    n = 0

    def on_element(self, element: int, timestamp: int, window: Any, context: Any) -> TriggerResult:
        self.n += 1
        return TriggerResult.FIRE if self.n % 2 else TriggerResult.CONTINUE

    def clear(self, window: Any, context: Any) -> None:
        """Keeps nothing."""


class Numbered(ProcessWindowFunction[int, int, int, Any]):
    n = 0

    def process(self, key: int, context: Any, elements: Any) -> Iterator[int]:
        self.n += 1
        yield self.n


class Called:
    n = 0

    def __call__(self, value: int) -> int:
        self.n += 1
        return self.n

    def method(self, value: int) -> int:
        self.n += 1
        return self.n


def counting() -> Callable[[int], int]:
    n = 0

    def count(value: int) -> int:
        nonlocal n
        n += 1
        return n

    return count


def is_new() -> Callable[[int], bool]:
    seen: set[int] = set()

    def new(value: int) -> bool:
        if value in seen:
            return False
        seen.add(value)
        return True

    return new


def total(value: int) -> int:
    global TOTAL  # noqa: PLW0603  the fault
    TOTAL += value
    return TOTAL


def new_in_module(value: int) -> bool:
    is_old = value in SEEN
    SEEN.add(value)
    return not is_old


class Latest(MapFunction[int, int]):
    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def map(self, value: int) -> int:
        name = str(value)
        self.values[name] = value
        return len(self.values)


class CountsInside(MapFunction[int, int]):
    n = 0

    def map(self, value: int) -> int:
        def count() -> None:
            self.n += value

        count()
        return self.n


def with_default(value: int, seen: list[int] = []) -> int:  # noqa: B006  the fault
    seen.append(value)
    return len(seen)


def with_named_default(value: int, *, seen: dict[int, int] = {}) -> int:  # noqa: B006  the fault
    seen[value] = 1
    return len(seen)


KEEPING: dict[str, tuple[Callable[[], DataStream[Any]], str]] = {
    "Counts.map keeps self.n": (lambda: numbers.map(Counts()), "KeyedProcessFunction"),
    "CountsInOpen.map keeps self.n": (lambda: numbers.map(CountsInOpen()), "KeyedProcessFunction"),
    "CountsInHelper._next keeps self.n": (lambda: numbers.map(CountsInHelper()), "KeyedProcessFunction"),
    "CountsIfThere.map keeps self.n": (lambda: numbers.map(CountsIfThere()), "KeyedProcessFunction"),
    "CountsByName.map keeps self.n": (lambda: numbers.map(CountsByName()), "KeyedProcessFunction"),
    "Changed.map keeps self.last": (lambda: numbers.map(Changed()), "KeyedProcessFunction"),
    "Buffers.process_element keeps self.held": (lambda: keyed.process(Buffers()), "context.get_state("),
    "CountsByKey.map keeps self.counts": (lambda: numbers.map(CountsByKey()), "KeyedProcessFunction"),
    "AddsByKey.map keeps self.counts": (lambda: numbers.map(AddsByKey()), "KeyedProcessFunction"),
    "Sums.add keeps self.adds": (lambda: keyed.count_window(2).aggregate(Sums()), "in the accumulator"),
    "Firings.on_element keeps self.n": (
        lambda: keyed.window(GlobalWindows.create()).trigger(Firings()).reduce(max),
        "state of the window",
    ),
    "Numbered.process keeps self.n": (lambda: keyed.count_window(2).process(Numbered()), "context.global_state"),
    "Called.__call__ keeps self.n": (lambda: numbers.map(Called()), "KeyedProcessFunction"),
    "Called.method keeps self.n": (lambda: numbers.map(Called().method), "KeyedProcessFunction"),
    "counting.<locals>.count keeps n": (lambda: numbers.map(counting()), "KeyedProcessFunction"),
    "is_new.<locals>.new keeps seen": (lambda: numbers.filter(is_new()), "KeyedProcessFunction"),
    "Latest.map keeps self.values": (lambda: numbers.map(Latest()), "KeyedProcessFunction"),
    "CountsInside.map keeps self.n": (lambda: numbers.map(CountsInside()), "KeyedProcessFunction"),
    "with_default keeps seen": (lambda: numbers.map(with_default), "KeyedProcessFunction"),
    "with_named_default keeps seen": (lambda: numbers.map(with_named_default), "KeyedProcessFunction"),
    "total keeps TOTAL": (lambda: numbers.map(total), "KeyedProcessFunction"),
    "new_in_module keeps SEEN": (lambda: numbers.filter(new_in_module), "KeyedProcessFunction"),
}


@pytest.mark.parametrize("text", KEEPING)
def test_what_calls_keep_is_warned_of(text: str) -> None:
    make, hint = KEEPING[text]
    stream = make()
    with pytest.warns(WindrowWarning) as caught:
        Pipeline("plan", stream.sink_to(CollectSink()))
    (warning,) = caught
    message = str(warning.message)
    assert message.startswith(f"{text} from one call to the next, and it is gone at the next batch or key\n")
    assert f" of {__file__}\n" in message
    assert hint in message
    assert warning.filename == __file__


class Loads(MapFunction[int, int]):
    """Makes a model at its first call, and a list for each call."""

    def __init__(self) -> None:
        self.model: Any = None
        self.cache: dict[int, int] = {}

    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened = 0
        self.opened += 1

    def map(self, value: int) -> int:
        if self.model is None:
            self.model = [value]
        self.seen: list[int] = []
        self.seen.append(value)
        if value not in self.cache:
            self.cache[value] = self.model[0]
        self.now = value
        return self._sum() + self._cleared()

    def _sum(self) -> int:
        self.now += 1
        return self.now

    def _cleared(self) -> int:
        self.seen.clear()
        self.seen.append(1)
        return len(self.seen)

    def built_with(self, model: Any) -> Loads:
        self.opened += 1
        return self


class Settles(KeyedProcessFunction[int, int, int]):
    LAST = ValueStateDescriptor("last", int)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(self.LAST)

    def process_element(self, value: int, context: Any) -> Iterator[int]:
        self.last.update((self.last.value() or 0) + value)
        other = Called()
        other.n += 1
        yield self.last.value() or 0


@functools.lru_cache
def cached(value: int) -> int:
    return value


def loaded(value: int) -> int:
    global _model  # noqa: PLW0603  each process loads it once
    if _model is None:
        _model = value
    counts: dict[int, int] = {}
    counts[value] = counts.get(value, 0) + 1
    return counts[value]


class Renames(MapFunction[int, int]):
    n = 0

    def map(self, value: int) -> int:
        self = Called()  # type: ignore[assignment]  # noqa: PLW0642  the name stands for another object
        self.n += value
        return self.n


def with_cache(value: int, cache: dict[int, int] = {}) -> int:  # noqa: B006  each process fills its own
    try:
        return cache[value]
    except KeyError:
        cache[value] = value * 2
    return cache[value]


def with_own_list(value: int, held: list[int] | None = None) -> int:
    held = [] if held is None else held
    held.append(value)
    return len(held)


def test_other_uses_are_not_warned_of() -> None:
    written: list[Any] = []
    streams = [numbers.map(Loads()), keyed.process(Settles()), numbers.map(cached), numbers.map(loaded)]
    streams += [numbers.map(function) for function in (Renames(), with_cache, with_own_list)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Pipeline("plan", *[stream.sink_to(CollectSink()) for stream in streams])
        Pipeline("plan", numbers.sink_to(FunctionSink(lambda batch, rows: written.extend(rows))))
