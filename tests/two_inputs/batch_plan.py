"""The pipelines of cases as one pipeline that runs in batches: one collection in front, one sink behind.

A batch reads one chunk, and a chunk is one step of every case: its element, and markers that say the watermarks of the
next chunk. Each input of a case has a timestamp-assigning step of its own, whose watermark the markers make. An input
is idle when it has been silent while the clock went on; so one that is not gets a marker in each chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from tests.conformance.batch_plan import (
    EMITS,
    LATE_ELEMENTS,
    SIDE_OUTPUT,
    START,
    Arriving,
    Seen,
    Watch,
    name_of,
    no_key,
)
from tests.conformance.elements import Element, Record
from tests.two_inputs.engines import ElementOf, Script, StatusOf
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow.sinks import FunctionSink
from windrow.sources import CollectionSource
from windrow.time import MIN_TIMESTAMP
from windrow.watermarks import WatermarkGenerator, WatermarkOutput

__all__ = ["PATIENCE", "Chunk", "Part", "pipeline_of"]

PATIENCE = 5
"""An input without markers is idle when the clock has gone on by so many milliseconds."""


class Part(NamedTuple):
    """Something for one case: an element or a marker.

    Attributes:
        case: Which case of the pipeline.
        side: The input; 0: this part wakes the step that watches the case.
        element: The element; None: this is a marker.
        timestamp: The timestamp of the element, or None.
        watermark: The watermark that the marker makes.
    """

    case: int
    side: int = 0
    element: Element | None = None
    timestamp: int | None = None
    watermark: int = MIN_TIMESTAMP


class Chunk(NamedTuple):
    """What a batch reads."""

    number: int
    parts: tuple[Part, ...]


def pipeline_of(
    scripts: Sequence[Script],
    chunks: Sequence[Chunk],
    take_chunk: Callable[[int, Sequence[int]], object],
    take_seen: Callable[[int, Sequence[Seen]], object],
) -> Pipeline:
    """The pipeline that runs ``scripts``.

    Args:
        scripts: The pipelines; their steps are in ``chunks``.
        chunks: What to read.
        take_chunk: Called for each batch, with the number of its chunk.
        take_seen: Called for each batch in which something arrived behind a step under test.
    """
    read = from_source(CollectionSource(chunks, Chunk, batch_size=1), name="chunks")
    parts = read.flat_map(_parts)
    seen = [_case(parts, number, script) for number, script in enumerate(scripts)]
    return Pipeline(
        "two inputs",
        read.map(_number).sink_to(FunctionSink(take_chunk)),
        seen[0].union(*seen[1:]).sink_to(FunctionSink(take_seen)),
    )


def _case(parts: DataStream[Part], number: int, script: Script) -> DataStream[Seen]:
    mine = parts.filter(partial(_belongs, number))
    left, right = (
        _stamped(mine.filter(partial(_is_of, side), name=f"case {number}, side {side}"), script, side).map(_element)
        for side in (1, 2)
    )
    computed = script.pipeline.compute(left, right, name_of(number))
    arriving = computed.records.map(_record).union(mine.filter(partial(_is_of, 0)).map(_start))
    for side, late in computed.late.items():
        arriving = arriving.union(late.map(partial(_late, side)).returns(Arriving))
    for tag, values in computed.sides.items():
        arriving = arriving.union(values.map(partial(_side, tag)).returns(Arriving))
    return arriving.key_by(no_key).process(Watch(number), name=f"watch {number}")


def _stamped(parts: DataStream[Part], script: Script, side: int) -> DataStream[Part]:
    """The elements of an input among ``parts``, those with a timestamp stamped."""
    strategy = WatermarkStrategy.for_generator(_Markers)
    if any(isinstance(step, StatusOf) for step in script.steps):
        strategy = strategy.with_idleness(timedelta(milliseconds=PATIENCE))
    stamped = (
        parts.filter(_has_timestamp)
        .assign_timestamps_and_watermarks(strategy, timestamp=_timestamp)
        .filter(_has_element)
    )
    if any(isinstance(step, ElementOf) and step.side == side and step.timestamp is None for step in script.steps):
        return stamped.union(parts.filter(_has_no_timestamp))
    return stamped


def _parts(chunk: Chunk) -> tuple[Part, ...]:
    return chunk.parts


def _number(chunk: Chunk) -> int:
    return chunk.number


def _belongs(case: int, part: Part) -> bool:
    return part.case == case


def _is_of(side: int, part: Part) -> bool:
    return part.side == side


def _has_element(part: Part) -> bool:
    return part.element is not None


def _has_timestamp(part: Part) -> bool:
    """Whether it is an element with a timestamp, or a marker."""
    return part.element is None or part.timestamp is not None


def _has_no_timestamp(part: Part) -> bool:
    return not _has_timestamp(part)


def _element(part: Part) -> Element:
    assert part.element is not None
    return part.element


def _timestamp(part: Part) -> int:
    return MIN_TIMESTAMP if part.timestamp is None else part.timestamp


def _start(part: Part) -> Arriving:
    return Arriving(START)


def _record(record: Record) -> Arriving:
    return Arriving(EMITS, record.key, record.value, record.window)


def _late(side: int, element: Element) -> Arriving:
    return Arriving(LATE_ELEMENTS, element.key, element.value, f"{side}")


def _side(tag: str, value: str) -> Arriving:
    return Arriving(SIDE_OUTPUT, tag, value)


class _Markers(WatermarkGenerator[Part]):
    """Says what markers say."""

    def on_event(self, element: Part, timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(element.watermark)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Says nothing."""
