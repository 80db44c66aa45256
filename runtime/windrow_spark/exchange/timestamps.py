"""Observes, in workers, the elements of timestamp-assigning steps, on which the watermark of the next batch depends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windrow.plan import Step, TimestampsNode
from windrow.time import MIN_TIMESTAMP
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.operators.watermarks import WatermarkTracker
from windrow_spark.clock import ClockFiles, SeenTimestamps, decoded_note, encoded_note, sees_highest
from windrow_spark.exchange.classes import state_codec
from windrow_spark.storage.values import StateCodec
from windrow_spark.worker import current_batch

# Any in this module: elements of every type.


@dataclass(frozen=True, slots=True)
class PartitionTrackers:
    """Makes, in workers, the trackers of partitions that one task of a batch reads alone.

    So users' watermark generators run side by side, as in Flink; the driver takes the least of their watermarks.
    """

    files: ClockFiles
    steps: frozenset[str]  # the ids of the timestamp-assigning steps
    classes: tuple[UserClass, ...] = ()
    allow_pickled: bool = False

    @property
    def codec(self) -> StateCodec:
        """The codec of the attributes of generators."""
        return state_codec(self.classes, allow_pickled=self.allow_pickled)

    def of(self, step: Step, node: TimestampsNode, partition: str, batch: int) -> WatermarkTracker:
        """Returns the tracker of a partition, as the batch before has left it."""
        tracker = WatermarkTracker(step, node)
        note = self.files.read(batch).partitions.get(step.id, {}).get(partition)
        if note is not None:
            with errors_at(str(self.files.file(batch))):
                tracker.remember(decoded_note(self.codec, note))
        return tracker


class TimestampCollector:
    """Replaces a step's tracker in a worker, and collects what the driver's tracker has to see.

    ``partition`` is the partition of the source that has the next elements. With ``trackers`` the generators of
    partitions run here, and the driver gets their state.
    """

    def __init__(
        self, step: Step, node: TimestampsNode, partition: str = "", trackers: PartitionTrackers | None = None
    ) -> None:
        self.now = MIN_TIMESTAMP  # the clock in milliseconds, which is the timestamp in ingestion time
        self.partition = partition
        self._step = step
        self._node = node
        self._makes = trackers if trackers is not None and step.id in trackers.steps else None
        self._trackers: dict[str, WatermarkTracker] = {}
        self._highest_only = sees_highest(node)
        self._seen: dict[str, tuple[list[Any], list[int]]] = {}  # elements and timestamps, by partition

    def observe(self, values: Sequence[Any], timestamps: Sequence[int]) -> None:
        """Collect elements for the driver, or pass them to the generator."""
        if self._makes is not None and (batch := current_batch()) is not None:
            if self.partition not in self._trackers:
                self._trackers[self.partition] = self._makes.of(self._step, self._node, self.partition, batch)
            self._trackers[self.partition].observe(values, timestamps)
            return
        seen = self._seen.setdefault(self.partition, ([], []))
        if self._highest_only:
            self._seen[self.partition] = [None], [max(*seen[1], *timestamps, MIN_TIMESTAMP)]
        else:
            # Elements are copied, since steps downstream may change them before they are packed.
            seen[0].extend(own_all(list(values)))
            seen[1].extend(timestamps)

    def take(self) -> list[SeenTimestamps]:
        """Returns what was collected since the last call, for each partition that had elements."""
        seen = [SeenTimestamps(self._step.id, *each, partition) for partition, each in self._seen.items()]
        for partition, tracker in self._trackers.items():
            assert self._makes is not None, "there are trackers"
            note = encoded_note(self._makes.codec, self._step, tracker.memory())
            seen.append(SeenTimestamps(self._step.id, [], [], partition, note))
        self._seen, self._trackers = {}, {}
        return seen
