"""Connected streams, step by step: what the cases of tests/two_inputs do not have.

``a``, ``b`` are orders, ``x``, ``y`` payments, each with its second; ``^`` is the watermark, ``@`` the clock, and
``|`` a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.two_streams.shop import (
    KEYED_ORDERS,
    KEYED_PAYMENTS,
    ORDER_STREAM,
    ORDERS,
    PAYMENT_STREAM,
    Order,
    Payment,
    driven,
    feed,
    order_key,
    payment_key,
    seconds,
    story,
)
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_collection
from windrow.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    OnTimerContext,
    ProcessContext,
    RuntimeContext,
    TimeDomain,
)
from windrow.sinks import CollectSink
from windrow.state import ListStateDescriptor, ValueStateDescriptor
from windrow.time import MIN_TIMESTAMP
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.testing import StreamHarness

BOTH = ORDER_STREAM.connect(PAYMENT_STREAM)
ORDER = ValueStateDescriptor("order", str)
SEEN = ListStateDescriptor("seen", str)


class Match(KeyedCoProcessFunction[str, Order, Payment, str]):
    """Matches a payment with the last order; an order that nobody pays within five seconds goes."""

    uses_processing_time = True

    def process_element1(self, value: Order, context: KeyedProcessContext[str]) -> Iterable[str]:
        assert context.timestamp is not None
        context.get_state(ORDER).update(value.name)
        context.get_state(SEEN).add(value.name)
        context.timer_service.register_event_time_timer(context.timestamp + 5_000)
        return ()

    def process_element2(self, value: Payment, context: KeyedProcessContext[str]) -> Iterable[str]:
        context.get_state(SEEN).add(value.name)
        context.timer_service.register_processing_time_timer(context.timer_service.current_processing_time + 1_000)
        yield f"{context.get_state(ORDER).value()}{value.name}"

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[str]:
        if context.time_domain is TimeDomain.EVENT_TIME:
            context.get_state(ORDER).clear()
            yield f"{context.key}: no order"
        else:
            yield f"{context.key}: " + "".join(context.get_state(SEEN).get())


@pytest.mark.parametrize(
    "keyed",
    [BOTH.key_by(order_key, payment_key), KEYED_ORDERS.connect(KEYED_PAYMENTS)],
    ids=["connected, then keyed", "keyed, then connected"],
)
def test_state_and_timers_are_of_both_streams(keyed: Any) -> None:
    moves = "@0 a0 b1/south x2 | ^5 y6 z6/south @1"
    assert story(keyed.process(Match()), moves) == {
        "x2": "ax@2",
        "^5": "north: no order@5",
        "y6": "Noney@6",
        "z6/south": "bz@6",
        "@1": "north: axy@0, south: bz@0",
    }


def test_strategies_make_both_watermarks() -> None:
    """The strategy of the payments says that they are idle when the clock has gone on for a second."""
    strategy = WatermarkStrategy[Order].for_monotonous_timestamps()
    idle = WatermarkStrategy[Payment].for_monotonous_timestamps().with_idleness(seconds(1))
    orders = ORDER_STREAM.assign_timestamps_and_watermarks(strategy)
    payments = PAYMENT_STREAM.assign_timestamps_and_watermarks(idle)
    stream = orders.connect(payments).key_by(order_key, payment_key).process(Match())
    with driven(stream) as harness:
        feed(harness, "@0 a0 b6")
        assert harness.emit_watermarks() == MIN_TIMESTAMP
        feed(harness, "@1.5")
        assert harness.emit_watermarks() == 5_999
        assert harness.take_values() == ["north: no order"]


class Named(CoMapFunction[Order, Payment, str]):
    """Counts the elements of both streams in one counter of each step."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.metrics.counter("seen")

    def map1(self, value: Order) -> str:
        self.seen.inc()
        return f"order {value.name}"

    def map2(self, value: Payment) -> str:
        self.seen.inc()
        return f"payment {value.name}"


class Letters(CoFlatMapFunction[Order, Payment, str]):
    def flat_map1(self, value: Order) -> Iterable[str]:
        return list(value.name)

    def flat_map2(self, value: Payment) -> Iterable[str] | None:
        return None


def test_functions_of_two_inputs_map_each_stream() -> None:
    named = BOTH.map(Named())
    assert named.element_type is str
    with driven(named) as harness:
        feed(harness, "a1 x0")
        found = [(each.value, each.timestamp) for each in harness.take_output()]
        assert found == [("order a", 1_000), ("payment x", 0)]
        assert harness.counter("seen") == 2
    assert story(BOTH.flat_map(Letters()), "ab1 xy0") == {"ab1": "a@1, b@1"}


def test_two_functions_map_each_stream() -> None:
    mapped = BOTH.map(lambda order: order.name, lambda payment: len(payment.name), name="both")
    assert story(mapped, "a1 xy2") == {"a1": "a@1", "xy2": "2@2"}
    with driven(BOTH.flat_map(lambda order: [order], lambda payment: [payment.name] * 2)) as harness:
        feed(harness, "a1 x0")
        assert harness.take_values() == [Order("north", "a"), "x", "x"]


LOUD = OutputTag("loud", str)
NUMBERS = OutputTag("numbers", int)


class Sorted(CoProcessFunction[Order, Payment, str]):
    """Emits names; those in capitals go to one side output, lengths of names of payments to another."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.log.append("open")
        self.seen = runtime_context.metrics.counter("seen")

    def close(self) -> None:
        self.log.append("close")

    def process_element1(self, value: Order, context: ProcessContext) -> Iterable[str] | None:
        self.seen.inc()
        if value.name.isupper():
            context.output(LOUD, value.name)
            return None
        return [f"order {value.name}"]

    def process_element2(self, value: Payment, context: ProcessContext) -> Iterable[str]:
        self.seen.inc()
        if value.name.isupper():
            context.output(LOUD, value.name)
        context.output(NUMBERS, len(value.name))
        yield f"{value.name} at {context.timestamp}"
        yield value.name[::-1]


def test_a_process_function_without_keys_splits_both_streams() -> None:
    function = Sorted()
    # Not a copy, as its log is looked at.
    with StreamHarness(BOTH.process(function), ORDERS, isolates_functions=False) as harness:
        feed(harness, "a0 B1 xy2 | Z3")
        assert harness.take_values() == ["order a", "xy at 2000", "yx", "Z at 3000", "Z"]
        loud = [(found.value, found.timestamp) for found in harness.take_side_output(LOUD)]
        assert loud == [("B", 1_000), ("Z", 3_000)]
        assert [found.value for found in harness.take_side_output(NUMBERS)] == [2, 1]
        assert harness.counter("seen") == 4
    assert function.log.count("open") == function.log.count("close") > 0


def test_side_outputs_of_both_streams_are_streams() -> None:
    split = BOTH.process(Sorted(), name="split")
    loud = split.get_side_output(LOUD)
    assert (split.element_type, loud.element_type) == (str, str)
    with driven(split, loud) as harness:
        feed(harness, "A0 X0")
        assert [element.value for element in harness.take(loud)] == ["A", "X"]


def test_what_is_behind_has_the_lower_watermark() -> None:
    windows = BOTH.process(Sorted()).window_all(TumblingEventTimeWindows.of(seconds(5)))
    assert story(windows.apply(lambda window, found: ["+".join(found)]), "a0 x2 orders^6 payments^4 payments^5") == {
        "payments^5": "order a+x at 2000+x@4.999"
    }


def test_a_runner_gives_what_the_harness_gives() -> None:
    orders = from_collection([Order("north", "a"), Order("north", "B")], Order)
    split = orders.connect(from_collection([Payment("north", "x")], Payment)).process(Sorted())
    names, loud = CollectSink[str](), CollectSink[str]()
    result = LocalRunner().run(Pipeline("p", split.sink_to(names), split.get_side_output(LOUD).sink_to(loud)))
    assert sorted(result.collected(names)) == ["order a", "x", "x at None"]
    assert result.collected(loud) == ["B"]
