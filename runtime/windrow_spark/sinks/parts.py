"""Writes some sinks in workers while they compute a batch: files, tables, topics, and users' own that ask for it.

A level of keyed steps writes those that it alone feeds, as elements come; the last stage of a query writes all others,
for which upper levels and sources send it their elements.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from windrow.plan import Step
from windrow_runtime.outputs.output import Identity
from windrow_spark.exchange.rows import PackedRow, RowKind, load_values
from windrow_spark.sinks.spark_writer import WrittenBy, spark_writer_of
from windrow_spark.sinks.worker_sink import WorkerSink, WorkerTask
from windrow_spark.worker import current_batch

# Any in this module: elements of every type, and pyarrow has no types.


@dataclass(frozen=True, slots=True)
class WorkerSinks:
    """The sinks that a stage of a query writes, by their numbers; they are sent to workers.

    ``batch`` is the number of a job's only batch; tasks of a stream get that of theirs from Spark.
    """

    sinks: Mapping[int, WorkerSink]
    batch: int | None = None
    straight: frozenset[str] = frozenset()  # the ids of the sinks that some elements reach without a keyed step

    @property
    def divided_anew(self) -> list[WorkerSink]:
        """Returns the sinks whose elements other tasks may write when a batch runs again on other cores.

        The results of keyed steps stay in their partition, which the checkpoint fixes.
        """
        return [sink for sink in self.sinks.values() if sink.needs_division and sink.step.id in self.straight]

    def only(self, ids: Container[str]) -> WorkerSinks | None:
        """Returns those of the sinks whose steps have these ids; None: there are none."""
        sinks = {number: sink for number, sink in self.sinks.items() if sink.step.id in ids}
        return replace(self, sinks=sinks) if sinks else None

    def writer(self) -> PartWriter:
        """Returns the writer of a task, which opens a sink with the first elements for it."""
        return PartWriter(self)


def worker_sinks(
    sinks: Mapping[int, Step],
    identities: Mapping[str, Identity],
    batch: int | None = None,
    *,
    straight: frozenset[str] = frozenset(),
) -> WorkerSinks | None:
    """Returns the sinks that workers write; None: there are none. The driver or Spark writes the others.

    ``identities`` are those of topics and of users' own sinks, by the ids of their steps.
    """
    written = {
        number: writer.worker_sink(identities.get(step.id))
        for number, step in sinks.items()
        if (writer := spark_writer_of(step)).written_by is WrittenBy.WORKERS
    }
    return WorkerSinks(written, batch, straight) if written else None


class PartWriter:
    """Writes the elements of one task to the sinks that workers write."""

    def __init__(self, sinks: WorkerSinks) -> None:
        self._sinks = sinks
        self._tasks: dict[int, WorkerTask] = {}
        self.numbers: Iterator[int] | None = None  # of the rows of a batch job, which orders them by rounds

    def __contains__(self, sink: object) -> bool:
        return sink in self._sinks.sinks

    def pass_on(self, rows: Iterable[PackedRow]) -> Iterator[PackedRow]:
        """Writes the rows for its sinks; yields all other rows, and a row with the name of each part file."""
        for row in rows:
            if not (row.is_output and row.target in self):
                yield row
                continue
            if row.kind == RowKind.OUTPUT:
                self.write(row.target, load_values(row.payload), row.number)
            else:
                self.write_columns(row.target, columns_in(row.payload), row.number)
            for sink, name in self.take_names():
                yield row._replace(kind=RowKind.PART, target=sink, payload=name)

    def write(self, sink: int, values: Sequence[Any], number: int) -> int:
        """Writes elements to the sink of a number; returns how many bytes they took, 0 if that is unknown.

        ``number`` is the sequence number of a row that would have the elements.
        """
        return self._task(sink, number).write(values)

    def write_columns(self, sink: int, rows: Any, number: int) -> None:
        """Writes the elements of an Arrow batch to the sink of a number, which takes columns."""
        self._task(sink, number).write_rows(rows)

    def take_names(self) -> list[tuple[int, bytes]]:
        """Returns the sinks, by number, and names of files that were created since the last call, for the driver."""
        return [(sink, name) for sink, task in self._tasks.items() for name in task.take_names()]

    def _task(self, sink: int, number: int) -> WorkerTask:
        task = self._tasks.get(sink)
        if task is None:
            task = self._tasks[sink] = self._sinks.sinks[sink].task(self._batch)
        task.number = number if self.numbers is None else next(self.numbers)
        return task

    @cached_property
    def _batch(self) -> int:
        batch = current_batch() if self._sinks.batch is None else self._sinks.batch
        assert batch is not None, "Spark gives the batch's number to every task of a query"
        return batch

    def finish(self) -> None:
        """Commit the transactions of topics: the last thing that a task does which has succeeded."""
        for task in self._tasks.values():
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
