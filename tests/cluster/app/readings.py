"""The user's module: shipped in a file of its own, and imported by name on every machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.state import ReducingStateDescriptor


@dataclass(frozen=True)
class Reading:
    sensor: str
    at: int
    value: int


def add(a: int, b: int) -> int:
    return a + b


class SumEverySecond(KeyedProcessFunction[str, Reading, tuple[str, int, int]]):
    """Says the sum of a sensor's values at each full second after one of its readings."""

    _SUM = ReducingStateDescriptor("sum", add)

    def process_element(self, value: Reading, context: KeyedProcessContext[str]) -> Iterable[tuple[str, int, int]]:
        context.get_state(self._SUM).add(value.value)
        context.timer_service.register_event_time_timer(value.at - value.at % 1000 + 1000)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[tuple[str, int, int]]:
        return [(context.key, timestamp, context.get_state(self._SUM).get() or 0)]
