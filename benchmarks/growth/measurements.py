"""What is measured of growing state. Each function runs in a process of its own, with a Spark of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.growth.idle import measure_idle
from benchmarks.growth.joins import measure_joins
from benchmarks.growth.live import FORMS, BatchFigures, LiveQuery
from benchmarks.growth.pages import measure_pages
from benchmarks.growth.records import closing_events, events_of, windows_in_full
from benchmarks.growth.workers import measure_workers
from benchmarks.memory import Resident, ResidentPeak, processor_seconds
from benchmarks.section import Claim, Section
from benchmarks.session import spark_session

if TYPE_CHECKING:
    from benchmarks.growth.scale import Scale

__all__ = ["MEASUREMENTS"]

_MOST = 1.3
_NOTES: Final = ("notes", "timed notes")
# What is left of a state whose windows are all closed: the record of the key group with the closing event.
_ROWS_LEFT = 2


@dataclass(slots=True)
class _Touches:
    """The batches of one query that touch a few keys each: the same ones each time, or others."""

    query: LiveQuery
    keys: int
    settling: int
    are_same: bool
    batches: list[BatchFigures] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def touch(self, count: int, seed: int) -> None:
        """Run a batch."""
        drawn = 100 if self.are_same else seed
        chosen = np.random.default_rng(drawn).choice(self.keys, count, replace=False)
        begin = processor_seconds()
        self.batches.append(self.query.feed(events_of(chosen, seed))[0])
        self.processor.append(processor_seconds() - begin)

    @property
    def seconds(self) -> float:
        """The median batch, those left out that settle."""
        return median(batch.seconds for batch in self.batches[self.settling :])

    @property
    def written_mib(self) -> float:
        """The median of what was written, of the same batches."""
        return median(batch.written_mib for batch in self.batches[self.settling :])

    @property
    def processor_seconds(self) -> float:
        """The median of the processor time, of the same batches."""
        return median(self.processor[self.settling :])


def _build(query: LiveQuery, keys: int, batches: int, seed: int = 1) -> list[BatchFigures]:
    """One event for each key, in any order."""
    order = np.random.default_rng(seed).permutation(keys)
    return [query.feed(events_of(part, seed + 1))[0] for part in np.array_split(order, batches)]


def measure_state(scale: Scale) -> Section:
    """Batches that touch as many keys of a state that is ten times as large."""
    header = ("form", "touched", "which", "keys", "batch s", "ratio", "CPU s", "ratio", "written MiB", "ratio")
    section = Section(
        "state", "as many keys touched, ten times the keys stored", (*header, "state MiB", "rows", "load")
    )
    sizes = (scale.keys, 10 * scale.keys)
    for form in scale.forms:
        with spark_session() as spark, ExitStack() as opened:
            folder = Path(opened.enter_context(TemporaryDirectory(prefix="windrow-growth-")))
            queries = [opened.enter_context(LiveQuery(spark, folder / f"{form}-{keys}", FORMS[form])) for keys in sizes]
            for query, keys in zip(queries, sizes, strict=True):
                _build(query, keys, 4)
            for are_same, touched in product((False, True), scale.touched):
                pair = [
                    _Touches(query, keys, scale.settling, are_same) for query, keys in zip(queries, sizes, strict=True)
                ]
                for number in range(scale.settling + scale.batches):
                    for touches in pair:
                        touches.touch(touched, 100 + number)
                _add_pair(section, form, touched, pair)
    return section


def _add_pair(section: Section, form: str, touched: int, pair: list[_Touches]) -> None:
    small, large = pair
    which = "the same" if small.are_same else "others"
    for touches in pair:
        last = touches.batches[-1]
        section.rows.append(
            [
                form,
                f"{touched:,}",
                which,
                f"{touches.keys:,}",
                f"{touches.seconds:.2f}",
                f"{touches.seconds / small.seconds:.2f}",
                f"{touches.processor_seconds:.2f}",
                f"{touches.processor_seconds / (small.processor_seconds or 1):.2f}",
                f"{touches.written_mib:.2f}",
                f"{touches.written_mib / (small.written_mib or 1):.2f}",
                f"{last.state_mib:.1f}",
                f"{last.state_rows:,}",
                f"{os.getloadavg()[0]:.1f}",
            ]
        )
    ratio = large.seconds / small.seconds
    text = f"{form}, {touched:,} keys touched, {which} in each batch: {ratio:.2f} times the batch time"
    section.claims.append(Claim(f"{text} (at most {_MOST})", ratio <= _MOST, timed=True))
    ratio = large.written_mib / (small.written_mib or 1)
    text = f"{text}, {ratio:.2f} times the bytes written"
    if form in _NOTES:
        section.claims.append(Claim(f"{text} (at most {_MOST})", ratio <= _MOST))
    # The table comes when all forms are done, which is long.
    print(text, file=sys.stderr, flush=True)


def measure_memory(scale: Scale) -> Section:
    """Millions of open windows in a driver with 4 GiB."""
    header = ("what", "batches", "batch s, median", "batch s, longest", "windows", "rows", "state MiB")
    section = Section(
        "memory",
        f"{scale.windows:,} open windows, spark.driver.memory=4g",
        (*header, "JVM MiB", "driver MiB", "workers MiB", "load"),
    )
    for form in _windowed(scale):
        with (
            spark_session({"spark.driver.memory": "4g"}) as spark,
            TemporaryDirectory(prefix="windrow-growth-") as folder,
            LiveQuery(spark, Path(folder) / form, FORMS[form]) as query,
        ):
            phases: dict[str, Callable[[], list[BatchFigures]]] = {
                "built up": partial(_build, query, scale.windows, scale.build),
                "few keys touched": partial(_touch_few, query, scale),
                "all fired": partial(query.feed, closing_events()),
            }
            done: list[BatchFigures] = []
            for what, work in phases.items():
                with ResidentPeak() as memory:
                    done = work()
                row = _memory_row(done, memory.peak, scale.windows - query.results)
                section.rows.append([f"{form}: {what}", *row])
            section.claims.extend(_closed_claims(form, query, done[-1], scale.windows))
    return section


def _touch_few(query: LiveQuery, scale: Scale) -> list[BatchFigures]:
    random = np.random.default_rng(5)
    chosen = (random.choice(scale.windows, scale.touched[0], replace=False) for _ in range(scale.batches))
    return [query.feed(events_of(keys, number))[0] for number, keys in enumerate(chosen)]


def _memory_row(batches: list[BatchFigures], peak: Resident, open_windows: int) -> list[str]:
    times = [batch.seconds for batch in batches]
    return [
        str(len(batches)),
        f"{median(times):.1f}",
        f"{max(times):.1f}",
        f"{open_windows:,}",
        f"{batches[-1].state_rows:,}",
        f"{batches[-1].state_mib:.1f}",
        *(f"{size:,.0f}" for size in (peak.jvm, peak.python, peak.workers)),
        f"{os.getloadavg()[0]:.1f}",
    ]


def _windowed(scale: Scale) -> list[str]:
    """The forms that have windows."""
    return [form for form in scale.forms if form not in {"process", *_NOTES}]


def _closed_claims(form: str, query: LiveQuery, last: BatchFigures, windows: int) -> list[Claim]:
    fired = f"{form}: {query.results:,} results of {windows:,} windows"
    left = f"{form}: {last.state_rows} rows are left (at most {_ROWS_LEFT})"
    return [Claim(fired, query.results == windows), Claim(left, last.state_rows <= _ROWS_LEFT)]


def measure_shrinking(scale: Scale) -> Section:
    """What is left of a state when its windows are closed."""
    section = Section(
        "shrinking", "state when all windows are closed", ("form", "keys", "when", "rows", "state MiB", "results")
    )
    for form in _windowed(scale):
        with (
            spark_session() as spark,
            TemporaryDirectory(prefix="windrow-growth-") as folder,
            LiveQuery(spark, Path(folder) / form, FORMS[form]) as query,
        ):
            full = _build(query, scale.keys, 2)[-1]
            closed = query.feed(closing_events())[-1]
            for when, figures, results in (("open", full, 0), ("closed", closed, query.results)):
                cells = (f"{figures.state_rows:,}", f"{figures.state_mib:.2f}", f"{results:,}")
                section.rows.append([form, f"{scale.keys:,}", when, *cells])
            section.claims.extend(_closed_claims(form, query, closed, scale.keys))
    return section


def measure_lists(scale: Scale) -> Section:
    """A window that holds all its elements, of one key."""
    section = Section(
        "lists",
        f"one key whose window holds all its elements, {scale.elements:,} more in each batch",
        ("elements held", "batch s", "written MiB", "rows", "state MiB", "load"),
    )
    with (
        spark_session() as spark,
        TemporaryDirectory(prefix="windrow-growth-") as folder,
        LiveQuery(spark, Path(folder) / "lists", windows_in_full) as query,
    ):
        user = np.zeros(scale.elements, dtype=np.int64)
        batches = [query.feed(events_of(user, number))[0] for number in range(scale.lists)]
        step = max(1, scale.lists // 5)
        for number in range(step - 1, scale.lists, step):
            batch = batches[number]
            section.rows.append(
                [
                    f"{(number + 1) * scale.elements:,}",
                    f"{batch.seconds:.2f}",
                    f"{batch.written_mib:.3f}",
                    f"{batch.state_rows:,}",
                    f"{batch.state_mib:.2f}",
                    f"{os.getloadavg()[0]:.1f}",
                ]
            )
        quarter = scale.lists // 4
        early, late = batches[1 : 1 + quarter], batches[-quarter:]
        for what, figure, most, timed in (
            ("bytes written", lambda b: b.written_mib, 1.2, False),
            ("batch time", lambda b: b.seconds, _MOST, True),
        ):
            ratio = median(map(figure, late)) / median(map(figure, early))
            text = f"{what} of the last batches: {ratio:.2f} times those of the first (at most {most})"
            section.claims.append(Claim(text, ratio <= most, timed=timed))
        query.feed(closing_events())
        section.claims.append(Claim("the window fired once", query.results == 1))
    return section


MEASUREMENTS: Final[Mapping[str, Callable[[Scale], Section]]] = {
    "pages": measure_pages,
    "state": measure_state,
    "memory": measure_memory,
    "workers": measure_workers,
    "joins": measure_joins,
    "shrinking": measure_shrinking,
    "lists": measure_lists,
    "idle": measure_idle,
}
