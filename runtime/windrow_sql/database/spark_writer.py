"""Writes tables of databases on Spark: workers stage the rows of PostgreSQL's, and the driver moves those of a batch.

A task sends its first elements to the driver, so that small batches need neither connections of workers nor tables. So
it does with all of them if it cannot stage rows: where the user may not create tables, or has no connection left.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from windrow.plan import Step
from windrow.sinks import DatabaseSink
from windrow_runtime.operators.changes import Changed
from windrow_runtime.outputs.output import Identity
from windrow_spark.exchange.picklable import check_sendable
from windrow_spark.exchange.rows import dump_values, load_values
from windrow_spark.shipping import sink_alone
from windrow_spark.sinks.spark_writer import SparkWriter, WrittenBy
from windrow_spark.sinks.worker_sink import WorkerSink, WorkerTask
from windrow_sql.database.writer import DatabaseWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from windrow_sql.database.output import DatabaseLimits
    from windrow_sql.database.staged_output import Parts, StagedOutput

# Any in this module: elements of every type, and pyarrow has no types.

_LOG: Final = logging.getLogger("windrow")
_SECONDS_OF_REFUSAL: Final = 60.0
"""How long a worker does not try again to stage rows: to wait for a server that does not answer takes seconds."""
_refusals: dict[str, tuple[float, str]] = {}  # when and why rows could not be staged, by the sink


class DatabaseSparkWriter(SparkWriter[DatabaseWriter]):
    """Writes tables of PostgreSQL and SQLite."""

    limits: ClassVar[DatabaseLimits | None] = None
    """Sizes and pauses that tests make small."""

    @property
    def written_by(self) -> WrittenBy:
        return WrittenBy.WORKERS if self._is_staged else super().written_by

    @property
    def sees_order(self) -> bool:
        return bool(self.writer.sink.key) or super().sees_order

    @property
    def _is_staged(self) -> bool:
        """Whether workers stage rows: not in SQLite, nor where the user wants no tables made."""
        return self.writer.sink.url.backend == "postgresql" and self.writer.sink.create

    def check_target(self, spark: SparkSession) -> None:
        if self._is_staged:
            _output(self.step, self.writer.sink, Identity("", "")).open()

    def worker_sink(self, identity: Identity | None) -> WorkerSink:
        assert identity is not None, "it has a target"
        return DatabaseWorkerSink(sink_alone(self.step), self.writer.sink, identity, self.limits)


def _output(
    step: Step, sink: DatabaseSink[Any], identity: Identity, limits: DatabaseLimits | None = None
) -> StagedOutput:
    # SQLAlchemy is imported only if a plan has such a sink.
    from windrow_sql.database.output import LIMITS
    from windrow_sql.database.staged_output import StagedOutput

    return StagedOutput(step, sink, identity, limits or LIMITS)


class _Sent(NamedTuple):
    """Elements that a task has sent."""

    number: int  # orders them
    payload: bytes  # see dump_values
    refusal: str  # why the task could not stage them; empty: it has not tried


class _Staged(NamedTuple):
    """Some rows of a part that a task has staged."""

    part: int
    rows: int
    deletes: bool  # whether some of the rows may be deleted ones


class DatabaseWorkerSink(WorkerSink):
    """A table whose rows workers stage; its step comes without the steps upstream."""

    def __init__(
        self, step: Step, sink: DatabaseSink[Any], identity: Identity, limits: DatabaseLimits | None = None
    ) -> None:
        self.step = step
        self._sink, self._identity, self._limits = sink, identity, limits
        self._output: StagedOutput | None = None  # of the driver
        self._has_told = False

    def __reduce__(self) -> tuple[Any, ...]:
        return DatabaseWorkerSink, (self.step, self._sink, self._identity, self._limits)

    def task(self, batch: int) -> WorkerTask:
        return _StagingTask(self._made(), self.step, self._sink, batch)

    def check(self, batch: int, division: str, *, again: bool) -> None:
        output = self._opened_output()
        output.check(batch, again=again)
        output.drop_left()

    def publish(self, batch: int, names: Sequence[bytes]) -> None:
        """Writes the elements that the tasks of a batch have sent, and the rows that they have staged."""
        sent: list[tuple[int, Sequence[object]]] = []
        parts = Counter[int]()
        deletes = False
        for name in names:
            note: _Sent | _Staged = pickle.loads(name)
            if isinstance(note, _Sent):
                sent.append((note.number, load_values(note.payload)))
                self._tell(note.refusal)
            else:
                parts[note.part] += note.rows
                deletes = deletes or note.deletes
        self._opened_output().write_staged(batch, sent, parts, deletes=deletes)

    def _tell(self, refusal: str) -> None:
        if refusal and not self._has_told:
            self._has_told = True
            _LOG.warning("rows for %s go through the driver, since a worker: %s", self._sink.describe(), refusal)

    def _opened_output(self) -> StagedOutput:
        if self._output is None:
            self._output = self._made()
            self._output.open()
        return self._output

    def _made(self) -> StagedOutput:
        return _output(self.step, self._sink, self._identity, self._limits)


class _StagingTask(WorkerTask):
    """Sends the first elements of one task, and stages the others."""

    def __init__(self, output: StagedOutput, step: Step, sink: DatabaseSink[Any], batch: int) -> None:
        self._output, self._step, self._sink, self._batch = output, step, sink, batch
        self._parts: Parts | None = None
        self._count = self._bytes = 0  # of elements sent
        self._refusal = ""
        self._names: list[bytes] = []

    def write(self, values: Sequence[Any]) -> int:
        if not values:
            return 0
        if self._parts is None:
            payload = self._dumped(values)
            self._count += len(values)
            self._bytes += len(payload)
            limits = self._output.limits
            if not self._refusal and (self._count > limits.sent_elements or self._bytes > limits.sent_bytes):
                self._begin()
            if self._parts is None:
                self._names.append(pickle.dumps(_Sent(self.number, payload, self._refusal)))
                return len(payload)
        part, size = self._parts.add(self.number, values)
        self._names.append(pickle.dumps(_Staged(part, len(values), Changed in set(map(type, values)))))
        return size

    def _dumped(self, values: Sequence[Any]) -> bytes:
        try:
            return dump_values(list(values))
        except Exception:  # pickle, and the methods of the user's classes that it calls, may raise anything
            check_sendable(values, self._step.where)
            raise

    def write_rows(self, rows: Any) -> int:
        raise NotImplementedError("the sink takes no columns")

    def _begin(self) -> None:
        shown, now = self._sink.describe(), time.monotonic()
        refused, refusal = _refusals.get(shown, (0.0, ""))
        if refusal and now < refused + _SECONDS_OF_REFUSAL:
            self._refusal = refusal
            return
        parts = self._output.parts(self._batch)
        if isinstance(parts, str):
            self._refusal = parts
            _refusals[shown] = now, parts
        else:
            self._parts = parts

    def take_names(self) -> Sequence[bytes]:
        names, self._names = self._names, []
        return names

    def finish(self) -> None:
        if self._parts is not None:
            self._parts.flush()

    def close(self) -> None:
        if self._parts is not None:
            self._parts.close()
