"""What each aggregate is, said in the plainest way: a function of the list of elements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from windrow import aggregates as agg
from windrow.aggregates import DeclaredAggregate

__all__ = ["AGGREGATES", "Row", "Summary", "close", "one_nan"]

# Any in this module: results of every type.


@dataclass(frozen=True)
class Row:
    """An element.

    Attributes:
        key: The key.
        at: The timestamp in milliseconds.
        f: A float; maybe NaN, infinite or None.
        i: An int or None.
        s: A text or None.
    """

    key: str
    at: int
    f: float | None
    i: int | None
    s: str | None


@dataclass(frozen=True)
class Summary:
    """What `into` makes."""

    low: float | None
    n: int
    total: int | None


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def one_nan(value: Any) -> Any:
    """Each NaN as the same object: two others are two values of a set."""
    return math.nan if is_nan(value) else value


def lower(a: Any, b: Any) -> int:
    """Negative if `a` is lower: NaN is the highest number, and equals itself."""
    if is_nan(a) or is_nan(b):
        return int(is_nan(a)) - int(is_nan(b))
    return int(b < a) - int(a < b)


def present(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def lowest(values: Sequence[Any]) -> Any:
    return min(present(values), key=cmp_to_key(lower), default=None)


def highest(values: Sequence[Any]) -> Any:
    return max(present(values), key=cmp_to_key(lower), default=None)


def total(values: Sequence[Any]) -> Any:
    found = present(values)
    if not found:
        return None
    if all(type(value) is int for value in found):
        return sum(found)
    special = [value for value in found if not math.isfinite(value)]
    return sum(special) if special else float(sum(map(Fraction, found)))


def mean(values: Sequence[Any]) -> float | None:
    found = present(values)
    return total(found) / len(found) if found else None


def moment(measure: Callable[[list[Fraction]], Any], least: int) -> Callable[[Sequence[Any]], float | None]:
    def computed(values: Sequence[Any]) -> float | None:
        found = present(values)
        if len(found) < least:
            return None
        if not all(map(math.isfinite, found)):
            return math.nan
        return float(measure(list(map(Fraction, found))))

    return computed


def ranked(rows: Sequence[Row], by: Callable[[Row], Any]) -> list[Row]:
    """Highest first; of equals the first one first."""

    def later(a: Row, b: Row) -> int:
        return lower(by(b), by(a))

    return sorted([row for row in rows if by(row) is not None], key=cmp_to_key(later))


def with_ties(rows: list[Row], by: Callable[[Row], Any], k: int) -> list[Row]:
    """The first ``k`` of ranked rows, and those equal to the last of them."""
    return [row for place, row in enumerate(rows) if place < k or not lower(by(row), by(rows[k - 1]))]


def lowest_first(rows: Sequence[Row], by: Callable[[Row], Any]) -> list[Row]:
    """Lowest first; of equals the first one first."""

    def earlier(a: Row, b: Row) -> int:
        return lower(by(a), by(b))

    return sorted([row for row in rows if by(row) is not None], key=cmp_to_key(earlier))


def f(row: Row) -> float | None:
    return row.f


def fs(rows: Sequence[Row]) -> list[float | None]:
    return [row.f for row in rows]


def quantile(values: Sequence[Any], q: float) -> float | None:
    found = sorted(present(values), key=cmp_to_key(lower))
    return float(found[max(math.ceil(q * len(found)), 1) - 1]) if found else None


AGGREGATES: dict[str, tuple[DeclaredAggregate[Row, Any, Any], Callable[[Sequence[Row]], Any]]] = {
    "count": (agg.count(), len),
    "count of": (agg.count(f), lambda rows: len(present(fs(rows)))),
    "sum of floats": (agg.sum(f), lambda rows: total(fs(rows))),
    "sum of ints": (agg.sum(lambda r: r.i), lambda rows: total([r.i for r in rows])),
    "mean of floats": (agg.mean(f), lambda rows: mean(fs(rows))),
    "mean of ints": (agg.mean(lambda r: r.i), lambda rows: mean([r.i for r in rows])),
    "var_pop": (agg.var_pop(f), lambda rows: moment(statistics.pvariance, 1)(fs(rows))),
    "variance": (agg.variance(f), lambda rows: moment(statistics.variance, 2)(fs(rows))),
    "var_samp": (agg.var_samp(f), lambda rows: moment(statistics.variance, 2)(fs(rows))),
    "stddev_pop": (agg.stddev_pop(f), lambda rows: moment(statistics.pstdev, 1)(fs(rows))),
    "stddev": (agg.stddev(f), lambda rows: moment(statistics.stdev, 2)(fs(rows))),
    "stddev_samp": (agg.stddev_samp(f), lambda rows: moment(statistics.stdev, 2)(fs(rows))),
    "min": (agg.min(f), lambda rows: lowest(fs(rows))),
    "max": (agg.max(f), lambda rows: highest(fs(rows))),
    "min of texts": (agg.min(lambda r: r.s), lambda rows: lowest([r.s for r in rows])),
    "max of texts": (agg.max(lambda r: r.s), lambda rows: highest([r.s for r in rows])),
    "min_by": (
        agg.min_by(f),
        lambda rows: next((r for r in rows if r.f is not None and not lower(r.f, lowest(fs(rows)))), None),
    ),
    "max_by": (agg.max_by(f, lambda r: r.s), lambda rows: next((r.s for r in ranked(rows, f)), None)),
    "top_k": (agg.top_k(3, f), lambda rows: ranked(rows, f)[:3]),
    "top_k with ties": (agg.top_k(2, f, with_ties=True), lambda rows: with_ties(ranked(rows, f), f, 2)),
    "top_k reverse": (agg.top_k(3, f, reverse=True), lambda rows: lowest_first(rows, f)[:3]),
    "first": (agg.first(), lambda rows: rows[0] if rows else None),
    "last": (agg.last(lambda r: r.s), lambda rows: rows[-1].s if rows else None),
    "first of all": (
        agg.first(lambda r: r.s, ignore_nulls=True),
        lambda rows: next((r.s for r in rows if r.s is not None), None),
    ),
    "collect_list": (agg.collect_list(), list),
    "collect_list of": (agg.collect_list(lambda r: r.s), lambda rows: present([r.s for r in rows])),
    "collect_set": (agg.collect_set(f), lambda rows: frozenset(one_nan(value) for value in present(fs(rows)))),
    "collect_set of texts": (agg.collect_set(lambda r: r.s), lambda rows: frozenset(present([r.s for r in rows]))),
    "count_distinct": (
        agg.count_distinct(f),
        lambda rows: len({"nan" if is_nan(value) else value for value in present(fs(rows))}),
    ),
    "approx_count_distinct": (
        agg.approx_count_distinct(f),
        lambda rows: len({"nan" if is_nan(value) else value for value in present(fs(rows))}),
    ),
    # Exact, as there are fewer elements than the sketch holds.
    "approx_quantile": (agg.approx_quantile(f, 0.5), lambda rows: quantile(fs(rows), 0.5)),
    "approx_quantiles": (
        agg.approx_quantiles(f, [0.0, 0.3, 1.0]),
        lambda rows: [quantile(fs(rows), q) for q in (0.0, 0.3, 1.0)] if present(fs(rows)) else [],
    ),
    "combine": (
        agg.combine(agg.count(), agg.collect_list(lambda r: r.i)),
        lambda rows: (len(rows), present([r.i for r in rows])),
    ),
    "into": (
        agg.into(Summary, low=agg.min(f), n=agg.count(), total=agg.sum(lambda r: r.i)),
        lambda rows: Summary(lowest(fs(rows)), len(rows), total([r.i for r in rows])),
    ),
}
"""Each aggregate, and what it is."""


def close(found: Any, expected: Any) -> bool:
    """Whether two results are the same, floats but for the last bits; a NaN is a NaN."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, float):
        same_nan = math.isnan(found) and math.isnan(expected)
        return same_nan or math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(found, (list, tuple)):
        return len(found) == len(expected) and all(map(close, found, expected))
    if isinstance(found, (Row, Summary)):
        return all(close(a, b) for a, b in zip(vars(found).values(), vars(expected).values(), strict=True))
    return bool(found == expected)
