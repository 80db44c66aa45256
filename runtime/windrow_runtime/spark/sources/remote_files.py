"""Decodes text files of file systems that are not mounted, such as HDFS: Spark reads their bytes for the workers."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from windrow.errors import WindrowError
from windrow.sources import MalformedRecord
from windrow_runtime.codecs import malformed as codec_malformed
from windrow_runtime.codecs.record_files import LineRecords, TextRecords
from windrow_runtime.codecs.text_files import decoded
from windrow_runtime.inputs.batch import SourceBatch
from windrow_runtime.spark.paths import path_of_url

__all__ = ["AsRead", "RemoteFiles", "RemoteLines"]

# Any in this module: elements of every type, and pyarrow has no types.


@dataclass(frozen=True)
class AsRead:
    """The reader for files that a worker opened itself: its elements are decoded already."""

    def decode(self, batch: Any) -> SourceBatch:
        """The elements, unchanged."""
        assert isinstance(batch, SourceBatch)
        return batch


@dataclass(frozen=True)
class RemoteLines:
    """Makes records of lines. Spark splits files into lines, and reads large files in parts, so lines have no numbers.

    Attributes:
        records: How a line becomes a record.
        path: The path of the source, in errors.
    """

    records: LineRecords
    path: str

    def decode(self, batch: Any) -> SourceBatch:
        """Takes lines as bytes, and the names of their files."""
        decode = self.records.decoder()
        texts = (decoded(data, self.records.encoding) for data in batch.column(0).to_pylist())
        found = (
            (decode(text), url)
            for text, url in zip(texts, batch.column(1).to_pylist(), strict=True)
            if not self.records.json or (text and not text.isspace())
        )
        return _parted((value, f"{self.path}, {_name(url)}") for value, url in found)


@dataclass(frozen=True)
class RemoteFiles:
    """Makes records of whole files.

    Attributes:
        records: How a file becomes records.
        path: The path of the source, in errors.
        where: The source and its line, in errors.
    """

    records: TextRecords
    path: str
    where: str

    def decode(self, batch: Any) -> SourceBatch:
        """Takes the contents of files, and their names."""
        found: list[tuple[object, str]] = []
        for data, url in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            name = _name(url)
            try:
                found += (
                    (value, f"{self.path}, {name}:{line}")
                    for line, value in self.records.read(name, io.BytesIO(data))
                )
            except WindrowError as error:
                raise error.at(f"{self.where}, {self.path}, {name}") from error.__cause__
        return _parted(found)


def _parted(found: Iterable[tuple[object, str]]) -> SourceBatch:
    values: list[Any] = []
    malformed: list[MalformedRecord] = []
    unmatched: dict[str, str] = {}
    for value, origin in found:
        if isinstance(value, codec_malformed.UnmatchedHeader):
            unmatched[value.reason] = origin
        elif isinstance(value, codec_malformed.MalformedRecord):
            malformed.append(codec_malformed.as_malformed(value, origin))
        else:
            values.append(value)
    return SourceBatch(values, malformed, unmatched)


def _name(url: str) -> str:
    return path_of_url(url).rpartition("/")[2]
