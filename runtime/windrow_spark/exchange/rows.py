"""Defines the rows that the stages of a query exchange, and packs and unpacks their payloads.

All stages but the first take and return the same columns. Values of one record class are packed as columns, and rebuilt
by calling the class; that is two to five times as fast as pickling them one by one. Numbers of one type become an
array. Everything else is pickled. No value changes its type: a list whose values are not all of exactly one class is
pickled.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from windrow.rows.equality import as_keys
from windrow_runtime.codecs.records import construct, record_fields
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.windows.partials import Partials
from windrow_spark.exchange.classes import class_name, find_class, pickle_any


class RowKind:
    """The kinds of rows, which say what the payload is, and whether the target is a level, a step or a sink.

    ``sources/stage.py`` and ``keyed/group_task.py`` send rows, ``keyed/batch_level.py`` in a batch job: objects by
    ``packer.py``, columns by ``column_sender.py``. ``keyed/group_task.py`` receives those for keyed steps,
    ``keyed/level_calls.py`` the time, and ``sinks/batch_writer.py`` what is for the driver.
    """

    ELEMENTS: Final = 0  # for the keyed steps of a level, see pack_keyed
    COLUMNS: Final = 1  # elements for one keyed step, as an Arrow stream
    AGGREGATED: Final = 2  # partial aggregates for one keyed step on columns, as an Arrow stream
    PARTIALS: Final = 3  # partial aggregates for one keyed step on objects
    OUTPUT: Final = 4  # values for a sink
    OUTPUT_COLUMNS: Final = 5  # elements for a sink, as an Arrow stream
    PART: Final = 6  # the name of a file that a worker wrote for a sink (sinks/parts.py), for the driver
    CLOCK: Final = 7  # the time of the previous batch, for the service group of a partition
    END: Final = 8  # the stream has ended; the first level takes it for a CLOCK, too
    TIMESTAMPS: Final = 9  # that timestamp-assigning steps saw, for the driver
    WARNINGS: Final = 10  # headers of CSV files, for the driver: (names, where, line of the user's program)
    COUNTERS: Final = 11  # counts of steps, for the driver: (step id, counter or fact, increment)
    BROADCAST: Final = 12  # elements for all keys of the keyed steps of a level, see pack_broadcast
    PARTITIONS: Final = 13  # open ones of a source, for the driver: (step id of the source, OpenPartitions)


EXCHANGE_SCHEMA: Final = (
    "`group` int not null, kind int not null, target int not null, number bigint not null, payload binary not null"
)
"""The columns of :class:`PackedRow`, for Spark."""

SOURCE_SCHEMA: Final = f"{EXCHANGE_SCHEMA}, watermark timestamp, records bigint not null"
"""The same columns and, for Spark itself, its watermark, null if it does not move, and the number of records read."""

_OUTPUTS: Final = frozenset({RowKind.OUTPUT, RowKind.OUTPUT_COLUMNS})


class PackedRow(NamedTuple):
    """One row of the exchange."""

    group: int  # the label of the key group that takes it at the next stage; meaningless after the last stage
    kind: int  # what the payload is, one of RowKind
    target: int  # the level, step or sink that takes the payload, as its kind says; else 0
    number: int  # orders the rows of a batch, see sequence_number
    payload: bytes

    @property
    def is_output(self) -> bool:
        """Whether a sink takes the row."""
        return self.kind in _OUTPUTS


def exchange_batch(rows: Iterable[PackedRow]) -> Any:  # pyarrow has no types
    """Returns the rows as an Arrow batch with the columns of :data:`EXCHANGE_SCHEMA`."""
    return packed_batch(rows, None).select(list(PackedRow._fields))


def packed_batch(rows: Iterable[PackedRow], watermark: int | None, records: int = 0) -> Any:  # pyarrow has no types
    """Returns the rows as an Arrow batch with the columns of :data:`SOURCE_SCHEMA`.

    All have the same watermark, in Spark's milliseconds, and the first one has the number of records.
    """
    import pyarrow as pa

    columns = list(zip(*rows, strict=True))
    length = len(columns[0])
    columns += [(None if watermark is None else watermark * 1000,) * length, (records,) + (0,) * (length - 1)]
    names = (*PackedRow._fields, "watermark", "records")
    types = (pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.binary(), pa.timestamp("us", "UTC"), pa.int64())
    schema = pa.schema(
        [pa.field(name, kind, nullable=name == "watermark") for name, kind in zip(names, types, strict=True)]
    )
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns, types)), schema=schema)


# Any: keys and values are the user's, of every type.

PackedValues: TypeAlias = "Sequence[Any] | tuple[str, bytes] | tuple[bytes, int, tuple[PackedValues, ...]] | bytes"
"""A list of scalars; or numbers as bytes, after their type code of :mod:`array`; or the name of a class, the number of
values, and their columns; or a pickle."""

_SCALARS: Final = frozenset({bool, int, float, str, bytes, type(None)})
_ROWS_BITS: Final = 30
_ORIGIN_BITS: Final = 32


class Phase:
    """The part of a batch in which an element was emitted, see :func:`sequence_number`."""

    BEFORE_WATERMARK: Final = 0
    """Timers emitted it as the watermark advanced; steps downstream process it under the previous watermark."""

    AFTER_WATERMARK: Final = 1
    """A step emitted it for the batch's elements; steps downstream process it under the new watermark."""


class KeyedElements(NamedTuple):
    """Elements for one step, as lists of equal length."""

    step: int
    keys: Sequence[Any]
    values: Sequence[Any]
    timestamps: Sequence[int | None]

    def pick(self, indices: Sequence[int]) -> KeyedElements:
        """Returns the elements at some indices."""
        columns = [[column[index] for index in indices] for column in self[1:]]
        return KeyedElements(self.step, *columns)

    def feed(self, operator: KeyedOperator) -> None:
        """Gives the elements to an operator."""
        operator.process_batch(self.keys, self.values, self.timestamps)


class ColumnElements(NamedTuple):
    """Elements for one step as an Arrow stream, see :mod:`windrow_spark.exchange.column_sender`."""

    step: int
    stream: bytes
    is_partial: bool


class PartialElements(NamedTuple):
    """Partial accumulators, in which elements for one step were aggregated before the exchange."""

    step: int
    partials: Partials


class BroadcastElements(NamedTuple):
    """Elements for all keys of one step."""

    step: int
    values: Sequence[Any]
    timestamps: Sequence[int | None]


Arrived: TypeAlias = "KeyedElements | ColumnElements | PartialElements | BroadcastElements"


def no_bound(step: str) -> int | None:
    """Returns None: no bound of a step's watermark is known."""
    return None


def sequence_number(phase: int, origin: int, row: int) -> int:
    """Returns a number by which the rows of one key group in one batch are ordered.

    Spark delivers them in any order. They are processed by phase; then by origin, which is the source partition, or the
    number of the key group upstream; then as they were emitted there. So a batch that runs again gives the same result.
    """
    return phase << (_ORIGIN_BITS + _ROWS_BITS) | origin << _ROWS_BITS | row


def notes_number(origin: int, count: int) -> int:
    """Returns the sequence number of the first of ``count`` notes for the driver, the last rows of an origin."""
    return sequence_number(Phase.AFTER_WATERMARK, origin, (1 << _ROWS_BITS) - count)


def phase_of(number: int) -> int:
    """Returns the phase in a sequence number."""
    return number >> (_ORIGIN_BITS + _ROWS_BITS)


def pack_values(values: list[Any]) -> PackedValues:
    """Packs values as nested builtins, which are pickled fast. Undone by :func:`unpack_values`."""
    kinds = set(map(type, values))
    if kinds == {float}:
        return "d", array("d", values).tobytes()
    if kinds == {int}:
        for code in ("i", "q"):
            try:
                return code, array(code, values).tobytes()
            except OverflowError:
                continue
    if kinds <= _SCALARS:
        return values
    if len(kinds) == 1:
        (class_,) = kinds
        names = record_fields(class_)
        if names:
            # A pass for each field is three times as fast as making a tuple of each value.
            columns = (list(map(attrgetter(name), values)) for name in names)
            return class_name(class_), len(values), tuple(map(pack_values, columns))
    return pickle_any(values)


def unpack_values(packed: PackedValues) -> Sequence[Any]:
    """Returns the values that :func:`pack_values` was given."""
    if isinstance(packed, bytes):
        values: Sequence[Any] = pickle.loads(packed)
        return values
    if not isinstance(packed, tuple):
        return packed
    if len(packed) == 2:
        code, data = packed
        return array(code, data).tolist()
    reference, _, columns = packed
    return construct(find_class(reference), [unpack_values(column) for column in columns])


def pack_keyed(steps: Sequence[tuple[int, list[Any], list[Any], list[int | None]]]) -> bytes:
    """Packs elements for keyed steps of one level: (step, keys, values, timestamps) each.

    :func:`unpack_keyed` undoes it. Equal keys should be one object each: then all but the first take two bytes.
    """
    packed = [(step, pack_values(keys), pack_values(values), _pack_times(times)) for step, keys, values, times in steps]
    return pickle.dumps(packed, 5)


def _pack_times(times: list[int | None]) -> PackedValues:
    try:
        # The ints of a user's window may be numpy's, which become plain ones.
        return "q", array("q", times).tobytes()  # type: ignore[type-var]  # None makes it raise, without a search for it
    except (TypeError, OverflowError):
        return pack_values(times)


def unpack_keyed(payload: bytes) -> list[KeyedElements]:
    """Returns the elements that :func:`pack_keyed` was given."""
    return [
        KeyedElements(step, as_keys(unpack_values(keys)), unpack_values(values), unpack_values(timestamps))
        for step, keys, values, timestamps in pickle.loads(payload)
    ]


def pack_broadcast(steps: Sequence[tuple[int, list[Any], list[int | None]]]) -> bytes:
    """Packs elements for all keys of steps of one level. Undone by :func:`unpack_broadcast`."""
    return pickle.dumps([(step, pack_values(values), _pack_times(times)) for step, values, times in steps], 5)


def unpack_broadcast(payload: bytes) -> list[BroadcastElements]:
    """Returns the elements that :func:`pack_broadcast` was given."""
    return [
        BroadcastElements(step, unpack_values(values), unpack_values(timestamps))
        for step, values, timestamps in pickle.loads(payload)
    ]


def pack_partials(partials: Partials) -> bytes:
    """Packs the partial accumulators of one step. Undone by :func:`unpack_partials`."""
    return pickle.dumps([pack_values(list(column)) for column in partials], 5)


def unpack_partials(payload: bytes) -> Partials:
    """Returns the partial accumulators that :func:`pack_partials` was given."""
    keys, *columns = map(unpack_values, pickle.loads(payload))
    return Partials(as_keys(keys), *columns)


def dump_values(values: list[Any]) -> bytes:
    """Packs values for a sink or for the driver. Undone by :func:`load_values`."""
    return pickle.dumps(pack_values(values), 5)


def load_values(payload: bytes) -> Sequence[Any]:
    """Returns the values that :func:`dump_values` was given."""
    return unpack_values(pickle.loads(payload))
