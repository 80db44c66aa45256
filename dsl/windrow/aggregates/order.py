"""Defines aggregates that compare: the lowest and highest values, and the elements that have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Never, final, overload

from typing_extensions import TypeVar

from windrow.aggregates.declared import Declaration, DeclaredAggregate, check_selector
from windrow.aggregates.selectors import gives_none, selected_type
from windrow.counts import check_positive
from windrow.plan.location import caller_location
from windrow.rolling import Comparable
from windrow.rows.equality import precedes

# Any in accumulators: what selectors give, whose types are the aggregate's parameters and not the accumulator's.

T = TypeVar("T")
V = TypeVar("V", default=Never)
C = TypeVar("C", bound=Comparable | None)
M = TypeVar("M", bound=None, default=Never)
"""None where what is compared may be None, else nothing: whether there may be no element to give."""

One = tuple[Any, ...]
"""A value, or nothing."""

Ranked = tuple[list[Any], list[Any]]
"""The compared values, highest first, and the elements that belong to them."""


@final
@dataclass(frozen=True, repr=False)
class Extreme(DeclaredAggregate[T, One, C, None], Generic[T, C]):
    """See :func:`min` and :func:`max`."""

    # Of equals another one may stay.
    commutative: ClassVar[bool] = True

    selector: Callable[[T], C]
    highest: bool

    def create_accumulator(self) -> One:
        return ()

    def add(self, value: T, accumulator: One) -> One:
        selected = self.selector(value)
        if selected is None:
            return accumulator
        return self._better(accumulator or (selected,), selected)  # a value without an order fails as the first, too

    def get_result(self, accumulator: One) -> C | None:
        return accumulator[0] if accumulator else None

    def merge(self, a: One, b: One) -> One:
        return self._better(a, b[0]) if b else a

    def _better(self, held: One, selected: Any) -> One:
        if not held:
            return (selected,)
        if self.highest:
            return (selected,) if precedes(held[0], selected) else held
        return (selected,) if precedes(selected, held[0]) else held

    @property
    def declaration(self) -> Declaration:
        return Declaration("max" if self.highest else "min", (("value", self.selector),))

    def gives_none(self, element_type: object | None, *, may_be_empty: bool = False) -> bool | None:
        return may_be_empty or gives_none(self.selector, element_type)

    def _value_type(self, element_type: object | None) -> object | None:
        return selected_type(self.selector, element_type)


@final
@dataclass(frozen=True, repr=False)
class ExtremeBy(DeclaredAggregate[T, One, V | M, None], Generic[T, V, M]):
    """See :func:`min_by` and :func:`max_by`."""

    selector: Callable[[T], V] | None
    by: Callable[[T], Comparable | M]
    highest: bool

    def create_accumulator(self) -> One:
        return ()

    def add(self, value: T, accumulator: One) -> One:
        rank = self.by(value)
        if rank is None:
            return accumulator
        # A rank without an order fails as the first, too.
        is_better = self._is_better(accumulator[0] if accumulator else rank, rank)
        if accumulator and not is_better:
            return accumulator
        return rank, value if self.selector is None else self.selector(value)

    def get_result(self, accumulator: One) -> V | M | None:
        return accumulator[1] if accumulator else None

    def merge(self, a: One, b: One) -> One:
        return b if b and (not a or self._is_better(a[0], b[0])) else a

    def _is_better(self, held: Any, rank: Any) -> bool:
        return precedes(held, rank) if self.highest else precedes(rank, held)

    @property
    def declaration(self) -> Declaration:
        return Declaration("max_by" if self.highest else "min_by", _roles(self.by, self.selector))

    def gives_none(self, element_type: object | None, *, may_be_empty: bool = False) -> bool | None:
        if may_be_empty:
            return True
        compared = gives_none(self.by, element_type)
        selected = False if self.selector is None else gives_none(self.selector, element_type)
        return None if not compared and selected is None else compared or (compared if compared is None else selected)

    def _value_type(self, element_type: object | None) -> object | None:
        return _value_type(self.selector, element_type)


@final
@dataclass(frozen=True, repr=False)
class TopK(DeclaredAggregate[T, Ranked, list[V], list[V]]):
    """See :func:`top_k`."""

    k: int
    selector: Callable[[T], V] | None
    by: Callable[[T], Comparable | None]
    reverse: bool = False
    with_ties: bool = False

    def create_accumulator(self) -> Ranked:
        return [], []

    def add(self, value: T, accumulator: Ranked) -> Ranked:
        rank = self.by(value)
        ranks, values = accumulator
        if rank is None or (len(ranks) >= self.k and not self._stays(ranks[-1], rank)):
            return accumulator
        if not ranks:
            self._is_better(rank, rank)  # a rank without an order fails as the first, too
        place = len(ranks)
        while place and self._is_better(ranks[place - 1], rank):
            place -= 1
        ranks.insert(place, rank)
        values.insert(place, value if self.selector is None else self.selector(value))
        kept = self._kept(ranks)
        del ranks[kept:], values[kept:]
        return accumulator

    def get_result(self, accumulator: Ranked) -> list[V]:
        return list(accumulator[1])

    def merge(self, a: Ranked, b: Ranked) -> Ranked:
        ranks: list[Any] = []
        values: list[Any] = []
        first = second = 0
        while first < len(a[0]) or second < len(b[0]):
            if second == len(b[0]) or (first < len(a[0]) and not self._is_better(a[0][first], b[0][second])):
                source, place = a, first
                first += 1
            else:
                source, place = b, second
                second += 1
            if len(ranks) >= self.k and not (self.with_ties and self._is_tie(ranks[-1], source[0][place])):
                break
            ranks.append(source[0][place])
            values.append(source[1][place])
        return ranks, values

    def _stays(self, last: Any, rank: Any) -> bool:
        """Whether an element of this rank is among the top ones; ``last`` is the rank of the last of these."""
        return self._is_better(last, rank) or (self.with_ties and self._is_tie(last, rank))

    def _kept(self, ranks: list[Any]) -> int:
        """How many of the sorted elements stay: ``k``, and those after them that tie with the last of these."""
        kept = len(ranks) if len(ranks) < self.k else self.k  # noqa: FURB136  min is an aggregate here
        while self.with_ties and kept < len(ranks) and self._is_tie(ranks[self.k - 1], ranks[kept]):
            kept += 1
        return kept

    def _is_tie(self, one: Any, other: Any) -> bool:
        return not self._is_better(one, other) and not self._is_better(other, one)

    def _is_better(self, held: Any, rank: Any) -> bool:
        return precedes(rank, held) if self.reverse else precedes(held, rank)

    @property
    def declaration(self) -> Declaration:
        options = ("reverse", self.reverse), ("with_ties", self.with_ties)
        return Declaration(
            "top_k", _roles(self.by, self.selector), (("k", self.k), *(each for each in options if each[1]))
        )

    def _value_type(self, element_type: object | None) -> object | None:
        type_form = _value_type(self.selector, element_type)
        items: object | None = None if type_form is None else list.__class_getitem__(type_form)
        return items


def _roles(
    by: Callable[[Any], Any], selector: Callable[[Any], Any] | None
) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    compared = (("by", by),)
    return compared if selector is None else (*compared, ("value", selector))


def _value_type(selector: Callable[[Any], Any] | None, element_type: object | None) -> object | None:
    return element_type if selector is None else selected_type(selector, element_type)


def min(selector: Callable[[T], C]) -> Extreme[T, C]:  # noqa: A001  the field's name for it
    """The lowest value that ``selector`` gives; any values that have an order. None without values.

    A result may be None where ``selector`` may give None, which is left out, and after an evictor. A NaN is higher
    than every number, as in Spark SQL. Of equals the first stays; where sliding windows share what they have in
    common, any of them.

    Args:
        selector: Takes from an element what is compared, or None.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    check_selector(selector, "min")
    return Extreme(selector, highest=False)


def max(selector: Callable[[T], C]) -> Extreme[T, C]:  # noqa: A001  the field's name for it
    """The highest value that ``selector`` gives; see :func:`min`.

    Args:
        selector: Takes from an element what is compared, or None.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    check_selector(selector, "max")
    return Extreme(selector, highest=True)


@overload
def min_by(by: Callable[[T], Comparable | M]) -> ExtremeBy[T, T, M]: ...
@overload
def min_by(by: Callable[[T], Comparable | M], value: Callable[[T], V]) -> ExtremeBy[T, V, M]: ...
def min_by(
    by: Callable[[T], Comparable | M], value: Callable[[T], V] | None = None
) -> ExtremeBy[T, T, M] | ExtremeBy[T, V, M]:
    """The element for which ``by`` gives the lowest value; None without elements.

    Elements for which ``by`` gives None are left out. A NaN is higher than every number. Of equals the first stays;
    where windows merge, that of the window that was there first.

    Args:
        by: What is compared.
        value: What to take from that element; by default the element itself. It may be None.
    """
    check_selector(by, "min_by")
    if value is None:
        return ExtremeBy[T, T, M](None, by, highest=False)
    check_selector(value, "min_by")
    return ExtremeBy(value, by, highest=False)


@overload
def max_by(by: Callable[[T], Comparable | M]) -> ExtremeBy[T, T, M]: ...
@overload
def max_by(by: Callable[[T], Comparable | M], value: Callable[[T], V]) -> ExtremeBy[T, V, M]: ...
def max_by(
    by: Callable[[T], Comparable | M], value: Callable[[T], V] | None = None
) -> ExtremeBy[T, T, M] | ExtremeBy[T, V, M]:
    """The element for which ``by`` gives the highest value; see :func:`min_by`.

    Args:
        by: What is compared.
        value: What to take from that element; None: the element itself.

    Raises:
        InvalidArgumentError: If one of them cannot be called.
    """
    check_selector(by, "max_by")
    if value is None:
        return ExtremeBy[T, T, M](None, by, highest=True)
    check_selector(value, "max_by")
    return ExtremeBy(value, by, highest=True)


@overload
def top_k(
    k: int, by: Callable[[T], Comparable | None], *, reverse: bool = False, with_ties: bool = False
) -> TopK[T, T]: ...
@overload
def top_k(
    k: int,
    by: Callable[[T], Comparable | None],
    value: Callable[[T], V],
    *,
    reverse: bool = False,
    with_ties: bool = False,
) -> TopK[T, V]: ...
def top_k(
    k: int,
    by: Callable[[T], Comparable | None],
    value: Callable[[T], V] | None = None,
    *,
    reverse: bool = False,
    with_ties: bool = False,
) -> TopK[T, T] | TopK[T, V]:
    """The ``k`` elements for which ``by`` gives the highest values, highest first; an empty list without elements.

    Elements for which ``by`` gives None are left out. A NaN is higher than every number. Of equals the first comes
    first; where windows merge, those of the window that was there first.

    Args:
        k: How many at most, ties aside.
        by: What is compared.
        value: What to take from each of the elements; by default the element itself.
        reverse: Whether to take the lowest values, lowest first, as with ``reverse`` of Beam's ``Top.Of``.
        with_ties: Whether to take all further elements that are equal to the last one, as with SQL's ``WITH TIES``.

    Raises:
        InvalidArgumentError: If ``k`` is not a positive int.
    """
    check_positive(k, "k of top_k", where=caller_location())
    check_selector(by, "top_k")
    if value is None:
        return TopK[T, T](k, None, by, reverse, with_ties)
    check_selector(value, "top_k")
    return TopK(k, value, by, reverse, with_ties)
