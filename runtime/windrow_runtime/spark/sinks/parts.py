"""Writes some sinks in workers while they compute a batch: files, topics, and users' own sinks that ask for it.

The last stage of a query writes them as elements come; upper levels send it their elements for such sinks. A worker
writes a part file into a hidden folder, under a unique name, and sends the name to the driver in a row. The driver
deletes files whose names it did not get, such as those of a failed task, and publishes the others together.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from windrow.addresses.paths import local_path
from windrow.connectors import CustomSink
from windrow.errors import SinkError
from windrow.kafka import KafkaSink
from windrow.plan import Step
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.connectors.files.batch_files import BatchFiles, newest_batch_in
from windrow_runtime.connectors.files.partition_columns import Partitions, folder_columns, partitions_of
from windrow_runtime.connectors.files.parts import PartFile, PartitionedFiles, part_of_task
from windrow_runtime.connectors.files.writer import file_sink_of
from windrow_runtime.connectors.kafka.writes import TopicTask
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import sink_errors
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.outputs.output import Identity, check_newest
from windrow_runtime.outputs.registry import CustomOutput
from windrow_runtime.spark.exchange.picklable import check_picklable, make_picklable
from windrow_runtime.spark.exchange.rows import PackedRow, RowKind, load_values
from windrow_runtime.spark.shipping import sink_alone
from windrow_runtime.spark.sinks.table import SinkWriter, writer_of
from windrow_runtime.spark.worker import current_batch, current_partition, division_told

# Any in this module: elements of every type, and pyarrow has no types.


@dataclass(frozen=True, slots=True)
class PartSink:
    """A file sink in a mounted file system, whose files workers write; its step comes without the steps upstream."""

    step: Step
    path: str
    kind: RecordType
    partitions: Partitions | None = None

    def folder(self, batch: int) -> BatchFiles:
        """Returns the handle of a batch's files in the folder of the sink."""
        return BatchFiles(Path(self.path), batch, folder_columns(self.partitions))

    def task(self, batch: int) -> PartFile | PartitionedFiles:
        """Returns the writer of a task's part files, in a worker."""
        name = f"part-{uuid.uuid4().hex}"
        return part_of_task(self.step, self.kind, self.partitions, self.folder(batch).staging, name)

    def check(self, batch: int, *, again: bool) -> None:
        """Refuse the batch with which a run goes on if the folder has a later one, whose rows would come again."""
        with sink_errors(self.step, self.path):
            newest = newest_batch_in(Path(self.path))
        check_newest(newest, batch, again=again, target=file_sink_of(self.step).describe(), where=self.step.where)

    def begin(self, batch: int) -> None:
        """Publish what an earlier attempt has listed, and delete its other files.

        The driver calls this before the tasks of the batch begin.
        """
        with sink_errors(self.step, self.path):
            self.folder(batch).begin()

    def publish(self, batch: int, names: Sequence[bytes]) -> None:
        """Publish the part files of a batch, unless it has files from an earlier attempt.

        The driver calls this after the tasks of the batch, with the names of all part files.
        """
        folder = self.folder(batch)
        with sink_errors(self.step, self.path):
            if not names:
                folder.begin()  # deletes the files of tasks that failed
                return
            wanted = {name.decode() for name in names}
            missing = folder.keep(wanted)
            if not missing:
                folder.publish()
                return
        raise SinkError(
            "files that workers wrote are not where the driver looks for them",
            given=f"{len(missing)} of {len(wanted)} are missing in {folder.staging}, one is {missing[0]}",
            expected="a folder that the driver and all workers share",
            where=self.step.where,
            hint="write to a file system that every machine has mounted at the same path",
        )


@dataclass(frozen=True, slots=True)
class CustomWorkerSink:
    """A user's own sink that workers write; the sink itself publishes its elements."""

    step: Step
    sink: CustomSink[Any]
    identity: Identity

    def task(self, batch: int) -> CustomOutput:
        """Opens the sink for a task, in a worker."""
        output = CustomOutput(self.step, self.sink, self.identity, current_partition())
        output.open()
        return output


@dataclass(frozen=True, slots=True)
class TopicWorkerSink:
    """A topic of Kafka that workers write, each task by a transaction."""

    step: Step
    sink: KafkaSink[Any]
    identity: Identity

    def task(self, batch: int) -> TopicTask:
        """Returns the writer of a task, in a worker."""
        return TopicTask(self.step, self.sink, self.identity, batch, current_partition(), division_told())


@dataclass(frozen=True, slots=True)
class WorkerSinks:
    """The sinks that the last stage of a query writes, by their numbers; they are sent to workers.

    ``batch`` is the number of a job's only batch; tasks of a stream get that of theirs from Spark.
    """

    sinks: Mapping[int, PartSink | CustomWorkerSink | TopicWorkerSink]
    batch: int | None = None
    straight: frozenset[str] = frozenset()  # the ids of the sinks that some elements reach without a keyed step
    division: str = ""  # the settings that decide how Spark divides the sources of a batch; empty: none does

    @property
    def of_files(self) -> dict[int, PartSink]:
        """The file sinks, whose files the driver publishes."""
        return {number: sink for number, sink in self.sinks.items() if isinstance(sink, PartSink)}

    @property
    def of_topics(self) -> list[TopicWorkerSink]:
        """The sinks of topics, each task of which writes a transaction."""
        return [sink for sink in self.sinks.values() if isinstance(sink, TopicWorkerSink)]

    @property
    def divided_anew(self) -> list[TopicWorkerSink]:
        """Returns the topics whose records other tasks may write when a batch runs again on other cores.

        The results of keyed steps stay in their partition, which the checkpoint fixes.
        """
        return [sink for sink in self.of_topics if sink.step.id in self.straight]

    def writer(self) -> PartWriter:
        """Returns the writer of a task, which opens a sink with the first elements for it."""
        return PartWriter(self)


def worker_sinks(
    sinks: Mapping[int, Step],
    identities: Mapping[str, Identity],
    batch: int | None = None,
    *,
    straight: frozenset[str] = frozenset(),
    division: str = "",
) -> WorkerSinks | None:
    """Returns the sinks that workers write; None: there are none. The driver or Spark writes the others.

    ``identities`` are those of topics and of users' own sinks, by the ids of their steps.
    """
    steps = {number: step for number, step in sinks.items() if writer_of(step) is SinkWriter.WORKERS}
    written = {number: _worker_sink(step, identities.get(step.id)) for number, step in steps.items()}
    return WorkerSinks(written, batch, straight, division) if written else None


def _worker_sink(step: Step, identity: Identity | None) -> PartSink | CustomWorkerSink | TopicWorkerSink:
    sink = sink_of(step)
    if isinstance(sink, CustomSink):
        assert identity is not None, "an output writes it"
        make_picklable(type(sink))
        check_picklable(step, [sink], "the sink", "make connections and files in open(), which each worker calls")
        return CustomWorkerSink(sink_alone(step), sink, identity)
    if isinstance(sink, KafkaSink):
        assert identity is not None, "an output writes it"
        check_picklable(step, [sink.topic, sink.key], "a function of the sink")
        return TopicWorkerSink(sink_alone(step), sink, identity)
    path = local_path(file_sink_of(step).path)
    assert path is not None, "Spark writes to other file systems"
    # A worker may run in another folder than the driver.
    return PartSink(sink_alone(step), os.path.abspath(path), record_type(step.node.element_type), partitions_of(step))


class PartWriter:
    """Writes the elements of one task to the sinks that workers write."""

    def __init__(self, sinks: WorkerSinks) -> None:
        self._sinks = sinks
        self._tasks: dict[int, PartFile | PartitionedFiles | TopicTask | CustomOutput] = {}

    def __contains__(self, sink: object) -> bool:
        return sink in self._sinks.sinks

    def pass_on(self, rows: Iterable[PackedRow]) -> Iterator[PackedRow]:
        """Writes the rows for its sinks; yields all other rows, and a row with the name of each part file."""
        for row in rows:
            if not (row.is_output and row.target in self):
                yield row
                continue
            if row.kind == RowKind.OUTPUT:
                self.write(row.target, load_values(row.payload))
            else:
                self.write_columns(row.target, columns_in(row.payload))
            for sink, name in self.take_names():
                yield row._replace(kind=RowKind.PART, target=sink, payload=name)

    def write(self, sink: int, values: Sequence[Any]) -> int:
        """Writes elements to the sink of a number; returns how many bytes they took, 0 if that is unknown."""
        task = self._task(sink)
        if not isinstance(task, CustomOutput):
            return task.write(values)
        if values:
            # The user's sink gets copies, since it may change objects that other sinks get, too.
            task.write(self._batch, values if task.takes_arrow else list(map(own, values)))
        return 0

    def write_columns(self, sink: int, rows: Any) -> None:
        """Writes the elements of an Arrow batch to the sink of a number, which takes columns."""
        task = self._task(sink)
        if isinstance(task, CustomOutput):
            task.write_portions(self._batch, [rows])
        elif rows.num_rows:
            task.write_rows(rows)

    def take_names(self) -> list[tuple[int, bytes]]:
        """Returns the sinks, by number, and names of files that were created since the last call, for the driver."""
        return [
            (sink, name.encode())
            for sink, task in self._tasks.items()
            if isinstance(task, PartFile | PartitionedFiles)
            for name in task.take_names()
        ]

    def _task(self, sink: int) -> PartFile | PartitionedFiles | TopicTask | CustomOutput:
        task = self._tasks.get(sink)
        if task is None:
            task = self._tasks[sink] = self._sinks.sinks[sink].task(self._batch)
        return task

    @cached_property
    def _batch(self) -> int:
        batch = current_batch() if self._sinks.batch is None else self._sinks.batch
        assert batch is not None, "Spark gives the batch's number to every task of a query"
        return batch

    def finish(self) -> None:
        """Commit the transactions of topics: the last thing that a task does which has succeeded."""
        for task in self._tasks.values():
            if isinstance(task, TopicTask):
                task.finish()

    def close(self) -> None:
        """Close the part files, which are incomplete until then, and users' own sinks; end open transactions."""
        with ExitStack() as stack:
            for task in self._tasks.values():
                stack.callback(task.close)


def columns_in(stream: bytes) -> Any:
    """Returns the Arrow batch that a row for a sink has."""
    import pyarrow as pa

    with pa.ipc.open_stream(stream) as reader:
        return reader.read_next_batch()
