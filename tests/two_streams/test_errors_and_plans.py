"""What two streams refuse, what errors of their functions say, and how plans read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.two_streams.shop import (
    KEYED_ORDERS,
    KEYED_PAYMENTS,
    LATE_ORDERS,
    LATE_PAYMENTS,
    ORDER_STREAM,
    ORDERS,
    PAYMENT_STREAM,
    PAYMENTS,
    Order,
    Payment,
    driven,
    feed,
    maybe_pair,
    order_key,
    pair,
    payment_key,
    seconds,
)
from tests.two_streams.test_connected import Letters, Named
from windrow import OutputTag, Pipeline, from_collection
from windrow.errors import InvalidArgumentError, MissingTimestampError, PlanError, UserFunctionError
from windrow.evictors import CountEvictor
from windrow.functions import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessContext,
    OnTimerContext,
    ProcessContext,
    ProcessJoinContext,
    ProcessJoinFunction,
)
from windrow.sinks import CollectSink
from windrow.triggers import CountTrigger, DeltaTrigger
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

TEN = TumblingEventTimeWindows.of(seconds(10))
# Any: what type checkers refuse is refused at run time, too.
JOIN: Any = ORDER_STREAM.join(PAYMENT_STREAM)
PAIRS: Any = JOIN.where(order_key).equal_to(payment_key)
GROUPS: Any = ORDER_STREAM.co_group(PAYMENT_STREAM).where(order_key).equal_to(payment_key)
KEYED: Any = KEYED_ORDERS
BETWEEN: Any = KEYED.interval_join(KEYED_PAYMENTS).between(seconds(-1), seconds(1))
BOTH: Any = ORDER_STREAM.connect(PAYMENT_STREAM)
STREAM: Any = ORDER_STREAM


def number_key(payment: Payment) -> int:
    return len(payment.name)


class Failing(KeyedCoProcessFunction[str, Order, Payment, str]):
    def process_element1(self, value: Order, context: KeyedProcessContext[str]) -> Iterable[str]:
        context.timer_service.register_event_time_timer(5_000)
        if value.name == "bad":
            raise ValueError("no")
        return ()

    def process_element2(self, value: Payment, context: KeyedProcessContext[str]) -> Iterable[str]:
        raise ValueError("no")

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[str]:
        raise ValueError("no timer")


class FailingApart(CoProcessFunction[Order, Payment, str]):
    def process_element1(self, value: Order, context: ProcessContext) -> Iterable[str]:
        return []

    def process_element2(self, value: Payment, context: ProcessContext) -> Iterable[str]:
        raise ValueError("no")


class OneText(CoProcessFunction[Order, Payment, str]):
    def process_element1(self, value: Order, context: ProcessContext) -> Iterable[str]:
        return []

    # Any text is an iterable of texts to the type checker.
    def process_element2(self, value: Payment, context: ProcessContext) -> str:
        return value.name


class FailingPairs(ProcessJoinFunction[Order, Payment, str]):
    def process_element(self, left: Order, right: Payment, context: ProcessJoinContext) -> Iterable[str]:
        raise ValueError("no pair")
        yield ""


def failing(left: object, right: object) -> str:
    raise ValueError("no pair")


def failing_group(left: Sequence[object], right: Sequence[object]) -> list[str]:
    raise ValueError("no group")


LATE: Any = LATE_ORDERS

OF_ONE_TYPE = "the keys of both streams must be of one type"
JOINED_KEYS: Any = JOIN.where(order_key).equal_to(number_key)
WINDOWED: Any = PAIRS.window(TEN)
AS_OF: Any = KEYED.as_of_join(KEYED_PAYMENTS)
OUTER: Any = KEYED.left_as_of_join(KEYED_PAYMENTS)
CONNECTED: Any = KEYED.connect(KEYED_PAYMENTS)
BOUNDS: Any = KEYED.interval_join(KEYED_PAYMENTS)

# The first line of an error, and what is called.
REFUSED: dict[str, list[Callable[[], object]]] = {
    "connect needs another stream": [lambda: STREAM.connect(KEYED_PAYMENTS)],
    "connect on a keyed stream needs another keyed stream": [lambda: KEYED.connect(PAYMENT_STREAM)],
    "join needs another stream": [lambda: STREAM.join(None)],
    "co_group needs another stream": [lambda: STREAM.co_group(KEYED)],
    "interval_join on a keyed stream needs another keyed stream": [lambda: KEYED.interval_join(PAYMENT_STREAM)],
    "left_as_of_join on a keyed stream needs another keyed stream": [lambda: KEYED.left_as_of_join(PAYMENT_STREAM)],
    "where needs a function": [lambda: STREAM.co_group(PAYMENT_STREAM).where(1)],
    "equal_to needs a function": [
        lambda: JOIN.where(order_key).equal_to(None),
        lambda: STREAM.co_group(PAYMENT_STREAM).where(order_key).equal_to(1),
    ],
    OF_ONE_TYPE: [
        lambda: STREAM.co_group(PAYMENT_STREAM).where(order_key).equal_to(number_key).window(TEN),
        lambda: BOTH.key_by(order_key, number_key),
        lambda: KEYED.connect(PAYMENT_STREAM.key_by(number_key)),
        lambda: KEYED.interval_join(PAYMENT_STREAM.key_by(number_key)),
        lambda: KEYED.as_of_join(PAYMENT_STREAM.key_by(number_key)),
    ],
    "key_by needs a function": [lambda: BOTH.key_by(order_key, "shop")],
    "windows need an assigner": [lambda: PAIRS.window(None), lambda: GROUPS.window(TEN.of)],
    "windows fire by a trigger": [lambda: WINDOWED.trigger(CountTrigger)],
    "the trigger of a window is set twice": [lambda: WINDOWED.trigger(CountTrigger.of(1)).trigger(CountTrigger.of(1))],
    "windows evict by an evictor": [lambda: GROUPS.window(TEN).evictor(3)],
    "the evictor of a window is set twice": [lambda: WINDOWED.evictor(CountEvictor.of(1)).evictor(CountEvictor.of(1))],
    "the allowed lateness must not be negative": [lambda: WINDOWED.allowed_lateness(seconds(-1))],
    "the allowed lateness of a window is set twice": [
        lambda: WINDOWED.allowed_lateness(seconds(1)).allowed_lateness(seconds(1))
    ],
    "the side output for late data of the left stream is set twice": [
        lambda: BETWEEN.side_output_left_late_data(LATE).side_output_left_late_data(LATE)
    ],
    "the side output for late data of the right stream is set twice": [
        lambda: WINDOWED.side_output_late_data(LATE).side_output_right_late_data(LATE),
        lambda: AS_OF.side_output_right_late_data(LATE).side_output_right_late_data(LATE),
    ],
    "late elements go to the side output of a tag": [lambda: BETWEEN.side_output_right_late_data(None)],
    "apply needs a function": [
        lambda: WINDOWED.apply(3),
        lambda: GROUPS.window(TEN).apply(None),
        lambda: BETWEEN.apply("pair"),
        lambda: AS_OF.apply(0),
    ],
    "process needs a function of pairs": [lambda: BETWEEN.process(pair), lambda: BETWEEN.process(FailingPairs)],
    "the lower bound must be a duration": [lambda: BOUNDS.between(-1, seconds(1))],
    "the upper bound has a fraction of a millisecond": [lambda: BOUNDS.between(seconds(0), timedelta(microseconds=1))],
    "connected streams need a process function of two inputs": [
        lambda: CONNECTED.process(FailingPairs()),
        lambda: CONNECTED.process(Failing),
        lambda: CONNECTED.process(FailingApart()),
    ],
    "connected streams without keys need a process function of two inputs without keys": [
        lambda: BOTH.process(Failing())
    ],
    "a CoMapFunction is for both streams, and a second function was given": [lambda: BOTH.map(Named(), payment_key)],
    "a CoFlatMapFunction is for both streams, and a second function was given": [
        lambda: BOTH.flat_map(Letters(), payment_key)
    ],
}

# What is called, and the first lines of its error.
TOLD: list[tuple[Callable[[], object], list[str]]] = [
    *((call, [message]) for message, calls in REFUSED.items() for call in calls),
    (lambda: STREAM.connect([]), ["connect needs another stream", "given:    []", "expected: a DataStream"]),
    (
        lambda: KEYED.as_of_join(1),
        [
            "as_of_join on a keyed stream needs another keyed stream",
            "given:    1",
            "expected: a KeyedStream with keys of the same type",
        ],
    ),
    (lambda: JOIN.where("shop"), ["where needs a function", "given:    shop"]),
    (
        lambda: JOINED_KEYS.window(TEN),
        [OF_ONE_TYPE, "given:    str and int", "expected: two selectors that take keys of the same type"],
    ),
    (
        lambda: WINDOWED.side_output_left_late_data(LATE).side_output_left_late_data(LATE),
        ["the side output for late data of the left stream is set twice", "given:    late orders, then another"],
    ),
    (
        lambda: GROUPS.window(TEN).side_output_late_data("late"),
        ["late elements go to the side output of a tag", "given:    late", "expected: an OutputTag"],
    ),
    (
        lambda: BOUNDS.between(seconds(2), seconds(1)),
        [
            "the lower bound of an interval join must not be above the upper one",
            "given:    2 s and 1 s",
            "expected: lower <= upper",
        ],
    ),
    (
        lambda: BOTH.process(FailingApart),
        [
            "connected streams without keys need a process function of two inputs without keys",
            "given:    <class 'tests.two_streams.test_errors_and_plans.FailingApart'>",
            "expected: an instance of CoProcessFunction",
        ],
    ),
    (
        lambda: BOTH.map(order_key),
        [
            "connected streams need a function for each stream",
            "given:    no second function",
            "expected: a CoMapFunction, or two callables",
        ],
    ),
    (lambda: BOTH.flat_map(1, list), ["connected streams need a function for each stream", "given:    1"]),
]


@pytest.mark.parametrize(("call", "expected"), TOLD, ids=[f"{n} {lines[0]}" for n, (_, lines) in enumerate(TOLD)])
def test_arguments_are_refused_where_they_stand(call: Callable[[], object], expected: list[str]) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        call()
    lines = [line.strip() for line in str(raised.value).splitlines()]
    assert lines[: len(expected)] == expected
    assert any(line.startswith("where:") and "test_errors_and_plans.py" in line for line in lines)


def faults(stream: Any) -> str:
    with pytest.raises(PlanError) as raised:
        Pipeline("p", stream.sink_to(CollectSink[Any]()))
    return str(raised.value)


def test_plans_that_are_refused() -> None:
    no_times = from_collection([Order("north", "a")])
    payments = from_collection([Payment("north", "x")])
    timed = KEYED_PAYMENTS
    joined: Any = no_times.join(payments).where(order_key).equal_to(payment_key).window(TEN).apply(pair)
    assert "TumblingEventTimeWindows(size=10 s) needs timestamps, and the stream has none" in faults(joined)
    by_interval = no_times.key_by(order_key).interval_join(timed).between(seconds(0), seconds(1)).apply(pair)
    assert "interval_join needs timestamps, and not both streams have them" in faults(by_interval)
    as_of = KEYED.as_of_join(payments.key_by(payment_key)).apply(pair)
    assert "as_of_join needs timestamps, and not both streams have them" in faults(as_of)
    clock = PAIRS.window(TumblingProcessingTimeWindows.of(seconds(1)))
    assert "is not in event time and knows no lateness" in faults(clock.allowed_lateness(seconds(1)).apply(pair))
    assert "is not in event time and has no late elements" in faults(
        clock.side_output_right_late_data(LATE_PAYMENTS).apply(pair)
    )
    delta: Any = DeltaTrigger.of(1.0, lambda one, other: 2.0)
    sessions: Any = EventTimeSessionWindows.with_gap(seconds(1))
    assert "DeltaTrigger(1.0) cannot merge" in faults(PAIRS.window(sessions).trigger(delta).apply(pair))
    assert "GlobalWindows" in faults(PAIRS.window(GlobalWindows.create()).apply(pair))
    assert "OneText.process_element2 returns str, whose items would be taken for records" in faults(
        BOTH.process(OneText())
    )


# A function of a pair can put out to no tag: what it is asked for is not there.
@pytest.mark.parametrize(
    "stream",
    [
        PAIRS.window(TEN).side_output_left_late_data(LATE_ORDERS).apply(pair),
        GROUPS.window(TEN).side_output_left_late_data(LATE_ORDERS).apply(lambda left, right: []),
        BETWEEN.side_output_left_late_data(LATE_ORDERS).apply(pair),
        AS_OF.side_output_left_late_data(LATE_ORDERS).apply(pair),
    ],
)
def test_outputs_that_are_not_there(stream: Any) -> None:
    assert "has no side output 'late payments'" in faults(stream.get_side_output(LATE_PAYMENTS))
    assert "its side outputs are: 'late orders'" in faults(stream.get_side_output(LATE_PAYMENTS))


def test_an_output_of_another_type_is_refused() -> None:
    late = PAIRS.window(TEN).side_output_left_late_data(LATE_ORDERS).apply(pair)
    assert "late orders" in faults(late.get_side_output(OutputTag("late orders", Payment)))


@pytest.mark.parametrize(
    ("stream", "where"),
    [
        (PAIRS.window(TEN).apply(pair), "window"),
        (BETWEEN.apply(pair), "interval_join"),
        (OUTER.apply(maybe_pair), "as_of_join"),
    ],
)
def test_elements_without_timestamps(stream: Any, where: str) -> None:
    # Any: elements of two sources.
    pushed: list[tuple[Any, Any]] = [(Order("north", "a"), ORDERS), (Payment("north", "x"), PAYMENTS)]
    for element, source in pushed:
        with driven(stream) as harness, pytest.raises(MissingTimestampError) as raised:
            harness.process_element(element, None, source=source)
        assert f"given:    {element!r}\n" in str(raised.value)
        assert f"harness.7.{where}" in str(raised.value)


A, X = "Order(shop='north', name='bad')", "Payment(shop='north', name='x')"


@pytest.mark.parametrize(
    ("stream", "given"),
    [
        (PAIRS.window(TEN).apply(failing), "key 'north', window TimeWindow(start=0, end=10000)"),
        (
            PAIRS.window(TEN).trigger(CountTrigger.of(2)).apply(failing),
            f"key 'north', window TimeWindow(start=0, end=10000), element {X}",
        ),
        (GROUPS.window(TEN).apply(failing_group), "key 'north', window TimeWindow(start=0, end=10000)"),
        (BETWEEN.apply(failing), f"key 'north', left {A}, right {X}"),
        (BETWEEN.process(FailingPairs()), f"key 'north', left {A}, right {X}"),
        (AS_OF.apply(failing), f"key 'north', left {A}, right {X}"),
        (CONNECTED.process(Failing()), f"key 'north', element {A}"),
        (BOTH.process(FailingApart()), f"element {X}"),
        (JOIN.where(lambda order: 1 // 0).equal_to(payment_key).window(TEN).apply(pair), f"element {A}"),
    ],
)
def test_functions_that_raise_are_shown_what_they_were_given(stream: Any, given: str) -> None:
    with driven(stream) as harness, pytest.raises(UserFunctionError) as raised:
        feed(harness, "bad2 x2 ^10")
    text = str(raised.value)
    assert f"  given:    {given}\n" in text
    assert "Tagged" not in text
    assert "harness." in text


def test_timers_that_raise() -> None:
    with driven(CONNECTED.process(Failing())) as harness, pytest.raises(UserFunctionError) as raised:
        feed(harness, "a2 ^10")
    assert "given:    key 'north', timer 5000 in event_time" in str(raised.value)


def explained(stream: Any) -> list[str]:
    return str(Pipeline("p", stream.sink_to(CollectSink[Any]())).explain()).splitlines()


def test_plans_of_joins_read_as_they_are_written() -> None:
    late = PAIRS.window(TEN).side_output_left_late_data(LATE_ORDERS).side_output_right_late_data(LATE_PAYMENTS)
    assert explained(late.apply(pair).get_side_output(LATE_PAYMENTS)) == [
        "pipeline p",
        "  1 source                pushed by a test  : Order",
        "  3 source                pushed by a test  : Payment",
        "  7 window       <- 1, 3  join by order_key and payment_key, TumblingEventTimeWindows(size=10 s), trigger "
        "EventTimeTrigger, late of the left to 'late orders', late of the right to 'late payments', pair  : str",
        "                          'late orders' is read by nothing: its elements are lost",
        "  8 side_output  <- 7     'late payments'  : Payment",
        "  9 sink         <- 8     collect",
    ]


LEFT: Any = ORDER_STREAM.left_join(PAYMENT_STREAM).where(order_key).equal_to(payment_key)
BY_KEYS = "<- 1, 3  by order_key and payment_key,"
TENS = "by order_key and payment_key, TumblingEventTimeWindows(size=10 s), trigger EventTimeTrigger"


@pytest.mark.parametrize(
    ("stream", "line"),
    [
        (
            GROUPS.window(TEN).apply(lambda left, right: [], name="both"),
            f"  7 window both  <- 1, 3  co_group {TENS}, lambda",
        ),
        (LEFT.window(TEN).apply(maybe_pair), f"  7 window  <- 1, 3  left_join {TENS}, maybe_pair  : str"),
        (
            BETWEEN.lower_bound_exclusive().side_output_right_late_data(LATE_PAYMENTS).apply(pair),
            f"  7 interval_join  {BY_KEYS} -999 ms to 1 s, late of the right to 'late payments', pair  : str",
        ),
        (AS_OF.apply(pair), f"  7 as_of_join  {BY_KEYS} pair  : str"),
        (OUTER.apply(maybe_pair), f"  7 as_of_join  {BY_KEYS} left outer, maybe_pair  : str"),
        (
            BETWEEN.process(FailingPairs(), name="pairs"),
            f"  7 interval_join pairs  {BY_KEYS} -1 s to 1 s, FailingPairs  : str",
        ),
        (CONNECTED.process(Failing()), f"  7 process  {BY_KEYS} Failing  : str"),
        (BOTH.process(FailingApart()), "  6 process  <- 1, 3  FailingApart  : str"),
    ],
)
def test_steps_of_two_streams_read_as_they_are_written(stream: Any, line: str) -> None:
    assert explained(stream)[3] == line


def test_two_maps_read_as_they_are_written() -> None:
    assert explained(BOTH.map(Named()))[2:7] == [
        "  2 map      <- 1     Named",
        "  3 source            pushed by a test  : Payment",
        "  4 map      <- 3     Named",
        "  5 union    <- 2, 4",
        "  6 returns  <- 5     str",
    ]


def test_stages_show_where_they_were_made() -> None:
    streams = f"DataStream(source: Order, {__file__.replace('test_errors_and_plans', 'shop')}"
    for stage in (JOIN, JOIN.where(order_key), PAIRS, GROUPS, BOTH):
        assert repr(stage).startswith(f"{type(stage).__name__}({streams}")
    for stage in (KEYED.interval_join(KEYED_PAYMENTS), BETWEEN, AS_OF):
        assert repr(stage).startswith(f"{type(stage).__name__}(key_by: Order or Payment, {__file__}")
    assert repr(PAIRS.window(TEN)).startswith("WindowJoin(TumblingEventTimeWindows(size=10 s), ")


def test_a_plan_says_where_elements_are_dropped_that_a_step_behind_would_wait_for() -> None:
    wait = seconds(3)
    one_tag = BETWEEN.side_output_left_late_data(LATE_ORDERS)
    joins: list[tuple[Any, bool]] = [
        (BETWEEN, True),
        (BETWEEN.allowed_lateness(seconds(2)), True),
        (BETWEEN.allowed_lateness(wait), False),
        (one_tag, True),
        (one_tag.side_output_right_late_data(LATE_PAYMENTS), False),
        (AS_OF, True),
        (OUTER, True),
        (OUTER.side_output_right_late_data(LATE_PAYMENTS), False),
        (PAIRS.window(TEN), True),
        (PAIRS.window(TEN).allowed_lateness(wait), False),
        (PAIRS.window(TEN).side_output_late_data(OutputTag[Any]("late")), False),
        (PAIRS.window(GlobalWindows.create()).trigger(CountTrigger.of(1)), False),
    ]
    plans = [(join.apply(maybe_pair), is_told) for join, is_told in joins]
    plans.append((KEYED.window(TEN).reduce(lambda a, _: a).map(order_key), True))
    plans.append((ORDER_STREAM.map(order_key), False))
    for stream, is_told in plans:
        mapped = stream.map(lambda text: text + "!").filter(lambda text: text != "")
        for lateness, expected in ((wait, is_told), (seconds(0), False)):
            behind = mapped.window_all(TEN).allowed_lateness(lateness).count()
            plan = Pipeline("late", behind.sink_to(CollectSink[int]())).explain()
            assert ("are dropped there, so the allowed lateness here does not get them" in plan) == expected, plan
