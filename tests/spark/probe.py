"""A stateful query in which the input says what each call does, and every call reports what it saw.

The input is one text file for each batch, one JSON object for each row: `group`, `watermark` (Spark's milliseconds, or
absent), and what to do there: `register` and `delete` timers, and a `note` that is appended to the group's state.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Probe", "Run", "Seen", "order", "run", "stateful", "watermarked", "write_batch"]

Order = dict[str, Any]  # Any: a JSON object

COLUMNS = "group int, payload binary"


@dataclass(frozen=True)
class Seen:
    """What one call saw: of `handleInputRows` for a row, or of `handleExpiredTimer` for a timer."""

    probe: str
    group: int
    watermark: int
    note: str | None
    """The note of the row; None for a timer."""
    timer: int | None
    """The time of the timer; None for a row."""
    state: str
    """The notes before this call."""
    partition: int
    nth: int
    """Counts the calls in a partition, from 0."""
    token: str
    """Another one whenever the call is made."""


@dataclass(frozen=True)
class Run:
    """What a run of a query did."""

    batches: list[list[Seen]] = field(default_factory=list)

    def rows(self, probe: str = "first") -> list[list[tuple[int, str | None]]]:
        """For each batch, the group and note of each row that a probe saw."""
        return [
            [(seen.group, seen.note) for seen in batch if seen.probe == probe and seen.timer is None]
            for batch in self.batches
        ]

    def timers(self, probe: str = "first") -> list[list[tuple[int, int | None]]]:
        """For each batch, the group and time of each timer that fired."""
        return [
            [(seen.group, seen.timer) for seen in batch if seen.probe == probe and seen.timer is not None]
            for batch in self.batches
        ]

    def watermarks(self, probe: str = "first") -> list[set[int]]:
        """For each batch, the watermarks that a probe saw."""
        return [{seen.watermark for seen in batch if seen.probe == probe} for batch in self.batches]


def order(group: int, note: str = "", *, watermark: int | None = None, **what: Any) -> Order:
    """A row of input."""
    return {"group": group, "note": note, "watermark": watermark, **what}


def write_batch(folder: Path, number: int, *orders: Order) -> None:
    """Writes the input of a batch; batches are read by number, whatever the order of writing."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{number}"
    hidden.write_text("".join(json.dumps(line) + "\n" for line in orders))
    # The lower the number, the later the name: what counts is the time.
    os.utime(hidden, (1_600_000_000 + number,) * 2)
    hidden.rename(folder / f"batch-{1000 - number}")


def _parse(batches: Iterator[Any]) -> Iterator[Any]:  # pyarrow has no types
    import pyarrow as pa

    for batch in batches:
        lines = batch.column(0).to_pylist()
        orders = [json.loads(line) for line in lines]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([line["group"] for line in orders], pa.int32()),
                pa.array([line["watermark"] for line in orders], pa.int64()),
                pa.array([line.encode() for line in lines], pa.binary()),
            ],
            names=["group", "watermark", "payload"],
        )


def watermarked(spark: SparkSession, folder: Path, *more: Path) -> DataFrame:
    """The rows of a folder (several: their union), with the watermark column declared, then dropped."""
    frames = [
        spark.readStream.option("maxFilesPerTrigger", 1)
        .text(str(path))
        .mapInArrow(_parse, "group int, watermark long, payload binary")
        for path in (folder, *more)
    ]
    union = frames[0]
    for frame in frames[1:]:
        union = union.union(frame)
    return (
        union.withColumn("watermark", f.timestamp_millis("watermark"))
        .withWatermark("watermark", "0 seconds")
        .select("group", "payload")
    )


def stateful(frame: DataFrame, name: str = "first", mode: str = "EventTime") -> DataFrame:
    """Adds a probe."""
    return frame.groupBy("group").transformWithState(Probe(name), COLUMNS, "Append", mode)


def run(frame: DataFrame, checkpoint: Path, *, batches: int | None = None) -> Run:
    """Runs a query over what is there, or stops it behind a number of batches."""
    result = Run()
    enough = threading.Event()

    def take(batch: DataFrame, number: int) -> None:
        batch.persist()
        first, again = ([Seen(**json.loads(row["payload"])["seen"]) for row in batch.collect()] for _ in range(2))
        batch.unpersist()
        assert first == again, "a persisted batch runs the stateful steps once"
        result.batches.append(first)
        if len(result.batches) == batches:
            enough.set()

    query = (
        frame.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    if batches is None:
        query.awaitTermination()
        return result
    while not enough.wait(0.1) and query.isActive:
        pass
    query.stop()
    return Run(result.batches[:batches])


class Probe(StatefulProcessor):
    """Does as its rows say, and reports. Reports of a probe before it are passed on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.notes = handle.getValueState("notes", "text string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        watermark = timerValues.getCurrentWatermarkInMs()
        for row in rows:
            line = json.loads(row["payload"])
            if "seen" in line:
                yield row
            yield self._report(key[0], watermark, note=line.get("note", "passed on"), timer=None)
            self._obey(line)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        time = expiredTimerInfo.getExpiryTimeInMs()
        yield self._report(key[0], timerValues.getCurrentWatermarkInMs(), note=None, timer=time)
        if time % 1000 == 7:  # a timer that puts itself off, as ours do
            self._obey({"delete": [time], "register": [time + 1000 - 7]})

    def close(self) -> None:
        pass

    def _obey(self, line: Order) -> None:
        for time in line.get("delete", ()):
            self.handle.deleteTimer(time)
        for time in line.get("register", ()):
            self.handle.registerTimer(time)

    def _report(self, group: int, watermark: int, *, note: str | None, timer: int | None) -> Row:
        stored = self.notes.get()
        state = stored[0] if stored is not None else ""
        if note:
            self.notes.update((f"{state}{note} ",))
        context = TaskContext.get()
        assert context is not None
        seen = Seen(
            probe=self.name,
            group=group,
            watermark=watermark,
            note=note,
            timer=timer,
            state=state,
            partition=context.partitionId(),
            nth=self.calls,
            token=os.urandom(8).hex(),
        )
        self.calls += 1
        return Row(group=group, payload=json.dumps({"seen": vars(seen)}).encode())


def groups_of(batch: Sequence[Seen], probe: str) -> list[int]:
    """The groups in the order of their calls, each partition by itself."""
    calls = sorted((seen.partition, seen.nth, seen.group) for seen in batch if seen.probe == probe)
    return [group for _, _, group in calls]
