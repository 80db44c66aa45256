"""Workers write the files of a sink while they compute a batch; the driver makes all of them visible at once.

A worker writes a part file into a hidden folder, under a unique name, and sends the name to the driver in a row. The
driver deletes the files whose names it did not get, such as those of a task that failed half-way, and renames the
folder.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from windrow.addresses.paths import local_path
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
from windrow_runtime.spark.exchange.classes import register_classes
from windrow_runtime.spark.exchange.payload import unpack_columns, unpack_elements
from windrow_runtime.spark.faults.marked import failures_marked
from windrow_runtime.spark.shipping import sink_alone

__all__ = [
    "PART_SCHEMA",
    "PartSink",
    "PartStage",
    "PartWriter",
    "is_json_of_spark",
    "lines_of",
    "part_sink",
    "part_sinks",
    "rows_of",
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


def part_sink(step: Step) -> PartSink | None:
    """A sink whose files workers write themselves; None: Spark writes them, or it has none."""
    assert isinstance(step.node, SinkNode)
    sink = step.node.sink
    path = local_path(sink.path) if isinstance(sink, FileSink) else None
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


def part_sinks(sinks: Mapping[int, Step]) -> dict[int, PartSink]:
    """The sinks whose files workers write themselves, by their numbers."""
    return {number: part for number, step in sinks.items() if (part := part_sink(step)) is not None}


class PartWriter:
    """Writes the files of one task: a part file for each sink that gets rows.

    Args:
        batch: The number of the batch.
        parts: The sinks, by their numbers.
    """

    def __init__(self, batch: int, parts: Mapping[int, PartSink]) -> None:
        self._batch = batch
        self._sinks = parts
        self._open: dict[int, _Part] = {}
        self._encoders: dict[int, LineEncoder | None] = {}

    def write(self, number: int, payload: bytes) -> bytes | None:
        """Write the rows of a payload; the first rows of a part return its name, for the driver.

        Raises:
            SinkError: If they cannot be written.
            InvalidArgumentError: If an element is not of its type.
        """
        sink = self._sinks[number]
        encoder = self._encoders.setdefault(number, sink.lines())
        rows = (
            rows_of(payload, sink.kind, sink.step.where)
            if encoder is None
            else lines_of(payload, encoder, sink.step.where)
        )
        if not len(rows):
            return None
        part = self._open.get(number)
        if part is not None:
            part.write(rows)
            return None
        part = self._open[number] = _Part(sink, self._batch, encoder)
        part.write(rows)
        return part.name.encode()

    def close(self) -> None:
        """Close the part files, which nobody can read before.

        Raises:
            SinkError: If one cannot be written.
        """
        with ExitStack() as stack:
            for part in self._open.values():
                stack.callback(part.close)


@dataclass(frozen=True, slots=True)
class PartStage:
    """Writes files of the rows of a partition and passes on all other rows; Spark calls it by ``mapInArrow``.

    Plans without keyed steps need it, and jobs; in a stream the last keyed step writes files itself.

    Attributes:
        batch: The number of the batch.
        parts: The sinks whose files are written, by their numbers.
        classes: The user's classes that may occur in elements.
    """

    batch: int
    parts: Mapping[int, PartSink]
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


class _Part:
    """A file that is being written."""

    def __init__(self, sink: PartSink, batch: int, encoder: LineEncoder | None) -> None:
        ending = ".parquet" if encoder is None else encoder.ending
        self.name = f"part-{uuid.uuid4().hex}{ending}"
        self._sink = sink
        with sink_errors(self._sink.step, self._sink.path):
            folder = sink.folder(batch).aside
            folder.mkdir(parents=True, exist_ok=True)
            self._file: _ParquetPart | _LinePart
            if encoder is None:
                self._file = _ParquetPart(folder / self.name, sink.kind)
            else:
                self._file = _LinePart(folder / self.name, encoder)

    def write(self, rows: Any) -> None:
        with sink_errors(self._sink.step, self._sink.path):
            self._file.write(rows)

    def close(self) -> None:
        with sink_errors(self._sink.step, self._sink.path):
            self._file.close()


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
