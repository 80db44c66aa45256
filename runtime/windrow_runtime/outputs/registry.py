"""Opens the outputs of sinks that the driver writes, and defines those that call users' functions and sinks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from windrow.addresses.paths import local_path
from windrow.connectors import CustomSink, SinkContext
from windrow.connectors.custom_sink import takes_arrow
from windrow.distribution import install_hint
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, WindrowError
from windrow.kafka import KafkaSink
from windrow.plan import Step
from windrow.sinks import ConsoleSink, DatabaseSink, DeltaSink, FileSink, FunctionSink, Sink
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.text_files import check_pyarrow
from windrow_runtime.operators.errors import connector_errors, errors_at, field_errors, lifecycle_errors, shortened
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.outputs.output import Identity, Output, check_newest
from windrow_runtime.outputs.process_lock import OwnStack

K = TypeVar("K")

# Any in this module: sinks of elements of every type.


class ConsoleOutput(Output):
    """Prints each element on a line of its own."""

    def __init__(self, step: Step, sink: ConsoleSink, identity: Identity) -> None:
        self._prefix = sink.prefix

    def write(self, batch: int, values: Sequence[object]) -> None:
        for value in values:
            line = f"{self._prefix}{value}"
            try:
                print(line)
            except UnicodeEncodeError:
                # Not every terminal has all characters, and none has half of a surrogate pair.
                encoding = sys.stdout.encoding or "utf-8"
                print(line.encode(encoding, "backslashreplace").decode(encoding))


class FunctionOutput(Output):
    """Calls the function of one sink with each batch."""

    def __init__(self, step: Step, sink: FunctionSink[Any], identity: Identity) -> None:
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
                self._kind = record_type(step.node.element_type)
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
        """Whether the sink takes Arrow data."""
        return self._kind is not None

    def write_portions(self, batch: int, portions: Iterable[Any]) -> None:
        """Writes portions of a batch, each a list of elements or an Arrow batch, to a sink that takes Arrow data."""
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


def _custom(step: Step, sink: CustomSink[Any], identity: Identity) -> Output:
    return TaskOutput(step, sink, identity) if is_on_workers(sink, step) else CustomOutput(step, sink, identity)


def is_on_workers(sink: CustomSink[Any], step: Step) -> bool:
    """Returns whether workers write a user's sink, as its ``on_workers`` says."""
    with lifecycle_errors(step, "on_workers", sink):
        on_workers: object = sink.on_workers
    if not isinstance(on_workers, bool):
        raise InvalidArgumentError(
            "on_workers says whether workers write a sink",
            given=on_workers,
            expected="True or False",
            where=step.where,
            hint="@property in front of a method",
        )
    return on_workers


# Libraries are imported only if a plan has such a sink.
def _topic(step: Step, sink: KafkaSink[Any], identity: Identity) -> Output:
    from windrow_runtime.connectors.kafka.writes import TopicOutput

    return TopicOutput(step, sink, identity)


def _database(step: Step, sink: DatabaseSink[Any], identity: Identity) -> Output:
    from windrow_runtime.connectors.database.writer import DatabaseOutput

    return DatabaseOutput(step, sink, identity)


def _delta(step: Step, sink: DeltaSink[Any], identity: Identity) -> Output:
    from windrow_runtime.connectors.delta.writer import DeltaOutput

    return DeltaOutput(step, sink, identity)


def _topics(sink: KafkaSink[Any]) -> str:
    return sink.topic if isinstance(sink.topic, str) else "topics-by-element"


def _path(sink: DeltaSink[Any]) -> str:
    # Different spellings of a path are one table.
    return sink.path.rstrip("/") if "://" in sink.path else os.path.realpath(sink.path)


@dataclass(frozen=True, slots=True)
class _Entry:
    """The output of a class of sinks."""

    create: Callable[[Step, Any, Identity], Output]
    # Returns the text with which the labels of sinks begin that may share a target; None: they write to no place.
    target: Callable[[Any], str | None] = lambda _: None
    extra: str = ""  # the extra of windrow that brings the library, if there is one
    is_exact: bool = True  # whether the output notes its batches in the target, by the label


_ENTRIES: dict[type[Any], _Entry] = {
    ConsoleSink: _Entry(ConsoleOutput),
    CustomSink: _Entry(_custom, lambda sink: type(sink).__qualname__, is_exact=False),
    FunctionSink: _Entry(FunctionOutput),
    DatabaseSink: _Entry(_database, attrgetter("qualified_table"), "database"),
    DeltaSink: _Entry(_delta, _path, "delta"),
    KafkaSink: _Entry(_topic, _topics, "kafka"),
}


def _entry(sink: Sink[Any]) -> _Entry | None:
    if isinstance(sink, KafkaSink) and sink.engine_connector:
        return None
    return next((_ENTRIES[kind] for kind in type(sink).__mro__ if kind in _ENTRIES), None)


def has_output(sink: Sink[Any]) -> bool:
    """Returns whether an output writes for a sink."""
    return _entry(sink) is not None


class Target(NamedTuple):
    """The target of a sink: its kind, the text with which labels begin, and whether windrow notes batches there."""

    kind: str
    text: str
    is_exact: bool


def target_of(sink: Sink[Any]) -> Target | None:
    """Returns the target of a sink, which it may share with others; None: nothing is noted there.

    The address of a database or of brokers is not part of it: one that is spelled differently after a restart would
    have the same batches written again.
    """
    if isinstance(sink, FileSink):
        local = local_path(sink.path)
        return Target(FileSink.__name__, sink.shown_path if local is None else os.path.realpath(local), True)
    for kind in type(sink).__mro__ if _entry(sink) is not None else ():
        entry = _ENTRIES.get(kind)
        text = None if entry is None else entry.target(sink)
        if entry is not None:
            return None if text is None else Target(kind.__name__, text, entry.is_exact)
    return None


def labels_of(targets: Mapping[K, Target], others: Iterable[tuple[str, str]] = ()) -> dict[K, str]:
    """Gives sinks labels by their order: the text of the target, with a number if another one of its kind has that."""
    labels, used = dict[K, str](), set(others)
    for sink, target in targets.items():
        texts = (target.text if number == 1 else f"{target.text}#{number}" for number in count(1))
        labels[sink] = next(text for text in texts if (target.kind, text) not in used)
        used.add((target.kind, labels[sink]))
    return labels


def identities(sinks: Iterable[Step], query: str) -> dict[str, Identity]:
    """Returns the identities of the sinks of a query that runs once, by the ids of their steps."""
    targets = {step.id: target_of(sink_of(step)) for step in sinks}
    labels = labels_of({step: target for step, target in targets.items() if target is not None})
    return {step: Identity(query, label) for step, label in labels.items()}


def open_outputs(sinks: Sequence[Step], query: str, identities: Mapping[str, Identity]) -> dict[str, Output]:
    """Make and open the outputs of a query, by the ids of their steps; sinks that have none are passed over."""
    outputs: dict[str, Output] = {}
    try:
        for step in sinks:
            sink = sink_of(step)
            entry = _entry(sink)
            if entry is None:
                continue
            try:
                output = entry.create(step, sink, identities.get(step.id, Identity(query, "")))
                output.open()
            except ModuleNotFoundError as error:
                raise UnsupportedOperationError(
                    "a library is missing that this sink needs",
                    given=f"{sink.describe()}, without {error.name}",
                    where=step.where,
                    hint=install_hint(entry.extra),
                ) from error
            outputs[step.id] = output
    except BaseException:
        with closing_outputs(outputs):
            raise
    return outputs


def closing_outputs(outputs: Mapping[str, Output]) -> ExitStack:
    """Returns a context that closes all outputs of a query at its end, even if closing one of them fails.

    In a forked process it does nothing.
    """
    stack = OwnStack()
    for output in outputs.values():
        stack.callback(output.close)
    return stack
