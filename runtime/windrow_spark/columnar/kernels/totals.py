"""Defines the kernels of count, sum, mean, variance and standard deviation.

Totals are exact, or have a column with the rounding error. An int that outgrows 64 bits consists of words of 64 bits,
the lowest first, in two's complement: the last one has the sign. A kernel takes at most 2 ** 31 rows at a time, so that
sums of 32-bit digits fit into 64 bits, and nothing wraps around.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.aggregates.arithmetic import Mean, Spread, Sum
from windrow.aggregates.numbers import checked_int, checked_span, merge_totals, span_total
from windrow_spark.columnar import Floats, Ints, Mask
from windrow_spark.columnar.kernels.arrays import is_number, nullable, numbers, present, valid
from windrow_spark.columnar.kernels.kernel import Kernel
from windrow_spark.columnar.rows.groups import Groups

# Any: accumulators of every type, as in Kernel.

_DIGIT: Final = 0xFFFFFFFF

_SMALL: Final = 4096
"""The most rows of a group for which one extraction suffices: a second would keep digits 2 ** 70 times smaller."""

_NEAR_OVERFLOW: Final = 1000
"""The power of two from which on the values of a group are added one by one, since their total may overflow."""

_SQUARES_OVERFLOW: Final = 2.0**480
"""The sum from which on a group is merged one by one, since squares may overflow, and the order decides whether."""


@final
class CountKernel(Kernel):
    """``count``; the state is the count. It takes a column only if the aggregate has a selector."""

    state_types = (pa.int64(),)
    result_type = pa.int64()

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        if columns and columns[0].null_count:
            groups = groups.where(valid(columns[0]))
        return [pa.array(groups.sizes, type=pa.int64())]

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        return [pa.array(groups.int_totals(numbers(states[0])))]

    def gives_none(self, inputs: Sequence[bool]) -> bool:
        return False


@final
class CountingKernel(Kernel):
    """Runs another kernel, and adds to its states a column with the number of elements in each, nulls among them."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.inputs, self.result_type = kernel.inputs, kernel.result_type
        self.state_types = (*kernel.state_types, pa.int64())
        self.is_numbered = kernel.is_numbered

    @property
    def ordered(self) -> bool:
        return self._kernel.ordered

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return [*self._kernel.partial(groups, columns), pa.array(groups.sizes, type=pa.int64())]

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        *states_alone, counts = states
        return [*self._kernel.merge(groups, states_alone), pa.array(groups.int_totals(numbers(counts)))]

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        return self._kernel.results(states[:-1])


class _TotalKernel(Kernel):
    """The base of kernels for ``sum`` and ``mean``; the state is the count of values and the columns of their total."""

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        groups, column = present(groups, columns[0])
        return [pa.array(groups.sizes, type=pa.int64()), *self._totals(groups, [column])]

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        counts, *columns = states
        return [pa.array(groups.int_totals(numbers(counts))), *self._totals(groups, columns)]

    @abstractmethod
    def _totals(self, groups: Groups, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        """Adds up a column of values without nulls, or columns of totals; returns columns of totals."""

    def accumulator(self, *state: Any) -> Any:
        count, *total = state
        return (count, *self._total(*total)) if count else (0, 0, 0.0)

    def _total(self, *total: Any) -> tuple[Any, float]:
        """Returns a total as the aggregate's accumulator holds it: the total and its rounding error."""
        return total[0], 0.0


class IntTotalKernel(_TotalKernel):
    """``sum`` and ``mean`` of ints and bools; a total has 128 bits, in two columns, so that it never wraps around."""

    accepts = staticmethod(is_number)
    state_types = (pa.int64(), pa.int64(), pa.int64())

    def __init__(self, aggregate: Sum[Any, Any] | Mean[Any, Any], arrow_type: pa.DataType) -> None:
        super().__init__(aggregate)
        self.result_type = pa.float64() if isinstance(aggregate, Mean) else pa.int64()

    def _totals(self, groups: Groups, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        lower, upper = _wide_totals(groups, [numbers(column) for column in reversed(columns)], 2)
        return [pa.array(upper), pa.array(lower)]

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        counts, upper, lower = (numbers(state) for state in states)
        if isinstance(self._aggregate, Mean):
            return nullable(_means(counts, upper, lower), counts > 0, pa.float64())
        narrow = upper == lower >> 63
        if not narrow.all():
            row = int(np.argmin(narrow))
            check = checked_span if pa.types.is_duration(self.result_type) else checked_int
            check(_whole(int(upper[row]), int(lower[row])), self._aggregate.describe)
        return nullable(lower, counts > 0, pa.int64()).view(self.result_type)

    def _total(self, *total: int) -> tuple[Any, float]:
        return _whole(*total), 0.0


@final
class SpanTotalKernel(IntTotalKernel):
    """``sum`` of time spans, whose microseconds are added as ints."""

    accepts = staticmethod(pa.duration("us").equals)

    def __init__(self, aggregate: Sum[Any, Any], arrow_type: pa.DataType) -> None:
        super().__init__(aggregate, arrow_type)
        self.result_type = arrow_type

    def _total(self, *total: int) -> tuple[Any, float]:
        return span_total(super()._total(*total)[0])


def _means(counts: Ints, upper: Ints, lower: Ints) -> Floats:
    divisors = np.maximum(counts, 1).astype(np.float64)
    if bool((upper == lower >> 63).all()) and bool((np.abs(lower >> 1) < 1 << 52).all()):
        exact: Floats = lower / divisors  # floats hold such totals exactly
        return exact
    # A float holds 32 bits of a total exactly, and also the first sums of a negative total.
    digits = (upper >> 32, upper & _DIGIT, (lower >> 32) & _DIGIT, lower & _DIGIT)
    total, *quarters = (
        np.ldexp(digit.astype(np.float64), exponent) for digit, exponent in zip(digits, (96, 64, 32, 0), strict=True)
    )
    lost = np.zeros_like(total)
    for quarter in quarters:
        total, more = _two_sum(total, quarter)
        lost += more
    return _quotient(total, lost, divisors)


@final
class DecimalTotalKernel(_TotalKernel):
    """``sum`` of decimals of 128 bits, exact and of any size that rows can add up to.

    A value has at most 38 digits, so the 76 of a total are enough for 10 ** 38 rows, and nothing is rounded. The result
    has 76 digits as well, more than a sink's column takes.
    """

    accepts = staticmethod(pa.types.is_decimal128)

    def __init__(self, aggregate: Sum[Any, Any], arrow_type: pa.DataType) -> None:
        self.result_type = pa.decimal256(76, arrow_type.scale)
        self.state_types = (pa.int64(), self.result_type)

    def _totals(self, groups: Groups, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        (column,) = columns
        # The unscaled ints of the decimals, as words of 64 bits, the lowest first.
        width, data = column.type.bit_width // 64, column.buffers()[1]
        words = [np.zeros(0, np.int64)] * width
        if data is not None and len(column):
            end = column.offset + len(column)
            table = np.frombuffer(data, dtype="<i8", count=end * width).reshape(-1, width)
            words = [table[column.offset :, word] for word in range(width)]
        totals = np.stack(_wide_totals(groups, words, 4), axis=1)
        data = pa.py_buffer(np.ascontiguousarray(totals, dtype="<i8"))
        return [pa.Array.from_buffers(self.result_type, groups.count, [None, data])]

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        return pc.if_else(pa.array(numbers(states[0]) > 0), states[1], pa.scalar(None, self.result_type))


@final
class FloatTotalKernel(_TotalKernel):
    """``sum`` and ``mean`` of floats; the total has a second column with its rounding error."""

    accepts = staticmethod(pa.types.is_floating)
    state_types = (pa.int64(), pa.float64(), pa.float64())
    result_type = pa.float64()

    def _totals(self, groups: Groups, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        values, *lost = (numbers(column).astype(np.float64, copy=False) for column in columns)
        return [*map(pa.array, _float_totals(groups, values, *lost))]

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        counts, totals, lost = (numbers(state) for state in states)
        values = totals.copy()
        # The rounding error of an infinite total means nothing. A total may still become infinite here.
        with np.errstate(over="ignore"):
            np.add(totals, lost, out=values, where=np.isfinite(totals))
        if isinstance(self._aggregate, Mean):
            values = values / np.maximum(counts, 1)
        return nullable(values, counts > 0, pa.float64())

    def _total(self, *total: float) -> tuple[float, float]:
        return total[0], total[1]


def _float_totals(groups: Groups, values: Floats, lost: Floats | None = None) -> tuple[Floats, Floats]:
    """Returns the totals of groups and their rounding errors; ``lost`` has the rounding error of each value."""
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
    # For each group the exponent of a power of two above the magnitude of all its values.
    exponents = np.frexp(magnitudes)[1]
    near = exponents + groups.largest.bit_length() > _NEAR_OVERFLOW
    if near.any():
        far = ~near[groups.ids]
        groups, values = groups.where(far), values[far]
        lost = None if lost is None else lost[far]
        exponents = np.where(near, 0, exponents)
    totals, rests = _exact_totals(groups, values, exponents)
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
    """Returns the largest magnitude of each group; infinity or NaN if it has such a value."""
    magnitudes = np.zeros(groups.count)
    with np.errstate(invalid="ignore"):
        for rows, ids in groups.blocks():
            np.maximum.at(magnitudes, ids, np.abs(values[rows]))
    return magnitudes


def _add_one_by_one(
    groups: Groups, values: Floats, lost: Floats | None, chosen: Mask, totals: Floats, rests: Floats
) -> None:
    """Adds the rows of chosen groups one by one: near the largest float, their order decides if a total overflows."""
    totals[chosen] = rests[chosen] = 0.0
    for row in np.flatnonzero(chosen[groups.ids]).tolist():
        group = int(groups.ids[row])
        other = 0.0 if lost is None else float(lost[row])
        totals[group], rests[group] = merge_totals(float(totals[group]), float(rests[group]), float(values[row]), other)


@final
class SpreadKernel(Kernel):
    """``variance`` and ``stddev``; the state is the count, the mean, and the sum of squared distances from the mean."""

    accepts = staticmethod(is_number)
    state_types = (pa.int64(), pa.float64(), pa.float64())
    result_type = pa.float64()

    def __init__(self, aggregate: Spread[Any], arrow_type: pa.DataType) -> None:
        # The aggregate adds single values of the column, which the selector has been applied to, so `float` suffices.
        super().__init__(Spread(float, aggregate.kind, aggregate.sample, aggregate.root))

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        groups, column = present(groups, columns[0])
        values = numbers(column).astype(np.float64, copy=False)
        counts = groups.sizes.astype(np.int64, copy=False)
        means, squares = _moments(groups, counts, values, None)
        for group, rows in _groups_near_overflow(groups, values, None):
            moments = self._aggregate.create_accumulator()
            for value in values[rows].tolist():
                moments = self._aggregate.add(value, moments)
            _, means[group], squares[group] = moments
        return [*map(pa.array, (counts, means, squares))]

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        weights, values, spreads = (numbers(state) for state in states)
        counts = groups.int_totals(weights)
        means, squares = _moments(groups, counts, values, weights)
        squares += groups.totals(spreads)
        for group, rows in _groups_near_overflow(groups, values, weights):
            moments = self._aggregate.create_accumulator()
            for other in self.accumulators([state.take(pa.array(rows)) for state in states]):
                moments = self._aggregate.merge(moments, other)
            _, means[group], squares[group] = moments
        return [*map(pa.array, (counts, means, squares))]

    def gives_none(self, inputs: Sequence[bool]) -> bool:
        return bool(self._aggregate.sample) or any(inputs)

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        counts, _, squares = (numbers(state) for state in states)
        freedom = counts - 1 if self._aggregate.sample else counts
        variances = squares / np.maximum(freedom, 1)
        return nullable(np.sqrt(variances) if self._aggregate.root else variances, freedom > 0, pa.float64())


def _moments(groups: Groups, counts: Ints, values: Floats, weights: Ints | None) -> tuple[Floats, Floats]:
    """Returns the mean of each group, and the sum of squared distances from it; without weights, all values weigh 1."""
    divisors = np.maximum(counts, 1)
    # An infinity or a NaN makes all of its group NaN.
    with np.errstate(over="ignore", invalid="ignore"):
        rough = groups.totals(values if weights is None else values * weights)
        rough /= divisors
        moved = np.zeros(groups.count)
        for rows, ids in groups.blocks():
            distances = values[rows] - rough[ids]
            np.add.at(moved, ids, distances if weights is None else distances * weights[rows])
        # Correcting the mean makes that of equal values exact, whatever rounding did to their sum: their spread is 0.
        moved /= divisors
        means = rough + moved
        off, squares = np.zeros(groups.count), np.zeros(groups.count)
        for rows, ids in groups.blocks():
            distances = values[rows] - means[ids]
            weighted = distances if weights is None else distances * weights[rows]
            np.add.at(off, ids, weighted)
            np.add.at(squares, ids, weighted * distances)
        # The mean is rounded, which makes the squares too large; the excess is subtracted.
        squares -= off * (off / divisors)
        return means, np.maximum(squares, 0.0, out=squares)


def _groups_near_overflow(groups: Groups, values: Floats, weights: Ints | None) -> list[tuple[int, Ints]]:
    """Returns the groups whose sums of squares may overflow, with the row numbers of each."""
    magnitudes = np.abs(values)
    if weights is None:
        # Infinite values result in NaN in every order. Infinite means do not: they come from overflows.
        magnitudes[np.isinf(magnitudes)] = 0.0
    heaviest = 1 if weights is None else int(weights.max(initial=1))
    limit = _SQUARES_OVERFLOW / max(groups.largest * heaviest, 1)
    far = magnitudes >= limit
    if not far.any():
        return []
    near = np.unique(groups.ids[far])
    groups_and_rows = zip(near.tolist(), groups.starts[near].tolist(), groups.sizes[near].tolist(), strict=True)
    return [(group, groups.order[start : start + size]) for group, start, size in groups_and_rows]


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Returns the sum of two floats and its rounding error, which together are the exact sum (Knuth)."""
    total = a + b
    b_part = total - a
    lost = b - b_part
    # a - (total - b_part), without further arrays.
    np.subtract(total, b_part, out=b_part)
    np.subtract(a, b_part, out=b_part)
    lost += b_part
    return total, lost


def _quotient(total: Floats, lost: Floats, divisor: Floats) -> Floats:
    """Returns ``(total + lost) / divisor``, rounded once but for the rarest cases; ``total`` is below 2 ** 900."""
    quotient = total / divisor
    product = quotient * divisor
    rest = ((total - product) - _product_error(quotient, divisor, product)) + lost
    return quotient + rest / divisor


def _product_error(a: Floats, b: Floats, product: Floats) -> Floats:
    """Returns the rounding error of ``a * b`` (Dekker)."""
    a_upper, a_lower = _split(a)
    b_upper, b_lower = _split(b)
    return ((a_upper * b_upper - product) + a_upper * b_lower + a_lower * b_upper) + a_lower * b_lower


def _split(values: Floats) -> tuple[Floats, Floats]:
    scaled = values * 134217729.0  # 2 ** 27 + 1
    upper = scaled - (scaled - values)
    return upper, values - upper


def _exact_totals(groups: Groups, values: Floats, exponents: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Sums finite floats as accurately as if they were added with twice the digits and then rounded.

    Error-free vector extraction (Rump, Ogita, Oishi): when a power of two above all sums of a group is added to a float
    and subtracted again, the digits that are left can be summed exactly. The digits that got lost are summed
    separately. ``exponents`` has for each group a power of two above the magnitudes of its values; the second result
    is the rounding error of the total.
    """
    row_bits = int(groups.largest + 2).bit_length()
    uppers = [np.ldexp(1.0, exponents + row_bits)]
    if groups.largest > _SMALL:
        # A second extraction takes the digits that the first one lost.
        uppers.append(np.ldexp(1.0, np.maximum(exponents + 2 * row_bits - 53, -1074)))
    kept = [np.zeros(groups.count) for _ in uppers]
    lost = np.zeros(groups.count)
    for rows, ids in groups.blocks():
        rest = values[rows]
        for upper, totals in zip(uppers, kept, strict=True):
            above = upper[ids]
            digits = above + rest
            digits -= above
            np.add.at(totals, ids, digits)
            rest = rest - digits
        np.add.at(lost, ids, rest)
    if len(kept) == 2:
        kept[0], more = _two_sum(kept[0], kept[1])
        lost += more
    return _two_sum(kept[0], lost)


def _wide_totals(groups: Groups, words: Sequence[NDArray[Any]], width: int) -> list[Ints]:
    """Returns the total of each group in ``width`` words, which are enough. A single word may have any int type."""
    kept = list(words)
    while len(kept) > 1 and bool((kept[-1] == kept[-2] >> 63).all()):
        kept.pop()  # it only repeats the signs
    *lower, top = kept
    digits = [digit for word in lower for digit in (word & _DIGIT, (word >> 32) & _DIGIT)]
    farthest = max(abs(int(top.min())), abs(int(top.max()))) if len(top) else 0
    # The top words are split into digits as well if their sum, with a carry on top, may outgrow 64 bits.
    tops = [top] if farthest * groups.largest < 1 << 62 else [top & top.dtype.type(_DIGIT), top >> 32]
    digits += [digit.astype(np.int64, copy=False) for digit in tops]
    sums = [groups.int_totals(digit) for digit in digits]
    if len(sums) == 1:
        return [sums[0], *[sums[0] >> 63] * (width - 1)]
    carry = np.zeros(groups.count, np.int64)
    digits = []
    for total in [*sums, *[np.zeros_like(carry)] * (2 * width - len(sums))]:
        # This cannot overflow: a sum of digits is below 2 ** 63, and the carry below 2 ** 32.
        moved = total + carry
        digits.append(moved & _DIGIT)
        carry = moved >> 32
    return [(upper << 32) | lower for lower, upper in zip(digits[::2], digits[1::2], strict=True)]


def _whole(upper: int, lower: int) -> int:
    """Joins the upper and the lower word of an int of 128 bits."""
    return (upper << 64) | (lower & 0xFFFFFFFFFFFFFFFF)
