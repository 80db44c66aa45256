"""Objects of users whose ``__getattr__`` or properties raise something else than an AttributeError."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.dsl.plans import IN_ORDER
from tests.waiting_trigger import WaitingTrigger
from windrow import DataStream, Pipeline, from_collection
from windrow import aggregates as agg
from windrow.evictors import Evictor
from windrow.functions import AsyncFunction, FlatMapFunction, KeyedProcessFunction, KeySelector, MapFunction
from windrow.sinks import CollectSink
from windrow.triggers import TriggerResult, repeatedly
from windrow.windows import GlobalWindows
from windrow_runtime.local import LocalRunner

# Any in this module: attributes of every type.


class Raising:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"there is no {name}")


class Called(Raising):
    def __call__(self, *values: Any) -> Any:
        return values[0]


class Slotted:
    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 1

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __call__(self, *values: Any) -> Any:
        return values[0] * self.factor


class Named:
    @property
    def map(self) -> Any:
        raise RuntimeError("no method")

    def __call__(self, value: Any) -> Any:
        return value


class Maps(Raising, MapFunction[int, int]):
    def map(self, value: int) -> int:
        return value


class Emits(Raising, FlatMapFunction[int, int]):
    def flat_map(self, value: int) -> list[int]:
        return [value]


class Keys(Raising, KeySelector[int, int]):
    def get_key(self, value: int) -> int:
        return value


class Waits(Raising, AsyncFunction[int, int]):
    async def invoke(self, value: int) -> int:
        return value


class Processes(Raising, KeyedProcessFunction[int, int, int]):
    def process_element(self, value: int, context: Any) -> Iterator[int]:
        yield value


class Fires(Raising, WaitingTrigger[int]):
    def __init__(self, limit: int) -> None:
        self._often = limit

    def on_element(self, element: int, timestamp: int, window: Any, context: Any) -> TriggerResult:
        return TriggerResult.FIRE


class Keeps(Raising, Evictor[int, Any]):
    def evict_before(self, elements: Any, size: int, window: Any, context: Any) -> list[int]:
        return []

    def evict_after(self, elements: Any, size: int, window: Any, context: Any) -> list[int]:
        return []


numbers = from_collection([1, 2])
keyed = numbers.key_by(abs)


def in_a_closure(function: Callable[[int], Any]) -> DataStream[Any]:
    return numbers.map(lambda value: function(value))  # noqa: PLW0108  the variable of the lambda is meant


FUNCTIONS: list[Any] = [Called(), Slotted(), Named()]
STREAMS: dict[str, Callable[[], DataStream[Any]]] = {
    **{f"map of {type(each).__name__}": partial(numbers.map, each) for each in FUNCTIONS},
    **{f"filter of {type(each).__name__}": partial(numbers.filter, each) for each in FUNCTIONS},
    **{f"closure over {type(each).__name__}": partial(in_a_closure, each) for each in FUNCTIONS},
    "key_by": lambda: numbers.key_by(Slotted()).reduce(Slotted()),
    "reduce": lambda: keyed.reduce(Called()),
    "selector": lambda: keyed.count_window(1).aggregate(agg.sum(Called())),
    "record": lambda: keyed.count_window(1).aggregate(agg.into(Called(), agg.sum(Slotted()))),
    "map function": lambda: numbers.map(Maps()),
    "flat map function": lambda: numbers.flat_map(Emits()),
    "key selector": lambda: numbers.key_by(Keys()).reduce(Slotted()),
    "asynchronous": lambda: numbers.map_async(Waits(), capacity=1),
    "process function": lambda: keyed.process(Processes()),
    "trigger": lambda: keyed.window(GlobalWindows.create()).trigger(Fires(1)).reduce(max),
    "part of a trigger": lambda: keyed.window(GlobalWindows.create()).trigger(repeatedly(Fires(1))).reduce(max),
    "evictor": lambda: keyed.count_window(1).evictor(Keeps()).reduce(max),
    "timestamps": lambda: numbers.assign_timestamps_and_watermarks(IN_ORDER, timestamp=Called()),
}


@pytest.mark.parametrize("place", STREAMS)
def test_what_attributes_raise_does_not_end_a_plan(place: str) -> None:
    stream, sink = STREAMS[place](), CollectSink[Any]()
    pipeline = Pipeline("plan", stream.sink_to(sink))
    for form in ("text", "json"):
        assert pipeline.explain(format=form)
    assert "DataStream(" in repr(stream)
    assert set(LocalRunner().run(pipeline).collected(sink)) == {1, 2}
