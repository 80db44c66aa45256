"""Runs a pipeline in process, over bounded input, which it reads batch by batch."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import singledispatch
from itertools import zip_longest
from pathlib import Path
from typing import Any

from windrow.addresses.paths import PathGuard, check_visible, is_hidden, local_path
from windrow.addresses.patterns import listed, matches, split_pattern
from windrow.connectors import CustomSource
from windrow.errors import SourceError, UnsupportedOperationError, warn
from windrow.plan import Pipeline, Step, WindowNode
from windrow.sinks import CollectSink, FileSink, ParquetFileSink
from windrow.sources import CollectionSource, FileSource, SocketSource, Source
from windrow.tags import OutputTag
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, now_millis
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import check_parquet
from windrow_runtime.inputs.checks import check_bounded, check_source_files, path_missing, warn_of_header
from windrow_runtime.inputs.custom import CustomReads
from windrow_runtime.inputs.files import SourceBatch, elements_of, file_reader
from windrow_runtime.local.execution import Elements, Execution
from windrow_runtime.operators.choose import form_text
from windrow_runtime.operators.class_facts import is_constant_type
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.operators.outgoing_errors import short_tracebacks
from windrow_runtime.operators.pipeline_result import PipelineResult
from windrow_runtime.operators.topology import Port, Topology, in_processing_time, sink_of, source_of
from windrow_runtime.operators.watermarks import clock_millis
from windrow_runtime.outputs.file_sinks import FileOutput, check_folders, check_owner, claim_folders
from windrow_runtime.outputs.output import Output
from windrow_runtime.outputs.registry import closing_outputs, has_output, open_outputs

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


def _read_collection(source: CollectionSource[Any], step: Step) -> Iterator[SourceBatch]:
    size = source.batch_size or max(len(source.elements), 1)
    for start in range(0, len(source.elements), size):
        # What the pipeline changes must not change the plan: it may be run again.
        yield SourceBatch(_owned(step, list(source.elements[start : start + size])))


def _owned(step: Step, values: list[Any]) -> list[Any]:
    return values if is_constant_type(step.node.element_type) else own_all(values)


def _read_custom(source: CustomSource[Any, Any], step: Step) -> Iterator[SourceBatch]:
    reads = CustomReads(source, step.where)
    for ranges, reached in reads.to_the_end():
        batch = SourceBatch()
        for given in ranges:
            for part in reads.read(given):
                _take(batch, part, source, step)
        batch.values = _owned(step, batch.values)
        yield batch
        reads.commit(reached)


def _take(batch: SourceBatch, part: SourceBatch, source: Source[Any], step: Step) -> None:
    if source.on_malformed == "fail":
        part.refuse_malformed(step.where)
    batch.add(part)


def _read_files(source: FileSource[Any], step: Step) -> Iterator[SourceBatch]:
    with errors_at(step.where):
        reader = file_reader(source)
    files = _list_files(step, source.path)
    size = source.files_per_batch or max(len(files), 1)
    warned: set[str] = set()
    for start in range(0, len(files), size):
        batch = SourceBatch()
        for file in map(os.path.abspath, files[start : start + size]):
            with errors_at(f"{step.where}, {file}"):
                for part in map(elements_of, reader.read(file)):
                    _take(batch, part, source, step)
        for unmatched, file in batch.unmatched.items():
            if unmatched not in warned:
                warn_of_header(unmatched, f"{step.where}, {file}", step.node.location)
        warned.update(batch.unmatched)
        yield batch


def _list_files(step: Step, path: str) -> list[Path]:
    """The files of a path in the order in which Spark takes them: by time of modification, then by name."""
    guard = PathGuard(path)
    with errors_at(step.where):
        local = local_path(path)
        check_visible(local or path)
        literal, pattern = split_pattern(local) if local is not None else ("", "")
        if not pattern and not os.path.exists(literal):
            raise path_missing(path)
        with listed(path):
            # Two names of a pattern with alternatives may be one file.
            found = {file for root in _roots(literal, pattern, guard) for file in _files_of(root, guard)}
            times = {file: file.stat().st_mtime_ns // 1_000_000 for file in found}
    return sorted(found, key=lambda file: (times[file], str(file)))


def _roots(literal: str, pattern: str, guard: PathGuard) -> Iterator[str]:
    """The path, or the files and folders that match the pattern."""
    if not pattern:
        yield literal
        return
    for root in matches(literal, pattern):
        guard.check(root)
        yield root


def _files_of(path: str, guard: PathGuard) -> Iterator[Path]:
    """A file, or the files of a folder and of the folders below."""
    if os.path.isfile(path):
        yield Path(path)
    elif os.path.isdir(path):
        with os.scandir(path) as entries:
            for entry in entries:
                if not is_hidden(entry.name):
                    guard.check(entry.path)
                    yield from _files_of(entry.path, guard)


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


read_batches.register(CollectionSource, _read_collection)
read_batches.register(CustomSource, _read_custom)
read_batches.register(FileSource, _read_files)
read_batches.register(SocketSource, _read_socket)


class LocalRunner:
    """Runs a pipeline over bounded input, without Spark and without Java.

    It works batch by batch, as Spark does: a batch runs under the watermark that the batches before it made. When
    every source is at its end, and ``drain`` is set, the watermark advances to the end of time, which fires what is
    left.

    Args:
        clock: Gives processing time in milliseconds; by default the clock of the machine.
        fast: Whether steps of common shapes run in a faster form; the results are the same.
    """

    def __init__(self, *, clock: Callable[[], int] | None = None, fast: bool = True) -> None:
        self._clock = clock if clock is not None else now_millis
        self._fast = fast

    def forms(self, pipeline: Pipeline) -> dict[str, str]:
        """In which form each keyed step of a pipeline runs, by its id; ``pipeline.explain(runner)`` shows it."""
        return {step.id: form_text(step, fast=self._fast) for step in Topology(pipeline.steps).keyed}

    @short_tracebacks
    def run(self, pipeline: Pipeline, *, drain: bool = True) -> PipelineResult:
        """Run a pipeline to the end of its sources.

        Args:
            pipeline: The pipeline.
            drain: Whether windows that are open at the end fire.

        Returns:
            What was collected and counted.

        Raises:
            SourceError: If a source cannot be read.
            MalformedRecordError: For a record that does not fit, unless its source drops or routes such records.
            UserFunctionError: If a function of the pipeline raised.
            SinkError: If a sink cannot be written, a table does not fit the elements, or the folder of a file sink
                holds the batches of another run.
            UnsupportedOperationError: For a source or a sink that only Spark has.
        """
        topology = Topology(pipeline.steps)
        if drain:
            own = [step for step in topology.sources if isinstance(source_of(step), CustomSource)]
            check_bounded(own, "a stream without an end cannot be drained")
        check_source_files(topology)
        for sink in topology.sinks:
            _check_sink(sink)
        # Nothing of a run is kept, so each one is a query of its own.
        query = uuid.uuid4().hex
        check_folders(topology.sinks, query, begins=True)
        outputs = open_outputs(topology.sinks, query)
        with closing_outputs(outputs):
            claim_folders(topology.sinks, query, begins=True)
            run = _Run(topology, self._clock, query, outputs, fast=self._fast)
            run.execution.open()
            try:
                run.batches(drain=drain)
                if drain:
                    run.warn_of_open_windows()
            finally:
                run.execution.close()
        counters = {
            identifier: dict(metrics.totals) for identifier, metrics in run.execution.metrics.items() if metrics.totals
        }
        return PipelineResult(pipeline, counters, run.collected)


def _check_sink(step: Step) -> None:
    """Refuse a sink that only Spark can write, before anything runs."""
    sink = sink_of(step)
    if not isinstance(sink, (CollectSink, FileSink)) and not has_output(sink):
        raise UnsupportedOperationError(
            "the interpreter cannot write to this sink",
            given=sink.describe(),
            expected="memory, the console, files, a database, a Delta table, a function or a CustomSink",
            where=step.where,
            hint="run the pipeline with SparkRunner",
        )
    if isinstance(sink, ParquetFileSink):
        with errors_at(step.where):
            check_parquet()
    if isinstance(sink, FileSink):
        record_type(step.node.element_type)
        if local_path(sink.path) is None:
            raise UnsupportedOperationError(
                "the interpreter writes to mounted file systems only",
                given=sink.shown_path,
                expected="a path, or a file: URI",
                where=step.where,
                hint="run the pipeline with SparkRunner",
            )


class _Run:
    """One run of a pipeline."""

    def __init__(
        self, topology: Topology, clock: Callable[[], int], query: str, outputs: Mapping[str, Output], *, fast: bool
    ) -> None:
        self.execution = Execution(topology, fast=fast)
        self._topology = topology
        self._clock = clock
        self._query = query
        files = {step.id: FileOutput(step) for step in topology.sinks if isinstance(sink_of(step), FileSink)}
        self._outputs: dict[str, Output] = {**outputs, **files}
        self._batch = 0
        # Any: elements of every sink.
        self.collected: dict[int, list[Any]] = {
            id(sink): [] for sink in map(sink_of, topology.sinks) if isinstance(sink, CollectSink)
        }

    def batches(self, *, drain: bool) -> None:
        watermark = dict.fromkeys((step.id for step in self._topology.keyed), MIN_TIMESTAMP)
        readers = [read_batches(source_of(step), step) for step in self._topology.sources]
        for batches in zip_longest(*readers):
            watermark = self._round(self._inputs(batches), watermark)
        # The watermark of the last batch still has to take effect, and what comes of it may make another.
        while (following := self._round({}, watermark)) != watermark:
            watermark = following
        if drain:
            self._round({}, dict.fromkeys(watermark, MAX_TIMESTAMP))

    def warn_of_open_windows(self) -> None:
        """Warns of windows that wait for the clock when the run is over: time does not pass any more."""
        for step in self._topology.keyed:
            if not isinstance(step.node, WindowNode) or not in_processing_time(step.node):
                continue
            count = sum(1 for _ in self.execution.operators[step.id].open_windows())
            if count:
                warn(
                    "windows in processing time were open when the run ended, and did not fire",
                    given=f"{count} of {step.node.assigner.describe()}",
                    where=step.where,
                    hint="use windows in event time for bounded input; in tests LocalRunner(clock=...) moves the "
                    "clock from batch to batch, and StreamHarness.set_processing_time at will",
                    location=step.node.location,
                )

    def _inputs(self, batches: tuple[SourceBatch | None, ...]) -> dict[Port, Elements]:
        inputs: dict[Port, Elements] = {}
        for step, batch in zip(self._topology.sources, batches, strict=True):
            if batch is None:
                continue
            inputs[Port(step.id)] = Elements(batch.values, [None] * len(batch.values))
            if not batch.malformed:
                continue
            self.execution.metrics[step.id].count("records_malformed", len(batch.malformed))
            tag = source_of(step).on_malformed
            if isinstance(tag, OutputTag):
                stamps: list[int | None] = [None] * len(batch.malformed)
                inputs[Port(step.id, tag.name)] = Elements(list(batch.malformed), stamps)
        return inputs

    def _round(self, inputs: dict[Port, Elements], watermark: Mapping[str, int]) -> dict[str, int]:
        now = clock_millis(self._clock)
        self.execution.round(inputs, watermark=watermark, processing_time=now)
        check_owner(self._topology.sinks, self._query)
        for step in self._topology.sinks:
            taken = self.execution.sinks.pop(step.id, None)
            if taken is None or not taken.values:
                continue
            sink = sink_of(step)
            if isinstance(sink, CollectSink):
                self.collected[id(sink)].extend(taken.values)
            else:
                self._outputs[step.id].write(self._batch, taken.values)
        self._batch += 1
        return self.execution.end_batch(now)
