"""Declared joins are functions of pairs in every kind of join, and say what they make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.dsl.plans import cases, in_time, refusal
from tests.support.records import millis
from windrow import DataStream, joins
from windrow.errors import UnsupportedOperationError
from windrow.functions import MapFunction
from windrow.joins import DeclaredJoin
from windrow.windows import TumblingEventTimeWindows

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


TUMBLING = TumblingEventTimeWindows.of(millis(100))
ORDERS = [Order("a", 10, 1), Order("b", 20, 2), Order("a", 150, 3)]
PAYMENTS = [Payment("a", 15, 0.5), Payment("a", 30, 1.5), Payment("c", 60, 2.5)]
orders = in_time(ORDERS, lambda o: o.at)
payments = in_time(PAYMENTS, lambda p: p.at)
keyed, keyed_payments = orders.key_by(lambda o: o.user), payments.key_by(lambda p: p.payer)


def results(stream: DataStream[Any]) -> list[Any]:
    return sorted(stream.collect(), key=repr)


def windowed(kind: str) -> Any:
    joined: Any = getattr(orders, kind)(payments)
    return joined.where(lambda o: o.user).equal_to(lambda p: p.payer).window(TUMBLING)


INNER: DeclaredJoin[Order, Payment, Paid] = joins.into(
    Paid, joins.key(), joins.left(lambda o: o.number), joins.right(lambda p: p.sum)
)
OUTER: DeclaredJoin[Order, Payment | None, Paid] = joins.into(
    Paid, joins.key(), joins.left(lambda o: o.number), joins.right_or_none(lambda p: p.sum)
)


def test_an_interval_join_makes_a_record_of_each_pair() -> None:
    paid = keyed.interval_join(keyed_payments).between(millis(0), millis(10)).apply(INNER)
    assert paid.node.element_type is Paid
    assert "into(Paid, key(), left(.number), right(.sum))" in paid.node.describe()
    assert results(paid) == [Paid("a", 1, 0.5)]


def test_fields_go_by_name() -> None:
    by_name: DeclaredJoin[Order, Payment, Paid] = joins.into(
        Paid, sum=joins.right(lambda p: p.sum), number=joins.left(lambda o: o.number), user=joins.key()
    )
    assert results(windowed("join").apply(by_name)) == [Paid("a", 1, 0.5), Paid("a", 1, 1.5)]


def test_an_outer_join_has_none_where_no_partner_is() -> None:
    pairs = [Paid("a", 1, 0.5), Paid("a", 1, 1.5), Paid("a", 3, None), Paid("b", 2, None)]
    assert results(windowed("left_join").apply(OUTER)) == pairs
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
    inner: DeclaredJoin[Order, Payment, PaidInFull] = joins.into(
        PaidInFull, joins.left(lambda o: o.number), joins.right(lambda p: p.sum)
    )
    assert results(keyed.as_of_join(keyed_payments).apply(inner)) == [PaidInFull(3, 1.5)]
    versions = results(keyed.left_as_of_join(keyed_payments).apply(OUTER))
    assert versions == [Paid("a", 1, None), Paid("a", 3, 1.5), Paid("b", 2, None)]


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
number: Any = joins.left(lambda o: o.number)
paid: Any = joins.right(lambda p: p.sum)
maybe_paid: Any = joins.right_or_none(lambda p: p.sum)
by_number = orders.key_by(Number()).interval_join(payments.key_by(lambda p: 1)).between(millis(0), millis(0))
REFUSED: dict[str, list[Callable[[], object]]] = {
    "needs fields": [lambda: joins.into(Paid)],
    "by position and by name": [lambda: joins.into(Paid, joins.key(), sum=joins.key())],  # type: ignore[call-overload]
    "fields of a join": [lambda: joins.into(Paid, lambda o: o.number)],  # type: ignore[call-overload]
    "the selector of left": [lambda: joins.left(3)],  # type: ignore[arg-type]
    "does not take these fields": [lambda: joins.into(Paid, number=number)],
    "may find no right element": [lambda: windowed("left_join").apply(joins.into(ANY, number, paid))],
    "may find no left element": [
        lambda: windowed("full_join").apply(joins.into(ANY, number, maybe_paid)),
        lambda: windowed("right_join").apply(joins.into(ANY, number, paid)),
    ],
    "field sum of PaidInFull cannot take": [lambda: windowed("left_join").apply(joins.into(ANY, number, maybe_paid))],
    "field number of PaidInFull cannot take": [
        lambda: windowed("join").apply(joins.into(ANY, joins.left(lambda o: o.user), paid)),
        lambda: windowed("join").apply(joins.into(ANY, joins.key(), paid)),
    ],
    "by a rich function": [lambda: by_number.apply(joins.into(ANY, joins.key(), paid))],
}


@pytest.mark.parametrize(("make", "message"), cases(REFUSED))
def test_wrong_declarations_are_refused(make: Callable[[], object], message: str) -> None:
    error = refusal(make)
    assert message in str(error)
    assert str(error.where).startswith(f"{__file__}:")


def test_a_key_is_known_to_joins_alone() -> None:
    with pytest.raises(UnsupportedOperationError, match="where a join calls"):
        INNER(ORDERS[0], PAYMENTS[0])
