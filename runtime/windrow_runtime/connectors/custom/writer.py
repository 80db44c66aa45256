"""Writes users' own sinks, and calls the functions of sinks, in the process of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

from windrow.connectors import CustomSink, SinkContext
from windrow.connectors.custom_sink import takes_arrow
from windrow.errors import InvalidArgumentError, WindrowError
from windrow.plan import Step
from windrow.sinks import FunctionSink
from windrow_runtime.codecs.pyarrow_check import check_pyarrow
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.operators.errors import connector_errors, errors_at, field_errors, lifecycle_errors, shortened
from windrow_runtime.outputs.output import Identity, Output, check_newest, written_type
from windrow_runtime.outputs.writer import SinkWriter, Target

# Any in this module: sinks of elements of every type.


class CustomWriter(SinkWriter[CustomSink[Any]]):
    """Writes a user's own sink; its ``on_workers`` says whether as one task of a batch."""

    def output(self, identity: Identity) -> Output:
        kind = TaskOutput if self.is_on_workers else CustomOutput
        return kind(self.step, self.sink, identity)

    @property
    def is_on_workers(self) -> bool:
        """Whether workers write the sink."""
        with lifecycle_errors(self.step, "on_workers", self.sink):
            on_workers: object = self.sink.on_workers
        if not isinstance(on_workers, bool):
            raise InvalidArgumentError(
                "on_workers says whether workers write a sink",
                given=on_workers,
                expected="True or False",
                where=self.step.where,
                hint="@property before a method",
            )
        return on_workers

    @property
    def target(self) -> Target:
        return Target(CustomSink.__name__, type(self.sink).__qualname__, is_exact=False)

    @property
    def definition(self) -> object:
        return self.sink


class FunctionWriter(SinkWriter[FunctionSink[Any]]):
    """Calls the function of a sink."""

    def output(self, identity: Identity) -> Output:
        return FunctionOutput(self.step, self.sink)


class FunctionOutput(Output):
    """Calls the function of one sink with each batch."""

    def __init__(self, step: Step, sink: FunctionSink[Any]) -> None:
        self._step, self._function = step, sink.function

    def write(self, batch: int, values: Sequence[object]) -> None:
        with _write_errors(self._step, batch, values):
            self._function(batch, values)


class CustomOutput(Output):
    """Writes to a user's sink on the driver; the sink is opened once for the whole run."""

    def __init__(self, step: Step, sink: CustomSink[Any], identity: Identity, partition: int | None = None) -> None:
        self._step, self._sink = step, sink
        self._kind: RecordType | None = None  # of the elements, if the sink takes Arrow data
        if takes_arrow(sink):
            with errors_at(step.where):
                check_pyarrow("sinks that take Arrow data are written")
                self._kind = written_type(step)
        self._context = SinkContext(identity.query, partition, identity.sink)
        self._failed: WindrowError | None = None

    def open(self) -> None:
        with lifecycle_errors(self._step, "open", self._sink):
            self._sink.open(self._context)

    def check(self, batch: int, *, again: bool) -> None:
        with lifecycle_errors(self._step, "newest_batch", self._sink):
            newest: object = self._sink.newest_batch()
        if newest is not None and not isinstance(newest, int):
            raise InvalidArgumentError(
                "newest_batch() returns the number of a batch",
                given=newest,
                expected="an int, or None",
                where=self._step.where,
            )
        check_newest(newest, batch, again=again, target=self._sink.describe(), where=self._step.where)

    def write(self, batch: int, values: Sequence[object]) -> None:
        if self._kind is not None:
            self.write_portions(batch, [values])
            return
        with self._remembered(), _write_errors(self._step, batch, values):
            self._sink.write(batch, values)

    @property
    def takes_arrow(self) -> bool:
        return self._kind is not None

    def write_portions(self, batch: int, portions: Iterable[Any]) -> None:
        # Arrow only where a sink takes it: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.exchanged import table_of

        assert self._kind is not None, "the sink takes Arrow data"
        with self._remembered():
            with field_errors(self._step.where):
                rows = table_of(portions, self._kind)
            if rows.num_rows:
                with connector_errors(self._step.where, "the sink", lambda: f"batch {batch} of {rows.num_rows} rows"):
                    self._sink.write_arrow(batch, rows)

    @contextmanager
    def _remembered(self) -> Iterator[None]:
        try:
            yield
        except WindrowError as error:
            self._failed = error
            raise

    def close(self) -> None:
        try:
            with lifecycle_errors(self._step, "close", self._sink):
                self._sink.close()
        except WindrowError as error:
            if self._failed is None:
                raise
            # After a failed write closing often fails as well; only the first error names the elements.
            self._failed.add_note(f"close() of the sink failed as well: {error.__cause__ or error}")


class TaskOutput(Output):
    """Writes to a user's sink as a worker does: the sink is opened for each batch, which is one task here."""

    def __init__(self, step: Step, sink: CustomSink[Any], identity: Identity) -> None:
        self._task = CustomOutput(step, sink, identity, partition=0)

    def write(self, batch: int, values: Sequence[object]) -> None:
        self._task.open()
        with closing(self._task):
            self._task.write(batch, values)


def _write_errors(step: Step, batch: int, values: Sequence[object]) -> AbstractContextManager[None]:
    def given() -> str:
        return f"batch {batch} of {len(values)} elements, beginning with {', '.join(map(shortened, values[:1]))}"

    return connector_errors(step.where, "the function of the sink", given)
