"""Assigners, triggers and evictors of joins see the elements themselves, whatever they are made of.

``a``, ``b`` are orders, ``x``, ``y`` payments, each with its second; ``^`` is the watermark of both streams.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.two_streams.shop import (
    ORDER_STREAM,
    ORDERS,
    PAYMENT_STREAM,
    Order,
    Payment,
    feed,
    order_key,
    pair,
    payment_key,
    seconds,
    story,
)
from windrow.builder.window_join import JoinEqualTo
from windrow.errors import InvalidArgumentError
from windrow.evictors import DeltaEvictor, Evictor, EvictorContext, TimestampedValue
from windrow.joins.unmarked import assigner_of_both, evictor_of_both, trigger_of_both
from windrow.state import ListStateDescriptor, ValueStateDescriptor
from windrow.triggers import (
    ComposableTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeoutTrigger,
    EventTimeTrigger,
    PartContext,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    Trigger,
    TriggerContext,
    TriggerResult,
    after_all,
    after_any,
    after_count,
    after_each,
    after_watermark,
    or_finally,
    repeatedly,
)
from windrow.windows import (
    AssignerContext,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    Window,
    WindowAssigner,
)
from windrow_runtime.testing import StreamHarness

Both = Order | Payment
TEN = TumblingEventTimeWindows.of(seconds(10))


def by_shop() -> JoinEqualTo[Order, Payment, Order, Payment, str]:
    return ORDER_STREAM.join(PAYMENT_STREAM).where(order_key).equal_to(payment_key)


def far(one: Both, other: Both) -> float:
    """How far apart two names are."""
    assert isinstance(one, (Order, Payment))
    assert isinstance(other, (Order, Payment))
    return abs(ord(other.name) - ord(one.name))


class OnPayments(Trigger[Both, Window]):
    """Fires at each payment, with a count of the orders in its state."""

    _ORDERS = ListStateDescriptor("orders", Order)

    def on_element(self, element: Both, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        if isinstance(element, Order):
            context.get_state(self._ORDERS).add(element)
            return TriggerResult.CONTINUE
        assert isinstance(element, Payment)
        return TriggerResult.FIRE

    def clear(self, window: Window, context: TriggerContext) -> None:
        context.get_state(self._ORDERS).clear()


@dataclass(frozen=True)
class OnName(OnPayments):
    """As a frozen dataclass."""

    name: str = "x"

    def on_element(self, element: Both, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if element.name == self.name else TriggerResult.CONTINUE


class OnSlots(OnPayments):
    """With slots, beside which its base leaves room for attributes."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def on_element(self, element: Both, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if element.name == self.name else TriggerResult.CONTINUE


class Paid(ComposableTrigger[Both, Window]):
    """Ready when a payment came; finished when it has fired."""

    _PAID = ValueStateDescriptor("paid", bool)

    def observe(self, element: Both, timestamp: int, window: Window, context: PartContext) -> None:
        assert isinstance(element, (Order, Payment))
        if isinstance(element, Payment):
            context.get_state(self._PAID).update(True)

    def is_ready(self, window: Window, context: PartContext) -> bool:
        return context.get_state(self._PAID).value() is True

    def on_fire(self, window: Window, context: PartContext) -> bool:
        context.get_state(self._PAID).clear()
        return True

    def forget(self, window: Window, context: PartContext) -> None:
        context.get_state(self._PAID).clear()


DELTA: DeltaTrigger[Both] = DeltaTrigger.of(5.0, far)

# Each fires at ``x``, which is a payment and far from ``a``, and not before.
AT_X: list[Trigger[Both, Window]] = [
    OnPayments(),
    OnName(),
    OnSlots("x"),
    Paid(),
    DELTA,
    PurgingTrigger.of(DELTA),
    PurgingTrigger.of(PurgingTrigger.of(OnPayments())),
    EventTimeoutTrigger.of(OnName(), seconds(60)),
    ProcessingTimeoutTrigger.of(OnName(), seconds(60)),
    after_any(after_count(9), Paid()),
    after_any(after_count(9), after_all(DELTA, after_count(2))),
    repeatedly(Paid()),
    repeatedly(after_each(after_all(Paid(), after_count(2)))),
    or_finally(after_count(9), Paid()),
    after_watermark(early=repeatedly(after_any(OnPayments(), after_count(9)))),
    after_watermark(early=repeatedly(Paid()), late=repeatedly(Paid())),
]


@pytest.mark.parametrize("trigger", AT_X, ids=repr)
@pytest.mark.parametrize("shipped", [False, True], ids=["as it is", "shipped"])
def test_triggers_see_elements_without_marks(trigger: Trigger[Both, Window], shipped: bool) -> None:
    stage = by_shop().window(TEN).trigger(trigger, may_lose_data=True)
    given = stage._both.trigger
    assert given is not None
    assert (type(given), repr(given)) == (type(trigger), repr(trigger))
    if shipped:
        there = pickle.loads(pickle.dumps(deepcopy(given)))
        stage = type(stage)(replace(stage._both, trigger=there))
    for explains in (True, False):
        with StreamHarness(stage.apply(pair), ORDERS, explains=explains) as harness:
            feed(harness, "a1")
            assert harness.take_values() == []
            feed(harness, "x2")
            assert harness.take_values() == ["ax"]


def test_triggers_that_look_at_no_element_stay_as_they_are() -> None:
    blind: list[Trigger[Any, Any]] = [
        CountTrigger.of(1),
        EventTimeTrigger.create(),
        PurgingTrigger.of(CountTrigger.of(1)),
        after_any(after_count(1), CountTrigger.of(2)),
        after_watermark(),
    ]
    for trigger in blind:
        assert trigger_of_both(trigger) is trigger
    assert assigner_of_both(TEN) is TEN
    sessions = EventTimeSessionWindows.with_gap(seconds(1))
    assert assigner_of_both(sessions) is sessions


def test_a_trigger_that_is_given_stays_as_it_is() -> None:
    trigger = after_any(Paid(), DELTA)
    before = repr(trigger), [id(part) for part in trigger.parts]
    trigger_of_both(trigger)
    assert (repr(trigger), [id(part) for part in trigger.parts]) == before
    assert "observe" not in vars(trigger.parts[0])


@dataclass
class Of(Evictor[Both, Window]):
    """Keeps elements of some names, and what has a timestamp."""

    names: str

    def evict_before(
        self, elements: Sequence[TimestampedValue[Both]], size: int, window: Window, context: EvictorContext
    ) -> Sequence[int]:
        assert all(each.timestamp is not None for each in elements)
        return [place for place, each in enumerate(elements) if each.value.name not in self.names]

    def evict_after(
        self, elements: Sequence[TimestampedValue[Both]], size: int, window: Window, context: EvictorContext
    ) -> Sequence[int]:
        assert all(isinstance(each.value, (Order, Payment)) for each in elements)
        return ()


@pytest.mark.parametrize(
    ("evictor", "expected"),
    [
        (Of("ax"), "ax@9.999"),
        (DeltaEvictor.of(22.5, far), "bx@9.999"),
        (DeltaEvictor.of(22.5, far, do_evict_after=True), "ax@9.999, bx@9.999"),
    ],
)
def test_evictors_see_elements_without_marks(evictor: Evictor[Both, Window], expected: str) -> None:
    stage = by_shop().window(TEN).evictor(evictor)
    assert story(stage.apply(pair), "a1 b2 x3 ^10") == {"^10": expected}
    assert evictor_of_both(evictor).describe() == evictor.describe()


class ByKind(WindowAssigner[Both, TimeWindow]):
    """Orders reach a second back, payments are where they are."""

    def assign_windows(self, element: Both, timestamp: int, context: AssignerContext) -> Sequence[TimeWindow]:
        starts = (timestamp // 1000 * 1000, timestamp // 1000 * 1000 - 1000)
        return [TimeWindow(start, start + 1000) for start in starts[: 1 + isinstance(element, Order)]]

    def default_trigger(self) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger.create()

    @property
    def is_event_time(self) -> bool:
        return True


def test_own_assigners_see_elements_without_marks() -> None:
    assert story(by_shop().window(ByKind()).apply(pair), "a1 x0 y1 ^10") == {"^10": "ax@0.999, ay@1.999"}


def test_dynamic_gaps_see_elements_without_marks() -> None:
    gaps: DynamicEventTimeSessionWindows[Both] = EventTimeSessionWindows.with_dynamic_gap(
        lambda element: seconds(1.5 if isinstance(element, Order) else 4)
    )
    assert story(by_shop().window(gaps).apply(pair), "a0 x1 y4 b9 ^20") == {"^20": "ax@7.999, ay@7.999"}


@dataclass(frozen=True, slots=True)
class Slotted(Evictor[Both, Window]):
    """Its copies have its fields alone."""

    names: str

    def evict_before(
        self, elements: Sequence[TimestampedValue[Both]], size: int, window: Window, context: EvictorContext
    ) -> Sequence[int]:
        return ()

    evict_after = evict_before


def test_parts_whose_copies_lose_attributes_are_refused() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        by_shop().window(TEN).evictor(Slotted("a"))
    assert str(raised.value).splitlines()[:3] == [
        "copies of a Slotted lose attributes that are not its fields, and a join of two streams needs one",
        "  given:    Slotted(names='a')",
        "  expected: an object whose copies have all its attributes",
    ]
    assert "test_unmarked_parts.py" in str(raised.value)
