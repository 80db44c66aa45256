"""The memory of Python workers: bounded by pages and batches, whatever is stored."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.growth.live import FORMS, LiveQuery
from benchmarks.growth.records import events_of
from benchmarks.memory import PeakMemory, PeakMemorySampler
from benchmarks.section import Claim, Section
from benchmarks.session import spark_session

if TYPE_CHECKING:
    from benchmarks.growth.scale import Scale

__all__ = ["measure_workers"]

_MOST: Final = 1.3


def measure_workers(scale: Scale) -> Section:
    """Peaks of workers that touch a few keys of a state that other workers built.

    A worker keeps the memory that a large batch made it take, so those that built the state tell nothing.
    """
    section = Section(
        "workers",
        f"the largest Python worker, started anew, over {scale.batches} batches with few keys touched",
        ("form", "touched", "keys", "state MiB", "worker MiB", "all workers MiB", "load"),
    )
    for form in scale.forms:
        peaks = [_add(section, scale, form, keys) for keys in (scale.windows // 10, scale.windows)]
        ratio = peaks[1] / (peaks[0] or 1)
        text = f"{form}: {ratio:.2f} times the memory of a worker with ten times the keys (at most {_MOST})"
        section.claims.append(Claim(text, ratio <= _MOST))
    return section


def _add(section: Section, scale: Scale, form: str, keys: int) -> float:
    """Add a row; gives the peak of the largest worker in MiB."""
    touched = scale.touched[0]
    with TemporaryDirectory(prefix="windrow-growth-") as folder:
        with spark_session() as spark, LiveQuery(spark, Path(folder) / form, FORMS[form]) as query:
            for part in np.array_split(np.arange(keys), scale.build):
                query.feed(events_of(part, 1))
        with (
            PeakMemorySampler() as memory,
            spark_session() as spark,
            LiveQuery(spark, Path(folder) / form, FORMS[form]) as query,
        ):
            choices = (np.random.default_rng(seed).choice(keys, touched) for seed in range(scale.batches))
            batches = [query.feed(events_of(chosen, 1))[0] for chosen in choices]
    peak = memory.peak or PeakMemory(0, 0, 0)
    section.rows.append(
        [
            form,
            f"{touched:,}",
            f"{keys:,}",
            f"{batches[-1].state_mib:.1f}",
            f"{peak.worker:,.0f}",
            f"{peak.workers:,.0f}",
            f"{os.getloadavg()[0]:.1f}",
        ]
    )
    return peak.worker
