"""The kernels of count, sum, mean, variance and standard deviation.

Totals are exact, or carry what rounding took away. An int that outgrows 64 bits is made of words of 64 bits, the lowest
first, in two's complement: the last one has the sign. Each step takes at most 2 ** 31 rows, so that sums of 32-bit
digits fit into 64 bits, and nothing wraps around.
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
from windrow_runtime.columnar import Floats, Ints, Mask
from windrow_runtime.columnar.kernels.arrays import is_number, nullable, numbers, present, valid
from windrow_runtime.columnar.kernels.kernel import Kernel
from windrow_runtime.columnar.rows.groups import Groups

# Any: accumulators of every type, as in Kernel.

_DIGIT: Final = 0xFFFFFFFF

_SMALL: Final = 4096
"""Groups of up to this many rows need one extraction: a second would keep digits 2 ** 70 times below the largest."""

_NEAR_OVERFLOW: Final = 1000
"""Where the sum of the magnitudes of a group may reach 2 ** 1000, its values are added one by one."""

_SQUARES_OVERFLOW: Final = 2.0**480
"""Where sums of a group may reach this, it is merged one by one: squares may overflow, and the order decides."""


@final
class CountKernel(Kernel):
    """``count``; the state is the count. Without a selector it takes no column."""

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
    """Runs another kernel; the last column of its state is the number of elements in it, whatever they are."""

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
        *held, counts = states
        return [*self._kernel.merge(groups, held), pa.array(groups.int_totals(numbers(counts)))]

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        return self._kernel.results(states[:-1])


class _TotalKernel(Kernel):
    """``sum`` and ``mean``; the state is the count of values, and the columns of their total."""

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        groups, column = present(groups, columns[0])
        return [pa.array(groups.sizes, type=pa.int64()), *self._totals(groups, [column])]

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        held, *columns = states
        return [pa.array(groups.int_totals(numbers(held))), *self._totals(groups, columns)]

    @abstractmethod
    def _totals(self, groups: Groups, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
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

    def __init__(self, aggregate: Sum[Any, Any] | Mean[Any, Any], kind: pa.DataType) -> None:
        super().__init__(aggregate)
        self.result_type = pa.float64() if isinstance(aggregate, Mean) else pa.int64()

    def _totals(self, groups: Groups, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        lower, upper = _wide_totals(groups, [numbers(column) for column in reversed(columns)], 2)
        return [pa.array(upper), pa.array(lower)]

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        held, upper, lower = (numbers(state) for state in states)
        if isinstance(self._aggregate, Mean):
            return nullable(_means(held, upper, lower), held > 0, pa.float64())
        narrow = upper == lower >> 63
        if not narrow.all():
            place = int(np.argmin(narrow))
            check = checked_span if pa.types.is_duration(self.result_type) else checked_int
            check(_whole(int(upper[place]), int(lower[place])), self._aggregate.describe)
        return nullable(lower, held > 0, pa.int64()).view(self.result_type)

    def _total(self, *total: int) -> tuple[Any, float]:
        return _whole(*total), 0.0


@final
class SpanTotalKernel(IntTotalKernel):
    """``sum`` of time spans, which are columns of microseconds: these are added as ints."""

    accepts = staticmethod(pa.duration("us").equals)

    def __init__(self, aggregate: Sum[Any, Any], kind: pa.DataType) -> None:
        super().__init__(aggregate, kind)
        self.result_type = kind

    def _total(self, *total: int) -> tuple[Any, float]:
        return span_total(super()._total(*total)[0])


def _means(held: Ints, upper: Ints, lower: Ints) -> Floats:
    divisors = np.maximum(held, 1).astype(np.float64)
    if bool((upper == lower >> 63).all()) and bool((np.abs(lower >> 1) < 1 << 52).all()):
        exact: Floats = lower / divisors  # such totals are floats without rounding
        return exact
    # A quarter of a total is a float without rounding, and so are the first sums of a negative total.
    digits = (upper >> 32, upper & _DIGIT, (lower >> 32) & _DIGIT, lower & _DIGIT)
    total, *quarters = (
        np.ldexp(digit.astype(np.float64), place) for digit, place in zip(digits, (96, 64, 32, 0), strict=True)
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
    has as many digits, which is more than a sink's column takes.
    """

    accepts = staticmethod(pa.types.is_decimal128)

    def __init__(self, aggregate: Sum[Any, Any], kind: pa.DataType) -> None:
        self.result_type = pa.decimal256(76, kind.scale)
        self.state_types = (pa.int64(), self.result_type)

    def _totals(self, groups: Groups, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        (column,) = columns
        # The digits without the point, as words of 64 bits, the lowest first.
        width, data = column.type.bit_width // 64, column.buffers()[1]
        words = [np.zeros(0, np.int64)] * width
        if data is not None and len(column):
            end = column.offset + len(column)
            table = np.frombuffer(data, dtype="<i8", count=end * width).reshape(-1, width)
            words = [table[column.offset :, place] for place in range(width)]
        totals = np.stack(_wide_totals(groups, words, 4), axis=1)
        data = pa.py_buffer(np.ascontiguousarray(totals, dtype="<i8"))
        return [pa.Array.from_buffers(self.result_type, groups.count, [None, data])]

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        return pc.if_else(pa.array(numbers(states[0]) > 0), states[1], pa.scalar(None, self.result_type))


@final
class FloatTotalKernel(_TotalKernel):
    """``sum`` and ``mean`` of floats; the total goes with what rounding took away."""

    accepts = staticmethod(pa.types.is_floating)
    state_types = (pa.int64(), pa.float64(), pa.float64())
    result_type = pa.float64()

    def _totals(self, groups: Groups, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        values, *lost = (numbers(column).astype(np.float64, copy=False) for column in columns)
        return [*map(pa.array, _float_totals(groups, values, *lost))]

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        held, totals, lost = (numbers(state) for state in states)
        values = totals.copy()
        # Behind an infinity, what rounding took away means nothing. A sum may still become infinite here.
        with np.errstate(over="ignore"):
            np.add(totals, lost, out=values, where=np.isfinite(totals))
        if isinstance(self._aggregate, Mean):
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
        totals[group], rests[group] = merge_totals(float(totals[group]), float(rests[group]), float(values[row]), other)


@final
class SpreadKernel(Kernel):
    """``variance`` and ``stddev``; the state is the count of values, their mean, and the sum of squares around it."""

    accepts = staticmethod(is_number)
    state_types = (pa.int64(), pa.float64(), pa.float64())
    result_type = pa.float64()

    def __init__(self, aggregate: Spread[Any], kind: pa.DataType) -> None:
        # What is left to merge one by one are numbers: they are selected already.
        super().__init__(Spread(float, aggregate.kind, aggregate.sample, aggregate.root))

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        groups, column = present(groups, columns[0])
        values = numbers(column).astype(np.float64, copy=False)
        held = groups.sizes.astype(np.int64, copy=False)
        means, squares = _moments(groups, held, values, None)
        for group, rows in _groups_near_overflow(groups, values, None):
            moments = self._aggregate.create_accumulator()
            for value in values[rows].tolist():
                moments = self._aggregate.add(value, moments)
            _, means[group], squares[group] = moments
        return [*map(pa.array, (held, means, squares))]

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        weights, values, spreads = (numbers(state) for state in states)
        held = groups.int_totals(weights)
        means, squares = _moments(groups, held, values, weights)
        squares += groups.totals(spreads)
        for group, rows in _groups_near_overflow(groups, values, weights):
            moments = self._aggregate.create_accumulator()
            for other in self.accumulators([state.take(pa.array(rows)) for state in states]):
                moments = self._aggregate.merge(moments, other)
            _, means[group], squares[group] = moments
        return [*map(pa.array, (held, means, squares))]

    def gives_none(self, inputs: Sequence[bool]) -> bool:
        return bool(self._aggregate.sample) or any(inputs)

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        held, _, squares = (numbers(state) for state in states)
        freedom = held - 1 if self._aggregate.sample else held
        found = squares / np.maximum(freedom, 1)
        return nullable(np.sqrt(found) if self._aggregate.root else found, freedom > 0, pa.float64())


def _moments(groups: Groups, held: Ints, values: Floats, weights: Ints | None) -> tuple[Floats, Floats]:
    """The mean of each group, and the sum of the squares of distances from it; values weigh 1 without weights."""
    divisors = np.maximum(held, 1)
    # An infinity or a NaN makes all of its group NaN.
    with np.errstate(over="ignore", invalid="ignore"):
        rough = groups.totals(values if weights is None else values * weights)
        rough /= divisors
        moved = np.zeros(groups.count)
        for rows, ids in groups.blocks():
            distances = values[rows] - rough[ids]
            np.add.at(moved, ids, distances if weights is None else distances * weights[rows])
        # Equal values have this mean exactly, whatever rounding did to their sum: their spread is 0.
        moved /= divisors
        means = rough + moved
        off, squares = np.zeros(groups.count), np.zeros(groups.count)
        for rows, ids in groups.blocks():
            distances = values[rows] - means[ids]
            weighted = distances if weights is None else distances * weights[rows]
            np.add.at(off, ids, weighted)
            np.add.at(squares, ids, weighted * distances)
        # The mean is rounded; what that adds to the squares is taken off.
        squares -= off * (off / divisors)
        return means, np.maximum(squares, 0.0, out=squares)


def _groups_near_overflow(groups: Groups, values: Floats, weights: Ints | None) -> list[tuple[int, Ints]]:
    """The groups whose sums may come near the largest float, and the rows of each."""
    magnitudes = np.abs(values)
    if weights is None:
        # Infinite values make NaNs in every order. Infinite means do not: they come from what overflowed.
        magnitudes[np.isinf(magnitudes)] = 0.0
    heaviest = 1 if weights is None else int(weights.max(initial=1))
    limit = _SQUARES_OVERFLOW / max(groups.largest * heaviest, 1)
    far = magnitudes >= limit
    if not far.any():
        return []
    found = np.unique(groups.ids[far])
    pieces = zip(found.tolist(), groups.starts[found].tolist(), groups.sizes[found].tolist(), strict=True)
    return [(group, groups.order[start : start + size]) for group, start, size in pieces]


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The sum of two floats, and what its rounding took away: together they are the exact sum (Knuth)."""
    total = a + b
    b_part = total - a
    lost = b - b_part
    # a - (total - b_part), without further arrays.
    np.subtract(total, b_part, out=b_part)
    np.subtract(a, b_part, out=b_part)
    lost += b_part
    return total, lost


def _quotient(total: Floats, lost: Floats, divisor: Floats) -> Floats:
    """``(total + lost) / divisor``, rounded once but for the rarest cases; ``total`` below 2 ** 900."""
    found = total / divisor
    product = found * divisor
    rest = ((total - product) - _product_error(found, divisor, product)) + lost
    return found + rest / divisor


def _product_error(a: Floats, b: Floats, product: Floats) -> Floats:
    """The part that rounding took away from ``a * b`` (Dekker)."""
    a_upper, a_lower = _split(a)
    b_upper, b_lower = _split(b)
    return ((a_upper * b_upper - product) + a_upper * b_lower + a_lower * b_upper) + a_lower * b_lower


def _split(values: Floats) -> tuple[Floats, Floats]:
    scaled = values * 134217729.0  # 2 ** 27 + 1
    upper = scaled - (scaled - values)
    return upper, values - upper


def _exact_totals(groups: Groups, values: Floats, exponents: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Sums of finite floats, as accurate as if they were added with twice the digits and then rounded.

    Error-free vector extraction (Rump, Ogita, Oishi): added to and taken from a power of two above all sums of a
    group, a float keeps the digits that such sums are exact in. The digits that it lost are added apart. For each group
    ``exponents`` has a power of two above the magnitude of each of its values; the second result is what rounding of
    the total took away.
    """
    row_bits = int(groups.largest + 2).bit_length()
    uppers = [np.ldexp(1.0, exponents + row_bits)]
    if groups.largest > _SMALL:
        # The digits that are left lie this much lower.
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
    """The total of each group in ``width`` words, which are enough. Numbers of one word may be of any type of ints."""
    kept = list(words)
    while len(kept) > 1 and bool((kept[-1] == kept[-2] >> 63).all()):
        kept.pop()  # it only repeats the signs
    *lower, top = kept
    digits = [digit for word in lower for digit in (word & _DIGIT, (word >> 32) & _DIGIT)]
    farthest = max(abs(int(top.min())), abs(int(top.max()))) if len(top) else 0
    # Where a sum of the top words may outgrow 64 bits, with a carry on top, they are digits as well.
    tops = [top] if farthest * groups.largest < 1 << 62 else [top & top.dtype.type(_DIGIT), top >> 32]
    digits += [digit.astype(np.int64, copy=False) for digit in tops]
    sums = [groups.int_totals(digit) for digit in digits]
    if len(sums) == 1:
        return [sums[0], *[sums[0] >> 63] * (width - 1)]
    carry = np.zeros(groups.count, np.int64)
    digits = []
    for total in [*sums, *[np.zeros_like(carry)] * (2 * width - len(sums))]:
        # Neither can overflow: a sum of digits is below 2 ** 63, and the carry below 2 ** 32.
        moved = total + carry
        digits.append(moved & _DIGIT)
        carry = moved >> 32
    return [(upper << 32) | lower for lower, upper in zip(digits[::2], digits[1::2], strict=True)]


def _whole(upper: int, lower: int) -> int:
    """A number of its words."""
    return (upper << 64) | (lower & 0xFFFFFFFFFFFFFFFF)
