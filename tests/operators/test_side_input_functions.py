"""Functions that take side inputs: error policies, life cycle and metrics, and those of keyed streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from tests.support.records import millis
from windrow import (
    DataStream,
    KeyedStream,
    OutputTag,
    Pipeline,
    SideInput,
    as_dict,
    as_singleton,
    from_collection,
    from_source,
)
from windrow.failures import Failed, Retry
from windrow.functions import Counter, FixedDelayRetryStrategy, ProcessContext, RichFunction, RuntimeContext
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.testing import PushSource, StreamHarness


@dataclass
class Order:
    currency: str
    amount: int


# Any in this module: streams of results of several types.

ORDERS, RATES = PushSource(Order), PushSource(tuple[str, int])
RATE_BY_NAME = as_dict(
    from_source(RATES), lambda rate: rate[0], lambda rate: rate[1], windows=TumblingEventTimeWindows.of(millis(10))
)
FAILED = OutputTag("failed", Failed[Order])
SIDE = OutputTag("side", str)


def to_euros(order: Order, rates: Mapping[str, int]) -> int:
    order.amount *= 10
    return order.amount * rates[order.currency]


def to_several(order: Order, rates: Mapping[str, int]) -> Iterator[int]:
    yield order.amount
    yield to_euros(order, rates)


def is_dear(order: Order, rates: Mapping[str, int]) -> bool:
    return rates[order.currency] > 1


def with_context(order: Order, rates: Mapping[str, int], context: ProcessContext) -> Iterator[int]:
    context.output(SIDE, order.currency)
    yield to_euros(order, rates)


CALLS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "map": (to_euros, [60]),
    "flat_map": (to_several, [3, 60]),
    "filter": (is_dear, [Order("GBP", 3)]),
    "process": (with_context, [60]),
}


def called(name: str, on_error: Any, begin: Any = None) -> DataStream[Any]:
    stage = (from_source(ORDERS) if begin is None else begin).with_side_input(RATE_BY_NAME)
    stream: DataStream[Any] = getattr(stage, name)(CALLS[name][0], on_error=on_error, name="convert")
    return stream


def pushed(harness: StreamHarness[Any, Any]) -> list[Any]:
    harness.process_element(("GBP", 2), 1, source=RATES)
    for number, currency in enumerate(["USD", "GBP", "USD"], 2):
        harness.process_element(Order(currency, 3), number, source=ORDERS)
    harness.snapshot_restore()
    harness.process_watermark(9)
    return harness.take_values()


@pytest.mark.parametrize("begin", [from_source(ORDERS), from_source(ORDERS).key_by(lambda order: order.currency)])
@pytest.mark.parametrize("name", CALLS)
def test_elements_whose_function_raises_go_aside_without_the_views(name: str, begin: Any) -> None:
    stream = called(name, FAILED, begin)
    with StreamHarness(stream, ORDERS) as harness:
        assert pushed(harness) == CALLS[name][1]
        failed = [(each.value, each.timestamp) for each in harness.take_side_output(FAILED)]
    amount = 3 if name == "filter" else 30  # as the function left it; a filter has a copy
    error = "KeyError: 'USD'"
    assert failed == [(Failed(Order("USD", amount), error, "convert"), stamp) for stamp in (2, 4)]
    assert stream.get_side_output(OutputTag[Failed[Order]]("failed")).element_type == Failed[Order]


@pytest.mark.parametrize("name", CALLS)
def test_elements_whose_function_raises_are_dropped_and_counted(name: str) -> None:
    with StreamHarness(called(name, "drop"), ORDERS) as harness:
        assert pushed(harness) == CALLS[name][1]
        assert harness.counter("failed_records_dropped") == 2
        if name == "process":
            assert [each.value for each in harness.take_side_output(SIDE)] == ["GBP"]


@pytest.mark.parametrize("name", CALLS)
def test_an_error_says_the_element_and_not_the_views(name: str) -> None:
    with StreamHarness(called(name, "fail"), ORDERS) as harness, pytest.raises(Exception, match="KeyError") as caught:
        pushed(harness)
    assert f"given:    element {Order('USD', 3 if name == 'filter' else 30)!r}\n" in str(caught.value)


TRIES: list[int] = []


def at_the_third(order: Order, rates: Mapping[str, int]) -> int:
    TRIES.append(order.amount)
    order.amount = 0
    if len(TRIES) < 3:
        raise OSError("not yet")
    return len(TRIES)


def test_a_further_try_has_the_element_as_it_came() -> None:
    TRIES.clear()
    again = Retry[Order](FixedDelayRetryStrategy(5, timedelta(0)))
    stream = from_source(ORDERS).with_side_input(RATE_BY_NAME).map(at_the_third, on_error=again)
    with StreamHarness(stream, ORDERS) as harness:
        harness.process_element(Order("USD", 7), 1, source=ORDERS)
        harness.process_watermark(9)
        assert harness.take_values() == [3]
    assert TRIES == [7, 7, 7]


EVENTS: list[str] = []


class Converted(RichFunction):
    """Counts what it converts, by something that it opens."""

    seen: Counter

    def open(self, runtime_context: RuntimeContext) -> None:
        EVENTS.append(f"open {runtime_context.step_name}")
        self.seen = runtime_context.metrics.counter("converted")

    def __call__(self, order: Order, rates: Mapping[str, int]) -> int:
        self.seen.inc()
        return order.amount * rates.get(order.currency, 1)

    def close(self) -> None:
        EVENTS.append("close")


def test_a_rich_function_is_opened_and_closed_and_counts() -> None:
    EVENTS.clear()
    stream = from_source(ORDERS).with_side_input(RATE_BY_NAME).map(Converted(), name="convert")
    assert stream.element_type is int
    with StreamHarness(stream, ORDERS) as harness:
        assert pushed(harness) == [3, 6, 3]
        assert harness.counter("converted") == 3
    assert EVENTS == ["open convert", "close"] * 2
    assert "Converted" in Pipeline("p", stream.sink_to(CollectSink[int]())).explain()


def test_a_rich_function_runs_by_default() -> None:
    rate: SideInput[Mapping[str, int]] = as_dict(from_collection([("GBP", 2)]), lambda r: r[0], lambda r: r[1])
    results = CollectSink[int]()
    stream = from_collection([Order("GBP", 3)]).with_side_input(rate).map(Converted(), name="convert")
    result = LocalRunner().run(Pipeline("p", stream.sink_to(results)))
    assert result.collected(results) == [6]
    assert [counts["converted"] for counts in result.counters.values() if "converted" in counts] == [1]


def test_a_keyed_stream_keeps_its_keys_for_the_step_and_its_policy() -> None:
    def key(order: Order) -> str:
        if order.amount < 0:
            raise ValueError("no amount")
        return order.currency

    keyed: KeyedStream[Order, str] = from_source(ORDERS).key_by(key, on_error="drop")
    doubled = keyed.with_side_input(as_singleton(from_source(RATES))).map(lambda order, rate: order.amount * rate[1])
    plan = Pipeline("p", doubled.sink_to(CollectSink[int]())).explain()
    assert "spread" not in plan
    assert "on error: drop" in plan
    with StreamHarness(doubled, ORDERS) as harness:
        harness.process_element(("USD", 2), source=RATES)
        for amount in (1, -1, 2):
            harness.process_element(Order("USD", amount), source=ORDERS)
        assert harness.take_values() == [2, 4]
        assert harness.counter("failed_records_dropped") == 1
