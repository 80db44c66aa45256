"""Reads the sources of the interpreter, batch by batch, by a function for each class of sources."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import singledispatch
from typing import Any

from windrow.connectors import CustomSource
from windrow.connectors.hybrid import HybridSource
from windrow.errors import SourceError, UnsupportedOperationError
from windrow.kafka import TopicSource
from windrow.plan import Step
from windrow.sources import ArrowSource, CollectionSource, FileSource, SocketSource, Source
from windrow_runtime.codecs.text_files import check_pyarrow
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.checks import warn_of_header
from windrow_runtime.inputs.custom import CustomReads, Reads
from windrow_runtime.inputs.files import FileReader, elements_of, file_reader
from windrow_runtime.inputs.hybrid import FileReads, HybridReads, list_files
from windrow_runtime.inputs.listing import FileOrder
from windrow_runtime.inputs.partitions import Told
from windrow_runtime.inputs.topics import TopicReads
from windrow_runtime.operators.class_facts import is_constant_type
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.errors import errors_at

# Any in this module: elements of every type.

Held = Callable[[], Collection[str]]


@singledispatch
def read_batches(source: Source[Any], step: Step, held: Held = tuple) -> Iterator[SourceBatch]:
    """Reads the batches of a source; malformed records raise, unless the source drops or routes them.

    ``held`` is asked before each batch for the partitions of which it reads nothing.
    """
    raise UnsupportedOperationError(
        "the interpreter cannot read this source",
        given=source.describe(),
        expected="a collection, files, a socket or a CustomSource",
        where=step.where,
        hint="run the pipeline with SparkRunner",
    )


@read_batches.register(CollectionSource)
def _read_collection(source: CollectionSource[Any], step: Step, held: Held = tuple) -> Iterator[SourceBatch]:
    size = source.batch_size or max(len(source.elements), 1)
    for start in range(0, len(source.elements), size):
        # Elements are copied: a pipeline may change them, and may run again.
        yield SourceBatch(_owned(step, list(source.elements[start : start + size])))


@read_batches.register(ArrowSource)
def _read_arrow(source: ArrowSource[Any], step: Step, held: Held = tuple) -> Iterator[SourceBatch]:
    with errors_at(step.where):
        check_pyarrow("Arrow data is read")
        # Arrow only where a source has it: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.exchanged import arrow_rows, rows_of_source

        kind, table = rows_of_source(source)
    size = source.batch_size or max(table.num_rows, 1)
    for start in range(0, table.num_rows, size):
        batch = SourceBatch()
        for rows in arrow_rows(table.slice(start, size), kind, source.describe(), start):
            _take(batch, elements_of(rows), source, step)
        yield batch


def _owned(step: Step, values: list[Any]) -> list[Any]:
    with errors_at(step.where):
        return values if is_constant_type(step.node.element_type) else own_all(values)


@read_batches.register(CustomSource)
def _read_custom(source: CustomSource[Any, Any], step: Step, held: Held = tuple) -> Iterator[SourceBatch]:
    return _read_to_the_end(CustomReads.of(source, step), source, step, held)


@read_batches.register(TopicSource)
def _read_topic(source: TopicSource[Any], step: Step, held: Held = tuple) -> Iterator[SourceBatch]:
    if source.engine_connector:
        raise UnsupportedOperationError(
            "the interpreter has no connector of Spark's",
            given=source.describe(),
            expected="engine_connector=False, by which confluent-kafka reads the topics",
            where=step.where,
            hint="or run the pipeline with SparkRunner",
        )
    return _read_to_the_end(TopicReads.of(source, step), source, step, held)


@read_batches.register(HybridSource)
def _read_hybrid(source: HybridSource[Any], step: Step, held: Held = tuple) -> Iterator[SourceBatch]:
    def files(part: FileSource[Any], _: int) -> FileReads:
        with errors_at(step.where):
            reader = file_reader(part)
        order = FileOrder.of(part, step)
        listed = list_files(order, step)
        return FileReads.of(part, order, reader, lambda: listed)

    reads = HybridReads.of(source, step, files, lambda part: lambda: part.elements)
    return _warned(_read_to_the_end(reads, source, step, held), step)


def _read_to_the_end(reads: Reads, source: Source[Any], step: Step, held: Held) -> Iterator[SourceBatch]:
    for ranges, reached, partitions in reads.to_the_end(held):
        # On Spark workers tell it, and none reads an empty batch.
        batch = SourceBatch(told=partitions if ranges else None)
        for range_ in ranges:
            before = len(batch.values)
            for portion in map(elements_of, reads.read(range_)):
                _take(batch, portion, source, step)
            batch.partitions.append((range_.partition, len(batch.values) - before))
        batch.values = _owned(step, batch.values)
        yield batch
        reads.commit(reached)


def _take(batch: SourceBatch, portion: SourceBatch, source: Source[Any], step: Step) -> None:
    if source.on_malformed == "fail":
        portion.refuse_malformed(step.where)
    batch.add(portion)


@read_batches.register(FileSource)
def _read_files(source: FileSource[Any], step: Step, held: Held = tuple) -> Iterator[SourceBatch]:
    with errors_at(step.where):
        reader = file_reader(source)  # refuses unsuitable options even if there are no files
    files = FileOrder.of(source, step).found()
    size = source.files_per_batch or max(len(files), 1)
    starts = range(0, len(files), size)
    yield from _warned((read_files(source, step, reader, files[start : start + size]) for start in starts), step)


def _warned(batches: Iterable[SourceBatch], step: Step) -> Iterator[SourceBatch]:
    """Yields batches of files; warns of each header once."""
    warned: set[str] = set()
    for batch in batches:
        for unmatched, file in batch.unmatched.items():
            if unmatched not in warned:
                warn_of_header(unmatched, f"{step.where}, {file}", step.node.location)
        warned.update(batch.unmatched)
        yield batch


def read_files(source: FileSource[Any], step: Step, reader: FileReader, files: Iterable[str]) -> SourceBatch:
    """Reads files of a source, in order, as one batch; handles malformed records as :func:`read_batches` does."""
    batch = SourceBatch()
    for file in files:
        before = len(batch.values)
        with errors_at(f"{step.where}, {file}"):
            for portion in map(elements_of, reader.read(file)):
                _take(batch, portion, source, step)
        batch.partitions.append((file, len(batch.values) - before))
    batch.told = Told([file for file, _ in batch.partitions])
    return batch


@read_batches.register(SocketSource)
def _read_socket(source: SocketSource, step: Step, held: Held = tuple) -> Iterator[SourceBatch]:
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
