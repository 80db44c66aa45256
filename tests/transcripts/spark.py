"""Runs transcripts on Spark: each operation is a micro-batch of a real query."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.conformance.batch_plan import Chunk, Markers, Part, element_of, has_element, timestamp_of
from tests.conformance.elements import Element
from tests.spark.session import embedded_session
from tests.transcripts.checking import Pane
from tests.transcripts.engine import Clock, Engine, Input, NotStatedError, Operation, Watermark
from tests.transcripts.parts import watermark_of
from tests.transcripts.pipeline import Result, pane_of, transcript_stream
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.panes import Change
from windrow.sinks import FunctionSink
from windrow.sources import CollectionSource
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: what JSON holds, and values of every type.


class Stamped(NamedTuple):
    """A change with its timestamp."""

    change: Change[Result]
    timestamp: int | None


class _Stamp(KeyedProcessFunction[None, Change[Result], Stamped]):
    def process_element(self, value: Change[Result], context: KeyedProcessContext[None]) -> Iterator[Stamped]:
        yield Stamped(value, context.timestamp)


class _Run:
    """One case in a query."""

    def __init__(self, case: Mapping[str, Any], operations: Sequence[Operation]) -> None:
        self._case = case
        self._operations = operations
        self._chunk_of: dict[int, int] = {}
        self._changes: dict[int, list[Stamped]] = {}
        self._clocks = [0]
        for operation in operations:
            self._clocks.append(operation.to if isinstance(operation, Clock) else self._clocks[-1])

    def run(self, spark: SparkSession) -> list[list[Pane]]:
        drains = bool(self._operations) and self._operations[-1] == Watermark("inf")
        with tempfile.TemporaryDirectory(prefix="windrow-transcript-", ignore_cleanup_errors=True) as folder:
            runner = SparkRunner(spark, checkpoint=Path(folder), clock=self._clock)
            runner.run(self._pipeline(), drain=drains)
        found: defaultdict[int, list[Pane]] = defaultdict(list)
        chunk = 0
        for batch in sorted(self._chunk_of.keys() | self._changes.keys()):
            chunk = self._chunk_of.get(batch, chunk)
            found[chunk] += [pane_of(each.change, each.timestamp) for each in self._changes.get(batch, ())]
        return [found[number] for number in range(1, len(self._operations) + 1)]

    def _pipeline(self) -> Pipeline:
        read = from_source(CollectionSource(self._chunks(), Chunk, batch_size=1), name="chunks")
        elements: DataStream[Any] = (
            read.flat_map(lambda chunk: chunk.parts)
            .assign_timestamps_and_watermarks(WatermarkStrategy.for_generator(Markers), timestamp=timestamp_of)
            .filter(has_element)
            .map(lambda part: json.loads(element_of(part).value))
        )
        stamped = transcript_stream(elements, self._case).key_by(lambda change: None).process(_Stamp())
        return Pipeline(
            "transcript",
            read.map(lambda chunk: chunk.number).sink_to(FunctionSink(self._take_chunk)),
            stamped.sink_to(FunctionSink(self._take_changes)),
        )

    def _chunks(self) -> list[Chunk]:
        """A chunk for each operation, behind an empty one; a marker is in the chunk before its watermark."""
        operations: list[Operation | None] = [None, *self._operations]
        chunks: list[Chunk] = []
        for number, (operation, following) in enumerate(zip(operations, [*operations[1:], None], strict=True)):
            parts = [Part(0)]
            if isinstance(operation, Input):
                parts += [Part(0, 1, Element.of(None, value), timestamp) for timestamp, value in operation.elements]
            if isinstance(following, Watermark) and following.to != "inf":
                parts.append(Part(0, watermark=watermark_of(following.to)))
            chunks.append(Chunk(number, tuple(parts)))
        return chunks

    # Called on the driver, while the query runs

    def _clock(self) -> int:
        following = max(self._chunk_of.values(), default=-1) + 1
        return self._clocks[min(following, len(self._clocks) - 1)]

    def _take_chunk(self, batch: int, numbers: Sequence[int]) -> None:
        (self._chunk_of[batch],) = numbers

    def _take_changes(self, batch: int, changes: Sequence[Stamped]) -> None:
        self._changes[batch] = list(changes)


def spark_engine(spark: SparkSession) -> Engine:
    """The engine on a session."""

    def run(case: Mapping[str, Any], operations: Sequence[Operation]) -> list[list[Pane]]:
        if case.get("firing") == "per_step":
            raise NotStatedError("a batch asks triggers behind each element, and the case once for all of them")
        if Watermark("inf") in operations[:-1]:
            raise NotStatedError("a stream that has ended takes no more elements")
        return _Run(case, operations).run(spark)

    return run


@contextmanager
def started_engine() -> Iterator[Engine]:
    """The engine with a session of its own."""
    with tempfile.TemporaryDirectory(prefix="windrow-transcripts-") as folder, embedded_session(Path(folder)) as spark:
        yield spark_engine(spark)
