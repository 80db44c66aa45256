"""Defines aggregates of distinct values: their exact number, and the values themselves."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, final

from windrow.aggregates.declared import Declaration, DeclaredAggregate, check_selector
from windrow.aggregates.selectors import selected_type
from windrow.calls.results import UnfitValueError
from windrow.rows.equality import as_key, as_stored

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V", bound=Hashable)

# Any: what the selector gives.
Seen = tuple[set[Any], bool]
"""The values, and whether a NaN was among them: no two of these are equal, so a set cannot tell."""


class _Distinct(DeclaredAggregate[T, Seen, R, R], ABC, Generic[T, R]):
    """The base of aggregates that keep each different value once."""

    commutative: ClassVar[bool] = True

    # Any: values of every type that has a hash.
    selector: Callable[[T], Any]

    def create_accumulator(self) -> Seen:
        return set(), False

    def add(self, value: T, accumulator: Seen) -> Seen:
        selected = self.selector(value)
        if selected is None:
            return accumulator
        if selected != selected:  # noqa: PLR0124  only a NaN is not equal to itself
            return accumulator[0], True
        try:
            # Accumulators are stored, and sent by workers: a NaN within a tuple is another object when it is read.
            accumulator[0].add(as_stored(selected))
        except TypeError as error:
            raise UnfitValueError(
                f"{self.declaration.kind} got a value that has no hash",
                given=f"{selected!r:.200}",
                expected="scalars, tuples of them, or frozen records",
                hint="let the selector give a tuple of what tells the elements apart",
            ) from error
        return accumulator

    def merge(self, a: Seen, b: Seen) -> Seen:
        # In place: a new set at each merge would take as long as all values that are there.
        larger, smaller = (a[0], b[0]) if len(a[0]) >= len(b[0]) else (b[0], a[0])
        larger |= smaller
        return larger, a[1] or b[1]


@final
@dataclass(frozen=True, repr=False)
class CountDistinct(_Distinct[T, int]):
    """See :func:`count_distinct`."""

    selector: Callable[[T], Hashable]

    def get_result(self, accumulator: Seen) -> int:
        return len(accumulator[0]) + accumulator[1]

    @property
    def declaration(self) -> Declaration:
        return Declaration("count_distinct", (("value", self.selector),))

    def _value_type(self, element_type: object | None) -> object | None:
        return int


@final
@dataclass(frozen=True, repr=False)
class CollectSet(_Distinct[T, frozenset[V]], Generic[T, V]):
    """See :func:`collect_set`."""

    selector: Callable[[T], V | None]

    def get_result(self, accumulator: Seen) -> frozenset[V]:
        # A copy: the window may go on. Every set has the same NaN, as sets find it by its identity.
        values: Iterable[Any] = [*accumulator[0], math.nan] if accumulator[1] else accumulator[0]
        return frozenset(map(as_key, values))

    @property
    def declaration(self) -> Declaration:
        return Declaration("collect_set", (("value", self.selector),))

    def _value_type(self, element_type: object | None) -> object | None:
        type_form = selected_type(self.selector, element_type)
        values: object | None = None if type_form is None else frozenset.__class_getitem__(type_form)
        return values


def count_distinct(selector: Callable[[T], Hashable]) -> CountDistinct[T]:
    """Counts exactly how many different values ``selector`` gives; 0 without elements.

    None is left out, all NaNs are one value. Values are told apart as Python does: ``1``, ``1.0`` and ``True`` are one.
    The window keeps every value once; :func:`approx_count_distinct` keeps a few kilobytes.

    Args:
        selector: Takes a value from an element, or None. It has to be hashable.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    check_selector(selector, "count_distinct")
    return CountDistinct(selector)


def collect_set(selector: Callable[[T], V | None]) -> CollectSet[T, V]:
    """The different values that ``selector`` gives, as ``collect_set`` in Spark SQL; an empty set without elements.

    None is left out, all NaNs are one value. Values are told apart as Python does: of ``1``, ``1.0`` and
    ``True`` one stays, no matter which. The window keeps every value once. A frozenset has no order, and files have its
    values in an order of their own; :func:`collect_list` keeps all, in order of arrival.

    Args:
        selector: Takes a value from an element, or None. It has to be hashable.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    check_selector(selector, "collect_set")
    return CollectSet(selector)
