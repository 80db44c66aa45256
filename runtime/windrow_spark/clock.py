"""Converts watermarks for Spark, and stores the watermark and clock of each batch if Spark cannot.

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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from windrow.errors import WindrowError
from windrow.plan import Step, TimestampsNode
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.watermarks import BoundedOutOfOrdernessWatermarks, NoWatermarks, WatermarkAlignment
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.inputs.partitions import PartitionedSource, held_partitions
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.operators.topology import timestamps_of
from windrow_runtime.operators.watermarks import TrackerMemory
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


def sees_highest_only(timestamps: Sequence[Step]) -> bool:
    """Returns whether the watermark depends only on the highest timestamp of one timestamp-assigning step."""
    if len(timestamps) != 1:
        return False
    (step,) = timestamps
    return sees_highest(timestamps_of(step))
