"""Computes the watermark and the clock of the next batch when a batch has ended, where Spark cannot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from windrow.facts.reached import asks_for_time
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, now_millis
from windrow.watermarks import WatermarkAlignment
from windrow_runtime.inputs.batches import OpenPartitions
from windrow_runtime.inputs.partitions import PartitionedSource
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.operators.topology import Topology, timestamps_of
from windrow_runtime.operators.watermarks import (
    Arrivals,
    TrackerMemory,
    WatermarkTracker,
    clock_millis,
    highest_reaches,
    lowest_reaches,
    trackers_before,
    watermarks_of,
)
from windrow_spark.checkpoint.asked import AskedSources
from windrow_spark.clock import (
    BatchClock,
    ClockFiles,
    SeenTimestamps,
    TrackerNote,
    decoded_note,
    encoded_note,
    sees_highest_only,
)
from windrow_spark.physical.plan import PhysicalPlan
from windrow_spark.storage.values import StateCodec

_NO_PARTITIONS: Final[Mapping[str, PartitionedSource]] = MappingProxyType({})
_NOTHING_DUE: Final[Mapping[str, int]] = MappingProxyType({})
_NOT_ALIGNED: Final[Mapping[str, WatermarkAlignment]] = MappingProxyType({})

_AGAIN_MILLIS: Final = 1000

# Any in this module: elements of every type.


def needs_keeper(plan: PhysicalPlan) -> bool:
    """Returns whether windrow has to keep a plan's watermark, since Spark's single watermark does not suffice.

    Spark computes one watermark from the rows of its sources, the highest that any task gave. That suffices if one step
    assigns timestamps, not downstream of a keyed step, and its generator needs only the highest timestamp. A process
    function without keys that asks for the time downstream of a keyed step also needs the previous batch's watermark.
    """
    topology = plan.topology
    if not topology.keyed or not topology.timestamps:
        return False
    if silent_steps(topology):
        return True  # without elements Spark's watermark stays
    if not sees_highest_only(topology.timestamps) or topology.keyed_before(topology.timestamps[0]):
        return True
    return any(
        step.node.sees_time and any(map(asks_for_time, step.node.user_parts)) and topology.keyed_before(step)
        for step in topology.steps
    )


def silent_steps(topology: Topology) -> set[str]:
    """Returns the ids of the timestamp-assigning steps whose watermark follows the clock in silence."""
    return {step.id for step in topology.timestamps if timestamps_of(step).strategy.silence is not None}


class ClockKeeper:
    """Computes the time of the next batch when a batch has ended.

    ``clock`` is the user's processing time in milliseconds; None: Spark's is used. The codec encodes the state of
    watermark generators. ``ending`` are the sources, by step id, that no step waits for once a batch has read nothing
    from them, each with whether it may have more in a later run. Batches up to ``planned`` do not count for that, since
    an earlier run has planned them. ``partitioned`` has the sources of steps whose watermark is made per partition, and
    ``aligned`` the alignments of such steps. ``asked`` tells when sources were asked, if watermarks follow the clock
    in silence.

    Attributes:
        asked: Tells when sources were asked; None: no watermark follows the clock.
        wake_at: The clock at which a batch has something to do after the newest one although no element comes, in
            milliseconds; None: never, or nobody asks.
    """

    def __init__(
        self,
        files: ClockFiles,
        topology: Topology,
        clock: Callable[[], int] | None,
        codec: StateCodec,
        *,
        ending: Mapping[str, bool] | None = None,
        planned: int = -1,
        partitioned: Mapping[str, PartitionedSource] = _NO_PARTITIONS,
        aligned: Mapping[str, WatermarkAlignment] = _NOT_ALIGNED,
        asked: AskedSources | None = None,
    ) -> None:
        self.asked = asked
        self.wake_at: int | None = None
        self._files = files
        self._codec = codec
        self._topology = topology
        self._clock = clock
        self._ending = ending or {}
        self._planned = planned
        self._partitioned = dict(partitioned)
        self._aligned = dict(aligned)
        # The trackers that have seen all batches before the one with this number.
        self._known: tuple[int, dict[str, WatermarkTracker]] = (-1, {})

    @property
    def is_by_machine(self) -> bool:
        """Whether the clock is the machine's, and not one that the user has given."""
        return self._clock is None

    def begin(self) -> None:
        """Store the time of the first batch, unless Spark's clock gives it."""
        if self._clock is not None and not self._files.exists(0):
            self._files.write(0, BatchClock(now=clock_millis(self._clock)), once=True)

    def end_batch(
        self,
        batch: int,
        seen: Iterable[SeenTimestamps],
        *,
        ended: bool,
        read: Collection[str] = (),
        open_partitions: Iterable[tuple[str, OpenPartitions]] = (),
        due: Mapping[str, int] = _NOTHING_DUE,
    ) -> None:
        """Compute and store the time of the batch after ``batch``, from what its tasks saw, in order.

        ``read`` are the ids of the sources from which the batch has read elements. ``open_partitions``
        are those that tasks have reported, with the step ids of their sources. ``due`` has the time of the next event
        timer of each keyed step that has one, if watermarks follow the clock.
        """
        self.wake_at = now_millis()
        if self._files.exists(batch + 1):
            # The batch ran before, and perhaps the next one did as well: the stored time stays.
            return
        stored = self._files.read(batch)
        trackers = self._trackers_of(batch, stored)
        # If this fails from here on, the next attempt must not reuse trackers that have seen these timestamps.
        self._known = (-1, {})
        for timestamps in seen:
            tracker = trackers[timestamps.step]
            if timestamps.note is not None:
                tracker.take_partition(timestamps.partition, decoded_note(self._codec, timestamps.note))
                continue
            tracker.partition = timestamps.partition
            tracker.observe(timestamps.values, timestamps.timestamps)
        now = now_millis() if stored.now is None else stored.now
        by_source: dict[str, OpenPartitions] = {}
        for source, (open_, waiting, read_partitions) in open_partitions:
            before = by_source.get(source, OpenPartitions(()))
            by_source[source] = OpenPartitions(
                [*before.open, *open_], [*before.waiting, *waiting], [*before.read, *read_partitions]
            )
        arrivals = self._arrivals(batch, stored, read, by_source)
        files_to_come = False
        for step, tracker in trackers.items():
            partitioned = self._partitioned.get(step)
            partitions_read = partitioned and partitioned.read(by_source.get(partitioned.step))
            tracker.end_batch(now, partitions_read, arrivals.get(step))
            files_to_come = files_to_come or (partitions_read is not None and partitions_read.more_to_come)
        ended = ended or stored.ended
        # A source that waits for others has not ended.
        going_on = {*read, *stored.held(self._aligned, self._partitioned)}
        ended_indices = [
            index
            for index, step in enumerate(self._topology.sources)
            if step.id not in going_on and self._has_ended(step.id, batch, was_over=index in stored.ended_sources)
        ]
        silent = {self._topology.sources[index].id for index in ended_indices}
        exhausted = {step for step in silent if self._ending[step]}
        watermarks = {
            step: MAX_TIMESTAMP if ended else max(stored.watermarks.get(step, MIN_TIMESTAMP), watermark)
            for step, watermark in watermarks_of(
                self._topology, trackers, stored.watermarks, silent - exhausted, exhausted
            ).items()
        }
        memories = {step: tracker.memory() for step, tracker in trackers.items()}
        following = BatchClock(
            watermarks=watermarks,
            # A step that was added at a restart has no stored watermark.
            previous={step: stored.watermarks.get(step, MIN_TIMESTAMP) for step in watermarks},
            now=None if self._clock is None else clock_millis(self._clock),
            ended=ended,
            trackers={step: self._encoded(step, memory) for step, memory in memories.items()},
            ended_sources=ended_indices,
            partitions={
                step: {name: self._encoded(step, each) for name, each in memories[step].partitions.items()}
                for step in self._partitioned
            },
            released={step: memories[step].released for step in self._partitioned},
            waiting={source: list(each.waiting) for source, each in by_source.items() if each.waiting}
            if self._aligned
            else {},
            arrivals={step: each.arrived for step, each in memories.items() if each.arrived is not None},
            partition_arrivals={
                step: {name: each.arrived for name, each in memory.partitions.items() if each.arrived is not None}
                for step, memory in memories.items()
                if memory.arrived is not None and memory.partitions
            },
            due=None if self.asked is None else dict(due),
        )
        self._files.write(batch + 1, following, once=True)
        self._known = (batch + 1, trackers)
        if self.asked is not None:
            asked = min(each.asked for each in arrivals.values())
            # Only a batch without more files shows that there are none.
            self.wake_at = now_millis() if files_to_come else self._next_wake(following, trackers, asked)

    def _arrivals(
        self, batch: int, stored: BatchClock, read: Collection[str], partitions: Mapping[str, OpenPartitions]
    ) -> dict[str, Arrivals]:
        """Returns what a batch tells of arrivals at the sources of each timestamp-assigning step, by step id."""
        if self.asked is None:
            return {}
        asked = self.asked.at(batch) if stored.now is None else stored.now
        news = {*read, *self.asked.with_news(batch)}
        arrivals = {}
        for step in self._topology.timestamps:
            sources = self._topology.boundaries_before[step.id]
            reported = [partitions[source] for source in sources if source in partitions]
            names = {name for each in reported for name in (*each.read, *each.waiting)}
            arrivals[step.id] = Arrivals(asked, any=not news.isdisjoint(sources), partitions=names)
        return arrivals

    def _next_wake(self, clock: BatchClock, trackers: Mapping[str, WatermarkTracker], asked: int) -> int | None:
        """Returns when a batch after the newest one, which asked the sources at a time, has something to do."""
        assert self.asked is not None, "watermarks follow the clock"
        now = now_millis()
        ended = {self._topology.sources[index].id for index in clock.ended_sources}
        if clock.is_due or clock.waiting or not ended.issuperset(self._ending):
            return now
        exhausted = {source for source in ended if self._ending[source]}
        before = trackers_before(self._topology, ended - exhausted, exhausted)
        clocks: list[int] = []
        for step, time in (clock.due or {}).items():
            watermark = clock.watermarks.get(step, MIN_TIMESTAMP)
            of_step = [trackers[each] for each in before[step]]
            holding = [each for each in of_step if not each.idle]
            # When all are idle, none holds the others back.
            reached = lowest_reaches(holding, time) if holding else highest_reaches(of_step, time)
            if watermark < time < MAX_TIMESTAMP and reached is not None:
                clocks.append(reached + self.asked.slack)
        if not clocks:
            return None
        # A batch that was late enough has not fired it, for a reason that time alone does not remove.
        return min(clocks) if min(clocks) > asked + self.asked.slack else max(min(clocks), now + _AGAIN_MILLIS)

    def _has_ended(self, source: str, batch: int, *, was_over: bool) -> bool:
        """Returns whether a source from which a batch has read nothing has ended."""
        return source in self._ending and (was_over or batch > self._planned)

    def _trackers_of(self, batch: int, stored: BatchClock) -> dict[str, WatermarkTracker]:
        number, trackers = self._known
        if number == batch:
            return trackers
        trackers = {}
        for step in self._topology.timestamps:
            partitioned = step.id in self._partitioned
            tracker = trackers[step.id] = WatermarkTracker(step, timestamps_of(step), partitioned=partitioned)
            if step.id in stored.trackers:
                partitions = stored.partitions.get(step.id, {})
                with errors_at(str(self._files.file(batch))):
                    memory = decoded_note(self._codec, stored.trackers[step.id])
                    by_name = {name: decoded_note(self._codec, note) for name, note in partitions.items()}
                    released = stored.released.get(step.id, memory.watermark)
                    arrived = stored.partition_arrivals.get(step.id, {})
                    by_name = {name: each._replace(arrived=arrived.get(name)) for name, each in by_name.items()}
                    tracker.remember(
                        memory._replace(partitions=by_name, released=released, arrived=stored.arrivals.get(step.id))
                    )
        return trackers

    def _encoded(self, step: str, memory: TrackerMemory) -> TrackerNote:
        return encoded_note(self._codec, self._topology.step(step), memory)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": (-1, {})}
