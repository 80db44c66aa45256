"""Gives the levels of a new query the state of a savepoint, in Spark's workers.

A query of its own does it in one batch: it has the levels of the query that will go on, so that Spark finds the state
where that query looks for it. Each row names a file of the savepoint; workers read the files, divide what is in them
among the new key groups, and store the state of each group as a run would have left it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow.parquet as pq

from windrow_runtime.codecs.records import UserClass
from windrow_spark.clock import encode_timer
from windrow_spark.exchange.classes import register_classes
from windrow_spark.exchange.rows import PackedRow, packed_batch
from windrow_spark.faults import failures_marked
from windrow_spark.key_groups import KeyGroups
from windrow_spark.keyed.state_calls import StateCalls, StoredPages
from windrow_spark.savepoint.step_parts import StepPart
from windrow_spark.storage.group_record import GroupState
from windrow_spark.worker import infrequent_gc

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, TimerValues, ValueState

# Any in this module: pyarrow has no types.

_PART: Final = 0
_TIMES: Final = 1
"""The kinds of rows: a part of the state of a step in one group; that a group takes the times of the query."""

_FILE_BITS: Final = 32
_BYTES_AT_ONCE: Final = 8 << 20


class FileLine(NamedTuple):
    """A line of the list of files: where a part of the state is. A line without a file stands for the times."""

    step: str
    file: str
    number: int

    def text(self) -> str:
        """Returns the line."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def parse(text: str) -> FileLine:
        """Returns what :meth:`text` wrote."""
        return msgspec.json.decode(text, type=FileLine)


class SeedStep(NamedTuple):
    """A step of the new query, and what it goes on from."""

    name: str  # of its state
    origin: str  # the same in the savepoint
    level: int
    part: StepPart
    watermark: int
    now: int
    arrived: int
    shared: bytes


@dataclass(frozen=True, slots=True)
class SeedRows:
    """Reads the files of a savepoint in workers, and divides the state in them among key groups."""

    steps: Sequence[SeedStep]
    groups: KeyGroups
    classes: tuple[UserClass, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Takes Arrow batches of lines from Spark; yields Arrow batches of packed rows."""
        with failures_marked(), infrequent_gc():
            register_classes(self.classes)
            waiting: list[PackedRow] = []
            size = 0
            for line in (line for batch in batches for line in batch.column(0).to_pylist()):
                for row in self._rows(FileLine.parse(line)):
                    waiting.append(row)
                    size += len(row.payload)
                    if size >= _BYTES_AT_ONCE:
                        yield packed_batch(waiting, None)
                        waiting, size = [], 0
            if waiting:
                yield packed_batch(waiting, None)

    def _rows(self, line: FileLine) -> Iterator[PackedRow]:
        if not line.file:
            labels = (*self.groups.service_labels, *self.groups.labels)
            yield from (PackedRow(label, _TIMES, 0, 0, b"") for label in labels)
            return
        ((target, step),) = (each for each in enumerate(self.steps) if each[1].origin == line.step)
        number = line.number << _FILE_BITS
        with pq.ParquetFile(line.file, page_checksum_verification=True) as file:
            for group, data in step.part.divided(file, self.groups.count):
                yield PackedRow(self.groups.labels[group], _PART, target, number, data)
                number += 1


@dataclass(frozen=True, slots=True)
class SeedLevel:
    """Stores the state of the steps of one level; it passes on the rows of others."""

    number: int
    steps: Sequence[SeedStep]
    fingerprint: bytes
    by_clock: bool
    watermark: int  # of the query
    now: int
    classes: tuple[UserClass, ...]

    def calls(self, handle: StatefulProcessorHandle, state: ValueState, pages: MapState) -> SeedCalls:
        """Returns what answers Spark's calls in one task."""
        return SeedCalls(self, handle, state, pages)


class SeedCalls:
    """Answers Spark's calls for the key groups of one partition: stores the state of each."""

    def __init__(self, level: SeedLevel, handle: StatefulProcessorHandle, state: ValueState, pages: MapState) -> None:
        self._level = level
        self._handle = handle
        self._state = state
        self._pages = StoredPages(pages, StateCalls(pages))
        register_classes(level.classes)

    def take(self, label: int, timer_values: TimerValues, rows: Iterator[Any]) -> Iterator[Row]:
        """Stores the state of a group, and passes on what is for further levels."""
        from pyspark.sql import Row

        with failures_marked(), infrequent_gc():
            of_steps: defaultdict[int, list[PackedRow]] = defaultdict(list)
            for row in map(PackedRow._make, rows):
                if row.kind == _TIMES or self._level.steps[row.target].level != self._level.number:
                    yield Row(**row._asdict())
                else:
                    of_steps[row.target].append(row)
            now = timer_values.getCurrentProcessingTimeInMs()
            if label >= 0:
                self._store(self._group(of_steps), now)
            elif self._level.number == 1:
                # The service groups of the first level know the time of the batch before.
                self._store(GroupState(self._level.watermark, self._level.now), now)

    def expire(self, label: int, timer_values: TimerValues) -> Iterator[Row]:
        """Does nothing: the timers that are set are those of the next batch."""
        yield from ()

    def close(self) -> None:
        """Does nothing."""

    def _group(self, of_steps: Mapping[int, list[PackedRow]]) -> GroupState | None:
        """Makes the state of a key group; None: it has none."""
        group = GroupState(self._level.watermark, self._level.now)
        own = [(target, step) for target, step in enumerate(self._level.steps) if step.level == self._level.number]
        for target, step in own:
            rows = sorted(of_steps.get(target, ()), key=attrgetter("number"))
            if not rows and not step.shared:
                continue
            record = group.record_of(step.name)
            record.watermark, record.now, record.shared = step.watermark, step.now, step.shared
            step.part.fill(record, self._pages, (bytes(row.payload) for row in rows), step.arrived)
            if not record.stored_bytes:
                del group.steps[step.name]
        return group if group.steps else None

    def _store(self, group: GroupState | None, spark_now: int) -> None:
        if group is None:
            return
        group.timer = spark_now + 1 if self._level.by_clock else encode_timer(self._due(group))
        self._pages.settle()
        self._state.update((group.dump(self._level.fingerprint),))
        self._handle.registerTimer(group.timer)

    def _due(self, group: GroupState) -> int:
        """Returns the watermark at which a group is called next."""
        earliest = (record.earliest_event_timer for record in group.steps.values())
        times = [time for time in earliest if time is not None]
        due = min(times, default=self._level.watermark) if group.steps else self._level.watermark
        return max(due, self._level.watermark + 1)
