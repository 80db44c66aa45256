"""The interpreter goes on from the offsets that a run on Spark has noted in a savepoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.spark.streams import tumbling
from windrow import Pipeline, from_source
from windrow import aggregates as agg
from windrow.connectors import CustomSource, HybridSource
from windrow.errors import UnsupportedOperationError
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource, Source
from windrow_runtime.local import LocalRunner
from windrow_runtime.savepoint import take
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.classic(reason="savepoints are refused over Spark Connect")


class Number(NamedTuple):
    key: str
    at: int


class Numbers(CustomSource[Number, int]):
    """Two partitions of numbers, as many as a file has lines; notes in another file what it need not keep."""

    def __init__(self, folder: Path) -> None:
        self._lines, self._committed = folder / "lines", folder / "committed"

    def partitions(self) -> list[str]:
        return ["even", "odd"]

    def initial_offset(self, partition: str) -> int:
        return 0

    def latest_offset(self, partition: str) -> int:
        return self._lines.read_text().count("\n")

    def read(self, partition: str, start: int, end: int) -> Iterator[Number]:
        for number in range(start, end):
            yield Number(partition, 1_000 * (2 * number + (partition == "odd")))

    def commit(self, partition: str, offset: int) -> None:
        with self._committed.open("a") as file:
            file.write(f"{partition} {offset}\n")

    def grow(self, count: int) -> None:
        with self._lines.open("a") as file:
            file.write("\n" * count)

    @property
    def committed(self) -> str:
        return self._committed.read_text()


def counted(source: Source[Number]) -> tuple[Pipeline, CollectSink[tuple[str, int, int]]]:
    sink = CollectSink[tuple[str, int, int]]()
    windows = tumbling(from_source(source), 10_000, 0)
    counts = windows.aggregate(agg.combine(agg.key(), agg.window_end(), agg.count()))
    return Pipeline("counts", counts.sink_to(sink)), sink


def test_partitions_go_on_at_their_offsets_and_the_source_keeps_what_the_job_needs(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = Numbers(tmp_path)
    plan, sink = counted(source)
    source.grow(12)
    first = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").run(plan, drain=False).collected(sink)
    take(tmp_path / "checkpoint", plan, tmp_path / "saved", spark=spark)
    source.grow(12)
    committed = source.committed
    runner = LocalRunner(savepoint=tmp_path / "saved")
    for _ in range(2):
        rest = runner.run(plan, drain=False).collected(sink)
        assert sorted([*first, *rest]) == [
            (key, end, 5) for key in ("even", "odd") for end in (10_000, 20_000, 30_000, 40_000)
        ]
    assert source.committed == committed


def test_a_source_whose_offsets_only_spark_knows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    source = Numbers(tmp_path)
    source.grow(12)
    plan, _ = counted(HybridSource(CollectionSource([Number("even", 0)])).then(source))
    SparkRunner(spark, checkpoint=tmp_path / "checkpoint").run(plan, drain=False)
    take(tmp_path / "checkpoint", plan, tmp_path / "saved", spark=spark)
    with pytest.raises(UnsupportedOperationError, match="does not know what of this source was read"):
        LocalRunner(savepoint=tmp_path / "saved").run(plan, drain=False)
