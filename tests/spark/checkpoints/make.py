"""Makes a checkpoint to keep: ``python -m tests.spark.checkpoints.make NAME``, for each format of stored state.

A pipeline of :mod:`tests.spark.checkpoints.archives` runs half way, and its checkpoint goes into an archive beside this
file, named by the versions of windrow and Spark. What is in its state is printed: look whether that is what it is for.
Archives of released versions are never made again.

Spark notes absolute paths in its checkpoints. They are replaced by a mark, and Spark's checksums, which would no longer
fit, are left out. So are the files that a pipeline reads, which it writes itself, and the one that names the process
that used the checkpoint.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kafka.topics import Topics
from tests.services.kafka import running_kafka
from tests.spark.checkpoints import topics
from tests.spark.checkpoints.archives import COLLECTED, INPUT, KEPT, ROOT, TOPIC_ID, archive_of
from windrow.distribution import DISTRIBUTION
from windrow_runtime.spark import SparkRunner
from windrow_spark.storage.group_record import FINGERPRINT_BYTES, GroupState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.minBatchesToRetain": "2",
}
"""Spark writes state as a whole soon, and deletes what is in it: an archive of all batches would hold it twice."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.checkpoints.make")
    parser.add_argument("name", choices=sorted(KEPT), help="the pipeline")
    name: str = parser.parse_args().name
    kept = KEPT[name]
    archive = archive_of(name, metadata.version(DISTRIBUTION), metadata.version("pyspark"))
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary, "checkpoint").resolve()
        marks = {str(folder): ROOT}
        servers = stack.enter_context(running_kafka()).address if kept.needs_broker else ""
        plan, outputs = kept.half(folder, servers)
        if servers:
            marks[Topics(servers, "").id_of(topics.IN)] = TOPIC_ID
        runner = SparkRunner(checkpoint=folder, partitions=kept.partitions, key_groups_per_partition=kept.key_groups)
        for setting, value in SMALL.items():
            runner.spark.conf.set(setting, value)
        result = runner.run(plan, drain=False)
        for line in what_is_in(runner.spark, folder):
            print(line)
        with tarfile.open(archive, "x:xz") as tar:
            add(tar, COLLECTED, json.dumps(outputs.of(result)).encode(), 0)
            for file in sorted(folder.rglob("*")):
                if is_kept(file, folder):
                    add(tar, str(file.relative_to(folder)), with_marks(file.read_bytes(), marks), file.stat().st_mtime)
    print(f"{archive.name}: {archive.stat().st_size} bytes")


def what_is_in(spark: SparkSession, folder: Path) -> Iterator[str]:
    """A line for each step in each key group."""
    for level in sorted((folder / "spark" / "state").iterdir()):
        reader = spark.read.format("statestore").option("operatorId", level.name)
        frame = reader.option("stateVarName", "group").load(str(folder / "spark"))
        for label, data in frame.selectExpr("key.*", "value.data").collect():
            fingerprint = data[6 : 6 + FINGERPRINT_BYTES]
            for step, record in GroupState.load(bytes(data), fingerprint).steps.items():
                yield (
                    f"level {level.name}, group {label}, step {step}: {record.pages} pages of "
                    f"{record.size} bytes, {len(record.working)} in the working set, {record.segments} segments"
                )


def is_kept(file: Path, folder: Path) -> bool:
    is_checksum = file.name.startswith(".") and file.suffix == ".crc"
    names_process = file.name == "in-use"
    return file.is_file() and not (is_checksum or names_process) and not file.is_relative_to(folder / INPUT)


def add(tar: tarfile.TarFile, name: str, content: bytes, modified: float) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mtime = int(modified)  # Spark takes files in this order
    tar.addfile(entry, io.BytesIO(content))


def with_marks(content: bytes, marks: Mapping[str, str]) -> bytes:
    for text, mark in marks.items():
        if text.encode() in content:
            content.decode()  # a length may precede it in a binary file, so only text may be changed
            content = content.replace(text.encode(), mark.encode())
    return content


if __name__ == "__main__":
    main()
