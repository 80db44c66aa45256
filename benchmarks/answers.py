"""The right answers, computed by numpy and Arrow from the files, without windows, state or batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.data import CLOSING_SENSOR, MIDDLE_CELSIUS, Dataset
from benchmarks.problems import (
    BOUND_MS,
    COUNT,
    GAP_MS,
    JOIN_MS,
    LATENESS_MS,
    LONG_WINDOW_MS,
    SLIDE_MS,
    TOP,
    WINDOW_MS,
    Problem,
)

__all__ = ["Answer", "answer", "window_means"]

# Any in this module: pyarrow ships no types.

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a problem gives for a dataset.

    Attributes:
        sensors: The names of the sensors; results have their places.
        columns: A column each: ``sensor`` (a place), ``window_end`` (epoch ms, exclusive), ``first_at`` and ``last_at``
            (of the readings, epoch ms), ``n``, ``mean``, ``peak``, ``top0`` to ``top2`` (NaN where there are fewer),
            ``cold`` and ``warm``, as far as the problem has them. Windows of the closing sensor are left out.
        late: How many readings are too late for their window; None for problems that do not ask.
    """

    sensors: Any
    columns: dict[str, npt.NDArray[Any]]
    late: int | None = None

    @property
    def windows(self) -> int:
        """How many results."""
        return len(self.columns["sensor"])


@dataclass(frozen=True, slots=True)
class _Rows:
    """All readings but the closing one, in order of arrival."""

    names: Any
    sensor: Numbers
    at: Numbers
    celsius: Floats
    batch: Numbers

    def take(self, chosen: npt.NDArray[Any]) -> _Rows:
        return _Rows(self.names, self.sensor[chosen], self.at[chosen], self.celsius[chosen], self.batch[chosen])


def answer(problem: Problem, dataset: Dataset) -> Answer:
    """The right answer."""
    rows = _read(dataset)
    if problem in {"lateness", "panes"}:
        return _lateness(rows)
    if problem == "intervals":
        return Answer(rows.names, _by_window(rows.sensor, _ends(rows.at, LONG_WINDOW_MS), rows), late=0)
    return Answer(rows.names, _ANSWERS[problem](rows))


def _read(dataset: Dataset) -> _Rows:
    tables: list[Any] = []
    batches: list[Numbers] = []
    for batch in range(dataset.spec.batches):
        for table in dataset.tables(batch):
            tables.append(table)
            batches.append(np.full(len(table), batch, dtype=np.int64))
    return _rows_of(pa.concat_tables(tables), np.concatenate(batches))


def _rows_of(readings: Any, batch: Numbers) -> _Rows:
    whole = readings.combine_chunks()
    sensors = whole["sensor"].combine_chunks().dictionary_encode()
    assert CLOSING_SENSOR not in sensors.dictionary.to_pylist()
    return _Rows(
        sensors.dictionary,
        sensors.indices.to_numpy().astype(np.int64),
        whole["at"].to_numpy(),
        whole["celsius"].to_numpy(),
        batch,
    )


def window_means(readings: Any, size: int, last: int) -> Answer:
    """The means of a table of readings over windows of a size; windows that end behind ``last`` are still open."""
    rows = _rows_of(readings, np.zeros(len(readings), dtype=np.int64))
    rows = rows.take(_ends(rows.at, size) <= last)
    return Answer(rows.names, _by_window(rows.sensor, _ends(rows.at, size), rows))


def _by_window(sensor: Numbers, end: Numbers, rows: _Rows) -> dict[str, npt.NDArray[Any]]:
    table = pa.table({"sensor": sensor, "window_end": end, "at": rows.at, "celsius": rows.celsius})
    found = table.group_by(["sensor", "window_end"]).aggregate(
        [("at", "min"), ("at", "max"), ("at", "count"), ("celsius", "mean")]
    )
    names = {"at_min": "first_at", "at_max": "last_at", "at_count": "n", "celsius_mean": "mean"}
    return {names.get(name, name): found[name].to_numpy() for name in found.column_names}


def _ends(at: Numbers, size: int) -> Numbers:
    return at - at % size + size


def _tumbling(rows: _Rows) -> dict[str, npt.NDArray[Any]]:
    return _by_window(rows.sensor, _ends(rows.at, WINDOW_MS), rows)


def _sliding(rows: _Rows) -> dict[str, npt.NDArray[Any]]:
    # Each reading is in as many windows as slides fit into a window.
    windows = LONG_WINDOW_MS // SLIDE_MS
    first = _ends(rows.at, SLIDE_MS)
    ends = np.concatenate([first + place * SLIDE_MS for place in range(windows)])
    repeated = rows.take(np.tile(np.arange(len(rows.at)), windows))
    return _by_window(repeated.sensor, ends, repeated)


def _sessions(rows: _Rows) -> dict[str, npt.NDArray[Any]]:
    sorted_ = rows.take(np.lexsort((rows.at, rows.sensor)))
    begins = np.ones(len(sorted_.at), dtype=np.bool_)
    # A reading exactly one gap later touches the session, and joins it.
    begins[1:] = (sorted_.sensor[1:] != sorted_.sensor[:-1]) | (np.diff(sorted_.at) > GAP_MS)
    found = _by_run(sorted_, begins)
    found["window_end"] = found["last_at"] + GAP_MS
    return found


def _by_run(rows: _Rows, begins: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[Any]]:
    """Results of runs of neighbouring readings."""
    first = np.flatnonzero(begins)
    counts = np.diff(np.append(first, len(begins)))
    return {
        "sensor": rows.sensor[first],
        "first_at": np.minimum.reduceat(rows.at, first),
        "last_at": np.maximum.reduceat(rows.at, first),
        "n": counts,
        "mean": np.add.reduceat(rows.celsius, first) / counts,
    }


def _lateness(rows: _Rows) -> Answer:
    # A batch runs under the watermark that those before it made.
    highest = np.full(int(rows.batch[-1]) + 1, np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(highest, rows.batch, rows.at)
    before = np.concatenate([[np.int64(0)], np.maximum.accumulate(highest)[:-1]])
    watermark = before[rows.batch] - BOUND_MS - 1
    late = _ends(rows.at, WINDOW_MS) - 1 + LATENESS_MS <= watermark
    return Answer(rows.names, _tumbling(rows.take(~late)), int(late.sum()))


def _count(rows: _Rows) -> dict[str, npt.NDArray[Any]]:
    sorted_ = rows.take(np.argsort(rows.sensor, kind="stable"))
    first, place = _runs(sorted_.sensor)
    length = np.diff(np.append(first, len(place)))
    full = place < np.repeat(length - length % COUNT, length)
    return _by_run(sorted_.take(full), place[full] % COUNT == 0)


def _runs(values: Numbers) -> tuple[Numbers, Numbers]:
    """Where runs of equal values begin, and the place of each value in its run."""
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    lengths = np.diff(np.append(first, len(values)))
    return first, np.arange(len(values)) - np.repeat(first, lengths)


def _top(rows: _Rows) -> dict[str, npt.NDArray[Any]]:
    ends = _ends(rows.at, WINDOW_MS)
    order = np.lexsort((-rows.celsius, ends, rows.sensor))
    sorted_, ends = rows.take(order), ends[order]
    first, place = _runs(sorted_.sensor * (1 << 32) + ends // WINDOW_MS)
    lengths = np.diff(np.append(first, len(place)))
    window = np.repeat(np.arange(len(first)), lengths)
    found: dict[str, npt.NDArray[Any]] = {
        "sensor": sorted_.sensor[first],
        "window_end": ends[first],
        "first_at": np.minimum.reduceat(sorted_.at, first),
    }
    for rank in range(TOP):
        column = np.full(len(first), np.nan)
        column[window[place == rank]] = sorted_.celsius[place == rank]
        found[f"top{rank}"] = column
    return found


def _chained(rows: _Rows) -> dict[str, npt.NDArray[Any]]:
    means = _tumbling(rows)
    ends = _ends(means["window_end"] - 1, LONG_WINDOW_MS)
    table = pa.table({"sensor": means["sensor"], "window_end": ends, "at": means["first_at"], "mean": means["mean"]})
    found = table.group_by(["sensor", "window_end"]).aggregate([("at", "min"), ("mean", "max")])
    names = {"at_min": "first_at", "mean_max": "peak"}
    return {names.get(name, name): found[name].to_numpy() for name in found.column_names}


def _join(rows: _Rows) -> dict[str, npt.NDArray[Any]]:
    is_cold = rows.celsius < MIDDLE_CELSIUS
    cold, warm = rows.take(is_cold), rows.take(~is_cold)
    warm = warm.take(np.lexsort((warm.at, warm.sensor)))
    # A sensor's readings are far from those of the next one on this line.
    origin, span = int(rows.at.min()), int(rows.at.max() - rows.at.min()) + 2 * JOIN_MS
    line = warm.sensor * span + (warm.at - origin)
    begin = cold.sensor * span + (cold.at - origin)
    first = np.searchsorted(line, begin)
    counts = np.searchsorted(line, begin + JOIN_MS, side="right") - first
    found = cold.take(np.repeat(np.arange(len(begin)), counts))
    places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - first, counts)
    partners = warm.take(places)
    return {
        "sensor": found.sensor,
        "first_at": found.at,
        "last_at": partners.at,
        "cold": found.celsius,
        "warm": partners.celsius,
    }


_ANSWERS: dict[Problem, Callable[[_Rows], dict[str, npt.NDArray[Any]]]] = {
    "tumbling": _tumbling,
    "sliding": _sliding,
    "sessions": _sessions,
    "count": _count,
    "top": _top,
    "chained": _chained,
    "join": _join,
}
