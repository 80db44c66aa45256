"""Writes the files of file sinks, for both engines alike: lines of text, and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.addresses.paths import local_path
from windrow.errors import WindrowError
from windrow.plan import Step
from windrow.sinks import FileSink
from windrow_runtime.codecs.record_files import LineEncoder, line_encoder
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.operators.errors import sink_errors, with_field
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.outputs.output import Output
from windrow_runtime.outputs.sink_folders import BatchFolder

if TYPE_CHECKING:
    from windrow_runtime.codecs.arrow.parquet import ParquetWriter

# Any in this module: sinks of elements of every type, and pyarrow has no types.


class PartFile:
    """One file of a batch of a file sink. It is made with the first element; without one there is none.

    All methods raise a ``SinkError`` if the file cannot be written.

    Args:
        step: The sink.
        kind: The type of its elements.
        folder: The folder of the files of the batch; it is made with the file.
        name: The name of the file without its ending.
    """

    def __init__(self, step: Step, kind: RecordType, folder: Path, name: str) -> None:
        sink = file_sink_of(step)
        self._step = step
        self._address = sink.path
        self._format = _format_of(sink, kind)
        self._folder = folder
        self.name = name + self._format.ending
        self.exists = False

    def write(self, values: Sequence[object]) -> int:
        """Write elements; returns about how many bytes they take before they are compressed.

        Raises:
            InvalidArgumentError: If an element is not of its type, or has no form in such a file.
        """
        try:
            content = self._format.encode(values)
        except WindrowError as error:
            raise with_field(self._step.where, error) from error.__cause__
        return self.write_content(content) if values else 0

    def write_content(self, content: Any) -> int:
        """As :meth:`write`, for elements, at least one, that are lines or an Arrow batch already."""
        with sink_errors(self._step, self._address):
            if not self.exists:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._format.open(self._folder / self.name)
                self.exists = True
            return self._format.append(content)

    def close(self) -> None:
        """Finish the file."""
        if self.exists:
            with sink_errors(self._step, self._address):
                self._format.close()


class FileOutput(Output):
    """Writes the batches of a file sink in a mounted file system, a file each; one written again replaces itself."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._address = file_sink_of(step).path
        self._kind = record_type(step.node.element_type)

    def write(self, batch: int, values: Sequence[object]) -> None:
        path = local_path(self._address)
        assert path is not None, "the sink was checked"
        folder = BatchFolder(Path(path), batch)
        with sink_errors(self._step, self._address):
            if not values:
                folder.withdraw()
                return
            folder.begin()
            with closing(PartFile(self._step, self._kind, folder.aside, "part-0")) as file:
                file.write(values)
            folder.publish()


def file_sink_of(step: Step) -> FileSink[Any]:
    """The file sink of a step."""
    sink = sink_of(step)
    assert isinstance(sink, FileSink)
    return sink


class _Lines:
    """Writes one file of lines, by the methods that ``ParquetWriter`` has."""

    def __init__(self, encoder: LineEncoder) -> None:
        self.ending = encoder.ending
        self._encoder = encoder

    def encode(self, values: Sequence[object]) -> str:
        encode = self._encoder.encode
        return "".join([f"{encode(value)}\n" for value in values])

    def open(self, file: Path) -> None:
        self._file = file.open("w", encoding="utf-8", newline="\n")
        if self._encoder.header is not None:
            self._file.write(f"{self._encoder.header}\n")

    def append(self, content: str) -> int:
        return self._file.write(content)

    def close(self) -> None:
        self._file.close()


def _format_of(sink: FileSink[Any], kind: RecordType) -> _Lines | ParquetWriter:
    encoder = line_encoder(sink, kind)
    if encoder is not None:
        return _Lines(encoder)
    # Arrow only where Parquet is written: the interpreter runs without it.
    from windrow_runtime.codecs.arrow.parquet import ParquetWriter

    return ParquetWriter(kind)
