"""Writes the files of a batch of a file sink, for both engines alike."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.addresses.paths import local_path
from windrow.plan import Step
from windrow.sinks import FileSink, ParquetFileSink
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.connectors.files.batch_files import BatchFiles
from windrow_runtime.connectors.files.lines import LineEncoder, line_encoder
from windrow_runtime.connectors.files.objects import ObjectPath
from windrow_runtime.connectors.files.owner import file_sink_of
from windrow_runtime.connectors.files.partition_columns import Partitions, folder_columns, partitions_of
from windrow_runtime.operators.errors import field_errors, sink_errors
from windrow_runtime.outputs.output import Output, written_type

if TYPE_CHECKING:
    from windrow_runtime.codecs.arrow.parquet import ParquetWriter

# Any in this module: sinks of elements of every type, and pyarrow has no types.


PartFolder = Path | ObjectPath
"""The folder in which tasks write their files."""


class PartFile:
    """Writes one file of a batch, which is created with the first element; failures raise a ``SinkError``."""

    def __init__(self, step: Step, record_type: RecordType, folder: PartFolder, name: str) -> None:
        sink = file_sink_of(step)
        self._step = step
        self._address = sink.path
        self._format = _format_of(sink, record_type)
        self._folder = folder
        self._name = name + self._format.ending
        self._exists = False
        self._is_new = False

    def write(self, values: Sequence[object]) -> int:
        """Write elements; returns about how many bytes they take before they are compressed."""
        with field_errors(self._step.where):
            content = self._format.encode(values)
        return self._append(content) if values else 0

    def write_rows(self, rows: Any) -> int:
        """Does what :meth:`write` does, for elements, at least one, as an Arrow batch."""
        with field_errors(self._step.where):
            content = self._format.encode_rows(rows)
        return self._append(content)

    def _append(self, content: Any) -> int:
        with sink_errors(self._step, self._address):
            if not self._exists:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._format.open(self._folder / self._name)
                self._exists = self._is_new = True
            return self._format.append(content)

    def take_names(self) -> list[str]:
        """Returns the name of the file if it was created since the last call."""
        names = [self._name] if self._is_new else []
        self._is_new = False
        return names

    def close(self) -> None:
        """Finish the file."""
        if self._exists:
            with sink_errors(self._step, self._address):
                self._format.close()


class PartitionedFiles:
    """Writes the files of one task in a batch of a sink with ``partition_by``, by the methods of :class:`PartFile`.

    Each has the rows of one folder of values. The one that was written to longest ago is finished where ``open_files``
    are open, each of which holds the rows of a row group in memory; its folder gets another file when more rows come.
    """

    def __init__(self, step: Step, partitions: Partitions, folder: PartFolder, name: str, open_files: int = 64) -> None:
        self._step = step
        self._partitions = partitions
        self._folder = folder
        self._name = name
        self._open_files = open_files
        self._as_rows = isinstance(file_sink_of(step), ParquetFileSink)
        self._open: OrderedDict[str, PartFile] = OrderedDict()
        self._finished = 0
        self._names: list[str] = []

    def write(self, values: Sequence[object]) -> int:
        """Write elements; returns about how many bytes they take before they are compressed."""
        if not values:
            return 0
        if self._as_rows:
            # Arrow only where Parquet is written: the interpreter runs without it.
            from windrow_runtime.codecs.arrow.encoding import encode_batch

            with field_errors(self._step.where):
                rows = encode_batch(values, self._partitions.record_type)
            return self.write_rows(rows)
        with field_errors(self._step.where):
            by_folder = self._partitions.split(values)
        return sum(self._written(folder, self._file(folder).write(elements)) for folder, elements in by_folder.items())

    def write_rows(self, rows: Any) -> int:
        """Does what :meth:`write` does, for an Arrow batch with all columns."""
        with field_errors(self._step.where):
            by_folder = list(self._partitions.split_rows(rows))
        return sum(self._written(folder, self._file(folder).write_rows(portion)) for folder, portion in by_folder)

    def _file(self, folder: str) -> PartFile:
        file = self._open.get(folder)
        if file is None:
            if len(self._open) >= self._open_files:
                self._open.popitem(last=False)[1].close()
                self._finished += 1
            # A number keeps the file apart from one of the same folder that was closed before.
            name = f"{self._name}-{self._finished}" if self._finished else self._name
            file = self._open[folder] = PartFile(self._step, self._partitions.rest, self._folder / folder, name)
        self._open.move_to_end(folder)
        return file

    def _written(self, folder: str, size: int) -> int:
        self._names += [f"{folder}/{name}" for name in self._open[folder].take_names()]
        return size

    def take_names(self) -> list[str]:
        """Returns the paths of the files that were created since the last call."""
        names, self._names = self._names, []
        return names

    def close(self) -> None:
        """Finish all files."""
        with ExitStack() as stack:
            for file in self._open.values():
                stack.callback(file.close)


def part_of_task(
    step: Step, record_type: RecordType, partitions: Partitions | None, folder: PartFolder, name: str
) -> PartFile | PartitionedFiles:
    """Returns the writer of the files of one task in a staging folder."""
    if partitions is None:
        return PartFile(step, record_type, folder, name)
    return PartitionedFiles(step, partitions, folder, name)


def encoder_of_files(step: Step) -> Callable[[Sequence[Any]], object]:
    """Returns a function that encodes elements as the files of a sink have them."""
    sink, record_type, partitions = file_sink_of(step), written_type(step), partitions_of(step)
    encode = _format_of(sink, record_type if partitions is None else partitions.rest).encode
    if partitions is None:
        return encode
    if not isinstance(sink, ParquetFileSink):
        return lambda values: [encode(elements) for elements in partitions.split(values).values()]
    # Arrow only where Parquet is written: the interpreter runs without it.
    from windrow_runtime.codecs.arrow.encoding import encode_batch

    return lambda values: [*partitions.split_rows(encode_batch(values, record_type))]


class FileOutput(Output):
    """Writes the batches of a file sink in a mounted file system, each once."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._address = file_sink_of(step).path
        self._kind = written_type(step)
        self._partitions = partitions_of(step)

    def write(self, batch: int, values: Sequence[object]) -> None:
        path = local_path(self._address)
        assert path is not None, "the sink was checked"
        folder = BatchFiles(Path(path), batch, folder_columns(self._partitions))
        with sink_errors(self._step, self._address):
            folder.begin()
            if not values:
                return
            with closing(part_of_task(self._step, self._kind, self._partitions, folder.staging, "part-0")) as file:
                file.write(values)
            folder.publish()


class _Lines:
    """Writes one file of lines, with the methods of ``ParquetWriter``."""

    def __init__(self, encoder: LineEncoder, record_type: RecordType) -> None:
        self.ending = encoder.ending
        self._kind = record_type
        self._encoder = encoder

    def encode(self, values: Sequence[object]) -> str:
        return self._encoder.encode_all(values)

    def encode_rows(self, rows: Any) -> str:
        # Arrow only where columns are written: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.decoding import lines_of_rows

        assert self._encoder.json is not None, "other lines are written of elements"
        return lines_of_rows(rows, self._kind, self._encoder.json)

    def open(self, file: PartFolder) -> None:
        self._file = file.open("x", encoding="utf-8", newline="\n")
        if self._encoder.header is not None:
            self._file.write(f"{self._encoder.header}\n")

    def append(self, content: str) -> int:
        return self._file.write(content)

    def close(self) -> None:
        self._file.close()


def _format_of(sink: FileSink[Any], record_type: RecordType) -> _Lines | ParquetWriter:
    encoder = line_encoder(sink, record_type)
    if encoder is not None:
        return _Lines(encoder, record_type)
    # Arrow only where Parquet is written: the interpreter runs without it.
    from windrow_runtime.codecs.arrow.parquet import ParquetWriter

    return ParquetWriter(record_type)
