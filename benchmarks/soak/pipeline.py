"""The pipeline that runs and runs: sessions, tumbling windows, timers, expiring state, late data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.growth.records import Event, Totals, WithUser
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, OnTimerContext
from windrow.sinks import CollectSink, FunctionSink, ParquetFileSink
from windrow.sources import ParquetFileSource
from windrow.state import StateTtlConfig, ValueStateDescriptor
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows

__all__ = ["TIME_TO_LIVE_SECONDS", "WINDOW_MS", "Counts", "soak_pipeline"]

WINDOW_MS = 10_000
TIME_TO_LIVE_SECONDS = 5

LATE = OutputTag("late", Event)
DEADLINE = ValueStateDescriptor("deadline", int)
SEEN = ValueStateDescriptor("seen", int, ttl=StateTtlConfig(timedelta(seconds=TIME_TO_LIVE_SECONDS)))


class Absent(KeyedProcessFunction[str, Event, str]):
    """Tells of users that have been away for ten seconds; counts events in state that expires."""

    uses_processing_time = True  # for the state that expires

    def process_element(self, value: Event, context: KeyedProcessContext[str]) -> Iterable[str]:
        seen, deadline = context.get_state(SEEN), context.get_state(DEADLINE)
        seen.update((seen.value() or 0) + 1)
        at = context.timestamp
        assert at is not None, "the stream has timestamps"
        due = deadline.value()
        if due is None or at + 10_000 > due:
            if due is not None:
                context.timer_service.delete_event_time_timer(due)
            deadline.update(at + 10_000)
            context.timer_service.register_event_time_timer(at + 10_000)
        return ()

    def on_timer(self, timestamp: int, context: OnTimerContext[str]) -> Iterable[str]:
        context.get_state(DEADLINE).clear()
        yield context.key


@dataclass(slots=True)
class Counts:
    """What came out, counted in the driver.

    Attributes:
        windows: Tumbling windows that fired.
        absent: Users that the process function told of.
        late: Elements that were too late for their session.
    """

    windows: int = 0
    absent: int = 0
    late: int = 0

    # Any: results are of every type, and are only counted.
    def add_windows(self, _: int, results: Sequence[Any]) -> None:
        """Called for each batch of tumbling windows."""
        self.windows += len(results)

    def add_absent(self, _: int, results: Sequence[Any]) -> None:
        """Called for each batch of absent users."""
        self.absent += len(results)

    def add_late(self, _: int, results: Sequence[Any]) -> None:
        """Called for each batch of late elements."""
        self.late += len(results)


def soak_pipeline(incoming: Path, results: Path, counts: Counts) -> Pipeline:
    """The pipeline.

    Args:
        incoming: The folder that is read.
        results: Where sessions are written.
        counts: Told of everything else.
    """
    by_user = (
        from_source(ParquetFileSource(incoming, Event))
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5)), timestamp=lambda event: event.at
        )
        .key_by(lambda event: event.user)
    )
    sessions = (
        by_user.window(EventTimeSessionWindows.with_gap(timedelta(seconds=10)))
        .allowed_lateness(timedelta(seconds=5))
        .side_output_late_data(LATE)
        .aggregate(Totals(), WithUser())
    )
    windows = by_user.window(TumblingEventTimeWindows.of(timedelta(milliseconds=WINDOW_MS)))
    absent = by_user.process(Absent())
    return Pipeline(
        "soak",
        sessions.sink_to(ParquetFileSink(results)),
        windows.aggregate(Totals(), WithUser()).sink_to(FunctionSink(counts.add_windows)),
        absent.sink_to(FunctionSink(counts.add_absent)),
        # Nobody is called so: what is collected once in a while must cost nothing in between.
        absent.filter(lambda user: not user).sink_to(CollectSink[str]()),
        sessions.get_side_output(LATE).sink_to(FunctionSink(counts.add_late)),
    )
