"""The memory of Python workers in a join of two streams: bounded by the interval, however long the streams are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.growth.live import BatchFigures, LiveQuery, Steps
from benchmarks.growth.records import START_MS, Event
from benchmarks.memory import PeakMemory, PeakMemorySampler
from benchmarks.section import Claim, Section
from benchmarks.session import spark_session
from windrow import DataStream, IntervalJoined, WatermarkStrategy, joins

if TYPE_CHECKING:
    from benchmarks.growth.scale import Scale

__all__ = ["measure_joins"]

_MOST: Final = 1.3
_BATCH_MS: Final = 10_000
_REACH_MS: Final = 10_000
_FILLING: Final = 4
"""After this number of batches the join holds as much as it ever does."""
_SMALL: Final = 16.0
"""Events of a smaller amount are one stream, the others the other: about half of them."""


class Pair(NamedTuple):
    """A small event of a user's, and a large one that follows soon."""

    user: str
    first_at: int
    last_at: int
    small: float
    large: float


def _joined(events: DataStream[Event]) -> IntervalJoined[Event, Event, str]:
    stamped = events.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(milliseconds=_BATCH_MS)),
        timestamp=lambda event: event.at,
    )
    # Lambdas with plain numbers, which run on columns.
    small = stamped.filter(lambda event: event.amount < 16.0).key_by(lambda event: event.user)
    large = stamped.filter(lambda event: event.amount >= 16.0).key_by(lambda event: event.user)
    return small.interval_join(large).between(timedelta(0), timedelta(milliseconds=_REACH_MS))


def _declared(events: DataStream[Event]) -> DataStream[Pair]:
    """A join whose result is declared, which runs on columns."""
    return _joined(events).apply(
        joins.into(
            Pair,
            user=joins.key(),
            first_at=joins.left(lambda event: event.at),
            last_at=joins.right(lambda event: event.at),
            small=joins.left(lambda event: event.amount),
            large=joins.right(lambda event: event.amount),
        )
    )


def _python(events: DataStream[Event]) -> DataStream[Pair]:
    """The same with a Python function."""
    return _joined(events).apply(_pair)


def _pair(small: Event, large: Event) -> Pair:
    return Pair(small.user, small.at, large.at, small.amount, large.amount)


_FORMS: Final[Mapping[str, Steps]] = {"declared": _declared, "function": _python}


def measure_joins(scale: Scale) -> Section:
    """Peaks of workers over a stream, and over one that is ten times as long."""
    section = Section(
        "joins",
        f"an interval join over 10 s of two streams, batches of {scale.join_rows:,} events within 10 s, "
        f"{scale.join_users:,} users",
        (
            "form",
            "batches",
            "events",
            "pairs",
            "batch s, first",
            "last",
            "rows",
            "state MiB",
            "worker MiB",
            "all",
            "load",
        ),
    )
    for form, steps in _FORMS.items():
        short, long = (_run(section, scale, form, steps, batches) for batches in (scale.joins, 10 * scale.joins))
        figures = dict(_FIGURES)
        if scale.joins < _FILLING:
            del figures["the state"]
        for what, figure in figures.items():
            ratio = figure(long) / (figure(short) or 1)
            text = f"{form}: {ratio:.2f} times {what} with a stream ten times as long (at most {_MOST})"
            section.claims.append(Claim(text, ratio <= _MOST))
        for run in (short, long):
            text = f"{form}: {run.pairs:,} pairs of {run.expected:,}"
            section.claims.append(Claim(text, run.pairs == run.expected))
    return section


class _Run(NamedTuple):
    """What a query was seen to need."""

    pairs: int
    expected: int
    state_mib: float
    worker_mib: float


_FIGURES: Final[Mapping[str, Callable[[_Run], float]]] = {
    "the memory of a worker": lambda run: run.worker_mib,
    "the state": lambda run: run.state_mib,
}


def _run(section: Section, scale: Scale, form: str, steps: Steps, batches: int) -> _Run:
    """Feed a query, and add a row."""
    tables = [_events(scale, number) for number in range(batches)]
    done: list[BatchFigures] = []
    with (
        TemporaryDirectory(prefix="windrow-growth-") as folder,
        PeakMemorySampler() as memory,
        spark_session() as spark,
        LiveQuery(spark, Path(folder) / form, steps) as query,
    ):
        for table in tables:
            done.extend(batch for batch in query.feed(table) if batch.input_rows)
        pairs = query.results
    peak = memory.peak or PeakMemory(0, 0, 0)
    quarter = max(1, scale.joins // 4)
    # Files of state come and go as RocksDB compacts them.
    state = median(batch.state_mib for batch in done[-quarter:])
    section.rows.append(
        [
            form,
            f"{batches:,}",
            f"{batches * scale.join_rows:,}",
            f"{pairs:,}",
            f"{_seconds(done[1 : 1 + quarter]):.2f}",
            f"{_seconds(done[-quarter:]):.2f}",
            f"{done[-1].state_rows:,}",
            f"{state:.2f}",
            f"{peak.worker:,.0f}",
            f"{peak.workers:,.0f}",
            f"{os.getloadavg()[0]:.1f}",
        ]
    )
    return _Run(pairs, _pairs_in(tables), state, peak.worker)


def _seconds(batches: Sequence[BatchFigures]) -> float:
    return median(batch.seconds for batch in batches) if batches else 0.0


def _events(scale: Scale, number: int) -> pa.Table:
    """The events of a batch, behind those of the one before."""
    random = np.random.default_rng(number)
    count = scale.join_rows
    return pa.table(
        {
            "user": [f"user-{user:07d}" for user in random.integers(0, scale.join_users, count)],
            "at": START_MS + number * _BATCH_MS + random.integers(0, _BATCH_MS, count),
            "amount": np.round(random.gamma(2.0, 10.0, count), 2),
        }
    )


def _pairs_in(tables: Sequence[pa.Table]) -> int:
    """How many pairs there are, counted without windrow."""
    events = pa.concat_tables(tables)
    users = events["user"].combine_chunks().dictionary_encode().indices.to_numpy()
    # Users lie further apart than any two events.
    places = users.astype(np.int64) * (len(tables) * _BATCH_MS + 2 * _REACH_MS) + (events["at"].to_numpy() - START_MS)
    is_small = events["amount"].to_numpy() < _SMALL
    large = np.sort(places[~is_small])
    ends = np.searchsorted(large, places[is_small] + _REACH_MS, side="right")
    return int((ends - np.searchsorted(large, places[is_small], side="left")).sum())
