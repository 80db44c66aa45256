"""Converts watermarks for Spark, and keeps the watermark and clock of each batch if Spark cannot.

Spark keeps its watermark in milliseconds, never below 0, and 0 stands for none yet; its timestamps are microseconds in
64 bits. Windrow's watermarks may be negative, and the highest one ends the stream. So times are shifted into the upper
part of Spark's range: 0 stays "none", the topmost value is the end of the stream, and between them lie the years from
144,000 before to 148,000 after 1970. Times beyond are clamped, which delays a watermark and never hastens it; a timer
beyond waits for the end of the stream.

Spark follows one watermark, computed from the rows of its sources. A plan with several timestamp-assigning steps, with
one downstream of a window, with a user's generator, with several partitions of a source, or whose watermark follows the
clock in silence needs more: the driver computes the watermark at the end of a batch, as the interpreter does, stores it
in a file, and the workers read it when the next batch begins. A batch that runs again finds the same file. The same
holds for a plan that waits for the clock, with chained keyed steps: Spark shows its watermark only to the first
stateful operator then.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from windrow.errors import WindrowError
from windrow.facts.reached import asks_for_time
from windrow.plan import Step, TimestampsNode
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP, now_millis
from windrow.watermarks import BoundedOutOfOrdernessWatermarks, NoWatermarks, WatermarkAlignment
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.inputs.batches import OpenPartitions
from windrow_runtime.inputs.partitions import PartitionedSource, held_partitions
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
from windrow_spark.checkpoint.lock import checkpoint_in_use
from windrow_spark.checkpoint.storage import StoragePath
from windrow_spark.checkpoint.stored_file import (
    BATCHES_KEPT,
    StoredFile,
    StoredTime,
    checkpoint_errors,
    damaged_file,
    file_numbers,
    is_there,
)
from windrow_spark.physical.plan import PhysicalPlan
from windrow_spark.storage.values import StateCodec

END_OF_STREAM: Final = (2**63 - 1) // 1000
"""Spark's watermark (in ms) for the end of the stream: the latest timestamp that Spark has."""

_SHIFT: Final = END_OF_STREAM // 2


def encode_watermark(watermark: int) -> int | None:
    """Returns the watermark in Spark's milliseconds; None if there is none, which does not move Spark's watermark."""
    if watermark == MAX_TIMESTAMP:
        return END_OF_STREAM
    shifted = watermark + _SHIFT
    return min(shifted, END_OF_STREAM - 1) if shifted >= 1 else None


def decode_watermark(spark_millis: int) -> int:
    """Returns windrow's watermark for the one that Spark reports."""
    if spark_millis <= 0:
        return MIN_TIMESTAMP
    if spark_millis >= END_OF_STREAM:
        return MAX_TIMESTAMP
    return spark_millis - _SHIFT


def encode_timer(time: int) -> int:
    """Returns the expiry, in Spark's milliseconds, of a timer that is due when the watermark reaches ``time``."""
    return min(max(time + _SHIFT, 1), END_OF_STREAM)


class BatchTime(NamedTuple):
    """The watermark and the processing time under which a batch runs, in milliseconds.

    Spark stores the processing time with the batch, so that a batch that runs again sees the same.
    """

    watermark: int
    now: int


NO_TIME: Final = BatchTime(MIN_TIMESTAMP, MIN_TIMESTAMP)
"""The time before the first batch."""


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """The times of this batch and of the previous one; results of timers are processed downstream under the latter.

    If windrow keeps the watermarks, ``watermarks`` has those of each keyed step, in the previous batch and in this one.
    """

    previous: BatchTime
    current: BatchTime
    watermarks: Mapping[str, tuple[int, int]] | None = None

    def of(self, step: str, *, has_watermark: bool = True) -> tuple[BatchTime, BatchTime]:
        """Returns the times of the previous batch and of this one, for a step.

        A step without a timestamp-assigning step upstream sees no watermark but the end of the stream.
        """
        if self.watermarks is not None:
            before, now = self.watermarks.get(step, (MIN_TIMESTAMP, MIN_TIMESTAMP))
            return self.previous._replace(watermark=before), self.current._replace(watermark=now)
        if has_watermark:
            return self.previous, self.current
        return _without_watermark(self.previous), _without_watermark(self.current)


def _without_watermark(time: BatchTime) -> BatchTime:
    return time if time.watermark == MAX_TIMESTAMP else time._replace(watermark=MIN_TIMESTAMP)


# Any in this module: elements of every type.

V = TypeVar("V")

TrackerNote: TypeAlias = tuple[StoredTime, bool, StoredTime | None, str]
"""A tracker's state: its watermark, whether it is idle, its last active time, its generator's encoded attributes."""

_NO_PARTITIONS: Final[Mapping[str, PartitionedSource]] = MappingProxyType({})
_NOTHING_DUE: Final[Mapping[str, int]] = MappingProxyType({})
_NOT_ALIGNED: Final[Mapping[str, WatermarkAlignment]] = MappingProxyType({})

_AGAIN_MILLIS: Final = 1000

_HIGHEST_ONLY: Final = (BoundedOutOfOrdernessWatermarks, NoWatermarks)
"""The watermark generators that need only the highest timestamp of a batch."""


@dataclass(frozen=True, slots=True)
class BatchClock:
    """The watermarks of keyed steps and the clock at the beginning of a batch, in milliseconds."""

    watermarks: Mapping[str, StoredTime] = field(default_factory=dict)  # by step id
    previous: Mapping[str, StoredTime] = field(default_factory=dict)  # the watermarks in the previous batch
    now: StoredTime | None = None  # None: Spark's clock
    ended: bool = False  # whether the stream has ended
    trackers: Mapping[str, TrackerNote] = field(default_factory=dict)  # of timestamp-assigning steps, by step id
    ended_sources: list[int] = field(default_factory=list)  # indices of the sources that have ended
    # Of steps whose watermark is made per partition of their source: the trackers of partitions that may have more, by
    # step id and partition, and the highest watermark of the others.
    partitions: Mapping[str, Mapping[str, TrackerNote]] = field(default_factory=dict)
    released: Mapping[str, StoredTime] = field(default_factory=dict)
    # The partitions that have elements which the previous batch has left, by the step id of the source.
    waiting: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Of steps whose watermark follows the clock in silence: the clock at the last arrival, of all and per partition.
    arrivals: Mapping[str, StoredTime] = field(default_factory=dict)
    partition_arrivals: Mapping[str, Mapping[str, StoredTime]] = field(default_factory=dict)
    # When the next event timer of each keyed step that has one is due, after the previous batch; None: not known.
    due: Mapping[str, StoredTime] | None = None

    @property
    def settled(self) -> bool:
        """Whether no watermark has advanced since the previous batch, or nothing is known to be due by it."""
        return self.watermarks == self.previous if self.due is None else not self.is_due

    @property
    def is_due(self) -> bool:
        """Whether event timers are known to be due under the watermarks of this batch."""
        due = {} if self.due is None else self.due
        return any(time <= self.watermarks.get(step, MIN_TIMESTAMP) for step, time in due.items())

    def held(
        self, aligned: Mapping[str, WatermarkAlignment], sources: Mapping[str, PartitionedSource]
    ) -> dict[str, set[str]]:
        """Returns the partitions of each source of which the batch reads nothing; see :func:`held_partitions`."""

        def watermarks(step: str) -> dict[str, int]:
            return {name: note[0] for name, note in self.partitions.get(step, {}).items()}

        return held_partitions(aligned, sources, watermarks, self.waiting)

    def renamed(self, names: Mapping[str, str]) -> BatchClock:
        """Returns the same time with other names of steps."""

        def named(values: Mapping[str, V]) -> dict[str, V]:
            return {names.get(step, step): value for step, value in values.items()}

        return replace(
            self,
            watermarks=named(self.watermarks),
            previous=named(self.previous),
            trackers=named(self.trackers),
            partitions=named(self.partitions),
            released=named(self.released),
            waiting=named(self.waiting),
            arrivals=named(self.arrivals),
            partition_arrivals=named(self.partition_arrivals),
            due=None if self.due is None else named(self.due),
        )


@dataclass(frozen=True, slots=True)
class ClockFiles:
    """The files of a checkpoint with the time of each batch. A damaged file raises a ``CheckpointError``.

    The driver and all workers see their folder. ``stored_ids`` has the names of steps in the files, by the steps' ids.
    """

    folder: StoragePath
    stored_ids: Mapping[str, str] = field(default_factory=dict)

    def file(self, batch: int) -> StoredFile[BatchClock]:
        """Returns the file of a batch."""
        return StoredFile(self.folder / f"{batch}", BatchClock)

    def exists(self, batch: int) -> bool:
        """Returns whether the time of a batch is known."""
        return is_there(self.file(batch).path)

    def read(self, batch: int) -> BatchClock:
        """Returns the time of a batch. The first one may begin without a file; a later file that is missing raises."""
        clock = self.find(batch)
        if clock is None and batch > 0:
            raise damaged_file(self.file(batch).path, "it is missing")
        return clock or BatchClock()

    def find(self, batch: int) -> BatchClock | None:
        """Returns the time of a batch; None: there is no file."""
        clock = self.file(batch).read()
        return clock and clock.renamed({name: step for step, name in self.stored_ids.items()})

    def write(self, batch: int, clock: BatchClock, *, once: bool = False) -> None:
        """Write the time of a batch, and delete the oldest file; ``once`` refuses to replace that of another run."""
        with checkpoint_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self.file(batch).write(clock.renamed(self.stored_ids), once=once):
                raise checkpoint_in_use(self.folder, "")
            self.file(batch - BATCHES_KEPT).path.unlink(missing_ok=True)


def has_own_clock(folder: StoragePath) -> bool:
    """Returns whether the newest batch has its processing time by a clock of the user's, by the folder of the times."""
    newest = max(file_numbers(folder), default=-1)
    return newest >= 0 and ClockFiles(folder).read(newest).now is not None


@dataclass(frozen=True, slots=True)
class Alignment:
    """Tells the planner of a source, in its process, which partitions wait, by the time of the newest batch."""

    files: ClockFiles
    source: str  # the id of the source's step
    steps: Mapping[str, WatermarkAlignment]  # by the ids of timestamp-assigning steps
    sources: Mapping[str, PartitionedSource]

    def held(self) -> Collection[str]:
        """Returns the partitions of which the next batch reads nothing."""
        newest = max(file_numbers(self.files.folder), default=-1)
        clock = self.files.find(newest) if newest >= 0 else None
        return () if clock is None else clock.held(self.steps, self.sources).get(self.source, ())


class SeenTimestamps(NamedTuple):
    """The elements that a timestamp-assigning step saw in one task, with their timestamps in milliseconds.

    It has only the highest timestamp, with None as the element, if the generator needs no more; and none if the task
    has run the generator of the partition, whose state it has then.
    """

    step: str
    values: Sequence[Any]
    timestamps: Sequence[int]
    partition: str = ""  # of the source, if there are partitions
    note: TrackerNote | None = None  # the state of the partition's tracker


def encoded_note(codec: StateCodec, step: Step, memory: TrackerMemory) -> TrackerNote:
    """Encodes the state of a tracker, without those of partitions; :func:`decoded_note` decodes it."""
    with errors_at(step.where):
        attributes = codec.dumps([memory.attributes])
    return memory.watermark, memory.idle, memory.last_active, base64.b64encode(attributes).decode()


def decoded_note(codec: StateCodec, note: TrackerNote) -> TrackerMemory:
    """Decodes the state of a tracker; raises a CheckpointError if it is damaged."""
    watermark, idle, last_active, memory = note
    try:
        (attributes,) = codec.loads(base64.b64decode(memory))
        return TrackerMemory(watermark, idle, last_active, dict(attributes))
    except WindrowError:
        raise
    except Exception as error:  # damaged bytes may raise anything
        raise damaged_state(
            f"{type(error).__name__}: {error}", message="the memory of a watermark generator is damaged"
        ) from error


def sees_highest(node: TimestampsNode) -> bool:
    """Returns whether the generator of a step needs only the highest timestamp of a batch."""
    return type(node.strategy.create_generator()) in _HIGHEST_ONLY


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


def sees_highest_only(timestamps: Sequence[Step]) -> bool:
    """Returns whether the watermark depends only on the highest timestamp of one timestamp-assigning step."""
    if len(timestamps) != 1:
        return False
    (step,) = timestamps
    return sees_highest(timestamps_of(step))


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
