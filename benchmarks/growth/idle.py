"""Batches without data: what they cost, however much is stored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from benchmarks.growth.live import FORMS, BatchFigures, LiveQuery, Steps
from benchmarks.growth.records import HOUR_MS, START_MS, by_clock, events_of
from benchmarks.section import Claim, Section
from benchmarks.session import spark_session
from benchmarks.workloads import TUNED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.growth.scale import Scale

__all__ = ["measure_idle"]

_NATIVE: Final = TUNED
_BY_CLOCK: Final = "by the clock"
_QUERIES: Final[dict[str, Steps | None]] = {
    _NATIVE: None,
    **{form: FORMS[form] for form in ("columns", "table", "process")},
    _BY_CLOCK: by_clock,
}
_LATER_MS: Final = START_MS + HOUR_MS * 3 // 4  # behind the events that are stored
_MOST: Final = 1.3


def measure_idle(scale: Scale) -> Section:
    """Batches that find nothing to read, and nothing that is due.

    Spark runs one behind each batch that moves the watermark, and without end where a query waits for the clock.
    """
    sizes = (scale.keys, 10 * scale.keys)
    section = Section(
        "idle",
        "batches without data and with nothing due",
        ("query", "keys", "batches", "batch s", "x tuned", "written MiB", "load"),
    )
    batches: dict[tuple[str, int], list[BatchFigures]] = {}
    fed = [name for name in _QUERIES if name == _NATIVE or name in scale.forms]
    with spark_session() as spark, TemporaryDirectory(prefix="windrow-growth-") as folder:
        for keys in sizes:
            # What waits for the clock never rests, so it runs alone, when the JVM is warm.
            for names in (fed, [_BY_CLOCK]):
                batches |= _idle_batches(spark, Path(folder), scale, names, keys)
    for name in (*fed, _BY_CLOCK):
        for keys in sizes:
            seconds, native = (_median(batches[query, keys]) for query in (name, _NATIVE))
            section.rows.append(
                [
                    name,
                    f"{keys:,}",
                    str(len(batches[name, keys])),
                    f"{seconds:.3f}",
                    f"{seconds / native:.2f}",
                    f"{max(batch.written_mib for batch in batches[name, keys]):.3f}",
                    f"{os.getloadavg()[0]:.1f}",
                ]
            )
            if name != _NATIVE:
                text = f"{name}, {keys:,} keys: {seconds / native:.2f} times tuned native Spark SQL's (at most 1)"
                section.claims.append(Claim(text, seconds <= native, timed=True))
        small, large = (_median(batches[name, keys]) for keys in sizes)
        text = f"{name}: {large / small:.2f} times as long with ten times the keys (at most {_MOST})"
        section.claims.append(Claim(text, large <= _MOST * small, timed=True))
    return section


def _idle_batches(
    spark: SparkSession, folder: Path, scale: Scale, names: Sequence[str], keys: int
) -> dict[tuple[str, int], list[BatchFigures]]:
    """The batches without data of some queries that are fed in turn, behind those in which the JVM warms up."""
    found: dict[tuple[str, int], list[BatchFigures]] = {(name, keys): [] for name in names}
    with ExitStack() as opened:
        queries = {
            name: opened.enter_context(LiveQuery(spark, folder / f"{name} {keys}", _QUERIES[name])) for name in names
        }
        for part in np.array_split(np.arange(keys), 2):
            for query in queries.values():
                query.feed(events_of(part, 1))
        for number in range(scale.settling + 2 * scale.batches):
            # The watermark moves on, by too little for a window to be due.
            event = pa.table({"user": ["user-0000000"], "at": [_LATER_MS + number], "amount": [1.0]})
            for name, query in queries.items():
                batches = query.feed(event)
                if number >= scale.settling:
                    found[name, keys] += [batch for batch in batches if not batch.input_rows]
    return found


def _median(batches: Sequence[BatchFigures]) -> float:
    return median(batch.seconds for batch in batches)
