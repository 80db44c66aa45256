"""Columns in state and in files, from run to run: the interpreter, which knows no columns, says what is right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.spark.test_columns import Summary, in_order, late_sessions, put, readings, sliding, stamped, write
from tests.spark.test_joined_columns import Pair, joined
from windrow import Pipeline
from windrow.errors import IncompatibleStateError
from windrow.sinks import CollectSink, ParquetFileSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: sinks and results of every type.

RECORDS: dict[str, Any] = {"sliding": Summary, "pairs": Pair}
"""The branches that go into files, and the class of their rows."""


class Plan:
    """Windows in slices, windows in the order of arrival, late sessions, and a join, of one source."""

    def __init__(self, folder: Path, *, out: Path | None, celsius_of_left: bool = False) -> None:
        keyed = stamped(readings(folder)).key_by(lambda r: r.sensor)
        streams = {
            "sliding": sliding(keyed),
            "ordered": in_order(keyed),
            "sessions": late_sessions(keyed),
            "pairs": joined(keyed, celsius_of_left=celsius_of_left),
        }
        in_files = RECORDS if out is not None else {}
        self.collected = {name: CollectSink[Any]() for name in streams if name not in in_files}
        sinks: dict[str, Any] = {**self.collected, **{name: ParquetFileSink[Any](f"{out}/{name}") for name in in_files}}
        self.pipeline = Pipeline("columns", *(stream.sink_to(sinks[name]) for name, stream in streams.items()))

    def of(self, *results: Any) -> dict[str, list[Any]]:
        """What runs have collected together."""
        return {
            name: sorted((each for result in results for each in result.collected(sink)), key=repr)
            for name, sink in self.collected.items()
        }


def test_columns_go_on_from_a_checkpoint_and_into_files(spark: SparkSession, tmp_path: Path) -> None:
    """One of the files comes, while a run goes on, in a folder whose name looks like a column."""
    folder, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    write(folder, range(1))
    plan, runner = Plan(folder, out=out), SparkRunner(spark, checkpoint=checkpoint, partitions=1)
    running = runner.start(plan.pipeline)
    running.process_available()
    put(folder, 1, "path=7")
    running.process_available()
    before = running.stop()
    with pytest.raises(IncompatibleStateError, match=r"lies in columns.*turned off"):
        SparkRunner(spark, checkpoint=checkpoint, partitions=1, columnar=False).run(plan.pipeline)
    with pytest.raises(IncompatibleStateError, match="the columns of its state were"):
        runner.run(Plan(folder, out=out, celsius_of_left=True).pipeline)
    write(folder, range(2, 4))
    found = plan.of(before, runner.run(plan.pipeline))
    for name, kind in RECORDS.items():
        rows = pq.read_table(out / name).to_pylist()
        found[name] = sorted((kind(*(row[field] for field in kind._fields)) for row in rows), key=repr)
    whole = Plan(folder, out=None)
    assert found == whole.of(LocalRunner().run(whole.pipeline))
    assert len(found["pairs"]) > 100
    windows = {(result.sensor, result.start) for result in found["sessions"]}
    assert len(found["sessions"]) > len(windows) + 20  # many fired more than once
