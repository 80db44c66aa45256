"""Programs of other systems give the answers that plain Python computes, on all engines."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tests.ports import (
    changes_of_a_database,
    complex_sessions,
    daily_windows,
    heartbeats,
    impressions_without_clicks,
    rack_monitoring,
    silence,
)
from windrow_runtime.local import LocalRunner, PipelineResult
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAMS = [
    changes_of_a_database,
    complex_sessions,
    daily_windows,
    heartbeats,
    impressions_without_clicks,
    rack_monitoring,
    silence,
]


def check(program: ModuleType, result: PipelineResult) -> None:
    for answer in program.answers():
        answer.check(result.collected(answer.sink))


def name_of(program: ModuleType) -> str:
    return program.__name__.rpartition(".")[2]


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_in_the_interpreter(program: ModuleType) -> None:
    check(program, LocalRunner().run(program.PIPELINE))


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_on_spark(program: ModuleType, spark: SparkSession) -> None:
    check(program, SparkRunner(spark).run(program.PIPELINE))


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_in_one_batch(program: ModuleType, spark: SparkSession) -> None:
    check(program, SparkRunner(spark).run_batch(program.PIPELINE))


@pytest.mark.parametrize("batch_size", [1, 2, 3, 6])
def test_silence_is_told_whatever_the_batches_are(batch_size: int) -> None:
    check(silence, LocalRunner().run(silence.pipeline(batch_size)))
