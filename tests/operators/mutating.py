"""Streams whose functions change all that they are given and all that they emit, and what must come out of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from tests.support.records import millis
from windrow import DataStream, OutputTag, WatermarkStrategy, from_source
from windrow.evictors import CountEvictor, Evictor, EvictorContext, TimestampedValue
from windrow.functions import (
    AggregateFunction,
    KeyedProcessContext,
    KeyedProcessFunction,
    MapFunction,
    OnTimerContext,
    ProcessWindowContext,
    ProcessWindowFunction,
)
from windrow.sources import CollectionSource
from windrow.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from windrow.triggers import CountTrigger, PurgingTrigger, Trigger, TriggerContext, TriggerResult
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)

__all__ = ["ITEMS", "STREAMS", "Item", "in_order", "items_in_batches"]

# Any in this module: windows and results of every kind.


@dataclass
class Item:
    """An element that functions change.

    Attributes:
        at: Its timestamp in milliseconds.
        tags: Numbers that functions append to.
    """

    at: int
    tags: list[int] = field(default_factory=list)


ITEMS = tuple(Item(at, [at]) for at in range(4))

Build: TypeAlias = Callable[[DataStream[Item]], DataStream[Any]]


def items_in_batches(size: int) -> DataStream[Item]:
    """The items as a stream, ``size`` in a batch."""
    return from_source(CollectionSource(ITEMS, Item, batch_size=size)).assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks(), timestamp=_grabbed_time
    )


def _grabbed_time(item: Item) -> int:
    item.tags.append(-1)
    return item.at


def _grabbed_key(item: Item) -> str:
    item.tags.append(-2)
    return "a"


def _grabbed_test(item: Item) -> bool:
    item.tags.append(-3)
    return True


def _tagged(number: int) -> Callable[[Item], Item]:
    def tag(item: Item) -> Item:
        item.tags.append(number)
        return item

    return tag


def _tags(item: Item) -> list[int]:
    return item.tags


def _reduced(a: Item, b: Item) -> Item:
    a.tags += b.tags
    b.tags.clear()
    return a


class Gathered(AggregateFunction[Item, list[Item], list[Item]]):
    """Keeps elements, and changes them and the accumulator in place."""

    def __init__(self) -> None:
        self._empty: list[Item] = []

    def create_accumulator(self) -> list[Item]:
        return self._empty

    def add(self, value: Item, accumulator: list[Item]) -> list[Item]:
        for known in accumulator:
            known.tags.append(value.at)
        value.tags.append(100)
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Item]) -> list[Item]:
        return accumulator

    def merge(self, a: list[Item], b: list[Item]) -> list[Item]:
        a += b
        return a


class Ats(AggregateFunction[Item, list[int], list[int]]):
    """The timestamps, in a list that it goes on changing."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Item, accumulator: list[int]) -> list[int]:
        accumulator.append(value.at)
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        a += b
        return a


class Spoiling(ProcessWindowFunction[Any, Any, str, Any]):
    """Emits what it gets, changes it, and emits it again."""

    def process(self, key: str, context: ProcessWindowContext[Any], elements: Sequence[Any]) -> Iterator[Any]:
        for element in elements:
            tags = element if isinstance(element, list) else element.tags
            yield tags
            tags.append(-4)
            yield tags
        assert isinstance(elements, list)
        elements.clear()


class Looking(Trigger[Item, Any]):
    """Fires at each element, and changes it."""

    def on_element(self, element: Item, timestamp: int, window: Any, context: TriggerContext) -> TriggerResult:
        element.tags.append(-5)
        return TriggerResult.FIRE


class Meddling(Evictor[Item, TimeWindow]):
    """Evicts nothing, and changes all elements."""

    def evict_before(
        self, elements: Sequence[TimestampedValue[Item]], size: int, window: TimeWindow, context: EvictorContext
    ) -> Sequence[int]:
        for element in elements:
            element.value.tags.append(-6)
        return ()

    def evict_after(
        self, elements: Sequence[TimestampedValue[Item]], size: int, window: TimeWindow, context: EvictorContext
    ) -> Sequence[int]:
        return self.evict_before(elements, size, window, context)


class Remembered(KeyedProcessFunction[str, Item, Any]):
    """Emits state of every kind, and changes what it has stored and what it was handed."""

    def __init__(self) -> None:
        self._value = ValueStateDescriptor[list[int]]("value")
        self._list = ListStateDescriptor[list[int]]("list")
        self._map = MapStateDescriptor[str, list[int]]("map")
        self._reducing = ReducingStateDescriptor[list[int]]("reducing", _joined)
        self._aggregating = AggregatingStateDescriptor("aggregating", Ats())

    def process_element(self, value: Item, context: KeyedProcessContext[str]) -> Iterator[Any]:
        state = context.get_state(self._value)
        seen = state.value() or []
        seen.append(value.at)
        state.update(seen)
        yield seen
        seen.append(-7)
        (state.value() or []).append(-8)
        in_list = context.get_state(self._list)
        in_list.add(value.tags)
        by_name = context.get_state(self._map)
        by_name.put("tags", value.tags)
        reducing = context.get_state(self._reducing)
        reducing.add(value.tags)
        aggregating = context.get_state(self._aggregating)
        aggregating.add(value)
        value.tags.append(-9)
        for held in in_list.get(), by_name.get("tags") or [], reducing.get() or [], aggregating.get() or []:
            yield held
            held.append(-10)  # type: ignore[arg-type]  # lists of both kinds
        for held in by_name.values():
            held.append(-11)


def _joined(a: list[int], b: list[int]) -> list[int]:
    a += b
    return a


class Unsaved(KeyedProcessFunction[str, Item, list[int]]):
    """Changes a stored list without storing it again, which has no effect."""

    def __init__(self) -> None:
        self._value = ValueStateDescriptor[list[int]]("value")

    def process_element(self, value: Item, context: KeyedProcessContext[str]) -> Iterator[list[int]]:
        state = context.get_state(self._value)
        seen = state.value()
        if seen is None:
            seen = [0]
            state.update(seen)
        seen.append(value.at)
        yield seen


class AtTimer(KeyedProcessFunction[str, Item, list[int]]):
    """Emits one list again and again, when timers fire and to a side output."""

    def __init__(self, tag: OutputTag[list[int]]) -> None:
        self._tag = tag
        self._value = ValueStateDescriptor[list[int]]("value")

    def process_element(self, value: Item, context: KeyedProcessContext[str]) -> None:
        context.timer_service.register_event_time_timer(value.at)
        out = [value.at]
        context.output(self._tag, out)
        out.append(-12)
        context.output(self._tag, out)

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[list[int]]:
        out = [timestamp]
        for number in range(2):
            out.append(number)
            yield out


class OneObject(MapFunction[Item, list[int]]):
    """Returns one list for all elements."""

    def open(self, runtime_context: Any) -> None:
        self._all: list[int] = []

    def map(self, value: Item) -> list[int]:
        if not value.at:
            self._all.clear()
        self._all.append(value.at)
        return self._all


def _twice(item: Item) -> Iterator[Item]:
    yield item
    item.tags.append(-13)
    yield item


SIDE = OutputTag("side", list[int])


def _keyed(items: DataStream[Item]) -> Any:
    return items.key_by(_grabbed_key)


def _tumbling(items: DataStream[Item]) -> Any:
    return _keyed(items).window(TumblingEventTimeWindows.of(millis(100)))


def _sliding(items: DataStream[Item]) -> Any:
    return _keyed(items).window(SlidingEventTimeWindows.of(millis(4), millis(2)))


def _all_of(items: DataStream[Item]) -> Any:
    return _keyed(items).window(GlobalWindows.create())


def _union_of_branches(items: DataStream[Item]) -> DataStream[Any]:
    first, second = items.map(_tagged(1)), items.map(_tagged(2))
    return items.union(first, second).map(_tags).key_by(lambda tags: tags[0]).process(_Sorted(3))


class _Sorted(KeyedProcessFunction[int, list[int], list[list[int]]]):
    """The elements of a key in a fixed order, when there are so many."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._held = ListStateDescriptor[list[int]]("held")

    def process_element(self, value: list[int], context: KeyedProcessContext[int]) -> Iterable[list[list[int]]] | None:
        held = context.get_state(self._held)
        held.add(value)
        return [sorted(held.get())] if len(held.get()) == self._count else None


_SEVERAL_KEYS = frozenset({"branches that change elements", "two keyed steps that change elements"})


def in_order(name: str, results: list[Any]) -> list[Any]:
    """The results of a stream, sorted where they are of several keys and so have no order."""
    return sorted(results) if name in _SEVERAL_KEYS else results


STREAMS: dict[str, tuple[Build, list[Any]]] = {
    "an accumulator that is changed and emitted": (
        lambda items: _all_of(items).trigger(CountTrigger.of(1)).aggregate(Ats()),
        [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]],
    ),
    "an accumulator of which a part is emitted": (
        lambda items: (
            _all_of(items)
            .trigger(CountTrigger.of(2))
            .aggregate(Gathered())
            .map(lambda found: [item.tags for item in found])
        ),
        [[[0, 100, 1], [1, 100]], [[0, 100, 1, 2, 3], [1, 100, 2, 3], [2, 100, 3], [3, 100]]],
    ),
    "an accumulator that a process function spoils": (
        lambda items: _all_of(items).trigger(CountTrigger.of(3)).aggregate(Ats(), Spoiling()),
        [[0, 1, 2], [0, 1, 2, -4]],
    ),
    "accumulators of windows that overlap": (
        lambda items: _sliding(items).aggregate(Gathered()).map(lambda found: [item.tags for item in found]),
        [[[0, 100, 1], [1, 100]], [[0, 100, 1, 2, 3], [1, 100, 2, 3], [2, 100, 3], [3, 100]], [[2, 100, 3], [3, 100]]],
    ),
    "reduced elements of windows that overlap": (
        lambda items: _sliding(items).reduce(_reduced).map(_tags),
        [[0, 1], [0, 1, 2, 3], [2, 3]],
    ),
    "reduced elements that are emitted again and again": (
        lambda items: _all_of(items).trigger(CountTrigger.of(1)).reduce(_reduced).map(_tags),
        [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]],
    ),
    "reduced elements that a process function spoils": (
        lambda items: _all_of(items).trigger(CountTrigger.of(2)).reduce(_reduced, Spoiling()),
        [[0, 1], [0, 1, -4], [0, 1, 2, 3], [0, 1, 2, 3, -4]],
    ),
    "elements that a process function spoils": (
        lambda items: _all_of(items).trigger(CountTrigger.of(2)).process(Spoiling()),
        [[0], [0, -4], [1], [1, -4], *([at, *spoilt] for at in range(4) for spoilt in ([], [-4]))],
    ),
    "elements of windows that overlap": (
        lambda items: _sliding(items).process(Spoiling()),
        [[at, *spoilt] for at in (0, 1, 0, 1, 2, 3, 2, 3) for spoilt in ([], [-4])],
    ),
    "elements of sessions": (
        lambda items: _keyed(items).window(EventTimeSessionWindows.with_gap(millis(2))).process(Spoiling()),
        [[at, *spoilt] for at in range(4) for spoilt in ([], [-4])],
    ),
    "sessions whose gap changes the element": (
        lambda items: _keyed(items).window(EventTimeSessionWindows.with_dynamic_gap(_gap)).reduce(_reduced).map(_tags),
        [[0, 1, 2, 3]],
    ),
    "a trigger that changes elements": (
        lambda items: _tumbling(items).trigger(PurgingTrigger.of(Looking())).reduce(_reduced).map(_tags),
        [[0], [1], [2], [3]],
    ),
    "a trigger that changes elements of a list": (
        lambda items: _tumbling(items).trigger(PurgingTrigger.of(Looking())).process(Spoiling()),
        [[at, *spoilt] for at in range(4) for spoilt in ([], [-4])],
    ),
    "an evictor that changes elements": (
        lambda items: _tumbling(items).trigger(CountTrigger.of(2)).evictor(Meddling()).process(Spoiling()),
        [[0], [0, -4], [1], [1, -4], *([at, *spoilt] for at in range(4) for spoilt in ([], [-4]))],
    ),
    "evicted and reduced": (
        lambda items: (
            _tumbling(items).trigger(CountTrigger.of(2)).evictor(CountEvictor.of(3)).reduce(_reduced).map(_tags)
        ),
        [[0, 1], [1, 2, 3]],
    ),
    "evicted and aggregated": (
        lambda items: (
            _tumbling(items)
            .trigger(CountTrigger.of(2))
            .evictor(CountEvictor.of(3))
            .aggregate(Gathered())
            .map(lambda found: [item.tags for item in found])
        ),
        [[[0, 100, 1], [1, 100]], [[1, 100, 2, 3], [2, 100, 3], [3, 100]]],
    ),
    "state of every kind": (
        lambda items: _keyed(items).process(Remembered()),
        [
            *([0], [[0]], [0], [0], [0]),
            *([0, 1], [[0], [1]], [1], [0, 1], [0, 1]),
            *([0, 1, 2], [[0], [1], [2]], [2], [0, 1, 2], [0, 1, 2]),
            *([0, 1, 2, 3], [[0], [1], [2], [3]], [3], [0, 1, 2, 3], [0, 1, 2, 3]),
        ],
    ),
    "state that is changed and not stored": (
        lambda items: _keyed(items).process(Unsaved()),
        [[0, 0], [0, 1], [0, 2], [0, 3]],
    ),
    "timers": (
        lambda items: _keyed(items).process(AtTimer(SIDE)),
        [[at, *numbers] for at in range(4) for numbers in ([0], [0, 1])],
    ),
    "side outputs": (
        lambda items: _keyed(items).process(AtTimer(SIDE)).get_side_output(SIDE),
        [[at, *more] for at in range(4) for more in ([], [-12])],
    ),
    "a rolling reduce": (
        lambda items: _keyed(items).reduce(_reduced).map(_tags),
        [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]],
    ),
    "an object that a generator emits twice": (
        lambda items: items.flat_map(_twice).map(_tags),
        [[at, *more] for at in range(4) for more in ([], [-13])],
    ),
    "a filter that changes elements": (lambda items: items.filter(_grabbed_test).map(_tags), [[0], [1], [2], [3]]),
    "branches that change elements": (_union_of_branches, [[[at], [at, 1], [at, 2]] for at in range(4)]),
    "two keyed steps that change elements": (
        lambda items: (
            (keyed := _keyed(items))
            .process(Tagger(1))
            .union(keyed.process(Tagger(2)))
            .map(_tags)
            .key_by(lambda tags: tags[0])
            .process(_Sorted(2))
        ),
        [[[at, 1], [at, 2]] for at in range(4)],
    ),
    "one object for all results of a map": (
        # One batch or many: a map has one life in a task, so only its first results are compared.
        lambda items: items.filter(lambda item: item.at == 0).map(OneObject()),
        [[0]],
    ),
}


def _gap(item: Item) -> timedelta:
    item.tags.append(-14)
    return millis(2)


class Tagger(KeyedProcessFunction[str, Item, Item]):
    """Tags elements."""

    def __init__(self, number: int) -> None:
        self._number = number

    def process_element(self, value: Item, context: KeyedProcessContext[str]) -> tuple[Item]:
        value.tags.append(self._number)
        return (value,)
