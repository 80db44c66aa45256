"""Batches of file sinks in file systems that are not mounted: when readers see their files, and that these stay.

The file system is Hadoop's view of a folder of this machine; ``tests/elsewhere`` and ``tests/crash`` have S3 and HDFS.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.dataset as ds
import pytest

from tests.spark.stopped_moves import ROWS, Stopper, pipeline
from tests.support.files import forget_batch
from tests.support.thorough import thorough
from windrow.errors import SinkError
from windrow.sinks import JsonFileSink, ParquetFileSink
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.classic(reason="over Spark Connect nothing can be moved, and Spark writes in place")


def shown(out: Path) -> dict[str, tuple[int, bytes]]:
    """The files that no reader passes over, by their paths, with when they were written and what they have."""
    return {
        str(file.relative_to(out)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in out.rglob("*")
        if file.is_file() and not any(re.match(r"\.|_(?!.*=)", part) for part in file.relative_to(out).parts)
    }


def numbers(files: dict[str, Any]) -> dict[str, int]:
    """How many files each batch has."""
    found = [name.partition("windrow_batch=")[2].partition("/")[0] for name in files]
    return {number: found.count(number) for number in sorted(set(found))}


def staged(out: Path) -> list[Path]:
    return list((out / "_windrow").rglob("part-*"))


@pytest.mark.parametrize(
    "moves", [1, *(thorough(moves, reason="test_storage.py stops a batch at each move") for moves in (0, 3))]
)
def test_a_run_that_died_between_two_moves_goes_on_with_the_next(
    spark: SparkSession, view: str, tmp_path: Path, moves: int
) -> None:
    out = tmp_path / "here" / "out"
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    stopper = Stopper(moves)
    with pytest.raises(SinkError, match="the machine is gone"):
        runner.run(pipeline(JsonFileSink(f"{view}/out", partition_by=("key", "value"))), drain=False)
    stopper.end()
    before = shown(out)
    assert numbers(before).get("1", 0) == moves
    listed = json.loads(next((out / "_windrow" / "staging").rglob("batch-1/files")).read_text())
    # The list holds, whatever would be written now.
    runner.run(pipeline(JsonFileSink(f"{view}/out", partition_by="value")), drain=False)
    after = shown(out)
    assert before.items() <= after.items()
    assert numbers(after).keys() == {"0", "1", "3"}
    assert numbers(after)["1"] == len(listed["files"])
    moved = {name.replace("windrow_batch=1/", "") for name in after if "windrow_batch=1/" in name}
    assert moved == set(listed["files"])
    rows = [json.loads(line)["at"] for _, content in after.values() for line in content.splitlines()]
    assert sorted(rows) == [event.at for event in ROWS]
    assert {file.name for file in (out / "_windrow").iterdir() if file.is_file() and file.suffix != ".crc"} == {
        "batch-0",
        "batch-1",
        "batch-3",
    }
    assert staged(out) == []

    # As after a crash between the sinks and Spark's note that the batch is done.
    forget_batch(tmp_path / "checkpoint", 3)
    runner.run(pipeline(JsonFileSink(f"{view}/out", partition_by="value")), drain=False)
    assert shown(out) == after
    assert staged(out) == []


def test_readers_pass_over_a_batch_until_all_of_it_is_written(spark: SparkSession, view: str, tmp_path: Path) -> None:
    out = tmp_path / "here" / "out"
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    stopper = Stopper(0)

    def counts() -> set[int]:
        pattern = f"SELECT count(*) FROM read_parquet('{out}/windrow_batch=*/*.parquet')"
        return {
            spark.read.parquet(str(out)).count(),
            spark.read.option("recursiveFileLookup", "true").parquet(str(out)).count(),
            ds.dataset(out, partitioning="hive").count_rows(),
            duckdb.sql(pattern).fetchall()[0][0],
        }

    with pytest.raises(SinkError, match="the machine is gone"):
        runner.run(pipeline(ParquetFileSink(f"{view}/out")), drain=False)
    stopper.end()
    assert staged(out)
    assert counts() == {8}
    # Another attempt of the batch, which never came to its list, and a dead run of another checkpoint.
    for left in ("staging/another/batch-1/attempt-1", "staging/another/batch-9/attempt-1"):
        place = out / "_windrow" / left / "part-0.parquet"
        place.parent.mkdir(parents=True)
        place.write_bytes(b"half")
    assert counts() == {8}
    runner.run(pipeline(ParquetFileSink(f"{view}/out")), drain=False)
    assert counts() == {24}
    assert staged(out) == []
    assert {file.parent.name for file in out.rglob("_SUCCESS")} == {f"windrow_batch={batch}" for batch in (0, 1, 3)}
