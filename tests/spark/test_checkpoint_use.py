"""Two runs that want one checkpoint: the second is refused, and the first goes on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.test_runner_damage import Reading, firsts, write
from windrow.errors import CheckpointError
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_checkpoint_that_a_live_run_uses_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    source, runner = tmp_path / "in", SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    write(source, 1, Reading("a", 1, ""))
    write(source, 2, Reading("a", 12, ""))
    pipeline, sink = firsts(source)
    running = runner.start(pipeline)
    running.process_available()
    for second in (runner.start, runner.run, lambda pipeline: runner.run(pipeline, drain=False)):
        with pytest.raises(CheckpointError, match="another run uses the checkpoint") as caught:
            second(firsts(source)[0])
        assert caught.value.where == str((tmp_path / "checkpoint").resolve())
    write(source, 3, Reading("a", 23, ""))
    running.process_available()
    assert [reading.at for reading in running.stop().collected(sink)] == [1, 12]

    # A run that somebody else ended, and one that failed before its query began, leave the checkpoint.
    again = runner.start(firsts(source)[0])
    again.streaming_query.stop()
    pipeline, sink = firsts(source)
    lost = tmp_path / "checkpoint/spark/metadata"
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(CheckpointError, match="damaged"):
        runner.run(pipeline)
    lost.write_bytes(content)
    (lost.parent / ".metadata.crc").unlink(missing_ok=True)
    assert [reading.at for reading in runner.run(pipeline).collected(sink)] == [23]


def test_two_pipelines_of_one_name_run_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    write(source, 1, Reading("a", 1, ""))
    write(source, 2, Reading("a", 12, ""))
    pipelines = [firsts(source), firsts(source)]
    running = [
        SparkRunner(spark, checkpoint=tmp_path / str(number)).start(pipeline)
        for number, (pipeline, _) in enumerate(pipelines)
    ]
    first, second = (one.streaming_query.name for one in running)
    assert first == "damage"
    assert second is not None
    assert re.fullmatch("damage [0-9a-f]{32}", second)
    for one, (_, sink) in zip(running, pipelines, strict=True):
        assert [reading.at for reading in one.drain().collected(sink)] == [1, 12]
