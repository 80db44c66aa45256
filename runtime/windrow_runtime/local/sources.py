"""Reads the sources of the interpreter, batch by batch, by a function for each class of sources."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from functools import singledispatch
from pathlib import Path
from typing import Any

from windrow.addresses.paths import PathGuard, check_visible, is_hidden, local_path
from windrow.addresses.patterns import listed, matches, split_pattern
from windrow.connectors import CustomSource
from windrow.errors import SourceError, UnsupportedOperationError
from windrow.plan import Step
from windrow.sources import CollectionSource, FileSource, SocketSource, Source
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.checks import path_missing, warn_of_header
from windrow_runtime.inputs.custom import CustomReads
from windrow_runtime.inputs.files import FileReader, elements_of, file_reader
from windrow_runtime.operators.class_facts import is_constant_type
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.errors import errors_at

# Any in this module: elements of every type.


@singledispatch
def read_batches(source: Source[Any], step: Step) -> Iterator[SourceBatch]:
    """Reads the batches of a source; malformed records raise, unless the source drops or routes them."""
    raise UnsupportedOperationError(
        "the interpreter cannot read this source",
        given=source.describe(),
        expected="a collection, files, a socket or a CustomSource",
        where=step.where,
        hint="run the pipeline with SparkRunner",
    )


@read_batches.register(CollectionSource)
def _read_collection(source: CollectionSource[Any], step: Step) -> Iterator[SourceBatch]:
    size = source.batch_size or max(len(source.elements), 1)
    for start in range(0, len(source.elements), size):
        # Elements are copied: a pipeline may change them, and may run again.
        yield SourceBatch(_owned(step, list(source.elements[start : start + size])))


def _owned(step: Step, values: list[Any]) -> list[Any]:
    return values if is_constant_type(step.node.element_type) else own_all(values)


@read_batches.register(CustomSource)
def _read_custom(source: CustomSource[Any, Any], step: Step) -> Iterator[SourceBatch]:
    reads = CustomReads.of(source, step)
    for ranges, reached in reads.to_the_end():
        batch = SourceBatch()
        for range_ in ranges:
            for portion in map(elements_of, reads.read(range_)):
                _take(batch, portion, source, step)
        batch.values = _owned(step, batch.values)
        yield batch
        reads.commit(reached)


def _take(batch: SourceBatch, portion: SourceBatch, source: Source[Any], step: Step) -> None:
    if source.on_malformed == "fail":
        portion.refuse_malformed(step.where)
    batch.add(portion)


@read_batches.register(FileSource)
def _read_files(source: FileSource[Any], step: Step) -> Iterator[SourceBatch]:
    with errors_at(step.where):
        reader = file_reader(source)  # refuses unsuitable options even if there are no files
    files = _list_files(step, source.path)
    size = source.files_per_batch or max(len(files), 1)
    warned: set[str] = set()
    for start in range(0, len(files), size):
        batch = read_files(source, step, reader, list(map(os.path.abspath, files[start : start + size])))
        for unmatched, file in batch.unmatched.items():
            if unmatched not in warned:
                warn_of_header(unmatched, f"{step.where}, {file}", step.node.location)
        warned.update(batch.unmatched)
        yield batch


def read_files(source: FileSource[Any], step: Step, reader: FileReader, files: Iterable[str]) -> SourceBatch:
    """Reads files of a source, in order, as one batch; handles malformed records as :func:`read_batches` does."""
    batch = SourceBatch()
    for file in files:
        with errors_at(f"{step.where}, {file}"):
            for portion in map(elements_of, reader.read(file)):
                _take(batch, portion, source, step)
    return batch


def _list_files(step: Step, path: str) -> list[Path]:
    """Returns the files of a path by time of modification, and those of one millisecond by name.

    Spark reads those of one millisecond as the file system lists them; here the order is the same at each run.
    """
    guard = PathGuard(path)
    with errors_at(step.where):
        local = local_path(path)
        check_visible(local or path)
        literal, pattern = split_pattern(local) if local is not None else ("", "")
        if not pattern and not os.path.exists(literal):
            raise path_missing(path)
        with listed(path):
            # A pattern with alternatives may match a file twice.
            files = {file for root in _roots(literal, pattern, guard) for file in _files_of(root, guard)}
            times = {file: file.stat().st_mtime_ns // 1_000_000 for file in files}
    return sorted(files, key=lambda file: (times[file], str(file)))


def _roots(literal: str, pattern: str, guard: PathGuard) -> Iterator[str]:
    """Yields the path, or the files and folders that match the pattern."""
    if not pattern:
        yield literal
        return
    for root in matches(literal, pattern):
        guard.check(root)
        yield root


def _files_of(path: str, guard: PathGuard) -> Iterator[Path]:
    """Yields the file itself, or the files of a folder and of all folders below."""
    if os.path.isfile(path):
        yield Path(path)
    elif os.path.isdir(path):
        with os.scandir(path) as entries:
            for entry in entries:
                if not is_hidden(entry.name):
                    guard.check(entry.path)
                    yield from _files_of(entry.path, guard)


@read_batches.register(SocketSource)
def _read_socket(source: SocketSource, step: Step) -> Iterator[SourceBatch]:
    try:
        with (
            socket.create_connection((source.host, source.port)) as connection,
            connection.makefile("r", encoding="utf-8", errors="replace", newline=None) as lines,
        ):
            yield SourceBatch([line.removesuffix("\n") for line in lines])
    except OSError as error:
        raise SourceError(
            "the server of a socket source cannot be read",
            given=f"{source.host}:{source.port}: {error}",
            expected="a server that sends lines and closes the connection",
            where=step.where,
        ) from error
