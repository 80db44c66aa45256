"""The figures of the Dataflow paper, run on the interpreter and drawn: an SVG for each of figures 5 to 14.

T. Akidau et al., "The Dataflow Model", PVLDB 8(12), 2015, section 2.4: ten numbers are summed in nine ways.

python examples/dataflow_paper.py --out figures
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

from windrow import DataStream, KeyedStream, from_source
from windrow.panes import OnTimeBehavior
from windrow.time import MAX_TIMESTAMP
from windrow.triggers import (
    MergingComposableTrigger,
    after_count,
    after_each,
    after_processing_time,
    after_watermark,
    default,
    never,
    or_finally,
    repeatedly,
)
from windrow.windows import EventTimeSessionWindows, GlobalWindows, TumblingEventTimeWindows, Window
from windrow_runtime.pictures import Recording, Timeline, timeline
from windrow_runtime.testing import PushSource, StreamHarness

Keyed = KeyedStream[int, str]
Engine = Literal["streaming", "batch", "micro-batch"]

MINUTE: Final = timedelta(minutes=1)
FOR_EVER: Final = timedelta(days=10)
NOON: Final = int(datetime(2015, 8, 31, 12, tzinfo=UTC).timestamp()) * 1000

INPUTS: Final = (
    (5, 26_667, 320_000),
    (7, 146_667, 340_000),
    (3, 220_000, 373_333),
    (4, 233_333, 386_667),
    (3, 260_000, 400_000),
    (8, 186_667, 426_667),
    (3, 400_000, 440_000),
    (9, 86_667, 500_000),
    (8, 446_667, 520_000),
    (1, 466_667, 540_000),
)
"""Value, event time and processing time, in milliseconds since noon."""

WATERMARKS: Final = ((120, 359), (240, 450), (320, 457), (360, 460), (480, 561))
"""The event time that the watermark passes, and when, in seconds since noon. The value 9 comes behind it."""

BATCH_WATERMARKS: Final = ((120, 557), (240, 559), (360, 561), (480, 563))
"""The same for a batch: the watermark stays until all data are there, and then runs through."""


@dataclass(frozen=True)
class Figure:
    """A figure of the paper: its number, its caption, and what it sums up."""

    number: int
    caption: str
    sum_up: Callable[[Keyed], DataStream[int]]
    engine: Engine = "streaming"

    @property
    def title(self) -> str:
        return f"Figure {self.number}: {self.caption}"


# The ways to sum up


def add(a: int, b: int) -> int:
    return a + b


def each_minute() -> MergingComposableTrigger[object, Window]:
    return repeatedly(after_processing_time(aligned_to=MINUTE))


def each_watermark() -> MergingComposableTrigger[object, Window]:
    """When the watermark passes, and behind that for each late element."""
    return repeatedly(after_watermark())


def partial_then_final() -> MergingComposableTrigger[object, Window]:
    """Each minute until the watermark passes, and behind that for each late element."""
    return after_each(or_finally(each_minute(), after_watermark()), each_watermark())


def inputs_alone(numbers: Keyed) -> DataStream[int]:
    return numbers.window(GlobalWindows.create()).trigger(never()).accumulating().reduce(add)


def classic_batch(numbers: Keyed) -> DataStream[int]:
    return numbers.window(GlobalWindows.create()).trigger(default()).accumulating().reduce(add)


def at_period_accumulating(numbers: Keyed) -> DataStream[int]:
    return numbers.window(GlobalWindows.create()).trigger(each_minute()).accumulating().reduce(add)


def at_period_discarding(numbers: Keyed) -> DataStream[int]:
    return numbers.window(GlobalWindows.create()).trigger(each_minute()).discarding().reduce(add)


def at_count_discarding(numbers: Keyed) -> DataStream[int]:
    return numbers.window(GlobalWindows.create()).trigger(repeatedly(after_count(2))).discarding().reduce(add)


def fixed(numbers: Keyed, trigger: MergingComposableTrigger[object, Window]) -> DataStream[int]:
    return (
        numbers.window(TumblingEventTimeWindows.of(2 * MINUTE))
        .trigger(trigger)
        .accumulating()
        .on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY)
        .allowed_lateness(FOR_EVER)
        .reduce(add)
    )


def fixed_streaming(numbers: Keyed) -> DataStream[int]:
    return fixed(numbers, each_watermark())


def fixed_micro_batch(numbers: Keyed) -> DataStream[int]:
    # The watermark runs through in the first batch, so what comes later is late; a pane comes out for each batch.
    return fixed(numbers, each_minute())


def fixed_partial(numbers: Keyed) -> DataStream[int]:
    return fixed(numbers, partial_then_final())


def sessions_retracting(numbers: Keyed) -> DataStream[int]:
    return (
        numbers.window(EventTimeSessionWindows.with_gap(MINUTE))
        .trigger(partial_then_final())
        .retracting()
        .on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY)
        .allowed_lateness(FOR_EVER)
        .reduce(add)
        .changelog(lambda kind, total: -total if kind.is_withdrawal else total)
    )


FIGURES: Final = (
    Figure(5, "Example Inputs", inputs_alone),
    Figure(6, "Classic Batch Execution", classic_batch, "batch"),
    Figure(7, "GlobalWindows, AtPeriod, Accumulating", at_period_accumulating),
    Figure(8, "GlobalWindows, AtPeriod, Discarding", at_period_discarding),
    Figure(9, "GlobalWindows, AtCount, Discarding", at_count_discarding),
    Figure(10, "FixedWindows, Batch", fixed_streaming, "batch"),
    Figure(11, "FixedWindows, Micro-Batch", fixed_micro_batch, "micro-batch"),
    Figure(12, "FixedWindows, Streaming", fixed_streaming),
    Figure(13, "FixedWindows, Streaming, Partial", fixed_partial),
    Figure(14, "Sessions, Retracting", sessions_retracting),
)


# Running and drawing


def watermarks_of(engine: Engine) -> dict[int, int]:
    """The moves of the watermark: when, and where to, in milliseconds since noon."""
    if engine == "micro-batch":
        return {360_000: 3_600_000}
    passes = BATCH_WATERMARKS if engine == "batch" else WATERMARKS
    return {when * 1000: event * 1000 for event, when in passes}


def record(figure: Figure) -> Recording:
    """Run a figure in a harness, which moves both times as the paper has them."""
    source = PushSource(int)
    keyed = from_source(source).key_by(lambda number: "all")
    arrivals = {arrival: (value, event) for value, event, arrival in INPUTS}
    watermarks = watermarks_of(figure.engine)
    ticks = [minute * 60_000 for minute in range(5, 10)]
    with StreamHarness(figure.sum_up(keyed), source, record=True) as harness:
        for at in sorted({*arrivals, *watermarks, *ticks}):
            # What arrives at a tick of the clock belongs to the panes of this tick.
            harness.set_processing_time(NOON + at - (at in ticks))
            if at in arrivals:
                value, event = arrivals[at]
                harness.process_element(value, timestamp=NOON + event)
            if at in watermarks:
                harness.process_watermark(NOON + watermarks[at] - 1)
            harness.set_processing_time(NOON + at)
        if figure.engine == "batch":
            harness.process_watermark(MAX_TIMESTAMP)
        return harness.recording


def draw(figure: Figure) -> Timeline:
    return timeline(record(figure), key="all", title=figure.title, circles="value")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("figures"), help="the folder for the SVGs (default: figures)")
    out: Path = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES:
        print(draw(figure).save(out / f"figure-{figure.number:02d}.svg"))


if __name__ == "__main__":
    main(sys.argv[1:])
