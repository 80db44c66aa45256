"""Defines counts, sums, means and measures of spread."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar, Generic, TypeVar, final

from windrow.aggregates.declared import Declaration, DeclaredAggregate, check_selector
from windrow.aggregates.numbers import add_number, add_value, as_number, compensated, merge_totals, summed
from windrow.aggregates.selectors import gives_none, refuse_texts, selected_type

T = TypeVar("T")
N = TypeVar("N", int, float, Decimal, timedelta, int | None, float | None, Decimal | None, timedelta | None)
F = TypeVar("F", float, float | None)

# Any: a total is of the type of what is added; see windrow.aggregates.numbers.
Total = tuple[int, Any, float]
"""How many values, their total, and what rounding took away; of time spans the eras."""

Moments = tuple[int, float, float]
"""How many values, their mean, and the sum of the squares of their distances from it."""


@final
@dataclass(frozen=True, repr=False)
class Count(DeclaredAggregate[T, int, int, int]):
    """See :func:`count`."""

    commutative: ClassVar[bool] = True

    # Any: whatever the selector gives is only compared with None.
    selector: Callable[[T], Any] | None

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: T, accumulator: int) -> int:
        if self.selector is not None and self.selector(value) is None:
            return accumulator
        return accumulator + 1

    def retract(self, value: T, accumulator: int) -> int:
        return 2 * accumulator - self.add(value, accumulator)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b

    @property
    def declaration(self) -> Declaration:
        return Declaration("count", () if self.selector is None else (("value", self.selector),))

    def _value_type(self, element_type: object | None) -> object | None:
        return int


@final
@dataclass(frozen=True, repr=False)
class Sum(DeclaredAggregate[T, Total, N, None], Generic[T, N]):
    """See :func:`sum`."""

    commutative: ClassVar[bool] = True

    selector: Callable[[T], N]

    def create_accumulator(self) -> Total:
        return 0, 0, 0.0

    def add(self, value: T, accumulator: Total) -> Total:
        selected = self.selector(value)
        if selected is None:
            return accumulator
        total, lost = add_value(accumulator[1], accumulator[2], selected)
        return accumulator[0] + 1, total, lost

    def retract(self, value: T, accumulator: Total) -> Total:
        return _without(self.selector(value), accumulator)

    def can_retract(self, element_type: object | None) -> bool:
        return _is_exact(self.selector, element_type)

    def get_result(self, accumulator: Total) -> N | None:
        held, total, lost = accumulator
        # The sum of values of type N is of type N.
        result: N | None = summed(total, lost, self.describe) if held else None
        return result

    def merge(self, a: Total, b: Total) -> Total:
        return _merged(a, b)

    @property
    def declaration(self) -> Declaration:
        return Declaration("sum", (("value", self.selector),))

    def gives_none(self, element_type: object | None, *, may_be_empty: bool = False) -> bool | None:
        return may_be_empty or gives_none(self.selector, element_type)

    def _value_type(self, element_type: object | None) -> object | None:
        refuse_texts(self.selector, element_type, "sum")
        type_form = selected_type(self.selector, element_type)
        return int if type_form is bool else type_form


@final
@dataclass(frozen=True, repr=False)
class Mean(DeclaredAggregate[T, Total, F, None], Generic[T, F]):
    """See :func:`mean`."""

    commutative: ClassVar[bool] = True

    selector: Callable[[T], F]

    def create_accumulator(self) -> Total:
        return 0, 0, 0.0

    def add(self, value: T, accumulator: Total) -> Total:
        selected = self.selector(value)
        if selected is None:
            return accumulator
        held, total, lost = accumulator
        if type(selected) is float and type(total) is float:
            # add_number for floats: means are common, and the call would cost as much as what it does.
            moved = total + selected
            if abs(total) >= abs(selected):
                return held + 1, moved, lost + ((total - moved) + selected)
            return held + 1, moved, lost + ((selected - moved) + total)
        total, lost = add_number(total, lost, selected)
        return held + 1, total, lost

    def retract(self, value: T, accumulator: Total) -> Total:
        return _without(self.selector(value), accumulator)

    def can_retract(self, element_type: object | None) -> bool:
        return _is_exact(self.selector, element_type)

    # A float is of type F, which is float or float | None.
    def get_result(self, accumulator: Total) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        held, total, lost = accumulator
        return float(compensated(total, lost) / held) if held else None

    def merge(self, a: Total, b: Total) -> Total:
        return _merged(a, b)

    @property
    def declaration(self) -> Declaration:
        return Declaration("mean", (("value", self.selector),))

    def gives_none(self, element_type: object | None, *, may_be_empty: bool = False) -> bool | None:
        return may_be_empty or gives_none(self.selector, element_type)

    def _value_type(self, element_type: object | None) -> object | None:
        refuse_texts(self.selector, element_type, "mean")
        return float


_EXACT = frozenset({bool, int, Decimal, timedelta})


def _is_exact(selector: Callable[[T], Any], element_type: object | None) -> bool:
    """Whether sums of what a selector gives are exact, so that a value can be taken out of them again.

    A float may be a NaN or an infinity, from which no subtraction leads back.
    """
    type_form = selected_type(selector, element_type)
    return type_form in _EXACT


# Any: as in Total.
def _without(selected: Any, accumulator: Total) -> Total:
    if selected is None:
        return accumulator
    total, lost = add_value(accumulator[1], accumulator[2], -selected)
    return accumulator[0] - 1, total, lost


def _merged(a: Total, b: Total) -> Total:
    if not a[0] or not b[0]:
        return a if a[0] else b
    total, lost = merge_totals(a[1], a[2], b[1], b[2])
    return a[0] + b[0], total, lost


@final
@dataclass(frozen=True, repr=False)
class Spread(DeclaredAggregate[T, Moments, float | None, None]):
    """Variance and standard deviation; see :func:`variance` and :func:`var_pop`.

    Welford's method, and Chan's for merges: no difference of large squares.
    """

    commutative: ClassVar[bool] = True

    selector: Callable[[T], float | None]
    kind: str
    sample: bool
    root: bool

    def create_accumulator(self) -> Moments:
        return 0, 0.0, 0.0

    def add(self, value: T, accumulator: Moments) -> Moments:
        selected = self.selector(value)
        if selected is None:
            return accumulator
        number = selected if type(selected) is float else float(as_number(selected))
        held, middle, squares = accumulator
        held += 1
        distance = number - middle
        middle += distance / held
        return held, middle, squares + distance * (number - middle)

    def get_result(self, accumulator: Moments) -> float | None:
        held, _, squares = accumulator
        freedom = held - 1 if self.sample else held
        if freedom < 1:
            return None
        return math.sqrt(squares / freedom) if self.root else squares / freedom

    def merge(self, a: Moments, b: Moments) -> Moments:
        if not a[0] or not b[0]:
            return a if a[0] else b
        held = a[0] + b[0]
        distance = b[1] - a[1]
        squares = a[2] + b[2] + distance * distance * (a[0] * b[0] / held)
        return held, a[1] + distance * (b[0] / held), squares

    @property
    def declaration(self) -> Declaration:
        return Declaration(self.kind, (("value", self.selector),))

    def gives_none(self, element_type: object | None, *, may_be_empty: bool = False) -> bool | None:
        # A sample of one value has no variance.
        return True if self.sample else may_be_empty or gives_none(self.selector, element_type)

    def _value_type(self, element_type: object | None) -> object | None:
        return float


# Any: whatever the selector gives is only compared with None.
def count(selector: Callable[[T], Any] | None = None) -> Count[T]:
    """Counts the elements, or those for which ``selector`` gives something else than None. Nothing counts as 0.

    Args:
        selector: Takes a value from an element; None: all elements count.

    Raises:
        InvalidArgumentError: If the selector cannot be called.

    Example:
        >>> from windrow import aggregates as agg, from_collection
        >>> from windrow.windows import GlobalWindows
        >>> windows = GlobalWindows.create_with_end_of_stream_trigger()
        >>> everything = from_collection([3, None, 5]).window_all(windows)
        >>> everything.aggregate(agg.combine(agg.count(), agg.count(lambda value: value))).collect()
        [(3, 2)]
    """
    if selector is not None:
        check_selector(selector, "count")
    return Count(selector)


def sum(selector: Callable[[T], N]) -> Sum[T, N]:  # noqa: A001  the field's name for it
    """The sum of the values that ``selector`` gives; None without values.

    A result may be None where ``selector`` may give None, which is left out, and after an evictor. A NaN makes the sum
    NaN. Ints are added exactly, and so are time spans, in microseconds; a result beyond 64 bits is an
    :class:`~windrow.errors.AggregateOverflowError`. Floats are added with compensation, so the order shows in the last
    bits at most; decimals are added without rounding, up to 200 digits. A bool counts as 0 or 1.

    Args:
        selector: Takes an int, a float, a decimal or a time span from an element, or None.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    check_selector(selector, "sum")
    return Sum(selector)


def mean(selector: Callable[[T], F]) -> Mean[T, F]:
    """The mean of the values that ``selector`` gives; None without values, as :func:`sum`.

    None is left out; a NaN makes the mean NaN. Sums are kept as in :func:`sum`, however large, and divided at the end.

    Args:
        selector: Takes an int, a float, a decimal or a time span from an element, or None.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    check_selector(selector, "mean")
    return Mean(selector)


def variance(selector: Callable[[T], float | None]) -> Spread[T]:
    """The variance of a sample, as ``variance`` and ``var_samp`` in Spark SQL; None of fewer than two values.

    None is left out; a NaN or an infinity makes it NaN.

    Args:
        selector: Takes a number from an element, or None.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    return _spread(selector, "variance", sample=True, root=False)


def var_samp(selector: Callable[[T], float | None]) -> Spread[T]:
    """The same as :func:`variance`.

    Args:
        selector: Takes a number from an element, or None.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    return _spread(selector, "var_samp", sample=True, root=False)


def var_pop(selector: Callable[[T], float | None]) -> Spread[T]:
    """The variance of a whole population; None without values. Otherwise as :func:`variance`.

    Args:
        selector: Takes a number from an element, or None.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    return _spread(selector, "var_pop", sample=False, root=False)


def stddev(selector: Callable[[T], float | None]) -> Spread[T]:
    """The standard deviation of a sample, as ``stddev`` in Spark SQL: the root of :func:`variance`.

    Args:
        selector: Takes a number from an element, or None.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    return _spread(selector, "stddev", sample=True, root=True)


def stddev_samp(selector: Callable[[T], float | None]) -> Spread[T]:
    """The same as :func:`stddev`.

    Args:
        selector: Takes a number from an element, or None.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    return _spread(selector, "stddev_samp", sample=True, root=True)


def stddev_pop(selector: Callable[[T], float | None]) -> Spread[T]:
    """The standard deviation of a whole population: the root of :func:`var_pop`.

    Args:
        selector: Takes a number from an element, or None.

    Raises:
        InvalidArgumentError: If the selector cannot be called.
    """
    return _spread(selector, "stddev_pop", sample=False, root=True)


def _spread(selector: Callable[[T], float | None], kind: str, *, sample: bool, root: bool) -> Spread[T]:
    check_selector(selector, kind)
    return Spread(selector, kind, sample, root)
