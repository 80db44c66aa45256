"""Connected streams, step by step: what the cases of tests/two_inputs do not have.

Above each test stands its time line, in seconds: ``a``, ``b`` are orders, ``x``, ``y`` payments; ``^`` is the watermark
of both streams, ``c`` the clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.two_streams.shop import (
    ORDER_STREAM,
    ORDERS,
    PAYMENT_STREAM,
    PAYMENTS,
    Order,
    Payment,
    driven,
    order,
    order_key,
    pay,
    payment_key,
    seconds,
    values,
)
from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_collection
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


def matched() -> DataStream[str]:
    return BOTH.key_by(order_key, payment_key).process(Match())


# time      0  1  2  3  4  5  6
# north     a     x           ^6 y       a is gone by 6
# south        b x
# clock     c0                c1
def test_state_and_timers_are_of_both_streams() -> None:
    with driven(matched()) as harness:
        harness.set_processing_time(0)
        order(harness, "a", 0)
        order(harness, "b", 1, "south")
        pay(harness, "x", 2)
        assert values(harness) == [("ax", 2_000)]
        harness.snapshot_restore()
        harness.process_watermark(5_000)
        assert values(harness) == [("north: no order", 5_000)]
        pay(harness, "y", 6)
        assert values(harness) == [("Noney", 6_000)]
        pay(harness, "x", 6, "south")
        assert values(harness) == [("bx", 6_000)]
        harness.set_processing_time(1_000)
        assert sorted(harness.take_values()) == ["north: axy", "south: bx"]


# Keyed streams that are connected are as connected ones that are split.
def test_keyed_streams_are_connected_by_their_keys() -> None:
    keyed = ORDER_STREAM.key_by(order_key).connect(PAYMENT_STREAM.key_by(payment_key))
    with driven(keyed.process(Match())) as harness:
        harness.set_processing_time(0)
        order(harness, "a", 0)
        pay(harness, "x", 2)
        assert harness.take_values() == ["ax"]


# The strategy of a stream says that it is idle when the clock has gone on for a second.
#
# time       0  1  2  3  4  5  6
# orders     a                 b(6)
# payments   (none)                    c1.5
def test_strategies_make_both_watermarks() -> None:
    strategy = WatermarkStrategy[Order].for_monotonous_timestamps()
    idle = WatermarkStrategy[Payment].for_monotonous_timestamps().with_idleness(seconds(1))
    orders = ORDER_STREAM.assign_timestamps_and_watermarks(strategy)
    payments = PAYMENT_STREAM.assign_timestamps_and_watermarks(idle)
    stream = orders.connect(payments).key_by(order_key, payment_key).process(Match())
    with driven(stream) as harness:
        harness.set_processing_time(0)
        order(harness, "a", 0)
        order(harness, "b", 6)
        assert harness.emit_watermarks() == MIN_TIMESTAMP
        harness.set_processing_time(1_500)
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
        order(harness, "a", 1)
        pay(harness, "x", 0)
        assert values(harness) == [("order a", 1_000), ("payment x", 0)]
        assert harness.counter("seen") == 2
    with driven(BOTH.flat_map(Letters())) as harness:
        order(harness, "ab", 1)
        pay(harness, "xy", 0)
        assert harness.take_values() == ["a", "b"]


def test_two_functions_map_each_stream() -> None:
    with driven(BOTH.map(lambda order: order.name, lambda payment: len(payment.name), name="both")) as harness:
        order(harness, "a", 1)
        pay(harness, "xy", 0)
        assert harness.take_values() == ["a", 2]
    with driven(BOTH.flat_map(lambda order: [order], lambda payment: [payment.name] * 2)) as harness:
        order(harness, "a", 1)
        pay(harness, "x", 0)
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


# time      0    1    2    3
# orders    a    B
# payments            xy   Z
# loud           B         Z
def test_a_process_function_without_keys_splits_both_streams() -> None:
    function = Sorted()
    # Not a copy, as its log is looked at.
    with StreamHarness(BOTH.process(function), ORDERS, isolates_functions=False) as harness:
        order(harness, "a", 0)
        order(harness, "B", 1)
        pay(harness, "xy", 2)
        harness.snapshot_restore()
        pay(harness, "Z", 3)
        assert values(harness) == [
            ("order a", 0),
            ("xy at 2000", 2_000),
            ("yx", 2_000),
            ("Z at 3000", 3_000),
            ("Z", 3_000),
        ]
        assert [(found.value, found.timestamp) for found in harness.take_side_output(LOUD)] == [
            ("B", 1_000),
            ("Z", 3_000),
        ]
        assert [found.value for found in harness.take_side_output(NUMBERS)] == [2, 1]
        assert harness.counter("seen") == 4
    assert function.log.count("open") == function.log.count("close") > 0


def test_side_outputs_of_both_streams_are_streams() -> None:
    split = BOTH.process(Sorted(), name="split")
    loud = split.get_side_output(LOUD)
    assert (split.element_type, loud.element_type) == (str, str)
    with driven(split, loud) as harness:
        order(harness, "A", 0)
        pay(harness, "X", 0)
        assert [element.value for element in harness.take(loud)] == ["A", "X"]


# time       0  1  2  3  4  5  6
# orders     a              ^6
# payments         x(2)  ^4    ^5          windows of five seconds, behind the function
def test_what_is_behind_has_the_lower_watermark() -> None:
    windows = BOTH.process(Sorted()).window_all(TumblingEventTimeWindows.of(seconds(5)))
    with driven(windows.apply(lambda window, found: [list(found)])) as harness:
        order(harness, "a", 0)
        pay(harness, "x", 2)
        harness.process_watermark(6_000, source=ORDERS)
        harness.process_watermark(4_000, source=PAYMENTS)
        assert harness.take_values() == []
        harness.process_watermark(5_000, source=PAYMENTS)
        assert harness.take_values() == [["order a", "x at 2000", "x"]]


def test_a_runner_gives_what_the_harness_gives() -> None:
    orders = from_collection([Order("north", "a"), Order("north", "B")], Order)
    split = orders.connect(from_collection([Payment("north", "x")], Payment)).process(Sorted())
    names, loud = CollectSink[str](), CollectSink[str]()
    result = LocalRunner().run(Pipeline("p", split.sink_to(names), split.get_side_output(LOUD).sink_to(loud)))
    assert sorted(result.collected(names)) == ["order a", "x", "x at None"]
    assert result.collected(loud) == ["B"]
