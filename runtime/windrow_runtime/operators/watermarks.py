"""Tracks the watermark of each timestamp-assigning step while a pipeline runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from windrow.plan import Step, TimestampsNode
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, timestamp_millis
from windrow.watermarks import BoundedOutOfOrdernessWatermarks
from windrow_runtime.operators.class_facts import attributes_of, set_attributes
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS, errors_at, lifecycle_errors, raise_call_error, shortened
from windrow_runtime.operators.topology import Topology


class TimestampObserver(Protocol):
    """Observes the elements of a timestamp-assigning step."""

    now: int  # the clock in milliseconds: the timestamp of elements in ingestion time

    # Any: elements of every type pass.
    def observe(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        """Observes elements."""


class TrackerMemory(NamedTuple):
    """The state of a tracker between two elements."""

    current: int
    idle: bool
    last_active: int | None  # the clock at the end of the last batch with elements; None: there was none
    attributes: dict[str, Any]  # those of the generator
    active: bool = False  # whether elements came since then
    now: int = MIN_TIMESTAMP


class WatermarkTracker:
    """The generator of one step, and the highest watermark that it gave.

    The step is idle when it has been silent for longer than its strategy allows. The engine sets the clock ``now``: the
    timestamp of elements in ingestion time.
    """

    def __init__(self, step: Step, node: TimestampsNode) -> None:
        self.step = step
        self.current = MIN_TIMESTAMP
        self.idle = False
        self.now = MIN_TIMESTAMP
        self._idleness = node.strategy.idleness
        self._generator = node.strategy.create_generator()
        self._last_active: int | None = None
        self._active = False

    # Any: elements of every type pass.
    def observe(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        """Show elements to the generator."""
        self._active = True
        generator = self._generator
        if type(generator) is BoundedOutOfOrdernessWatermarks:
            generator.observe(max(timestamps))
            return
        value: Any = None
        try:
            for value, timestamp in zip(values, timestamps, strict=True):
                generator.on_event(own(value), timestamp, self)
        except USER_ERRORS as error:
            raise_call_error(self.step, error, f"element {shortened(value)}")

    def emit_watermark(self, watermark: int) -> None:
        """Take a watermark from the generator; it never falls."""
        if type(watermark) is not int:
            watermark = timestamp_millis(watermark)
        if watermark > self.current:
            self.current = min(watermark, MAX_TIMESTAMP)

    def end_batch(self, now: int) -> None:
        """Let the generator emit, and see by the clock ``now`` whether the step has fallen silent."""
        with lifecycle_errors(self.step, "on_periodic_emit", self._generator):
            self._generator.on_periodic_emit(self)
        if self._active or self._last_active is None:
            self._last_active = now
            self.idle = False
        elif self._idleness is not None and now - self._last_active >= self._idleness:
            self.idle = True
        self._active = False

    def memory(self) -> TrackerMemory:
        """The state of the tracker. The attributes are those of the generator itself."""
        attributes = attributes_of(self._generator)
        return TrackerMemory(self.current, self.idle, self._last_active, attributes, self._active, self.now)

    def remember(self, memory: TrackerMemory) -> None:
        """Go on from what :meth:`memory` gave."""
        self.current, self.idle, self._last_active, attributes, self._active, self.now = memory
        set_attributes(self._generator, attributes)


def clock_millis(clock: Callable[[], int]) -> int:
    """The time of a runner's clock, in milliseconds."""
    with errors_at("the clock that the runner was given"):
        return timestamp_millis(clock())


def watermarks_of(topology: Topology, trackers: Mapping[str, WatermarkTracker]) -> dict[str, int]:
    """The watermark of each keyed step and each sink, by id: that of the timestamp-assigning steps in front of it."""
    return {
        step.id: combined_watermark(trackers[stamper] for stamper in topology.stampers(step) if stamper in trackers)
        for step in (*topology.keyed, *topology.sinks)
    }


def combined_watermark(trackers: Iterable[WatermarkTracker]) -> int:
    """The watermark of a keyed step: the lowest of those that reach it, those that are idle left out.

    When all are idle the highest of them counts, as in Flink: no step holds the others back.
    """
    known = list(trackers)
    active = [tracker.current for tracker in known if not tracker.idle]
    return min(active) if active else max((tracker.current for tracker in known), default=MIN_TIMESTAMP)
