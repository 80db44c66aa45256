"""Packs elements into rows by target and key group, and writes those for sinks that the task writes itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from windrow.errors import InvalidArgumentError
from windrow_runtime.operators.errors import check_hashable
from windrow_spark.exchange.facts import Count, records_in
from windrow_spark.exchange.picklable import check_sendable
from windrow_spark.exchange.rows import (
    PackedRow,
    Phase,
    RowKind,
    dump_values,
    no_bound,
    pack_broadcast,
    pack_keyed,
    sequence_number,
)
from windrow_spark.key_groups import KeyGroups
from windrow_spark.stable_hash import stable_hash

if TYPE_CHECKING:
    from windrow_spark.exchange.column_sender import ColumnSender
    from windrow_spark.physical.plan import SinkEdge, StepEdge

# Any: keys and values are the user's, of every type.

_PAYLOAD_BYTES = 4 << 20
_FIRST_LIMIT = 1024
_LARGEST_LIMIT = 8192  # larger ones are slower: they leave the processor's cache
_ROUTES_KEPT = 1_000_000
_COLUMN_ROWS = 100_000  # elements in columns for a sink that are one payload


@dataclass(frozen=True, slots=True)
class ToStep:
    """The target of elements for a keyed step of a level, by their keys; errors say ``where`` keys are selected.

    Elements for a step on columns become columns, by ``edges``; a join has one for each stream.
    """

    step: int
    level: int
    keys: Sequence[Any]
    where: str | None = None
    edges: tuple[StepEdge, ...] = ()


@dataclass(frozen=True, slots=True)
class ToAllKeys:
    """The target of elements for all keys of a keyed step of a level; errors say ``where`` the step is."""

    step: int
    level: int
    where: str | None = None


@dataclass(frozen=True, slots=True)
class ToSink:
    """The target of elements for a sink; errors say ``where`` the sink is in the user's program."""

    sink: int
    where: str | None = None


Target: TypeAlias = ToStep | ToAllKeys | ToSink
Routed: TypeAlias = "tuple[Target, Sequence[Any], Sequence[int | None]]"
"""The target of elements, the elements, and their timestamps."""


class TaskSinkWriter(Protocol):
    """Writes the sinks that a task writes itself; :mod:`windrow_spark.sinks.parts` describes the methods."""

    def __contains__(self, sink: object) -> bool: ...

    def write(self, sink: int, values: Sequence[Any], number: int) -> int: ...

    def write_columns(self, sink: int, rows: Any, number: int) -> None: ...

    def take_names(self) -> list[tuple[int, bytes]]: ...


_Bucket: TypeAlias = tuple[list[Any], list[Any], "list[int | None]"]
_Route: TypeAlias = tuple[Callable[[Any], None], Callable[[Any], None], Callable[["int | None"], None], Any]


class _Routes(dict[Any, _Route]):
    """Maps each key to the append methods of its group's lists, and to the first key object that was equal."""

    def __init__(self, groups: KeyGroups) -> None:
        super().__init__()
        self._groups = groups
        self.buckets: list[_Bucket] = [([], [], []) for _ in range(groups.count)]

    def __missing__(self, key: Any) -> _Route:
        keys, values, timestamps = self.buckets[self._groups.number_of(stable_hash(key))]
        if len(self) >= _ROUTES_KEPT:
            self.clear()
        route = self[key] = (keys.append, values.append, timestamps.append, key)
        return route


class Packer:
    """Collects elements until they fill a row, or a write to a sink.

    A row's payload is kept near 4 MiB: the number of elements in a row, or in a write, follows from the size of those
    before. All elements are of one phase.
    """

    def __init__(self, groups: KeyGroups, phase: int, writer: TaskSinkWriter | None = None) -> None:
        self._groups = groups
        self._phase = phase
        self.precedes_watermark = phase == Phase.BEFORE_WATERMARK  # whether elements come before the watermark advances
        self._writer = writer
        self._origin = 0
        self._service_label = groups.service_labels[0]
        self._row = 0
        self._limit = _FIRST_LIMIT
        self._levels: defaultdict[int, dict[int, _Routes]] = defaultdict(dict)
        self._sinks: defaultdict[int, list[Any]] = defaultdict(list)
        self._broadcasts: defaultdict[int, dict[int, tuple[list[Any], list[int | None]]]] = defaultdict(dict)
        self._wheres: dict[tuple[type[Target], int], str | None] = {}
        self._columns: ColumnSender | None = None
        self._records: Counter[str] = Counter()  # elements in columns, by the step or the sink that takes them
        self.bound_of: Callable[[str], int | None] = no_bound

    def start(self, origin: int, service_label: int) -> None:
        """Begins with the elements of another origin, which rows are ordered by; the previous one must be flushed.

        The service group passes on the rows for sinks.
        """
        self._origin = origin
        self._service_label = service_label
        self._row = 0

    def add(self, target: Target, values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        """Adds elements for ``target``; refuses a key that cannot be hashed."""
        if isinstance(target, ToSink):
            self._wheres[ToSink, target.sink] = target.where
            self._sinks[target.sink].extend(values)
            return
        self._wheres[type(target), target.step] = target.where
        if isinstance(target, ToAllKeys):
            gathered = self._broadcasts[target.level].setdefault(target.step, ([], []))
            gathered[0].extend(values)
            gathered[1].extend(timestamps)
            return
        if target.edges:
            self._column_sender().add_objects(target.edges, values, timestamps)
            return
        steps = self._levels[target.level]
        routes = steps.get(target.step)
        if routes is None:
            routes = steps[target.step] = _Routes(self._groups)
        try:
            for key, value, timestamp in zip(target.keys, values, timestamps, strict=True):
                add_key, add_value, add_timestamp, first_equal = routes[key]
                add_key(first_equal)
                add_value(value)
                add_timestamp(timestamp)
        except InvalidArgumentError as error:
            raise error.at(target.where) from error.__cause__
        except TypeError:
            check_hashable(target.keys, target.where)
            raise

    def add_columns(
        self, targets: Sequence[StepEdge], columns: Any, stamps: Any, observe: Callable[[str, int], None]
    ) -> None:
        """Adds elements as columns, with their timestamps; see :meth:`ColumnSender.add`."""
        self._column_sender().add(targets, columns, stamps, observe)

    def _column_sender(self) -> ColumnSender:
        if self._columns is None:
            # A plan without columns does not import the columnar modules.
            from windrow_spark.exchange.column_sender import ColumnSender

            self._columns = ColumnSender(self._groups, self._next_row, self._records)
        self._columns.bound_of = self.bound_of
        return self._columns

    def take_counts(self) -> list[Count]:
        """Returns how many elements in columns went to each step and each sink since the last call."""
        return records_in(self._records)

    def send_to_sink(self, target: SinkEdge, batch: Any) -> Iterator[PackedRow]:
        """Writes the elements of an Arrow batch to a sink that the task writes itself, or yields rows with them."""
        if batch.num_rows:
            self._records[target.form.step.id] += batch.num_rows
        writer = self._writer_of(target.number)
        for start in range(0, batch.num_rows, _COLUMN_ROWS):
            portion = batch.slice(start, _COLUMN_ROWS)
            if writer is not None:
                writer.write_columns(target.number, portion, self._next_number())
                yield from self._part_rows(writer)
                continue
            # A plan without columns does not import the columnar modules.
            from windrow_spark.columnar.state import dump_rows

            stream = dump_rows(portion, compress=False)
            yield self._next_row(self._service_label, RowKind.OUTPUT_COLUMNS, target.number, stream)

    def _writer_of(self, sink: int) -> TaskSinkWriter | None:
        """Returns what writes a sink in the task itself; None: its elements are packed."""
        return self._writer if self._writer is not None and sink in self._writer else None

    def row_for_level(self, row: PackedRow) -> PackedRow:
        """Passes on a row from upstream for a deeper level, in whose key groups the keys lie alike."""
        return self._next_row(row.group, row.kind, row.target, row.payload)

    def full(self) -> Iterator[PackedRow]:
        """Yields the rows that are full. Call it after some elements have been added."""
        if self._columns is not None:
            yield from self._columns.full()
        yield from self._rows(self._limit)

    def flush(self) -> Iterator[PackedRow]:
        """Yields all rows that are left."""
        if self._columns is not None:
            yield from self._columns.flush()
        yield from self._rows(1)

    def _rows(self, least: int) -> Iterator[PackedRow]:
        """Packs the elements of each group and each sink that has at least ``least`` elements."""
        # A broadcast row is copied for each group: all copies together have about the size of other rows.
        least_for_all = max(1, least // self._groups.count)
        for level, by_step in self._broadcasts.items():
            if any(len(values) >= least_for_all for values, _ in by_step.values()):
                yield from self._pack_broadcast(level, by_step)
        for number in range(self._groups.count):
            for level, steps in self._levels.items():
                if any(len(routes.buckets[number][0]) >= least for routes in steps.values()):
                    yield self._pack_group(number, level, steps)
        for sink, values in self._sinks.items():
            if len(values) >= least:
                yield from self._send_output(sink, values)

    def _pack_group(self, number: int, level: int, steps: Mapping[int, _Routes]) -> PackedRow:
        buckets = [(step, *routes.buckets[number]) for step, routes in steps.items()]
        filled = [bucket for bucket in buckets if bucket[1]]
        try:
            payload = pack_keyed(filled)
        except Exception:  # pickle, and the methods of the user's classes that it calls, may raise anything
            for step, keys, values, _ in filled:
                check_sendable((*keys, *values), self._wheres[ToStep, step])
            raise
        self._adapt(len(payload), sum(len(keys) for _, keys, _, _ in filled))
        for _, *bucket in filled:
            for column in bucket:
                column.clear()
        return self._next_row(self._groups.labels[number], RowKind.ELEMENTS, level, payload)

    def _pack_broadcast(
        self, level: int, by_step: Mapping[int, tuple[list[Any], list[int | None]]]
    ) -> Iterator[PackedRow]:
        """Packs elements once, and sends them to each group."""
        filled = [(step, values, timestamps) for step, (values, timestamps) in by_step.items() if values]
        try:
            payload = pack_broadcast(filled)
        except Exception:
            for step, values, _ in filled:
                check_sendable(values, self._wheres[ToAllKeys, step])
            raise
        self._adapt(len(payload), sum(len(values) for _, values, _ in filled))
        for _, values, timestamps in filled:
            values.clear()
            timestamps.clear()
        for label in self._groups.labels:
            yield self._next_row(label, RowKind.BROADCAST, level, payload)

    def _send_output(self, sink: int, values: list[Any]) -> Iterator[PackedRow]:
        """Writes or packs the elements gathered for a sink."""
        writer = self._writer_of(sink)
        start = 0
        while start < len(values):
            portion = values[start : start + self._limit]
            start += len(portion)
            if writer is not None:
                self._adapt(writer.write(sink, portion, self._next_number()), len(portion))
                yield from self._part_rows(writer)
                continue
            try:
                payload = dump_values(portion)
            except Exception:
                check_sendable(portion, self._wheres[ToSink, sink])
                raise
            self._adapt(len(payload), len(portion))
            yield self._next_row(self._service_label, RowKind.OUTPUT, sink, payload)
        values.clear()

    def _part_rows(self, writer: TaskSinkWriter) -> Iterator[PackedRow]:
        for sink, name in writer.take_names():
            yield self._next_row(self._service_label, RowKind.PART, sink, name)

    def _adapt(self, size: int, count: int) -> None:
        """Chooses how many elements fill a row, by the bytes that the last ones took; 0 bytes: unknown."""
        if size:
            self._limit = max(1, min(_LARGEST_LIMIT, _PAYLOAD_BYTES * count // size))

    def _next_row(self, group: int, kind: int, target: int, payload: bytes) -> PackedRow:
        return PackedRow(group, kind, target, self._next_number(), payload)

    def _next_number(self) -> int:
        self._row += 1
        return sequence_number(self._phase, self._origin, self._row - 1)
