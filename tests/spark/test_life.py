"""The life of a job: stopped, changed and started again and again, it writes each row once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.outputs.postgres import PASSWORD
from tests.support.lives import (
    PARTS,
    RENAMED,
    RESCALED,
    WITH_NAMES,
    Ends,
    differences,
    files_alone,
    job,
    send,
    with_services,
)
from windrow import Pipeline
from windrow.errors import WindrowWarning
from windrow_runtime.savepoint import rescale, upgrade
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.classic(reason="savepoints are refused over Spark Connect")

PARTITIONS: Final = 2
SAID: Final = {
    1: "views, ",
    2: "begins empty in them",
    3: "windows that are open stay as",
    4: None,
    5: ".shop, ",
    6: None,
    7: "source shop is gone",
}
"""What the warning of an upgrade has to say, by the phase that begins with it."""


def change(checkpoint: Path, pipeline: Pipeline, phase: int, spark: SparkSession) -> None:
    """Gives the checkpoint the plan or the partitions of a phase, and deletes the savepoint."""
    said = SAID[phase]
    if phase == RESCALED:
        saved = rescale(checkpoint, pipeline, partitions=2 * PARTITIONS, spark=spark)
    elif said is None:
        saved = upgrade(checkpoint, pipeline, renamed=RENAMED if phase == WITH_NAMES else {}, spark=spark)
    else:
        with pytest.warns(WindrowWarning, match=said):
            saved = upgrade(checkpoint, pipeline, spark=spark)
    shutil.rmtree(saved)


def live(spark: SparkSession, ends: Ends, phases: int, *, meanwhile: bool = True) -> int:
    """Has a job live through its phases; returns how many elements were late.

    The first part of a phase comes while the job is stopped, the second while it runs; or both while it is stopped.
    """
    checkpoint, late = ends.folder / "checkpoint", 0
    for phase in range(phases):
        pipeline = job(str(ends.folder), phase, ends.servers, ends.database)
        stopped = 1 if meanwhile else PARTS
        for part in range(stopped):
            send(ends, phase, part)
        if phase:
            change(checkpoint, pipeline, phase, spark)
        partitions = 2 * PARTITIONS if phase >= RESCALED else PARTITIONS
        with SparkRunner(spark, checkpoint=checkpoint, partitions=partitions).start(pipeline) as running:
            running.process_available()
            for part in range(stopped, PARTS):
                send(ends, phase, part)
                running.process_available()
            result = running.stop() if phase < phases - 1 else running.drain()
        late += sum(counts.get("late_records_dropped", 0) for counts in result.counters.values())
    return late


def test_a_job_of_files_has_each_row_once_after_an_upgrade(spark: SparkSession, tmp_path: Path) -> None:
    ends = files_alone(tmp_path)
    assert live(spark, ends, 2, meanwhile=False) == 0
    assert differences(ends, 2) == []


@pytest.mark.timeout(900)  # it starts eight runs
@pytest.mark.thorough(reason="the case on files alone is upgraded once, and test_changed_savepoints.py has each change")
def test_a_job_of_files_topics_and_tables_has_each_row_once_after_seven_changes(
    spark: SparkSession, kafka: str, postgres: Path, tmp_path: Path
) -> None:
    pytest.importorskip("confluent_kafka")
    folder = tmp_path / f"life-{uuid4().hex[:8]}"
    database = f"postgresql://windrow:{quote(PASSWORD, safe='')}@/postgres?host={postgres}"
    ends = with_services(folder, kafka, database)
    assert live(spark, ends, 8) == 0
    assert differences(ends, 8) == []
