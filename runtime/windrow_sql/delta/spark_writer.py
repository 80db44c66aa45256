"""Writes Delta Lake tables on Spark: workers write the files, and the driver commits them.

Workers write tables without partitions, at a plain path, to which rows are appended; the driver writes all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from windrow.errors import SinkError
from windrow.plan import Step
from windrow.sinks import DeltaSink
from windrow_runtime.outputs.output import Identity, written_type
from windrow_spark.session import is_connect
from windrow_spark.shipping import sink_alone
from windrow_spark.sinks.spark_writer import SparkWriter, WrittenBy
from windrow_spark.sinks.worker_sink import WorkerSink, WorkerTask
from windrow_sql.delta.writer import DeltaWriter

if TYPE_CHECKING:
    from deltalake.transaction import AddAction
    from pyspark.sql import SparkSession

    from windrow_sql.delta.output import DeltaOutput
    from windrow_sql.delta.parts import TableFile

# Any in this module: elements of every type, and pyarrow has no types.

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NOTES_FILES: Final = (1, 6)
"""The version of the library from which on a commit of files has the number of the batch."""


def _library() -> tuple[int, ...]:
    """Returns the version of the library; without it the output says what is missing."""
    try:
        return tuple(map(int, version("deltalake").split(".")[:2]))
    except PackageNotFoundError:
        return _NOTES_FILES


class DeltaSparkWriter(SparkWriter[DeltaWriter]):
    """Writes Delta Lake tables."""

    @property
    def written_by(self) -> WrittenBy:
        return WrittenBy.WORKERS if self._folder is not None else super().written_by

    @property
    def takes_columns(self) -> bool:
        return self._folder is not None

    @property
    def _folder(self) -> Path | None:
        """The folder of the table, if workers write its files."""
        sink = self.writer.sink
        if sink.key or sink.partition_by or sink.storage_options or _library() < _NOTES_FILES:
            return None
        # The library reads a path with a scheme, or with escapes, in its own way.
        return None if _SCHEME.match(sink.path) or "%" in sink.path else Path(sink.path).absolute()

    def check_target(self, spark: SparkSession) -> None:
        if self._folder is not None and not is_connect(spark):
            _opened(self.step, self.writer.sink, Identity("", ""))

    def worker_sink(self, identity: Identity | None) -> WorkerSink:
        assert identity is not None, "it has a target"
        assert self._folder is not None, "the driver writes others"
        return DeltaWorkerSink(sink_alone(self.step), self.writer.sink, identity, self._folder)


def _opened(step: Step, sink: DeltaSink[Any], identity: Identity) -> DeltaOutput:
    # The library is imported only if a plan has such a sink.
    from windrow_sql.delta.output import DeltaOutput

    output = DeltaOutput(step, sink, identity)
    output.open()
    return output


class DeltaWorkerSink(WorkerSink):
    """A Delta Lake table whose files workers write; its step comes without the steps upstream."""

    def __init__(self, step: Step, sink: DeltaSink[Any], identity: Identity, folder: Path) -> None:
        self.step = step
        self._sink, self._identity, self._folder = sink, identity, folder
        self._table: DeltaOutput | None = None  # of the driver

    def __reduce__(self) -> tuple[Any, ...]:
        return DeltaWorkerSink, (self.step, self._sink, self._identity, self._folder)

    def task(self, batch: int) -> WorkerTask:
        from windrow_sql.delta.output import DeltaOutput
        from windrow_sql.delta.parts import TableFile

        output = DeltaOutput(self.step, self._sink, self._identity)
        return _FileTask(output, TableFile(written_type(self.step), self._folder))

    def check(self, batch: int, division: str, *, again: bool) -> None:
        self._opened_table().check(batch, again=again)

    def publish(self, batch: int, names: Sequence[bytes]) -> None:
        """Adds the files of a batch to the table, or deletes them if it has the batch; the driver calls this.

        If the table has conditions, such as a constraint, the library checks the rows, and writes them itself.
        """
        from windrow_sql.delta.parts import added_file, read_rows

        if not names:
            return
        table, files = self._opened_table(), [name.decode() for name in names]
        try:
            added = [added_file(self._folder, name) for name in files]
        except FileNotFoundError as error:
            raise SinkError(
                "a file that a worker wrote is not where the driver looks for it",
                given=str(error.filename),
                expected="a folder that the driver and all workers share",
                where=self.step.where,
                hint="write to a file system that every machine has mounted at the same path",
            ) from error
        if table.checks_rows():
            try:
                table.append(batch, read_rows(self._folder, files, table.schema))
            finally:
                self._delete(added)
        elif not table.commit(batch, [file for file, _ in added], sum(rows for _, rows in added)):
            self._delete(added)

    def _delete(self, added: Iterable[tuple[AddAction, int]]) -> None:
        for file, _ in added:
            (self._folder / file.path).unlink(missing_ok=True)

    def _opened_table(self) -> DeltaOutput:
        if self._table is None:
            self._table = _opened(self.step, self._sink, self._identity)
        return self._table


class _FileTask(WorkerTask):
    """Writes the file of one task."""

    def __init__(self, output: DeltaOutput, file: TableFile) -> None:
        self._output, self._file = output, file
        self._is_done = False

    def write(self, values: Sequence[Any]) -> int:
        return self._written(self._output.encoded(values)) if values else 0

    def write_rows(self, rows: Any) -> int:
        return self._written(rows) if rows.num_rows else 0

    def _written(self, rows: Any) -> int:
        with self._output.failures("a file of the Delta table cannot be written"):
            return self._file.write(rows)

    def take_names(self) -> Sequence[bytes]:
        return [name.encode() for name in self._file.take_names()]

    def finish(self) -> None:
        with self._output.failures("a file of the Delta table cannot be written"):
            self._file.close()
        self._is_done = True

    def close(self) -> None:
        if not self._is_done:
            self._file.delete()
