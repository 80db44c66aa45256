"""How values of the standard library's classes are taken apart into columns, and built again."""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

from windrow.errors import IncompatibleStateError, UnsupportedOperationError
from windrow_runtime.storage.packed import Packed, packed

__all__ = [
    "CLASSES",
    "PACKERS",
    "READERS",
    "ColumnReader",
    "Pack",
    "cut",
    "join_bytes",
    "lengths_of",
    "split_bytes",
]

# Any throughout this module: values of every type.

Pack: TypeAlias = Callable[[Sequence[Any]], Packed]
"""Takes the values of a column apart."""

_UTC_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_MICROSECONDS_PER_SECOND: Final = 1_000_000
_FRACTION_BITS: Final = 1 << 17
"""The greatest common divisor of two numbers takes time by the product of their lengths."""

CLASSES: Final[Mapping[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        *(bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset),
        *(Counter, OrderedDict, deque, date, datetime, time, timedelta, timezone, ZoneInfo),
        *(Decimal, Fraction, UUID, type(None)),
    )
}
"""Classes that may themselves be values, such as the factory of a defaultdict, by the names under which they are."""


class ColumnReader(Protocol):
    """Reads the columns within a column."""

    def read(self, column: Packed) -> list[Any]:
        """The values of a column."""
        ...

    def distinct(self, keys: list[Any]) -> list[Any]:
        """Keys for a set or a dict.

        Raises:
            CheckpointError: If too many of their hashes are equal.
        """
        ...


# Pieces of a column


def lengths_of(values: Iterable[Any]) -> bytes:
    """The lengths of values, side by side."""
    return array("I", map(len, values)).tobytes()


def cut(lengths: bytes, flat: Sequence[Any]) -> Iterator[Any]:
    """Pieces of these lengths, which together are the whole."""
    numbers = array("I", lengths)
    if sum(numbers) != len(flat):
        raise ValueError(f"{len(flat)} parts, {sum(numbers)} expected")
    position = 0
    for length in numbers:
        yield flat[position : position + length]
        position += length


def join_bytes(tag: str, values: Sequence[bytes]) -> Packed:
    """A column of bytes."""
    return packed(tag, lengths_of(values), columns=[packed("", b"".join(values))])


def split_bytes(column: Packed) -> Iterator[bytes]:
    """The values that :func:`join_bytes` was given."""
    (whole,) = column.columns
    return cut(column.data, whole.data)


# Dates and times


def _pack_datetimes(pack: Pack, values: Sequence[datetime]) -> Packed:
    zone = values[0].tzinfo
    if all(value.tzinfo is zone for value in values) and not any(map(attrgetter("fold"), values)):
        if zone is None:
            return packed("naive", array("q", [(v - _EPOCH) // _MICROSECOND for v in values]).tobytes())
        if zone is UTC:
            return packed("utc", array("q", [(v - _UTC_EPOCH) // _MICROSECOND for v in values]).tobytes())
    naive = pack([value.replace(tzinfo=None, fold=0) for value in values])
    return packed(
        "datetime",
        bytes([value.fold for value in values]),
        columns=[naive, pack([value.tzinfo for value in values])],
    )


def _read_datetimes(reader: ColumnReader, column: Packed) -> list[datetime]:
    naive, zones = map(reader.read, column.columns)
    return [
        moment.replace(tzinfo=zone, fold=fold)
        for moment, zone, fold in zip(naive, zones, column.data, strict=True)
    ]


def _pack_times(pack: Pack, values: Sequence[time]) -> Packed:
    seconds = [(value.hour * 60 + value.minute) * 60 + value.second for value in values]
    numbers = [
        second * _MICROSECONDS_PER_SECOND + value.microsecond
        for second, value in zip(seconds, values, strict=True)
    ]
    return packed(
        "time",
        bytes([value.fold for value in values]),
        columns=[pack(numbers), pack([value.tzinfo for value in values])],
    )


def _read_times(reader: ColumnReader, column: Packed) -> list[time]:
    numbers, zones = map(reader.read, column.columns)
    return [
        (datetime.min + timedelta(microseconds=number)).time().replace(tzinfo=zone, fold=fold)
        for number, zone, fold in zip(numbers, zones, column.data, strict=True)
    ]


def _pack_dates(pack: Pack, values: Sequence[date]) -> Packed:
    return packed("date", array("i", map(date.toordinal, values)).tobytes())


def _pack_spans(pack: Pack, values: Sequence[timedelta]) -> Packed:
    return packed("timedelta", columns=[pack([value // _MICROSECOND for value in values])])


def _read_spans(reader: ColumnReader, column: Packed) -> list[timedelta]:
    (numbers,) = map(reader.read, column.columns)
    return [timedelta(microseconds=number) for number in numbers]


def _pack_offsets(pack: Pack, values: Sequence[timezone]) -> Packed:
    offsets = [value.utcoffset(None) for value in values]
    names = [value.tzname(None) for value in values]
    given = [
        None if timezone(offset).tzname(None) == name else name
        for offset, name in zip(offsets, names, strict=True)
    ]
    return packed("timezone", columns=[pack(offsets), pack(given)])


def _read_offsets(reader: ColumnReader, column: Packed) -> list[tzinfo]:
    offsets, names = map(reader.read, column.columns)
    return [
        timezone(offset) if name is None else timezone(offset, name)
        for offset, name in zip(offsets, names, strict=True)
    ]


def _pack_zones(pack: Pack, values: Sequence[ZoneInfo]) -> Packed:
    for value in set(values):
        try:
            value.__reduce__()  # refuses a zone that was read from a file: its key would lead to another
        except Exception as error:  # a PicklingError, which the standard library does not document
            raise UnsupportedOperationError(
                "a time zone cannot be stored",
                given=f"{value!r}: {error}",
                expected="a zone by its key, such as ZoneInfo('Europe/Berlin')",
            ) from error
    return packed("ZoneInfo", columns=[pack([value.key for value in values])])


def _read_zones(reader: ColumnReader, column: Packed) -> list[ZoneInfo]:
    (keys,) = map(reader.read, column.columns)
    return list(map(_zone, keys))


def _zone(key: Any) -> ZoneInfo:
    """A time zone by its key. Keys that lead out of the database of time zones are refused by ``zoneinfo``."""
    try:
        return ZoneInfo(key)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise IncompatibleStateError(
            "stored state names a time zone that this machine does not have",
            given=f"{key!r:.100}: {type(error).__name__}",
            expected="a key of the database of time zones, such as 'Europe/Berlin'",
            hint="install the package tzdata on every machine",
        ) from error


# Numbers and identities


def _pack_decimals(pack: Pack, values: Sequence[Decimal]) -> Packed:
    return packed("Decimal", scalars=list(map(str, values)))


def _read_decimals(reader: ColumnReader, column: Packed) -> list[Decimal]:
    # Of text alone: from a float, Decimal makes another number.
    return [Decimal(text) if isinstance(text, str) else _no_text(text) for text in column.scalars]


def _no_text(value: object) -> Any:
    raise TypeError(f"a {type(value).__name__} as text")


def _pack_fractions(pack: Pack, values: Sequence[Fraction]) -> Packed:
    for value in values:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > _FRACTION_BITS:
            raise UnsupportedOperationError(
                "a Fraction is too long to be stored",
                given=f"{value.numerator.bit_length()} over {value.denominator.bit_length()} bits",
                expected=f"at most {_FRACTION_BITS} bits in each",
                hint="limit_denominator(...) gives a near one that is shorter",
            )
    numerators = pack([value.numerator for value in values])
    return packed("Fraction", columns=[numerators, pack([value.denominator for value in values])])


def _read_fractions(reader: ColumnReader, column: Packed) -> list[Fraction]:
    numerators, denominators = map(reader.read, column.columns)
    for number in chain(numerators, denominators):
        if type(number) is not int or number.bit_length() > _FRACTION_BITS:
            raise ValueError(f"part of a Fraction: {type(number).__name__}")
    return list(map(Fraction, numerators, denominators))


def _pack_complex(pack: Pack, values: Sequence[complex]) -> Packed:
    return packed("complex", array("d", [part for v in values for part in (v.real, v.imag)]).tobytes())


def _read_complex(reader: ColumnReader, column: Packed) -> list[complex]:
    parts = array("d", column.data)
    return list(map(complex, parts[::2], parts[1::2]))


def _pack_ids(pack: Pack, values: Sequence[UUID]) -> Packed:
    safety = [value.is_safe.value for value in values]
    # Most say nothing of how they were made.
    return packed(
        "UUID", b"".join([value.bytes for value in values]), [] if set(safety) == {None} else safety
    )


def _read_ids(reader: ColumnReader, column: Packed) -> list[UUID]:
    pieces = cut(array("I", [16] * (len(column.data) // 16)).tobytes(), column.data)
    safety = map(SafeUUID, column.scalars) if column.scalars else repeat(SafeUUID.unknown)
    return [UUID(bytes=piece, is_safe=safe) for piece, safe in zip(pieces, safety, strict=False)]


# Containers


def _pack_mappings(tag: str) -> Callable[[Pack, Sequence[Any]], Packed]:
    def pack_mappings(pack: Pack, values: Sequence[Any]) -> Packed:
        keys = pack(list(chain.from_iterable(values)))
        held = pack([item for value in values for item in value.values()])
        return packed(tag, lengths_of(values), columns=[keys, held])

    return pack_mappings


def _pairs(reader: ColumnReader, column: Packed) -> Iterator[Iterable[tuple[Any, Any]]]:
    keys, held = map(reader.read, column.columns[:2])
    for some_keys, some in zip(cut(column.data, keys), cut(column.data, held), strict=True):
        yield zip(reader.distinct(some_keys), some, strict=True)


def _read_counters(reader: ColumnReader, column: Packed) -> list[Counter[Any]]:
    found: list[Counter[Any]] = []
    for pairs in _pairs(reader, column):
        counter: Counter[Any] = Counter()
        dict.update(counter, pairs)  # its own method adds
        found.append(counter)
    return found


def _pack_default_dicts(pack: Pack, values: Sequence[defaultdict[Any, Any]]) -> Packed:
    plain = _pack_mappings("defaultdict")(pack, values)
    return packed(
        plain.tag, plain.data, columns=[*plain.columns, pack([value.default_factory for value in values])]
    )


def _read_default_dicts(reader: ColumnReader, column: Packed) -> list[defaultdict[Any, Any]]:
    factories = reader.read(column.columns[2])
    if not all(factory is None or isinstance(factory, type) for factory in factories):
        raise TypeError("the factory of a defaultdict is no class")
    return list(map(defaultdict, factories, _pairs(reader, column)))


def _pack_deques(pack: Pack, values: Sequence[deque[Any]]) -> Packed:
    items = pack(list(chain.from_iterable(values)))
    return packed("deque", lengths_of(values), columns=[items, pack([value.maxlen for value in values])])


def _read_deques(reader: ColumnReader, column: Packed) -> list[deque[Any]]:
    items, longest = map(reader.read, column.columns)
    return [deque(some, most) for some, most in zip(cut(column.data, items), longest, strict=True)]


def _pack_ranges(pack: Pack, values: Sequence[range]) -> Packed:
    ends = [pack([getattr(value, name) for value in values]) for name in ("start", "stop", "step")]
    return packed("range", columns=ends)


def _read_ranges(reader: ColumnReader, column: Packed) -> list[range]:
    starts, stops, steps = map(reader.read, column.columns)
    return list(map(range, starts, stops, steps))


def _pack_bytes(pack: Pack, values: Sequence[bytes]) -> Packed:
    return join_bytes("bytes", values)


def _pack_byte_arrays(pack: Pack, values: Sequence[bytearray]) -> Packed:
    return join_bytes("bytearray", list(map(bytes, values)))


PACKERS: Final[Mapping[type[Any], Callable[[Pack, Sequence[Any]], Packed]]] = {
    bytes: _pack_bytes,
    bytearray: _pack_byte_arrays,
    complex: _pack_complex,
    range: _pack_ranges,
    datetime: _pack_datetimes,
    date: _pack_dates,
    time: _pack_times,
    timedelta: _pack_spans,
    timezone: _pack_offsets,
    ZoneInfo: _pack_zones,
    Decimal: _pack_decimals,
    Fraction: _pack_fractions,
    UUID: _pack_ids,
    Counter: _pack_mappings("Counter"),
    OrderedDict: _pack_mappings("OrderedDict"),
    defaultdict: _pack_default_dicts,
    deque: _pack_deques,
}
"""By the class of all values of a column."""

READERS: Final[Mapping[str, Callable[[ColumnReader, Packed], list[Any]]]] = {
    "bytes": lambda reader, column: list(split_bytes(column)),
    "bytearray": lambda reader, column: list(map(bytearray, split_bytes(column))),
    "complex": _read_complex,
    "range": _read_ranges,
    "naive": lambda reader, column: [_EPOCH + _MICROSECOND * number for number in array("q", column.data)],
    "utc": lambda reader, column: [_UTC_EPOCH + _MICROSECOND * number for number in array("q", column.data)],
    "datetime": _read_datetimes,
    "date": lambda reader, column: list(map(date.fromordinal, array("i", column.data))),
    "time": _read_times,
    "timedelta": _read_spans,
    "timezone": _read_offsets,
    "ZoneInfo": _read_zones,
    "Decimal": _read_decimals,
    "Fraction": _read_fractions,
    "UUID": _read_ids,
    "Counter": _read_counters,
    "OrderedDict": lambda reader, column: list(map(OrderedDict, _pairs(reader, column))),
    "defaultdict": _read_default_dicts,
    "deque": _read_deques,
}
"""By the tag of the column."""
