"""Writes Iceberg tables on Spark: workers write the files, and the driver commits them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from windrow.plan import Step
from windrow.sinks import IcebergSink
from windrow_runtime.outputs.output import Identity
from windrow_spark.session import is_connect
from windrow_spark.shipping import sink_alone
from windrow_spark.sinks.spark_writer import SparkWriter, WrittenBy
from windrow_spark.sinks.worker_sink import WorkerSink, WorkerTask
from windrow_sql.iceberg.writer import IcebergWriter

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyspark.sql import SparkSession

    from windrow_sql.iceberg.output import IcebergOutput
    from windrow_sql.iceberg.parts import FileList

# Any in this module: elements of every type, pyarrow has no types, and a configuration has texts and more of its kind.

_FILE_BYTES: Final = 64 << 20
"""How many bytes of rows a task keeps until it writes them to files."""
_SECONDS_KEPT: Final = 60.0
"""How long a worker takes a table as it has loaded it: catalogs give logins for the files that end after some time."""
_loaded: dict[str, tuple[float, IcebergOutput]] = {}  # tables of a worker, by run and sink, with the time


class IcebergSparkWriter(SparkWriter[IcebergWriter]):
    """Writes Iceberg tables."""

    @property
    def written_by(self) -> WrittenBy:
        # Without the library the output says what is missing.
        return WrittenBy.WORKERS if find_spec("pyiceberg") is not None else super().written_by

    @property
    def takes_columns(self) -> bool:
        return self.written_by is WrittenBy.WORKERS

    def check_target(self, spark: SparkSession) -> None:
        if self.written_by is WrittenBy.WORKERS and not is_connect(spark):
            _output(self.step, self.writer.sink, Identity("", "")).open()

    def worker_sink(self, identity: Identity | None) -> WorkerSink:
        assert identity is not None, "it has a target"
        # The configuration of the driver's machine counts, since workers may have none.
        from windrow_sql.iceberg.output import catalog_properties

        sink = self.writer.sink
        return IcebergWorkerSink(sink_alone(self.step), sink, identity, catalog_properties(sink), uuid4().hex)


def _output(
    step: Step, sink: IcebergSink[Any], identity: Identity, properties: Mapping[str, Any] | None = None
) -> IcebergOutput:
    # The library is imported only if a plan has such a sink.
    from windrow_sql.iceberg.output import IcebergOutput

    return IcebergOutput(step, sink, identity, properties)


class IcebergWorkerSink(WorkerSink):
    """An Iceberg table whose files workers write; its step comes without the steps upstream.

    Args:
        step: The step.
        sink: The sink.
        identity: The identity under which the table notes batches.
        properties: The properties of the catalog.
        run: Identifies the run and the sink.
    """

    def __init__(
        self, step: Step, sink: IcebergSink[Any], identity: Identity, properties: Mapping[str, Any], run: str
    ) -> None:
        self.step = step
        self._sink, self._identity, self._properties, self._run = sink, identity, properties, run
        self._output: IcebergOutput | None = None  # of the driver

    def __reduce__(self) -> tuple[Any, ...]:
        return IcebergWorkerSink, (self.step, self._sink, self._identity, self._properties, self._run)

    def task(self, batch: int) -> WorkerTask:
        now = time.monotonic()
        loaded_at, output = _loaded.get(self._run, (-_SECONDS_KEPT, None))
        if output is None or now >= loaded_at + _SECONDS_KEPT:
            output = self._made()
            with output.failures("the Iceberg table cannot be read"):
                output.load()
            for run in [run for run, (then, _) in _loaded.items() if now >= then + _SECONDS_KEPT]:
                del _loaded[run]
            _loaded[self._run] = now, output
        return _FileTask(output)

    def check(self, batch: int, division: str, *, again: bool) -> None:
        self._opened().check(batch, again=again)

    def begin(self, batch: int) -> None:
        """Makes the table if it is missing, which workers load: over Spark Connect a job has checked no target."""
        self._opened()

    def publish(self, batch: int, names: Sequence[bytes]) -> None:
        """Adds the files of a batch to the table, or deletes them if it has the batch; the driver calls this."""
        from windrow_sql.iceberg.parts import FileList

        if names:
            self._opened().publish(batch, list(map(FileList.load, names)))

    def _opened(self) -> IcebergOutput:
        if self._output is None:
            self._output = self._made()
            self._output.open()
        return self._output

    def _made(self) -> IcebergOutput:
        return _output(self.step, self._sink, self._identity, self._properties)


class _FileTask(WorkerTask):
    """Writes the files of one task, and their list."""

    def __init__(self, output: IcebergOutput) -> None:
        self._output, self._table = output, output.table
        self._rows: list[Any] = []
        self._bytes = 0
        self._files: list[DataFile] = []
        self._list: FileList | None = None
        self._is_told = self._is_done = False

    def write(self, values: Sequence[Any]) -> int:
        return self.write_rows(self._output.encoded(values)) if values else 0

    def write_rows(self, rows: Any) -> int:
        if not rows.num_rows:
            return 0
        if self._list is None:
            from windrow_sql.iceberg.parts import FileList

            self._list = FileList.of(self._table)
        size = int(rows.nbytes)
        self._rows.append(rows)
        self._bytes += size
        if self._bytes >= _FILE_BYTES:
            self._write_files()
        return size

    def _write_files(self) -> None:
        if self._rows:
            with self._output.failures("a file of the Iceberg table cannot be written"):
                self._files += self._output.new_files(self._rows)
            self._rows, self._bytes = [], 0

    def take_names(self) -> Sequence[bytes]:
        if self._list is None or self._is_told:
            return ()
        self._is_told = True
        return [self._list.dump()]

    def finish(self) -> None:
        self._write_files()
        if self._list is not None:
            with self._output.failures("a file of the Iceberg table cannot be written"):
                self._list.write(self._table, self._files)
        self._is_done = True

    def close(self) -> None:
        if not self._is_done and self._files:
            from windrow_sql.iceberg.parts import delete_files

            delete_files(self._table.io, [file.file_path for file in self._files])
