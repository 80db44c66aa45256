"""Writes files on Spark: workers write those of mounted file systems and of S3, and Spark's writers all others.

A worker writes a part file into a hidden folder, under a unique name, and sends the name to the driver in a row. The
driver deletes files whose names it did not get, such as those of a failed task, and publishes the others together.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.addresses.paths import local_path
from windrow.errors import SinkError, UnsupportedOperationError
from windrow.plan import Step
from windrow.sinks import CsvFileSink, JsonFileSink, ParquetFileSink
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.connectors.files.batch_files import BatchFiles, newest_batch_in
from windrow_runtime.connectors.files.objects import ObjectPath, use_options
from windrow_runtime.connectors.files.owner import file_sink_of
from windrow_runtime.connectors.files.partition_columns import Partitions, folder_columns, partitions_of
from windrow_runtime.connectors.files.parts import PartFile, PartitionedFiles, part_of_task
from windrow_runtime.connectors.files.staged import StagedBatch, begun_batches, clear_staging
from windrow_runtime.connectors.files.writer import FileWriter
from windrow_runtime.operators.errors import sink_errors
from windrow_runtime.outputs.output import Identity, check_newest, written_type
from windrow_spark.connectors.files.buckets import bucket_options
from windrow_spark.connectors.files.by_spark import check_files, check_unwritten, write_files
from windrow_spark.shipping import sink_alone
from windrow_spark.sinks.json_columns import are_json_columns
from windrow_spark.sinks.spark_writer import SparkWriter, WrittenBy
from windrow_spark.sinks.worker_sink import WorkerSink, WorkerTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Any in this module: elements of every type, and pyarrow has no types.


use_options(bucket_options)


class FileSparkWriter(SparkWriter[FileWriter]):
    """Writes text, JSON, CSV and Parquet files."""

    @property
    def written_by(self) -> WrittenBy:
        if self.writer.folder is not None or self.writer.objects is not None:
            return WrittenBy.WORKERS
        if self.writer.sink.overwrite:
            raise UnsupportedOperationError(
                "batches are not overwritten where Spark writes the files",
                given=self.sink.describe(),
                expected="a mounted file system, or an address s3a:// that windrow opens",
                where=self.step.where,
                hint="leave overwrite out, and give each run a folder of its own",
            )
        if (
            isinstance(self.writer.sink, CsvFileSink)
            and self.writer.sink.header
            and partitions_of(self.step) is not None
        ):
            raise UnsupportedOperationError(
                "files with a header cannot be partitioned in another file system",
                given=self.sink.describe(),
                expected="a mounted file system, or files without a header",
                where=self.step.where,
                hint="header=False, or a ParquetFileSink",
            )
        return WrittenBy.SPARK

    @property
    def takes_columns(self) -> bool:
        if isinstance(self.writer.sink, JsonFileSink):
            return are_json_columns(self.step)
        return isinstance(self.writer.sink, ParquetFileSink)

    def worker_sink(self, identity: Identity | None) -> WorkerSink:
        objects = self.writer.objects
        if objects is not None:
            assert identity is not None, "the sink has a target"
            kind = written_type(self.step)
            return ObjectPartSink(sink_alone(self.step), objects, kind, identity.query, partitions_of(self.step))
        path = local_path(self.writer.sink.path)
        assert path is not None, "Spark writes to other file systems"
        # A worker may run in another folder than the driver.
        element_type = written_type(self.step)
        return PartSink(sink_alone(self.step), os.path.abspath(path), element_type, partitions_of(self.step))

    def check_unwritten(self, spark: SparkSession) -> None:
        if self.written_by is WrittenBy.SPARK:
            check_unwritten(spark, self.writer.sink, self.step)

    def check_batch(self, spark: SparkSession, batch: int, *, query: str, again: bool) -> None:
        check_files(spark, batch, self.step, query=query, again=again)

    def write_batch(
        self,
        frame: DataFrame,
        batch: int,
        number: int,
        classes: tuple[UserClass, ...],
        *,
        query: str,
        has_rows: bool,
        again: bool,
    ) -> None:
        write_files(frame, batch, number, self.step, classes, query=query, has_rows=has_rows, again=again)


@dataclass(slots=True)
class _FilesTask(WorkerTask):
    """Writes the part files of one task."""

    files: PartFile | PartitionedFiles

    def write(self, values: Sequence[Any]) -> int:
        return self.files.write(values)

    def write_rows(self, rows: Any) -> int:
        return self.files.write_rows(rows) if rows.num_rows else 0

    def take_names(self) -> list[bytes]:
        return [name.encode() for name in self.files.take_names()]

    def close(self) -> None:
        self.files.close()


@dataclass(frozen=True, slots=True)
class PartSink(WorkerSink):
    """A file sink in a mounted file system, whose files workers write; its step comes without the steps upstream."""

    step: Step
    path: str
    record_type: RecordType
    partitions: Partitions | None = None

    def folder(self, batch: int) -> BatchFiles:
        """Returns the handle of a batch's files in the folder of the sink."""
        return BatchFiles(Path(self.path), batch, folder_columns(self.partitions))

    def task(self, batch: int) -> WorkerTask:
        name = f"part-{uuid.uuid4().hex}"
        return _FilesTask(part_of_task(self.step, self.record_type, self.partitions, self.folder(batch).staging, name))

    def check(self, batch: int, division: str, *, again: bool) -> None:
        """Refuse to go on from a batch older than the newest in the folder, since its rows would be written twice."""
        with sink_errors(self.step, self.path):
            newest = newest_batch_in(Path(self.path))
        check_newest(newest, batch, again=again, target=file_sink_of(self.step).describe(), where=self.step.where)

    def begin(self, batch: int) -> None:
        """Publish the files that an earlier attempt has listed, and delete its other files.

        The driver calls this before the tasks of the batch begin.
        """
        with sink_errors(self.step, self.path):
            self.folder(batch).begin()

    def publish(self, batch: int, names: Sequence[bytes]) -> None:
        """Publish the part files of a batch, unless it has files from an earlier attempt.

        The driver calls this after the tasks of the batch, with the names of all part files.
        """
        folder = self.folder(batch)
        with sink_errors(self.step, self.path):
            if not names:
                folder.begin()  # deletes the files of tasks that failed
                return
            wanted = {name.decode() for name in names}
            missing = folder.keep(wanted)
            if not missing:
                folder.publish()
                return
        raise SinkError(
            "files that workers wrote are not where the driver looks for them",
            given=f"{len(missing)} of {len(wanted)} are missing in {folder.staging}, one is {missing[0]}",
            expected="a folder that the driver and all workers share",
            where=self.step.where,
            hint="write to a file system that every machine has mounted at the same path",
        )


@dataclass
class ObjectPartSink(WorkerSink):
    """A file sink in an object store, whose files workers write; its step comes without the steps upstream."""

    step: Step
    folder: ObjectPath
    record_type: RecordType
    query: str
    partitions: Partitions | None = None
    _again: int | None = None  # the batch that an earlier run had begun
    _is_whole: bool = False  # whether that batch is published

    def _staged(self, batch: int) -> StagedBatch[ObjectPath]:
        return StagedBatch(self.folder, self.query, batch)

    def task(self, batch: int) -> WorkerTask:
        name = f"part-{uuid.uuid4().hex}"
        return _FilesTask(part_of_task(self.step, self.record_type, self.partitions, self._staged(batch).parts, name))

    def check(self, batch: int, division: str, *, again: bool) -> None:
        """Refuse to go on from a batch older than the newest in the folder, and delete what dead runs have staged."""
        with sink_errors(self.step, self.folder.url):
            for number in begun_batches(self.folder, self.query, batch + again):
                target = file_sink_of(self.step).describe()
                check_newest(number, batch, again=again, target=target, where=self.step.where)
            clear_staging(self.folder, self.query, batch)
        self._again = batch if again else None

    def begin(self, batch: int) -> None:
        """Finish the publication of a batch that an earlier run had begun."""
        if batch == self._again:
            with sink_errors(self.step, self.folder.url):
                self._is_whole = self._staged(batch).finish()

    def publish(self, batch: int, names: Sequence[bytes]) -> None:
        """Publish the part files of a batch, unless it has files from an earlier run."""
        staged = self._staged(batch)
        with sink_errors(self.step, self.folder.url):
            if batch == self._again and self._is_whole:
                staged.clear()
            elif names:
                staged.publish(staged.parts, [name.decode() for name in names])
