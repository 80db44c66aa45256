"""Equality of results: a figure counts only if the windows and what was computed of them are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.answers import Answer
from benchmarks.data import CLOSING_SENSOR
from benchmarks.errors import WrongResultError
from benchmarks.problems import TOP

__all__ = ["RELATIVE_TOLERANCE", "Outcome", "check"]

# Any in this module: pyarrow ships no types.

RELATIVE_TOLERANCE = 1e-9
EXACT = ("sensor", "window_end", "first_at", "last_at", "n", "cold", "warm")
ROUNDED = ("mean", "peak", *(f"top{rank}" for rank in range(TOP)))

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a contender gave.

    Attributes:
        results: A table with ``sensor`` and some of the columns of an :class:`~benchmarks.answers.Answer`, so many that
            they tell windows apart; ``top`` is a list, highest first.
        late: How many readings came out as too late; None if the contender cannot say.
    """

    results: Any
    late: int | None = None


def check(outcome: Outcome, right: Answer) -> None:
    """Compare an outcome with the right answer: the same windows, the same values, floats within 1e-9 relative.

    Where readings may be late, or windows fire at intervals, one comes out again and again; its highest ``n`` counts.

    Raises:
        WrongResultError: If anything differs.
    """
    if outcome.late is not None and outcome.late != right.late:
        raise WrongResultError(f"{outcome.late:,} readings were too late, {right.late} are")
    got = _columns(outcome.results, right.sensors)
    if right.late is not None:
        got = _last_panes(got)
    unknown = got.keys() - right.columns.keys()
    if unknown:
        raise WrongResultError(f"the answer has no {', '.join(sorted(unknown))}")
    if len(got["sensor"]) != right.windows:
        raise WrongResultError(f"{len(got['sensor']):,} windows came out, {right.windows:,} are right")
    names = [name for name in EXACT if name in got]
    got_order = np.lexsort([got[name] for name in names])
    right_order = np.lexsort([right.columns[name] for name in names])
    for name in names:
        differing = got[name][got_order] != right.columns[name][right_order]
        if differing.any():
            raise WrongResultError(f"{name} differs from the right one, in {differing.sum():,} places")
    for name in ROUNDED:
        if name in got:
            _check_floats(name, got[name][got_order], right.columns[name][right_order])


def _columns(table: Any, sensors: Any) -> Columns:
    table = table.filter(pc.not_equal(table["sensor"], CLOSING_SENSOR))
    places = pc.index_in(table["sensor"], value_set=sensors)
    if places.null_count:
        raise WrongResultError(f"{places.null_count} results are of sensors that the input does not have")
    columns: Columns = {"sensor": places.to_numpy().astype(np.int64)}
    for name in table.column_names:
        if name == "top":
            columns.update(_ranks(table[name]))
        elif name != "sensor":
            columns[name] = table[name].to_numpy()
    return columns


def _ranks(lists: Any) -> Columns:
    """Lists as a column for each place; NaN where a list is shorter."""
    flat = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    window = pc.list_parent_indices(flat).to_numpy()
    values = pc.list_flatten(flat).to_numpy()
    lengths = pc.list_value_length(flat).to_numpy()
    if len(lengths) and lengths.max() > TOP:
        raise WrongResultError(f"{lengths.max()} values came out of a window, {TOP} are right")
    place = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    columns: Columns = {}
    for rank in range(TOP):
        column = np.full(len(flat), np.nan)
        column[window[place == rank]] = values[place == rank]
        columns[f"top{rank}"] = column
    return columns


def _last_panes(got: Columns) -> Columns:
    order = np.lexsort((got["n"], got["window_end"], got["sensor"]))
    sensor, end = got["sensor"][order], got["window_end"][order]
    last = np.append((sensor[1:] != sensor[:-1]) | (end[1:] != end[:-1]), True)
    return {name: column[order][last] for name, column in got.items()}


def _check_floats(name: str, got: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> None:
    # Written so that NaN is equal to NaN alone.
    equal = np.abs(got - right) <= RELATIVE_TOLERANCE * np.abs(right)
    equal |= np.isnan(got) & np.isnan(right)
    if not equal.all():
        raise WrongResultError(f"{np.count_nonzero(~equal):,} of {len(got):,} values of {name} differ")
