"""Equality of results: a figure counts only if the windows and averages are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from benchmarks.data import CLOSING_SENSOR, WINDOW_MS, Dataset
from benchmarks.errors import WrongResultError

__all__ = ["RELATIVE_TOLERANCE", "Reference"]

# Any in this module: pyarrow ships no types.

RELATIVE_TOLERANCE = 1e-9
# Wider than any window number, so that sensor and window fit into one integer.
_WINDOWS = 1 << 32


class Reference:
    """The right answer for a dataset: the average of each sensor and window, computed by Arrow from the files.

    Attributes:
        windows: How many pairs of sensor and window there are.
    """

    def __init__(self, dataset: Dataset) -> None:
        table = ds.dataset(str(dataset.path), format="parquet").to_table()
        table = table.filter(pc.not_equal(table["sensor"], CLOSING_SENSOR))
        at = table["at"].to_numpy()
        table = pa.table(
            {
                "sensor": table["sensor"],
                "window_end": at - at % WINDOW_MS + WINDOW_MS,
                "celsius": table["celsius"],
            }
        )
        means = table.group_by(["sensor", "window_end"]).aggregate([("celsius", "mean")])
        self._sensors = pc.unique(means["sensor"])
        self._keys, self._means = self._sorted(means.rename_columns(["sensor", "window_end", "mean"]))
        self.windows = len(self._keys)

    def _sorted(self, table: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        sensors = pc.index_in(table["sensor"], value_set=self._sensors)
        if sensors.null_count:
            raise WrongResultError(
                f"{sensors.null_count} results are of sensors that the input does not have"
            )
        keys = sensors.to_numpy().astype(np.int64) * _WINDOWS + table["window_end"].to_numpy() // WINDOW_MS
        order = np.argsort(keys, kind="stable")
        return keys[order], table["mean"].to_numpy()[order]

    def check(self, results: Any) -> None:
        """Compare results with the right answer: the same windows, the same averages within 1e-9 relative.

        Args:
            results: A table with the columns ``sensor``, ``window_end`` (epoch ms, exclusive) and ``mean``. Windows
                of the closing sensor do not count.

        Raises:
            WrongResultError: If anything differs.
        """
        results = results.filter(pc.not_equal(results["sensor"], CLOSING_SENSOR))
        keys, means = self._sorted(results)
        if len(keys) != self.windows:
            raise WrongResultError(f"{len(keys):,} windows came out, {self.windows:,} are right")
        if not np.array_equal(keys, self._keys):
            wrong = int(np.count_nonzero(keys != self._keys))
            raise WrongResultError(f"the windows differ from the right ones, in {wrong:,} places")
        error = np.abs(means - self._means)
        # Written so that NaN is wrong too.
        right = error <= RELATIVE_TOLERANCE * np.abs(self._means)
        if not right.all():
            wrong = int(np.count_nonzero(~right))
            raise WrongResultError(f"{wrong:,} of {len(means):,} averages differ, by up to {error.max()}")
