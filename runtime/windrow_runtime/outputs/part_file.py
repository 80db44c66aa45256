"""Writes the files of file sinks, for both engines alike: lines of text, and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from windrow.errors import WindrowError
from windrow.plan import SinkNode, Step
from windrow.sinks import FileSink
from windrow_runtime.codecs.record_files import LineEncoder, line_encoder
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.operators.errors import sink_errors, with_field

# Any in this module: sinks of elements of every type, and pyarrow has no types.


class PartFile:
    """One file of a batch of a file sink. It is made with the first element; without one there is none.

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
        """Write elements.

        Returns:
            About how many bytes they take before they are compressed.

        Raises:
            SinkError: If the file cannot be written.
            InvalidArgumentError: If an element is not of its type, or has no form in such a file.
        """
        try:
            content = self._format.encode(values)
        except WindrowError as error:
            raise with_field(self._step.where, error) from error.__cause__
        return self.write_content(content) if values else 0

    def write_content(self, content: Any) -> int:
        """Write elements, at least one, that are lines or an Arrow batch already.

        Raises:
            SinkError: If the file cannot be written.
        """
        with sink_errors(self._step, self._address):
            if not self.exists:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._format.open(self._folder / self.name)
                self.exists = True
            return self._format.append(content)

    def close(self) -> None:
        """Finish the file.

        Raises:
            SinkError: If it cannot be written.
        """
        if self.exists:
            with sink_errors(self._step, self._address):
                self._format.close()


def file_sink_of(step: Step) -> FileSink[Any]:
    """The file sink of a step."""
    assert isinstance(step.node, SinkNode)
    assert isinstance(step.node.sink, FileSink)
    return step.node.sink


class _Format(Protocol):
    """Writes one file in one format."""

    @property
    def ending(self) -> str:
        """The ending of the names of files."""
        ...

    def encode(self, values: Sequence[object]) -> Any:
        """The content of a file for some elements."""
        ...

    def open(self, file: Path) -> None:
        """Make the file."""
        ...

    def append(self, content: Any) -> int:
        """Write content; gives its size in bytes."""
        ...

    def close(self) -> None:
        """Finish the file."""
        ...


class _Lines:
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


def _format_of(sink: FileSink[Any], kind: RecordType) -> _Format:
    encoder = line_encoder(sink, kind)
    if encoder is not None:
        return _Lines(encoder)
    # Arrow only where Parquet is written: the interpreter runs without it.
    from windrow_runtime.codecs.arrow.parquet import ParquetWriter

    return ParquetWriter(kind)
