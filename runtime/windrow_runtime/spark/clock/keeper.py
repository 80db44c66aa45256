"""Computes the watermark of a plan on the driver, batch by batch, as the interpreter does."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from windrow.errors import WindrowError
from windrow.plan import TimestampsNode
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, now_millis
from windrow.watermarks import BoundedOutOfOrdernessWatermarks, NoWatermarks
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.operators.topology import Topology
from windrow_runtime.operators.watermarks import TrackerMemory, WatermarkTracker, clock_millis, watermarks_of
from windrow_runtime.spark.clock.clock_files import BatchClock, ClockFiles, TrackerNote
from windrow_runtime.storage.values import StateCodec

# Any in this module: elements of every type.


class Report(NamedTuple):
    """The report of a timestamp-assigning step in one task.

    Attributes:
        step: The id of the step.
        values: The elements; one stands for all if the generator needs the highest timestamp alone.
        timestamps: Their timestamps, in milliseconds.
    """

    step: str
    values: Sequence[Any]
    timestamps: Sequence[int]


class ReportingTracker:
    """Stands in for a step's tracker in a worker, and keeps the elements that the driver's tracker has to see.

    Attributes:
        now: The clock in milliseconds: the timestamp of elements in ingestion time.
    """

    def __init__(self, step: str, node: TimestampsNode) -> None:
        self.now = MIN_TIMESTAMP
        self._step = step
        self._highest_only = type(node.strategy.create_generator()) in _HIGHEST_ONLY
        self._values: list[Any] = []
        self._timestamps: list[int] = []

    def observe(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        """Note elements."""
        if self._highest_only:
            self._values = [None]
            self._timestamps = [max(*self._timestamps, *timestamps)] if self._timestamps else [max(timestamps)]
        else:
            # Copies, as the steps behind may change their elements before the report is packed.
            self._values += own_all(list(values))
            self._timestamps += timestamps

    def take(self) -> Report | None:
        """Returns the report since the last call; None if there were no elements."""
        if not self._timestamps:
            return None
        report = Report(self._step, self._values, self._timestamps)
        self._values, self._timestamps = [], []
        return report


_HIGHEST_ONLY = (BoundedOutOfOrdernessWatermarks, NoWatermarks)


def needs_keeper(topology: Topology) -> bool:
    """Returns whether windrow has to keep a plan's watermark, as Spark's single watermark does not suffice.

    Spark makes one watermark from the rows of its sources, the highest that any task gave. That suffices if one step
    assigns timestamps, not behind a keyed one, and its generator needs the highest timestamp alone.
    """
    if not topology.keyed or not topology.timestamps:
        return False
    if len(topology.timestamps) > 1:
        return True
    (step,) = topology.timestamps
    assert isinstance(step.node, TimestampsNode)
    return topology.keyed_before(step) or type(step.node.strategy.create_generator()) not in _HIGHEST_ONLY


@dataclass(slots=True)
class _Trackers:
    batch: int
    trackers: dict[str, WatermarkTracker]


class ClockKeeper:
    """Computes the time of the next batch when one has ended.

    Args:
        files: Keeps the time of each batch.
        topology: The plan.
        clock: Gives processing time in milliseconds; None: Spark's clock is used.
        codec: Writes the memory of watermark generators.
    """

    def __init__(
        self, files: ClockFiles, topology: Topology, clock: Callable[[], int] | None, codec: StateCodec
    ) -> None:
        self.files = files
        self._codec = codec
        self._topology = topology
        self._steps = [(step, step.node) for step in topology.timestamps if isinstance(step.node, TimestampsNode)]
        self._clock = clock
        self._known: _Trackers | None = None

    def begin(self) -> None:
        """Store the time of the first batch, unless Spark's clock gives it."""
        if self._clock is not None and not self.files.exists(0):
            self.files.write(0, BatchClock(now=clock_millis(self._clock)))

    def end_batch(self, batch: int, reports: Iterable[Report], *, ended: bool) -> None:
        """Compute and store the time of the batch behind ``batch``.

        Args:
            batch: The batch that has ended.
            reports: The reports of timestamp-assigning steps, in order.
            ended: Whether the stream is at its end.
        """
        if self.files.exists(batch + 1):
            # The batch was run before, and perhaps the next one as well: the stored time stays.
            return
        stored = self.files.read(batch)
        trackers = self._trackers_of(batch, stored)
        # If this fails from here on, the next attempt must not use trackers that have seen the reports already.
        self._known = None
        for report in reports:
            trackers[report.step].observe(report.values, report.timestamps)
        now = now_millis() if stored.now is None else stored.now
        for tracker in trackers.values():
            tracker.end_batch(now)
        ended = ended or stored.ended
        reached = watermarks_of(self._topology, trackers)
        watermarks = {
            step: MAX_TIMESTAMP if ended else max(stored.watermarks.get(step, MIN_TIMESTAMP), watermark)
            for step, watermark in reached.items()
        }
        self.files.write(
            batch + 1,
            BatchClock(
                watermarks=watermarks,
                # A step that is new at a restart has no stored watermark.
                previous={step: stored.watermarks.get(step, MIN_TIMESTAMP) for step in watermarks},
                now=None if self._clock is None else clock_millis(self._clock),
                ended=ended,
                trackers={step: self._encoded(tracker) for step, tracker in trackers.items()},
            ),
        )
        self._known = _Trackers(batch + 1, trackers)

    def _trackers_of(self, batch: int, stored: BatchClock) -> dict[str, WatermarkTracker]:
        if self._known is not None and self._known.batch == batch:
            return self._known.trackers
        trackers: dict[str, WatermarkTracker] = {}
        for step, node in self._steps:
            tracker = trackers[step.id] = WatermarkTracker(step, node)
            if step.id in stored.trackers:
                with errors_at(str(self.files.file(batch))):
                    tracker.remember(self._decoded(stored.trackers[step.id]))
        return trackers

    def _encoded(self, tracker: WatermarkTracker) -> TrackerNote:
        memory = tracker.memory()
        with errors_at(tracker.step.where):
            attributes = self._codec.dumps([memory.attributes])
        return memory.current, memory.idle, memory.last_active, base64.b64encode(attributes).decode()

    def _decoded(self, note: TrackerNote) -> TrackerMemory:
        current, idle, last_active, memory = note
        try:
            (attributes,) = self._codec.loads(base64.b64decode(memory))
            return TrackerMemory(current, idle, last_active, dict(attributes))
        except WindrowError:
            raise
        except Exception as error:  # damaged bytes may raise anything
            raise damaged_state(
                f"{type(error).__name__}: {error}", message="the memory of a watermark generator is damaged"
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": None}
