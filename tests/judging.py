"""A function with broadcast rules that lets tests see all that it sees."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from windrow import OutputTag
from windrow.functions import (
    BroadcastContext,
    Counter,
    KeyedBroadcastProcessFunction,
    ReadOnlyContext,
    ReadOnlyOnTimerContext,
    RuntimeContext,
)
from windrow.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

__all__ = ["ASIDE", "LIMITS", "TIMES", "Judge", "Rule", "random_rules"]

# Any: keys and results of several types.


class Rule(NamedTuple):
    """What becomes of the limit of a name: it is set, taken away, or all keys are asked about it."""

    name: str
    limit: int | None
    asks: bool = False


LIMITS = MapStateDescriptor("limits", str, Rule)
TIMES = MapStateDescriptor("times", str, int)
ASIDE = OutputTag[Any]("aside")


class Judge(KeyedBroadcastProcessFunction[Any, tuple[Any, int, int], Rule, tuple[Any, ...]]):
    """Emits what it sees, the key or the kind of the record first. Some keys have a timer and no other state."""

    seen = ListStateDescriptor[int]("seen")
    newest = ValueStateDescriptor[int]("newest")

    def __init__(self) -> None:
        self._rules: Counter | None = None
        self._asked: Counter | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        self._rules = runtime_context.metrics.counter("rules")
        self._asked = runtime_context.metrics.counter("asked")

    def process_element(self, value: tuple[Any, int, int], context: ReadOnlyContext[Any]) -> Iterable[tuple[Any, ...]]:
        key, at, number = value
        context.timer_service.register_event_time_timer(at + number % 50)
        if number % 3:
            context.get_state(self.seen).add(number)
            context.get_state(self.newest).update(number)
        limits = context.get_broadcast_state(LIMITS)
        yield key, "element", number, [rule.limit for rule in limits.values()], limits.contains("a")

    def process_broadcast_element(
        self, value: Rule, context: BroadcastContext[Any, tuple[Any, ...]]
    ) -> Iterable[tuple[Any, ...]]:
        assert self._rules is not None, "opened"
        self._rules.inc()
        times, limits = context.get_broadcast_state(TIMES), context.get_broadcast_state(LIMITS)
        time = (times.get(value.name) or 0) + 1
        times.put(value.name, time)
        if value.asks:
            context.apply_to_keyed_state(self.seen, lambda key, seen: self._ask(key, seen.get(), time, context))
            context.apply_to_keyed_state(self.newest, lambda key, newest: newest.clear() if time % 2 else None)
        elif value.limit is None:
            limits.remove(value.name)
        else:
            limits.put(value.name, value)
        context.output(ASIDE, ("aside", value.name, time))
        yield "rule", value.name, time, context.timestamp, context.current_watermark

    def _ask(
        self, key: Any, seen: list[int], time: int, context: BroadcastContext[Any, tuple[Any, ...]]
    ) -> Iterator[tuple[Any, ...]]:
        assert self._asked is not None, "opened"
        self._asked.inc()
        newest = context.get_state(self.newest)
        yield key, "asked", time, seen, newest.value(), dict(context.get_broadcast_state(TIMES).items())
        if time % 3 == 0:
            context.get_state(self.seen).clear()
        context.output(ASIDE, (key, len(seen)))

    def on_timer(self, timestamp: int, context: ReadOnlyOnTimerContext[Any]) -> Iterable[tuple[Any, ...]]:
        limits = dict(context.get_broadcast_state(LIMITS).items())
        yield context.key, "timer", timestamp, context.get_state(self.seen).get(), limits
        if timestamp % 4 == 0:
            context.get_state(self.seen).clear()


def random_rules(chance: random.Random, count: int) -> list[Rule]:
    """Rules of every kind; few of them ask."""
    return [
        Rule(chance.choice("abc"), chance.choice([None, *range(5)]), asks=chance.random() < 0.3) for _ in range(count)
    ]
