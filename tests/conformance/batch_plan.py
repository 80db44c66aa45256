"""The pipelines of cases as one pipeline that runs in batches: one collection in front, one sink behind.

A batch reads one chunk, and a chunk is one step of every case: its element, and markers that say the watermarks of the
next chunk. Each input of a case has a timestamp-assigning step of its own, whose watermark the markers make, so what a
watermark causes is in the batch of its own chunk. An input is idle when it has been silent while the clock went on; so
one that is not gets a marker in each chunk.

Behind the step under test a process function notes what arrives: with timestamps, and with the watermark that it sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from tests.conformance.elements import Element, Record
from tests.conformance.engines import STEP, ElementStep, Script, StatusStep
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.sinks import FunctionSink
from windrow.sources import CollectionSource
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.watermarks import WatermarkGenerator, WatermarkOutput

_START = "start"
EMITS, LATE_ELEMENTS, SIDE_OUTPUT, WATERMARK = "emits", "late", "side", "watermark"

PATIENCE = 5
"""An input without markers is idle when the clock has gone on by so many milliseconds."""


class Part(NamedTuple):
    """Something for one case of the pipeline: an element or a marker."""

    case: int
    side: int = 0  # the input; 0: this part wakes the step that watches the case
    element: Element | None = None  # None: this is a marker
    timestamp: int | None = None
    watermark: int = MIN_TIMESTAMP  # that a marker makes


class Chunk(NamedTuple):
    """What a batch reads."""

    number: int
    parts: tuple[Part, ...]


class Seen(NamedTuple):
    """What arrived behind the step under test of a case."""

    case: int
    kind: str  # a record, a late element, one of the side output, or an advance of the watermark
    key: str = ""  # of a record or a late element; the tag of a side output
    value: str = ""
    window: str = ""  # of a record; the input of a late element
    timestamp: int | None = None
    watermark: int = MIN_TIMESTAMP  # when it arrived


def pipeline_of(
    scripts: Sequence[Script],
    chunks: Sequence[Chunk],
    take_chunk: Callable[[int, Sequence[int]], object],
    take_seen: Callable[[int, Sequence[Seen]], object],
) -> Pipeline:
    """The pipeline that runs ``scripts``, whose steps are in ``chunks``.

    ``take_chunk`` is called for each batch, with the number of its chunk, and ``take_seen`` for each batch in which
    something arrived behind a step under test.
    """
    read = from_source(CollectionSource(chunks, Chunk, batch_size=1), name="chunks")
    parts = read.flat_map(_parts)
    seen = [_case(parts, number, script) for number, script in enumerate(scripts)]
    return Pipeline(
        "conformance",
        read.map(_number).sink_to(FunctionSink(take_chunk)),
        seen[0].union(*seen[1:]).sink_to(FunctionSink(take_seen)),
    )


def case_of(step_id: str) -> int | None:
    """The case whose step under test has this id; None for another step."""
    name = step_id.split(".", 2)[2]
    return int(name.removeprefix(_UNDER_TEST)) if name.startswith(_UNDER_TEST) else None


_UNDER_TEST = f"{STEP}, case "


def _case(parts: DataStream[Part], number: int, script: Script) -> DataStream[Seen]:
    sides = [parts.filter(partial(_is_of, number, side), name=f"case {number}, side {side}") for side in range(3)]
    inputs = [_stamped(sides[side], script, side).map(element_of) for side in range(1, script.pipeline.inputs + 1)]
    computed = script.pipeline.compute(inputs, f"{_UNDER_TEST}{number}")
    arriving = computed.records.map(_record).union(sides[0].map(_start))
    for side, late in computed.late.items():
        arriving = arriving.union(late.map(partial(_late, side)).returns(_Arriving))
    for tag, values in computed.sides.items():
        arriving = arriving.union(values.map(partial(_side, tag)).returns(_Arriving))
    return arriving.key_by(_no_key).process(_Watch(number), name=f"watch {number}")


def _stamped(parts: DataStream[Part], script: Script, side: int) -> DataStream[Part]:
    """The elements of an input among ``parts``, those with a timestamp stamped."""
    strategy = WatermarkStrategy.for_generator(Markers)
    if any(isinstance(step, StatusStep) for step in script.steps):
        strategy = strategy.with_idleness(timedelta(milliseconds=PATIENCE))
    stamped = (
        parts.filter(_has_timestamp)
        .assign_timestamps_and_watermarks(strategy, timestamp=timestamp_of)
        .filter(has_element)
    )
    if any(isinstance(step, ElementStep) and step.side == side and step.timestamp is None for step in script.steps):
        return stamped.union(parts.filter(_has_no_timestamp))
    return stamped


def _parts(chunk: Chunk) -> tuple[Part, ...]:
    return chunk.parts


def _number(chunk: Chunk) -> int:
    return chunk.number


def _is_of(case: int, side: int, part: Part) -> bool:
    return (part.case, part.side) == (case, side)


def has_element(part: Part) -> bool:
    return part.element is not None


def _has_timestamp(part: Part) -> bool:
    """Whether it is an element with a timestamp, or a marker."""
    return part.element is None or part.timestamp is not None


def _has_no_timestamp(part: Part) -> bool:
    return not _has_timestamp(part)


def element_of(part: Part) -> Element:
    assert part.element is not None
    return part.element


def timestamp_of(part: Part) -> int:
    return MIN_TIMESTAMP if part.timestamp is None else part.timestamp


class _Arriving(NamedTuple):
    """What arrives at a watch: a record, a late element, something of a side output, or what wakes it."""

    kind: str
    key: str = ""
    value: str = ""
    window: str = ""


def _start(part: Part) -> _Arriving:
    return _Arriving(_START)


def _record(record: Record) -> _Arriving:
    return _Arriving(EMITS, record.key, record.value, record.window)


def _late(side: int, element: Element) -> _Arriving:
    return _Arriving(LATE_ELEMENTS, element.key, element.value, f"{side}")


def _side(tag: str, value: str) -> _Arriving:
    return _Arriving(SIDE_OUTPUT, tag, value)


def _no_key(arriving: _Arriving) -> None:
    """The key of all that arrives."""
    return


class Markers(WatermarkGenerator[Part]):
    """Says what markers say."""

    def on_event(self, element: Part, timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(element.watermark)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Says nothing."""


class _Watch(KeyedProcessFunction[None, _Arriving, Seen]):
    """Notes what arrives, and each watermark from the start on, since it always waits for the next one."""

    def __init__(self, case: int) -> None:
        self._case = case

    def process_element(self, value: _Arriving, context: KeyedProcessContext[None]) -> Iterator[Seen]:
        watermark = self._await(context)
        if value.kind != _START:
            yield Seen(self._case, *value, context.timestamp, watermark)

    def on_timer(self, timestamp: int, context: OnTimerContext[None]) -> Iterator[Seen]:
        yield Seen(self._case, WATERMARK, watermark=self._await(context))

    @staticmethod
    def _await(context: KeyedProcessContext[None]) -> int:
        watermark = context.timer_service.current_watermark
        if watermark < MAX_TIMESTAMP:
            context.timer_service.register_event_time_timer(watermark + 1)
        return watermark
