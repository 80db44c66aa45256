"""A run from an older copy of its checkpoint is refused by what its sinks have."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.marked_sinks import FORMS, Number, give, numbers_in, pipeline_of, sink_in
from tests.support.thorough import thorough
from windrow.errors import SinkError
from windrow.sinks import FunctionSink, ParquetFileSink
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.storage import HadoopPath
from windrow_spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSED = r"older than what a sink of its query has written(.|\n)*batch 1 for .*, which has batch 1\n(.|\n)*older copy"


#  checkpoint   0       copied   1      the copy: 3 in batch 1, twice   that of the end
#  written      1                2      refused by each sink            4
def test_an_older_copy_is_refused_by_each_sink(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint, copy, of_form = (tmp_path / name for name in ("checkpoint", "copy", "of form"))

    # A file, because over Spark Connect the function runs in another process.
    def write(batch: int, numbers: Sequence[Number]) -> None:
        (tmp_path / "written").touch()

    def run(number: int, folder: Path, *forms: str) -> None:
        give(tmp_path, number)
        sinks = [FunctionSink(write), *(sink_in(tmp_path, form) for form in forms)]
        SparkRunner(spark, checkpoint=folder).run(pipeline_of(tmp_path, *sinks), drain=False)

    run(1, checkpoint, *FORMS)
    shutil.copytree(checkpoint, copy)
    run(2, checkpoint, *FORMS)
    (tmp_path / "written").unlink()
    for form in FORMS:
        shutil.copytree(copy, of_form)
        for _ in range(1 + (form == "table")):  # the second time Spark has planned the batch before
            with pytest.raises(SinkError, match=REFUSED):
                run(3, of_form, form)
        shutil.rmtree(of_form)
    assert not (tmp_path / "written").exists(), "nothing is written if one sink of several refuses"
    assert [numbers_in(tmp_path, form) for form in FORMS] == [[1, 2]] * len(FORMS)
    run(4, checkpoint, *FORMS)
    assert [numbers_in(tmp_path, form) for form in FORMS] == [[1, 2, 3, 4]] * len(FORMS)


@pytest.mark.parametrize(
    "is_whole", [thorough(True, reason="the batch that was killed in its move has left less to see"), False]
)
def test_files_in_another_file_system(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    if is_connect(spark):
        pytest.skip("over Spark Connect no file says which batches of another file system are whole")
    checkpoint, copy, out = (tmp_path / name for name in ("checkpoint", "copy", "elsewhere"))
    out.mkdir()
    name = f"older{is_whole}".lower()  # Hadoop keeps a view open under its name
    spark.conf.set(f"fs.viewfs.mounttable.{name}.link./out", f"file://{out}")
    sink = ParquetFileSink[Number](f"viewfs://{name}/out")
    rename = HadoopPath.rename

    def killed(source: HadoopPath, target: HadoopPath) -> None:
        if not is_whole and "windrow_batch=1" in target.url:
            raise OSError(5, "the machine is gone")
        rename(source, target)

    monkeypatch.setattr(HadoopPath, "rename", killed)
    try:
        give(tmp_path, 1)
        SparkRunner(spark, checkpoint=checkpoint).run(pipeline_of(tmp_path, sink), drain=False)
        shutil.copytree(checkpoint, copy)
        give(tmp_path, 2)
        with nullcontext() if is_whole else pytest.raises(SinkError, match="the machine is gone"):
            SparkRunner(spark, checkpoint=checkpoint).run(pipeline_of(tmp_path, sink), drain=False)
        before = sorted(out.rglob("*"))
        for _ in range(2):
            with pytest.raises(SinkError, match=REFUSED):
                SparkRunner(spark, checkpoint=copy).run(pipeline_of(tmp_path, sink), drain=False)
        assert sorted(out.rglob("*")) == before
        # Marks of another query are in no one's way, nor is what it has staged.
        for mark in (out / "_windrow").glob("batch-*"):
            mark.with_name(f".{mark.name}.crc").unlink(missing_ok=True)
            mark.write_bytes(mark.read_bytes().replace(b'"query": "', b'"query": "f'))
        for query in (out / "_windrow" / "staging").glob("*"):
            query.rename(query.with_name("another"))
        is_whole = True
        SparkRunner(spark, checkpoint=copy).run(pipeline_of(tmp_path, sink), drain=False)
        rows = [row.asDict() for row in spark.read.parquet(str(out)).collect()]
        assert sorted((row["windrow_batch"], row["n"]) for row in rows) == [(0, 1), (1, 2)]
        assert not list((out / "_windrow" / "staging").rglob("part-*"))
    finally:
        spark.conf.unset(f"fs.viewfs.mounttable.{name}.link./out")
