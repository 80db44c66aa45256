"""Workers write some sinks while they compute a batch: files, and sinks of the user's own that ask for it.

The driver makes all files of a batch visible at once. A worker writes a part file into a hidden folder, under a unique
name, and sends the name to the driver in a row. The driver deletes the files whose names it did not get, such as those
of a task that failed half-way, and renames the folder.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from windrow.addresses.paths import local_path
from windrow.connectors import CustomSink
from windrow.errors import SinkError, WindrowError
from windrow.plan import SinkNode, Step
from windrow.sinks import FileSink, JsonFileSink, ParquetFileSink
from windrow_runtime.codecs.arrow.batches import arrow_schema, encode_batch
from windrow_runtime.codecs.class_names import UserClass
from windrow_runtime.codecs.line_encoder import LineEncoder, line_encoder
from windrow_runtime.codecs.record_type import Kind, RecordType, record_type
from windrow_runtime.columnar.state.chunks import load_rows
from windrow_runtime.operators.errors import sink_errors, with_field
from windrow_runtime.outputs.batch_folder import BatchFolder
from windrow_runtime.outputs.called import CustomOutput
from windrow_runtime.outputs.output import Identity
from windrow_runtime.spark.exchange.by_value import make_picklable
from windrow_runtime.spark.exchange.classes import register_classes
from windrow_runtime.spark.exchange.payload import unpack_columns, unpack_elements
from windrow_runtime.spark.exchange.picklable import check_picklable
from windrow_runtime.spark.faults.marked import failures_marked
from windrow_runtime.spark.shipping import sink_alone

__all__ = [
    "PART_SCHEMA",
    "PartSink",
    "PartStage",
    "PartWriter",
    "WorkerSink",
    "is_json_of_spark",
    "lines_of",
    "rows_of",
    "worker_sinks",
]

# Any in this module: pyarrow has no types.

PART_SCHEMA: Final = "sink int, number bigint, payload binary"
_PART_COLUMNS: Final = ["sink", "number", "payload"]

# Spark has types for these that Parquet alone does not tell.
_SPARKS_OWN: Final = (Kind.TIMEDELTA, Kind.NONE)


def rows_of(payload: bytes, kind: RecordType, where: str) -> Any:
    """The rows of a payload for a sink as a record batch.

    Raises:
        InvalidArgumentError: If an element is not of its type.
    """
    columns = unpack_columns(payload)
    if columns is not None:
        return load_rows(columns.stream, arrow_schema(kind))
    try:
        return encode_batch(unpack_elements(payload).values, kind)
    except WindrowError as error:
        raise with_field(where, error) from error.__cause__


def lines_of(payload: bytes, encoder: LineEncoder, where: str) -> list[str]:
    """The lines of a payload for a sink, without their ends.

    Raises:
        InvalidArgumentError: If an element is not of its type, or is no line.
    """
    try:
        return list(map(encoder.encode, unpack_elements(payload).values))
    except WindrowError as error:
        raise with_field(where, error) from error.__cause__


class TaskWriter(Protocol):
    """Writes what one task has for one sink."""

    def write(self, payload: bytes) -> bytes | None:
        """Write the rows of a payload; the first rows return what the driver is to know, such as a file's name."""
        ...

    def close(self) -> None:
        """Finish what was written, also where a row could not be."""
        ...


class WorkerSink(Protocol):
    """A sink that workers write; it is sent to them."""

    @property
    def step(self) -> Step:
        """The sink, without the steps in front of it."""
        ...

    def begin(self, batch: int) -> None:
        """Called by the driver before the tasks of a batch begin."""
        ...

    def task(self, batch: int) -> TaskWriter:
        """Called by a worker, in each task that has rows for the sink."""
        ...

    def publish(self, batch: int, names: Sequence[bytes]) -> None:
        """Called by the driver behind the tasks of a batch, with what they returned."""
        ...


@dataclass(frozen=True, slots=True)
class PartSink:
    """A sink in a folder of the file system whose files workers write.

    Attributes:
        step: The sink, without the steps in front of it.
        path: The folder.
        kind: The type of the rows.
    """

    step: Step
    path: str
    kind: RecordType

    def folder(self, batch: int) -> BatchFolder:
        """Where the parts of a batch are."""
        return BatchFolder(Path(self.path), batch)

    def lines(self) -> LineEncoder | None:
        """How elements become lines; None: files are Parquet."""
        return line_encoder(_sink_of(self.step), self.kind)

    def task(self, batch: int) -> TaskWriter:
        """Make the writer of a task's part file."""
        return _PartTask(self, batch)

    def begin(self, batch: int) -> None:
        """Take away what an earlier attempt left.

        Raises:
            SinkError: If that fails.
        """
        with sink_errors(self.step, self.path):
            self.folder(batch).begin()

    def publish(self, batch: int, names: Sequence[bytes]) -> None:
        """Make the parts of a batch visible, in the place of those that it had before.

        Raises:
            SinkError: If that fails, or if not all of them are there.
        """
        folder = self.folder(batch)
        with sink_errors(self.step, self.path):
            if not names:
                folder.withdraw()
                return
            self._keep(folder.aside, {name.decode() for name in names})
            folder.publish()

    def _keep(self, aside: Path, names: set[str]) -> None:
        """Deletes the files whose names no worker sent, and checks that those are there whose names one sent."""
        found = set(os.listdir(aside)) if aside.is_dir() else set()
        # A network file system may list a folder as it was some time ago, so that it is asked again, by name.
        missing = sorted(name for name in names - found if not (aside / name).exists())
        if missing:
            raise SinkError(
                "files that workers wrote are not where the driver looks for them",
                given=f"{len(missing)} of {len(names)} are missing in {aside}, one is {missing[0]}",
                expected="a folder that the driver and all workers share",
                where=self.step.where,
                hint="write to a file system that every machine has mounted at the same path",
            )
        for name in found - names:
            (aside / name).unlink()


@dataclass(frozen=True, slots=True)
class CustomWorkerSink:
    """A sink of the user's own that workers write.

    Attributes:
        step: The sink, without the steps in front of it.
        sink: The same.
        query: The identity of the query.
    """

    step: Step
    sink: CustomSink[Any]
    query: str

    def begin(self, batch: int) -> None:
        """There is nothing to clear: the sink replaces what an earlier attempt left."""

    def task(self, batch: int) -> TaskWriter:
        """Open the sink for a task."""
        return _CustomTask(self, batch)

    def publish(self, batch: int, names: Sequence[bytes]) -> None:
        """There is nothing to make visible."""


def worker_sinks(sinks: Mapping[int, Step], query: Callable[[], str]) -> dict[int, WorkerSink]:
    """The sinks that workers write themselves, by their numbers. Others are written by the driver or by Spark.

    Args:
        sinks: All sinks.
        query: Gives the identity of the query; called where a sink of the user's own is told of it.

    Raises:
        UnsupportedOperationError: If a sink of the user's own cannot be sent to workers.
    """
    found: dict[int, WorkerSink] = {}
    for number, step in sinks.items():
        sink = step.node.sink if isinstance(step.node, SinkNode) else None
        if isinstance(sink, CustomSink) and sink.on_workers:
            make_picklable(type(sink))
            hint = "make connections and files in open(), which each worker calls"
            check_picklable(step, [sink], "the sink", hint)
            found[number] = CustomWorkerSink(sink_alone(step), sink, query())
        elif isinstance(sink, FileSink) and (part := _part_sink(step, sink)) is not None:
            found[number] = part
    return found


def _part_sink(step: Step, sink: FileSink[Any]) -> PartSink | None:
    """A sink whose files workers write themselves; None: Spark writes them."""
    path = local_path(sink.path)
    if path is None:
        return None
    kind = record_type(step.node.element_type)
    if isinstance(sink, JsonFileSink) and is_json_of_spark(kind):
        return None
    if isinstance(sink, ParquetFileSink) and kind.root.contains(*_SPARKS_OWN):
        return None
    # A worker may run in another folder than the driver.
    return PartSink(sink_alone(step), os.path.abspath(path), kind)


def is_json_of_spark(kind: RecordType) -> bool:
    """Whether JSON of a type is what Spark's writer makes of its columns.

    That would be null for a key that is absent, and an object for a tuple or a number.
    """
    return kind.root.kind is Kind.RECORD and not kind.root.may_lack_keys


def _sink_of(step: Step) -> FileSink[Any]:
    assert isinstance(step.node, SinkNode)
    assert isinstance(step.node.sink, FileSink)
    return step.node.sink


class PartWriter:
    """Writes what one task has for the sinks that workers write.

    Args:
        batch: The number of the batch.
        sinks: The sinks, by their numbers.
    """

    def __init__(self, batch: int, sinks: Mapping[int, WorkerSink]) -> None:
        self._batch = batch
        self._sinks = sinks
        self._tasks: dict[int, TaskWriter] = {}

    def write(self, number: int, payload: bytes) -> bytes | None:
        """Write the rows of a payload; the first rows for a sink return what the driver is to know.

        Raises:
            SinkError: If they cannot be written.
            InvalidArgumentError: If an element is not of its type.
            UserFunctionError: If a sink of the user's own raised.
        """
        task = self._tasks.get(number)
        if task is None:
            task = self._tasks[number] = self._sinks[number].task(self._batch)
        return task.write(payload)

    def close(self) -> None:
        """Close the part files, which nobody can read before, and the sinks of the user's own.

        Raises:
            SinkError: If a file cannot be written.
            UserFunctionError: If a sink of the user's own raised.
        """
        with ExitStack() as stack:
            for task in self._tasks.values():
                stack.callback(task.close)


@dataclass(frozen=True, slots=True)
class PartStage:
    """Writes the sinks of workers and passes on all other rows; Spark calls it by ``mapInArrow``.

    Plans without keyed steps need it, and jobs; in a stream the last keyed step writes these sinks itself.

    Attributes:
        batch: The number of the batch.
        parts: The sinks to write, by their numbers.
        classes: The user's classes that may occur in elements.
    """

    batch: int
    parts: Mapping[int, WorkerSink]
    classes: tuple[UserClass, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Called by Spark with packed rows, see :mod:`windrow_runtime.spark.exchange.rows`."""
        with failures_marked():
            register_classes(self.classes)
            yield from self._run(batches)

    def _run(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        written: list[tuple[int, bytes]] = []
        with closing(PartWriter(self.batch, self.parts)) as writer:
            for given in batches:
                batch = given.select(_PART_COLUMNS)
                passed = [sink not in self.parts for sink in batch.column(0).to_pylist()]
                if any(passed):
                    yield _as_rows(batch.filter(pa.array(passed)).columns)
                if not all(passed):
                    rows = batch.filter(pa.array([not one for one in passed]))
                    for sink, payload in zip(
                        rows.column(0).to_pylist(), rows.column(2).to_pylist(), strict=True
                    ):
                        name = writer.write(sink, payload)
                        if name is not None:
                            written.append((sink, name))
        if written:
            sinks, names = zip(*written, strict=True)
            columns = [pa.array(sinks, pa.int32()), pa.array([0] * len(names), pa.int64())]
            yield _as_rows([*columns, pa.array(names, pa.binary())])


def _as_rows(columns: Sequence[Any]) -> Any:
    """Columns as a batch of the one schema that a stage may give: those that it gets say besides what is never null."""
    import pyarrow as pa

    schema = pa.schema([("sink", pa.int32()), ("number", pa.int64()), ("payload", pa.binary())])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _PartTask:
    """Writes the part file of a task; there is none where no payload has rows."""

    def __init__(self, sink: PartSink, batch: int) -> None:
        self._sink, self._batch = sink, batch
        self._encoder = sink.lines()
        self._file: _ParquetPart | _LinePart | None = None

    def write(self, payload: bytes) -> bytes | None:
        sink, encoder = self._sink, self._encoder
        rows = (
            rows_of(payload, sink.kind, sink.step.where)
            if encoder is None
            else lines_of(payload, encoder, sink.step.where)
        )
        if not len(rows):
            return None
        with sink_errors(sink.step, sink.path):
            if self._file is not None:
                self._file.write(rows)
                return None
            name = f"part-{uuid.uuid4().hex}{'.parquet' if encoder is None else encoder.ending}"
            folder = sink.folder(self._batch).aside
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (
                _ParquetPart(folder / name, sink.kind)
                if encoder is None
                else _LinePart(folder / name, encoder)
            )
            self._file.write(rows)
            return name.encode()

    def close(self) -> None:
        if self._file is not None:
            with sink_errors(self._sink.step, self._sink.path):
                self._file.close()


class _CustomTask:
    """Opens a sink of the user's own for a task, and hands it the elements of each payload."""

    def __init__(self, sink: CustomWorkerSink, batch: int) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "Spark has one in every task"
        self._batch = batch
        self._output = CustomOutput(sink.step, sink.sink, Identity(sink.query, ""), context.partitionId())
        self._output.open()

    def write(self, payload: bytes) -> bytes | None:
        values = unpack_elements(payload).values
        if values:
            self._output.write(self._batch, values)
        return None

    def close(self) -> None:
        self._output.close()


class _ParquetPart:
    def __init__(self, file: Path, kind: RecordType) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(file, arrow_schema(kind), compression="snappy")

    def write(self, rows: Any) -> None:
        self._writer.write_batch(rows)

    def close(self) -> None:
        self._writer.close()


class _LinePart:
    def __init__(self, file: Path, encoder: LineEncoder) -> None:
        self._file = file.open("w", encoding="utf-8", newline="\n")
        if encoder.header is not None:
            self.write([encoder.header])

    def write(self, lines: Sequence[str]) -> None:
        self._file.writelines(f"{line}\n" for line in lines)

    def close(self) -> None:
        self._file.close()
