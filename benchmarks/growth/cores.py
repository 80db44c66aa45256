"""The same batches on one core and on two: how much faster they are, and which part of a batch is not."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from benchmarks.growth.live import FORMS, BatchFigures, LiveQuery
from benchmarks.growth.records import events_of
from benchmarks.section import Section
from benchmarks.session import spark_session

if TYPE_CHECKING:
    import pyarrow as pa

    from benchmarks.growth.scale import Scale

__all__ = ["CoreRun", "cores_section", "run_on_cores"]

_MEASURED: Final = 3  # medians are taken of this number of batches, the last ones of each form


@dataclass(frozen=True, slots=True)
class CoreRun:
    """The time that a batch of one query took on one or two cores: medians, in seconds.

    Attributes:
        cores: The number of cores.
        form: The form of its step.
        batch: The whole batch.
        first_stage: The stage of Spark that reads the source.
        other_stages: The other stages, which run the step and write the results.
        outside: The rest: the driver plans the batch, lists files, and writes what is done.
        load: The load of the machine.
    """

    cores: int
    form: str
    batch: float
    first_stage: float
    other_stages: float
    outside: float
    load: float


class _Parts(NamedTuple):
    first_stage: float
    other_stages: float


def run_on_cores(scale: Scale, cores: int) -> list[CoreRun]:
    """Run the same batches of each form on some cores, with as many partitions."""
    times: dict[str, tuple[list[BatchFigures], float]] = {}
    with TemporaryDirectory(prefix="windrow-growth-") as folder:
        log = Path(folder) / "log"
        log.mkdir()
        settings = {
            # Each batch is a folder; beyond 32 of them Spark would list them by a job in each batch.
            "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": log.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        with spark_session(settings, cores=cores) as spark:
            for form in scale.forms:
                with LiveQuery(spark, Path(folder) / form, FORMS[form], files=4) as query:
                    # Meanwhile the JVM compiles what Spark does in each batch, and takes the other core.
                    sizes = [min(8_000, scale.core_rows)] * scale.core_warmup + [scale.core_rows] * (_MEASURED + 1)
                    fed = [
                        query.feed(_random_events(scale.keys // 10, rows, number))[0]
                        for number, rows in enumerate(sizes)
                    ]
                    times[query.id] = fed[-_MEASURED:], os.getloadavg()[0]
        parts = _parts_of_batches(log)
    runs: list[CoreRun] = []
    for form, (query_id, (batches, load)) in zip(scale.forms, times.items(), strict=True):
        found = [(batch.seconds, *parts[query_id, batch.number]) for batch in batches]
        outside = [seconds - first - others for seconds, first, others in found]
        batch, first, others = map(median, zip(*found, strict=True))
        runs.append(CoreRun(cores, form, batch, first, others, median(outside), load))
    return runs


def _random_events(keys: int, count: int, seed: int) -> pa.Table:
    return events_of(np.random.default_rng(seed).integers(0, keys, count), seed)


def _parts_of_batches(log: Path) -> dict[tuple[str, int], _Parts]:
    """How long the stages of each batch took, by the id of the query and its number, from Spark's log of events."""
    owners: dict[tuple[int, int], tuple[str, int]] = {}
    stages: defaultdict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    for event in _events(log):
        if event["Event"] == "SparkListenerStageSubmitted":
            about, properties = event["Stage Info"], event.get("Properties") or {}
            query, batch = properties.get("sql.streaming.queryId"), properties.get("streaming.sql.batchId")
            if query is not None and batch is not None:
                owners[about["Stage ID"], about["Stage Attempt ID"]] = query, int(batch)
        elif event["Event"] == "SparkListenerStageCompleted":
            about = event["Stage Info"]
            owner = owners.get((about["Stage ID"], about["Stage Attempt ID"]))
            if owner is not None:
                begin, end = about["Submission Time"], about["Completion Time"]
                stages[owner].append((begin, (end - begin) / 1_000))
    found: dict[tuple[str, int], _Parts] = {}
    for owner, some in stages.items():
        (_, first), *others = sorted(some)
        found[owner] = _Parts(first, sum(seconds for _, seconds in others))
    return found


# Any in this function: what stands in the log has no types.
def _events(log: Path) -> Iterator[dict[str, Any]]:
    for file in log.iterdir():
        if not file.name.startswith("."):
            with file.open() as lines:
                yield from map(json.loads, lines)


def cores_section(scale: Scale, runs: Sequence[CoreRun]) -> Section:
    """Compare one core and two. What two cores do not speed up, by Amdahl's law, is ``2 * two - one`` seconds."""
    parts = ("first stage", "other stages", "outside")
    section = Section(
        "cores",
        f"{scale.core_rows:,} rows a batch over {scale.keys // 10:,} keys; as many partitions as cores; "
        "seconds with one core and with two",
        ("form", "batch", "speed-up", "not sped up", *parts, "load"),
    )
    for form in scale.forms:
        mine = {cores: [run for run in runs if (run.form, run.cores) == (form, cores)] for cores in (1, 2)}
        pairs = [
            tuple([median(getattr(run, name) for run in mine[cores]) for cores in (1, 2)])
            for name in ("batch", "first_stage", "other_stages", "outside")
        ]
        one, two = pairs[0]
        batch, *others = [f"{before:.2f} {behind:.2f}" for before, behind in pairs]
        load = max(run.load for run in runs if run.form == form)
        cells = (batch, f"{one / two:.2f}", f"{max(0.0, 2 * two - one):.2f}", *others, f"{load:.1f}")
        section.rows.append([form, *cells])
    return section
