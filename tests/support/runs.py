"""Runs of the interpreter as tests look at them: batch by batch, and with what is malformed apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from windrow import DataStream, DataStreamSink, OutputTag, Pipeline, WatermarkStrategy
from windrow.sinks import CollectSink, FunctionSink
from windrow.sources import MalformedRecord
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.result import PipelineResult

T = TypeVar("T")

MALFORMED = OutputTag("malformed", MalformedRecord)


class Runner(Protocol):
    """What runs pipelines."""

    def run(self, pipeline: Pipeline, *, drain: bool) -> PipelineResult: ...


def batches_of(
    stream: DataStream[T], *others: DataStreamSink, drain: bool = True, runner: Runner | None = None
) -> list[list[T]]:
    """The elements of each batch, as a sink gets them."""
    taken: list[list[T]] = []

    def take(batch: int, elements: Sequence[T]) -> None:
        taken.append(list(elements))

    (runner or LocalRunner()).run(Pipeline("p", stream.sink_to(FunctionSink(take)), *others), drain=drain)
    return taken


def sorted_out(
    stream: DataStream[T], malformed: OutputTag[MalformedRecord] = MALFORMED
) -> tuple[list[T], list[MalformedRecord], PipelineResult]:
    """The elements of a source, and the records that it sends to a side output as malformed."""
    good, bad = CollectSink[T](), CollectSink[MalformedRecord]()
    result = LocalRunner().run(Pipeline("p", stream.sink_to(good), stream.get_side_output(malformed).sink_to(bad)))
    return result.collected(good), result.collected(bad), result


def in_order(stream: DataStream[T], timestamp: Callable[[T], int]) -> DataStream[T]:
    """A stream whose watermark follows its elements."""
    strategy = WatermarkStrategy[T].for_monotonous_timestamps()
    return stream.assign_timestamps_and_watermarks(strategy, timestamp=timestamp)
