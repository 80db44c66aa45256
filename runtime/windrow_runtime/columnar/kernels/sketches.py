"""The kernels of approx_count_distinct and approx_quantile(s).

Sketches are made group by group in Python, out of arrays; the state is the bytes of the sketch, empty for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import pyarrow as pa

from windrow.aggregates.sketches import ApproxCountDistinct, ApproxQuantiles, HllSketch, KllSketch, hashed
from windrow_runtime.columnar.kernels.arrays import list_type, numbers, present
from windrow_runtime.columnar.kernels.distinct import distinct
from windrow_runtime.columnar.kernels.kernel import Array, Decode, Kernel, plain_values
from windrow_runtime.columnar.rows.groups import Groups
from windrow_runtime.columnar.rows.values import python_values

__all__ = ["ApproxCountDistinctKernel", "ApproxQuantilesKernel"]

# Any: accumulators of every type, as in Kernel.


@final
class ApproxCountDistinctKernel(Kernel):
    """``approx_count_distinct``; each different value of a group is given to its sketch once."""

    def __init__(self, aggregate: ApproxCountDistinct[Any]) -> None:
        self.inputs = (aggregate.selector,)
        self.state_types = (pa.binary(),)
        self.result_type = pa.int64()
        self._aggregate = aggregate

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        rows, sizes = distinct(groups, column)
        known, places = np.unique(rows, return_inverse=True)
        hashes = [hashed(value) for value in python_values(column.take(pa.array(known)))]
        found: list[bytes] = []
        start = 0
        for size in sizes.tolist():
            sketch = HllSketch()
            for place in places[start : start + size].tolist():
                sketch.update(hashes[place], self._aggregate.lg_k)
            found.append(sketch.to_bytes())
            start += size
        return [pa.array(found, type=pa.binary())]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        return [_merged(groups, states[0], self._union)]

    def _union(self, a: bytes, b: bytes) -> bytes:
        return self._aggregate.merge(HllSketch(a), HllSketch(b)).to_bytes()

    def results(self, states: Sequence[Array]) -> Array:
        found = [self._aggregate.get_result(sketch) for sketch in self.accumulators(states)]
        return pa.array(found, type=pa.int64())

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        return list(map(HllSketch, states[0].to_pylist()))


@final
class ApproxQuantilesKernel(Kernel):
    """``approx_quantile`` and ``approx_quantiles``; the state is the sketch, and how many NaNs there were."""

    def __init__(self, aggregate: ApproxQuantiles[Any, Any, Any]) -> None:
        self.inputs = (aggregate.selector,)
        self.state_types = (pa.binary(), pa.int64())
        self.result_type = pa.float64() if aggregate.kind == "approx_quantile" else list_type(pa.float64())
        self._aggregate = aggregate

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        groups, column = present(groups, columns[0])
        values = numbers(column).astype(np.float64, copy=False)
        missing = np.isnan(values)
        numbered = groups.where(~missing)
        ordered = values[~missing][numbered.order]
        found: list[bytes] = []
        for start, size in zip(numbered.starts.tolist(), numbered.sizes.tolist(), strict=True):
            sketch = KllSketch()
            if size:
                sketch.update_all(ordered[start : start + size], self._aggregate.k)
            found.append(sketch.to_bytes())
        not_numbers = groups.where(missing).sizes
        return [pa.array(found, type=pa.binary()), pa.array(not_numbers, type=pa.int64())]

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        return [_merged(groups, states[0], self._union), pa.array(groups.int_totals(numbers(states[1])))]

    def _union(self, a: bytes, b: bytes) -> bytes:
        return KllSketch(a).union(KllSketch(b), self._aggregate.k).to_bytes()

    def results(self, states: Sequence[Array]) -> Array:
        found = [self._aggregate.get_result(held) for held in self.accumulators(states)]
        return pa.array(found, type=self.result_type)

    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        return list(zip(map(KllSketch, states[0].to_pylist()), states[1].to_pylist(), strict=True))


def _merged(groups: Groups, states: Array, union: Callable[[bytes, bytes], bytes]) -> Array:
    """The sketch of each group; the only sketch of a group stays as it is."""
    found = [b""] * groups.count
    for group, state in zip(groups.ids.tolist(), states.to_pylist(), strict=True):
        if state:
            found[group] = union(found[group], state) if found[group] else state
    return pa.array(found, type=pa.binary())
