"""Checkpoints of earlier versions, which this one must be able to go on from. See tests/spark/checkpoints/make.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.checkpoints.archives import COLLECTED, KEPT, archives, kept_of, plain, unpack
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_checkpoint_of_each_pipeline_is_kept() -> None:
    assert {archive.name.partition("-")[0] for archive in archives()} == KEPT.keys()
    assert sum(archive.stat().st_size for archive in archives()) < 500_000


@pytest.mark.parametrize("archive", archives(), ids=lambda archive: archive.name.removesuffix(".tar.xz"))
def test_a_kept_checkpoint_is_read(
    spark: SparkSession, tmp_path: Path, archive: Path, request: pytest.FixtureRequest
) -> None:
    # input   first half    the rest
    # run     then          today
    kept = kept_of(archive)
    servers: str = request.getfixturevalue("kafka") if kept.needs_broker else ""
    unpack(archive, tmp_path, servers)
    plan, outputs = kept.whole(tmp_path, servers)
    expected, _ = outputs.expected(plan)
    before = json.loads((tmp_path / COLLECTED).read_text())
    after = plain(outputs.of(SparkRunner(spark, checkpoint=tmp_path).run(plan)))
    whole = {
        name: {key: before[name].get(key, []) + after[name].get(key, []) for key in {*before[name], *after[name]}}
        for name in expected
    }
    assert whole == plain(expected)
    # Every output has a part in both runs, so the state of each step was needed.
    assert all(before.values())
    assert all(after.values())
