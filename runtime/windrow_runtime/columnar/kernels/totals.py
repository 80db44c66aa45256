"""The kernels of count, sum and mean: totals that are exact, or carry what rounding took away."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.aggregates.arithmetic import Count, Mean, Sum
from windrow.aggregates.numbers import checked_int, checked_span, merge_totals, span_total
from windrow_runtime.columnar.array_types import Array, ArrowType, Floats, Ints, Mask
from windrow_runtime.columnar.kernels.arrays import is_number, nullable, numbers, present, valid
from windrow_runtime.columnar.kernels.exact import exact_totals, fits, quotient, two_sum, whole, wide_totals
from windrow_runtime.columnar.kernels.kernel import Kernel
from windrow_runtime.columnar.rows.groups import Groups

# Any: accumulators of every type, as in Kernel.

_DIGIT: Final = 0xFFFFFFFF
_DECIMAL_DIGITS: Final = 76  # of a decimal of 256 bits
_DECIMAL_WORDS: Final = 4

_NEAR_OVERFLOW: Final = 1000
"""Where the sum of the magnitudes of a group may reach 2 ** 1000, its values are added one by one."""


@final
class CountKernel(Kernel):
    """``count``; the state is the count. Without a selector it takes no column."""

    state_types = (pa.int64(),)
    result_type = pa.int64()

    def __init__(self, aggregate: Count[Any], *types: ArrowType) -> None:
        self.inputs = () if aggregate.selector is None else (aggregate.selector,)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        if columns and columns[0].null_count:
            groups = groups.where(valid(columns[0]))
        return [pa.array(groups.sizes, type=pa.int64())]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        return [pa.array(groups.int_totals(numbers(states[0])))]

    def accumulator(self, *state: int) -> int:
        return state[0]


class _TotalKernel(Kernel):
    """``sum`` and ``mean``; the state is the count of values, and the columns of their total."""

    def __init__(self, aggregate: Sum[Any, Any] | Mean[Any, Any], kind: ArrowType) -> None:
        self.inputs = (aggregate.selector,)
        self._name = aggregate.describe()
        self._mean = isinstance(aggregate, Mean)

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        return [pa.array(groups.sizes, type=pa.int64()), *self._totals(groups, [column])]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        held, *columns = states
        return [pa.array(groups.int_totals(numbers(held))), *self._totals(groups, columns)]

    @abstractmethod
    def _totals(self, groups: Groups, columns: Sequence[Array]) -> Sequence[Array]:
        """The totals of a column of values without nulls, or of the columns of totals."""

    def accumulator(self, *state: Any) -> Any:
        held, *total = state
        return (held, *self._total(*total)) if held else (0, 0, 0.0)

    def _total(self, *total: Any) -> tuple[Any, float]:
        """A total as the aggregate holds it: with what rounding took away."""
        return total[0], 0.0


class IntTotalKernel(_TotalKernel):
    """``sum`` and ``mean`` of ints and bools; the total is its upper and its lower 64 bits, which never wrap around."""

    accepts = staticmethod(is_number)
    state_types = (pa.int64(), pa.int64(), pa.int64())

    def __init__(self, aggregate: Sum[Any, Any] | Mean[Any, Any], kind: ArrowType) -> None:
        super().__init__(aggregate, kind)
        self.result_type = pa.float64() if self._mean else pa.int64()

    def _totals(self, groups: Groups, columns: Sequence[Array]) -> Sequence[Array]:
        lower, upper = wide_totals(groups, [numbers(column) for column in reversed(columns)], 2)
        return [pa.array(upper), pa.array(lower)]

    def results(self, states: Sequence[Array]) -> Array:
        held, upper, lower = (numbers(state) for state in states)
        if self._mean:
            return nullable(_means(held, upper, lower), held > 0, pa.float64())
        narrow = fits([lower, upper])
        if not narrow.all():
            place = int(np.argmin(narrow))
            self._check(whole([int(lower[place]), int(upper[place])]))
        return nullable(lower, held > 0, pa.int64()).view(self.result_type)

    def _check(self, total: int) -> None:
        """Refuses a total that does not fit."""
        checked_int(total, self._name)

    def _total(self, *total: int) -> tuple[Any, float]:
        upper, lower = total
        return whole([lower, upper]), 0.0


@final
class SpanTotalKernel(IntTotalKernel):
    """``sum`` of time spans, which are columns of microseconds: these are added as ints."""

    accepts = staticmethod(pa.duration("us").equals)

    def __init__(self, aggregate: Sum[Any, Any], kind: ArrowType) -> None:
        super().__init__(aggregate, kind)
        self.result_type = kind

    def _check(self, total: int) -> None:
        checked_span(total, self._name)

    def _total(self, *total: int) -> tuple[Any, float]:
        return span_total(super()._total(*total)[0])


def _means(held: Ints, upper: Ints, lower: Ints) -> Floats:
    divisors = np.maximum(held, 1).astype(np.float64)
    if fits([lower, upper]).all() and bool((np.abs(lower >> 1) < 1 << 52).all()):
        exact: Floats = lower / divisors  # such totals are floats without rounding
        return exact
    # A quarter of a total is a float without rounding, and so are the first sums of a negative total.
    total, *quarters = (
        np.ldexp(digits.astype(np.float64), place)
        for digits, place in (
            (upper >> 32, 96),
            (upper & _DIGIT, 64),
            ((lower >> 32) & _DIGIT, 32),
            (lower & _DIGIT, 0),
        )
    )
    lost = np.zeros_like(total)
    for quarter in quarters:
        total, more = two_sum(total, quarter)
        lost += more
    return quotient(total, lost, divisors)


@final
class DecimalTotalKernel(_TotalKernel):
    """``sum`` of decimals of 128 bits, exact and of any size that rows can add up to.

    A value has at most 38 digits, so the 76 of a total are enough for 10 ** 38 rows, and nothing is rounded. The result
    has as many digits, which is more than a sink's column takes.
    """

    accepts = staticmethod(pa.types.is_decimal128)

    def __init__(self, aggregate: Sum[Any, Any], kind: ArrowType) -> None:
        super().__init__(aggregate, kind)
        self.result_type = pa.decimal256(_DECIMAL_DIGITS, kind.scale)
        self.state_types = (pa.int64(), self.result_type)

    def _totals(self, groups: Groups, columns: Sequence[Array]) -> Sequence[Array]:
        words = np.stack(wide_totals(groups, _words_of(columns[0]), _DECIMAL_WORDS), axis=1)
        data = pa.py_buffer(np.ascontiguousarray(words, dtype="<i8"))
        return [pa.Array.from_buffers(self.result_type, groups.count, [None, data])]

    def results(self, states: Sequence[Array]) -> Array:
        return pc.if_else(pa.array(numbers(states[0]) > 0), states[1], pa.scalar(None, self.result_type))


def _words_of(column: Array) -> list[Ints]:
    """The digits of decimals without the point, as words of 64 bits, the lowest first."""
    width = column.type.bit_width // 64
    data = column.buffers()[1]
    if data is None or not len(column):
        return [np.zeros(0, np.int64)] * width
    table = np.frombuffer(data, dtype="<i8", count=(column.offset + len(column)) * width).reshape(-1, width)
    return [table[column.offset :, place] for place in range(width)]


@final
class FloatTotalKernel(_TotalKernel):
    """``sum`` and ``mean`` of floats; the total goes with what rounding took away."""

    accepts = staticmethod(pa.types.is_floating)
    state_types = (pa.int64(), pa.float64(), pa.float64())
    result_type = pa.float64()

    def _totals(self, groups: Groups, columns: Sequence[Array]) -> Sequence[Array]:
        values, *lost = (numbers(column).astype(np.float64, copy=False) for column in columns)
        return [*map(pa.array, _float_totals(groups, values, *lost))]

    def results(self, states: Sequence[Array]) -> Array:
        held, totals, lost = (numbers(state) for state in states)
        values = totals.copy()
        # Behind an infinity, what rounding took away means nothing. A sum may still become infinite here.
        with np.errstate(over="ignore"):
            np.add(totals, lost, out=values, where=np.isfinite(totals))
        if self._mean:
            values = values / np.maximum(held, 1)
        return nullable(values, held > 0, pa.float64())

    def _total(self, *total: float) -> tuple[float, float]:
        return total[0], total[1]


def _float_totals(groups: Groups, values: Floats, lost: Floats | None = None) -> tuple[Floats, Floats]:
    """The totals of each group, and what rounding took away; ``lost`` is what belongs to each value besides."""
    all_groups, all_values, all_lost = groups, values, lost
    special = None
    magnitudes = _magnitudes(groups, values)
    if not np.isfinite(magnitudes).all():
        finite = np.isfinite(values)
        with np.errstate(invalid="ignore"):  # infinities of both signs are no number
            special = groups.where(~finite).totals(values[~finite])
        groups, values = groups.where(finite), values[finite]
        lost = None if lost is None else lost[finite]
        magnitudes = _magnitudes(groups, values)
    # For each group a power of two above the magnitude of all its values.
    exponents = np.frexp(magnitudes)[1]
    near = exponents + groups.largest.bit_length() > _NEAR_OVERFLOW
    if near.any():
        far = ~near[groups.ids]
        groups, values = groups.where(far), values[far]
        lost = None if lost is None else lost[far]
        exponents = np.where(near, 0, exponents)
    totals, rests = exact_totals(groups, values, exponents)
    if lost is not None:
        rests = rests + groups.totals(lost)
    if special is not None:
        special_there = ~np.isfinite(special)
        totals[special_there] = special[special_there]
        rests[special_there] = 0.0
    if near.any():
        _add_one_by_one(all_groups, all_values, all_lost, near, totals, rests)
    return totals, rests


def _magnitudes(groups: Groups, values: Floats) -> Floats:
    """The largest magnitude of each group; no finite number where one of its values is none."""
    found = np.zeros(groups.count)
    with np.errstate(invalid="ignore"):
        for rows, ids in groups.blocks():
            np.maximum.at(found, ids, np.abs(values[rows]))
    return found


def _add_one_by_one(
    groups: Groups, values: Floats, lost: Floats | None, chosen: Mask, totals: Floats, rests: Floats
) -> None:
    """As the aggregate adds: near the largest float, the order decides whether a total overflows."""
    totals[chosen] = rests[chosen] = 0.0
    for row in np.flatnonzero(chosen[groups.ids]).tolist():
        group = int(groups.ids[row])
        other = 0.0 if lost is None else float(lost[row])
        total, rest = merge_totals(float(totals[group]), float(rests[group]), float(values[row]), other)
        totals[group], rests[group] = total, rest
