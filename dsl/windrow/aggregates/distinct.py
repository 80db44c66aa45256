"""Counts different values exactly."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, final

from windrow.aggregates.declared import Declaration, DeclaredAggregate, check_selector
from windrow.errors import InvalidArgumentError

__all__ = ["CountDistinct", "count_distinct"]

T = TypeVar("T")

# Any: what the selector gives.
Seen = tuple[set[Any], bool]
"""The values, and whether a NaN was among them: no two of these are equal, so a set cannot tell."""


@final
@dataclass(frozen=True)
class CountDistinct(DeclaredAggregate[T, Seen, int, int]):
    """See :func:`count_distinct`."""

    commutative: ClassVar[bool] = True

    selector: Callable[[T], Hashable]

    def create_accumulator(self) -> Seen:
        return set(), False

    def add(self, value: T, accumulator: Seen) -> Seen:
        selected = self.selector(value)
        if selected is None:
            return accumulator
        if selected != selected:  # noqa: PLR0124  only a NaN is not equal to itself
            return accumulator[0], True
        try:
            accumulator[0].add(selected)
        except TypeError as error:
            raise InvalidArgumentError(
                "count_distinct got a value that has no hash",
                given=f"{selected!r:.200}",
                expected="scalars, tuples of them, or frozen records",
                hint="let the selector give a tuple of what tells the elements apart",
            ) from error
        return accumulator

    def get_result(self, accumulator: Seen) -> int:
        return len(accumulator[0]) + accumulator[1]

    def merge(self, a: Seen, b: Seen) -> Seen:
        # In place: a new set at each merge would take as long as all values that are there.
        larger, smaller = (a[0], b[0]) if len(a[0]) >= len(b[0]) else (b[0], a[0])
        larger |= smaller
        return larger, a[1] or b[1]

    @property
    def declaration(self) -> Declaration:
        return Declaration("count_distinct", (("value", self.selector),))

    def _value_type(self, element_type: object | None) -> object | None:
        return int


def count_distinct(selector: Callable[[T], Hashable]) -> CountDistinct[T]:
    """Counts exactly how many different values ``selector`` gives; 0 without elements.

    None is left out, all NaNs are one value. Values are told apart as Python does: ``1``, ``1.0`` and ``True`` are one.
    The window keeps every value once; :func:`approx_count_distinct` keeps a few kilobytes.
    """
    check_selector(selector, "count_distinct")
    return CountDistinct(selector)
