"""Declared joins are functions of pairs in every kind of join, and say what they make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection, joins
from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.functions import MapFunction
from windrow.joins import DeclaredJoin
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner

# Any in this module: results of every type.


@dataclass(frozen=True)
class Order:
    user: str
    at: int
    number: int


@dataclass(frozen=True)
class Payment:
    payer: str
    at: int
    sum: float


@dataclass(frozen=True)
class Paid:
    user: str
    number: int
    sum: float | None


@dataclass(frozen=True)
class PaidInFull:
    number: int
    sum: float


@dataclass(frozen=True)
class Either:
    user: str
    number: int | None
    sum: float | None


STRATEGY = WatermarkStrategy[Any].for_monotonous_timestamps()
TUMBLING = TumblingEventTimeWindows.of(timedelta(milliseconds=100))
ORDERS = [Order("a", 10, 1), Order("b", 20, 2), Order("a", 150, 3)]
PAYMENTS = [Payment("a", 15, 0.5), Payment("a", 30, 1.5), Payment("c", 60, 2.5)]


def streams() -> tuple[DataStream[Order], DataStream[Payment]]:
    return (
        from_collection(ORDERS).assign_timestamps_and_watermarks(STRATEGY, timestamp=lambda o: o.at),
        from_collection(PAYMENTS).assign_timestamps_and_watermarks(STRATEGY, timestamp=lambda p: p.at),
    )


def results(stream: DataStream[Any]) -> list[Any]:
    sink = CollectSink[Any]()
    return sorted(LocalRunner().run(Pipeline("joins", stream.sink_to(sink))).collected(sink), key=repr)


def windowed(kind: str) -> Any:
    orders, payments = streams()
    joined: Any = getattr(orders, kind)(payments)
    return joined.where(lambda o: o.user).equal_to(lambda p: p.payer).window(TUMBLING)


def keyed() -> tuple[Any, Any]:
    orders, payments = streams()
    return orders.key_by(lambda o: o.user), payments.key_by(lambda p: p.payer)


def test_an_interval_join_makes_a_record_of_each_pair() -> None:
    orders, payments = streams()
    paid = (
        orders.key_by(lambda o: o.user)
        .interval_join(payments.key_by(lambda p: p.payer))
        .between(timedelta(0), timedelta(milliseconds=10))
        .apply(joins.into(Paid, joins.key(), joins.left(lambda o: o.number), joins.right(lambda p: p.sum)))
    )
    assert paid.node.element_type is Paid
    assert "into(Paid, key(), left(.number), right(.sum))" in paid.node.describe()
    assert results(paid) == [Paid("a", 1, 0.5)]


def test_fields_go_by_name() -> None:
    by_name: DeclaredJoin[Order, Payment, Paid] = joins.into(
        Paid, sum=joins.right(lambda p: p.sum), number=joins.left(lambda o: o.number), user=joins.key()
    )
    assert results(windowed("join").apply(by_name)) == [Paid("a", 1, 0.5), Paid("a", 1, 1.5)]


def test_an_outer_join_has_none_where_no_partner_is() -> None:
    left: DeclaredJoin[Order, Payment | None, Paid] = joins.into(
        Paid, joins.key(), joins.left(lambda o: o.number), joins.right_or_none(lambda p: p.sum)
    )
    pairs = [Paid("a", 1, 0.5), Paid("a", 1, 1.5), Paid("a", 3, None), Paid("b", 2, None)]
    assert results(windowed("left_join").apply(left)) == pairs
    right: DeclaredJoin[Order | None, Payment, Either] = joins.into(
        Either, joins.key(), joins.left_or_none(lambda o: o.number), joins.right(lambda p: p.sum)
    )
    found = [Either("a", 1, 0.5), Either("a", 1, 1.5), Either("c", None, 2.5)]
    assert results(windowed("right_join").apply(right)) == found
    either = joins.into(
        Either, joins.key(), joins.left_or_none(lambda o: o.number), joins.right_or_none(lambda p: p.sum)
    )
    full = [Either(pair.user, pair.number, pair.sum) for pair in pairs]
    assert results(windowed("full_join").apply(either)) == [*full, Either("c", None, 2.5)]


def test_an_as_of_join_takes_the_version_of_its_time() -> None:
    orders, payments = keyed()
    inner: DeclaredJoin[Order, Payment, PaidInFull] = joins.into(
        PaidInFull, joins.left(lambda o: o.number), joins.right(lambda p: p.sum)
    )
    assert results(orders.as_of_join(payments).apply(inner)) == [PaidInFull(3, 1.5)]
    outer: DeclaredJoin[Order, Payment | None, Paid] = joins.into(
        Paid, joins.key(), joins.left(lambda o: o.number), joins.right_or_none(lambda p: p.sum)
    )
    assert results(orders.left_as_of_join(payments).apply(outer)) == [
        Paid("a", 1, None),
        Paid("a", 3, 1.5),
        Paid("b", 2, None),
    ]


class Number(MapFunction[Order, int]):
    """Tells whether it was opened."""

    def open(self, runtime_context: Any) -> None:
        self.more = 100

    def map(self, value: Order) -> int:
        return value.number + self.more


def test_selectors_may_be_rich_functions_and_anything_may_make_the_result() -> None:
    made = windowed("join").apply(joins.into(lambda n, s: (n, s), joins.left(Number()), joins.right(lambda p: p.sum)))
    assert results(made) == [(101, 0.5), (101, 1.5)]


# Any: what the type checker refuses as well.
ANY: Any = PaidInFull
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "no fields": (lambda: joins.into(Paid), "needs fields"),
    "both kinds": (
        lambda: joins.into(Paid, joins.key(), sum=joins.key()),  # type: ignore[call-overload]  # on purpose
        "by position and by name",
    ),
    "a selector": (lambda: joins.into(Paid, lambda o: o.number), "fields of a join"),  # type: ignore[call-overload]
    "no function": (lambda: joins.left(3), "the selector of left"),  # type: ignore[arg-type]  # on purpose
    "too few": (lambda: joins.into(Paid, number=joins.left(lambda o: o.number)), "does not take these fields"),
    "a side that may be missing": (
        lambda: windowed("left_join").apply(
            joins.into(ANY, joins.left(lambda o: o.number), joins.right(lambda p: p.sum))
        ),
        "may find no right element",
    ),
    "a left side that may be missing": (
        lambda: windowed("full_join").apply(
            joins.into(ANY, joins.left(lambda o: o.number), joins.right_or_none(lambda p: p.sum))
        ),
        "may find no left element",
    ),
    "the left side of a right join": (
        lambda: windowed("right_join").apply(
            joins.into(ANY, joins.left(lambda o: o.number), joins.right(lambda p: p.sum))
        ),
        "may find no left element",
    ),
    "None in a field": (
        lambda: windowed("left_join").apply(
            joins.into(ANY, joins.left(lambda o: o.number), joins.right_or_none(lambda p: p.sum))
        ),
        "field sum of PaidInFull cannot take",
    ),
    "another type": (
        lambda: windowed("join").apply(joins.into(ANY, joins.left(lambda o: o.user), joins.right(lambda p: p.sum))),
        "field number of PaidInFull cannot take",
    ),
    "another key": (
        lambda: windowed("join").apply(joins.into(ANY, joins.key(), joins.right(lambda p: p.sum))),
        "field number of PaidInFull cannot take",
    ),
    "a rich key": (
        lambda: (
            streams()[0]
            .key_by(Number())
            .interval_join(streams()[1].key_by(lambda p: 1))
            .between(timedelta(0), timedelta(0))
            .apply(joins.into(ANY, joins.key(), joins.right(lambda p: p.sum)))
        ),
        "by a rich function",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_declarations_are_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        make()
    assert str(caught.value.where).startswith(f"{__file__}:")


def test_a_key_is_known_to_joins_alone() -> None:
    alone: DeclaredJoin[Order, Payment, Paid] = joins.into(
        Paid, joins.key(), joins.left(lambda o: o.number), joins.right(lambda p: p.sum)
    )
    with pytest.raises(UnsupportedOperationError, match="where a join calls"):
        alone(ORDERS[0], PAYMENTS[0])
