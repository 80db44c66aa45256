"""Sources in the interpreter: a batch at a time."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from windrow.addresses.paths import PathGuard, check_visible, is_hidden, local_path
from windrow.addresses.patterns import listed, matches, split_pattern
from windrow.custom_source import CustomSource
from windrow.errors import SourceError, UnsupportedOperationError, WindrowError
from windrow.plan import SourceNode, Step
from windrow.sources import (
    CollectionSource,
    FileSource,
    MalformedRecord,
    ParquetFileSource,
    SocketSource,
    Source,
)
from windrow.tags import OutputTag
from windrow_runtime.codecs import malformed as codec_malformed
from windrow_runtime.codecs.record_files import text_records
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import opened_file
from windrow_runtime.inputs.batch import SourceBatch, in_batches
from windrow_runtime.inputs.checks import path_missing, warn_of_header
from windrow_runtime.inputs.custom import CustomReads
from windrow_runtime.operators.constants import is_constant_type
from windrow_runtime.operators.copies import own_all

__all__ = ["is_custom", "malformed_tag", "read_batches"]

# Any in this module: elements of every type.


def read_batches(step: Step) -> Iterator[SourceBatch]:
    """The batches of a source.

    Raises:
        SourceError: If there is nothing to read from.
        MalformedRecordError: For a record that does not fit, unless the source drops or routes such records.
        UnsupportedOperationError: For a source that only Spark can read.
    """
    assert isinstance(step.node, SourceNode)
    source: Source[Any] = step.node.source
    if isinstance(source, ParquetFileSource):
        from windrow_runtime.codecs.arrow.parquet import check_parquet

        try:
            check_parquet()
        except WindrowError as error:
            raise error.at(step.where) from error.__cause__
    if isinstance(source, CollectionSource):
        size = source.batch_size or max(len(source.elements), 1)
        constant = is_constant_type(source.element_type)
        for start in range(0, len(source.elements), size):
            elements = list(source.elements[start : start + size])
            # What the pipeline changes must not change the plan: it may be run again.
            yield SourceBatch(elements if constant else own_all(elements))
    elif isinstance(source, FileSource):
        yield from _read_files(step, source)
    elif isinstance(source, CustomSource):
        yield from _read_custom(step, source)
    elif isinstance(source, SocketSource):
        yield _read_socket(step, source)
    else:
        raise UnsupportedOperationError(
            "the interpreter cannot read this source",
            given=source.describe(),
            expected="a collection, files, a socket or a CustomSource",
            where=step.where,
            hint="run the pipeline with SparkRunner",
        )


def _read_custom(step: Step, source: CustomSource[Any, Any]) -> Iterator[SourceBatch]:
    reads = CustomReads(source, step.where)
    latest = reads.latest()
    constant = is_constant_type(step.node.element_type)
    done: dict[str, list[Any]] = {}
    while ranges := reads.ranges(done, following := reads.advance(done, latest)):
        values: list[Any] = []
        malformed: list[MalformedRecord] = []
        for given in ranges:
            for part in in_batches(reads.read(given)):
                _check_malformed(step, source, part)
                values += part.values if constant else own_all(part.values)
                malformed += part.malformed
        yield SourceBatch(values, malformed)
        reads.commit(following)
        done = following


def _check_malformed(step: Step, source: Source[Any], batch: SourceBatch) -> None:
    if batch.malformed and source.on_malformed == "fail":
        record = batch.malformed[0]
        raise codec_malformed.malformed_error(record).at(f"{step.where}, {record.origin}")


def _read_files(step: Step, source: FileSource[Any]) -> Iterator[SourceBatch]:
    files = _list_files(step, source.path)
    size = source.files_per_batch or max(len(files), 1)
    warned: set[str] = set()
    for start in range(0, len(files), size):
        batch = SourceBatch()
        for file in map(os.path.abspath, files[start : start + size]):
            try:
                _read_file(source, file, batch)
            except WindrowError as error:
                raise error.at(f"{step.where}, {file}") from error.__cause__
            if batch.malformed and source.on_malformed == "fail":
                record = batch.malformed[0]
                raise codec_malformed.malformed_error(record).at(f"{step.where}, {record.origin}")
        for unmatched, file in batch.unmatched.items():
            if unmatched not in warned:
                warn_of_header(unmatched, f"{step.where}, {file}", step.node.location)
        warned.update(batch.unmatched)
        yield batch


def _list_files(step: Step, path: str) -> list[Path]:
    """The files of a path in the order in which Spark takes them: by time of modification, then by name."""
    guard = PathGuard(path)
    try:
        check_visible(local_path(path) or path)
        with listed(path):
            found = _found(path, guard)
            times = {file: file.stat().st_mtime_ns // 1_000_000 for file in found or []}
    except WindrowError as error:
        raise error.at(step.where) from error.__cause__
    if found is None:
        raise path_missing(path, step.where)
    return sorted(found, key=lambda file: (times[file], str(file)))


def _found(path: str, guard: PathGuard) -> list[Path] | None:
    """The files of a path or a pattern; None: the path is no pattern, and does not exist."""
    local = local_path(path)
    if local is None:
        return None
    literal, pattern = split_pattern(local)
    if not pattern:
        return list(_files_of(literal, guard)) if os.path.exists(literal) else None
    found: dict[Path, None] = {}
    for root in matches(literal, pattern):
        guard.check(root)
        found.update(dict.fromkeys(_files_of(root, guard)))
    return list(found)


def _files_of(path: str, guard: PathGuard) -> Iterator[Path]:
    if os.path.isfile(path):
        yield Path(path)
    elif os.path.isdir(path):
        yield from _files_in(path, guard)


def _files_in(folder: str, guard: PathGuard) -> Iterator[Path]:
    """The files of a folder and of the folders below."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            guard.check(entry.path)
            if entry.is_file():
                yield Path(entry.path)
            elif entry.is_dir():
                yield from _files_in(entry.path, guard)


def _read_file(source: FileSource[Any], file: str, batch: SourceBatch) -> None:
    records = text_records(source)
    if records is not None:
        with opened_file(file) as opened:
            for line, value in records.read(file, opened):
                if isinstance(value, codec_malformed.UnmatchedHeader):
                    batch.unmatched.setdefault(value.reason, file)
                elif isinstance(value, codec_malformed.MalformedRecord):
                    origin = f"{file}:{line}"
                    batch.malformed.append(codec_malformed.as_malformed(value, origin))
                else:
                    batch.values.append(value)
    elif isinstance(source, ParquetFileSource):
        _read_parquet(source, file, batch)
    else:
        raise AssertionError(f"no reader for {source.describe()}")


def _read_parquet(source: ParquetFileSource[Any], file: str, batch: SourceBatch) -> None:
    # Arrow only where parquet is read: the interpreter runs without it.
    from windrow_runtime.codecs.arrow.parquet import read_parquet

    kind = record_type(source.record_type).in_timezone(source.timezone)
    for rows in read_parquet(file, kind):
        values, malformed = rows.decode(kind)
        batch.values += values
        batch.malformed += malformed


def _read_socket(step: Step, source: SocketSource) -> SourceBatch:
    try:
        with (
            socket.create_connection((source.host, source.port)) as connection,
            connection.makefile("r", encoding="utf-8", errors="replace", newline=None) as lines,
        ):
            return SourceBatch([line.removesuffix("\n") for line in lines])
    except OSError as error:
        raise SourceError(
            "the server of a socket source cannot be read",
            given=f"{source.host}:{source.port}: {error}",
            expected="a server that sends lines and closes the connection",
            where=step.where,
        ) from error


def is_custom(step: Step) -> bool:
    """Whether a source is the user's own."""
    return isinstance(step.node, SourceNode) and isinstance(step.node.source, CustomSource)


def malformed_tag(source: Source[Any]) -> OutputTag[MalformedRecord] | None:
    """Where malformed records of a source go, if they go anywhere."""
    return source.on_malformed if isinstance(source.on_malformed, OutputTag) else None
