"""The plan warns of functions that keep something on ``self`` from one call to the next, and of nothing else."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.counting import MergingCount
from tests.dsl.plans import plan
from tests.waiting_trigger import WaitingTrigger
from windrow import DataStream, from_collection
from windrow.errors import WindrowWarning
from windrow.functions import KeyedProcessFunction, MapFunction, ProcessWindowFunction, RuntimeContext
from windrow.sinks import FunctionSink
from windrow.state import ValueStateDescriptor
from windrow.triggers import TriggerResult
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


class Sums(MergingCount):
    adds = 0

    def add(self, value: object, accumulator: int) -> int:
        self.adds += 1
        return accumulator + 1


class Firings(WaitingTrigger[int]):
    n = 0

    def on_element(self, element: int, timestamp: int, window: Any, context: Any) -> TriggerResult:
        self.n += 1
        return TriggerResult.FIRE if self.n % 2 else TriggerResult.CONTINUE


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


MAPPED: dict[str, Any] = {
    "Counts.map keeps self.n": Counts(),
    "CountsInOpen.map keeps self.n": CountsInOpen(),
    "CountsInHelper._next keeps self.n": CountsInHelper(),
    "CountsIfThere.map keeps self.n": CountsIfThere(),
    "CountsByName.map keeps self.n": CountsByName(),
    "Changed.map keeps self.last": Changed(),
    "CountsByKey.map keeps self.counts": CountsByKey(),
    "AddsByKey.map keeps self.counts": AddsByKey(),
    "Called.__call__ keeps self.n": Called(),
    "Called.method keeps self.n": Called().method,
    "counting.<locals>.count keeps n": counting(),
    "is_new.<locals>.new keeps seen": is_new(),
    "Latest.map keeps self.values": Latest(),
    "CountsInside.map keeps self.n": CountsInside(),
    "with_default keeps seen": with_default,
    "with_named_default keeps seen": with_named_default,
    "total keeps TOTAL": total,
    "new_in_module keeps SEEN": new_in_module,
}
triggered = keyed.window(GlobalWindows.create()).trigger(Firings())
KEEPING: dict[str, tuple[DataStream[Any], str]] = {
    **{text: (numbers.map(function), "KeyedProcessFunction") for text, function in MAPPED.items()},
    "Buffers.process_element keeps self.held": (keyed.process(Buffers()), "context.get_state("),
    "Sums.add keeps self.adds": (keyed.count_window(2).aggregate(Sums()), "in the accumulator"),
    "Firings.on_element keeps self.n": (triggered.reduce(max), "state of the window"),
    "Numbered.process keeps self.n": (keyed.count_window(2).process(Numbered()), "context.global_state"),
}


@pytest.mark.parametrize("text", KEEPING)
def test_what_calls_keep_is_warned_of(text: str) -> None:
    stream, hint = KEEPING[text]
    with pytest.warns(WindrowWarning) as caught:
        plan(stream)
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
    mapped = (Loads(), cached, loaded, Renames(), with_cache, with_own_list)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan(keyed.process(Settles()), *[numbers.map(function) for function in mapped])
        plan(numbers.sink_to(FunctionSink(lambda batch, rows: written.extend(rows))))
