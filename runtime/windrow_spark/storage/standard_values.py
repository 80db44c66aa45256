"""Encodes values of builtin types and of the standard library as columns, and decodes them.

The time in which stored keys are put into sets and dicts is bounded. Keys whose hashes are equal are compared with each
other, so n of them take n * n / 2 comparisons. Whoever writes bytes can choose such keys: Python's hash of an int is
its remainder by 2**61 - 1. Keys of a genuine state collide seldom, or, as powers of two do, some hundred at a time.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

from windrow.errors import IncompatibleStateError, UnsupportedOperationError
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.operators.state.model import NOTHING, GrowingList, SegmentReader, StoredList
from windrow_spark.storage.packed import Packed, is_encodable, packed
from windrow_spark.storage.stored_classes import StoredClasses

# Any throughout this module: values of every type.

_UTC_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_FRACTION_BITS: Final = 1 << 17  # a fraction's greatest common divisor takes time by the product of two lengths
_SAMPLE: Final = 64  # so many first values of a column of texts show whether texts repeat
_UNCHECKED: Final = 64  # sets of up to this many keys are fast even if all of them collide
_COMPARISONS_PER_KEY: Final = 64
_EXTRA_COMPARISONS: Final = 1 << 22
_NUMBERS: Final = frozenset({bool, int, float, complex, Decimal, Fraction})
"""The types whose values are compared in little time; tuples, by contrast, may share a long beginning."""


class CollisionBudget:
    """Limits the comparisons of keys with equal hashes, beyond a few per key, while one page or column is decoded."""

    def __init__(self) -> None:
        self._left = _EXTRA_COMPARISONS

    def checked(self, keys: list[Any]) -> list[Any]:
        """Returns the keys, or raises a CheckpointError if so many hashes are equal that a set would take too long."""
        if len(keys) <= _UNCHECKED:
            return keys
        if Fraction in set(map(type, keys)):
            # From Python 3.12 on, the hash of a fraction is cached by its numerator and denominator.
            self.checked([(key.numerator, key.denominator) for key in keys if type(key) is Fraction])
        hashes = list(map(hash, keys))
        if len(set(hashes)) == len(hashes):
            return keys
        comparisons = sum(count * count for count in Counter(hashes).values() if count > 1)
        if comparisons <= _COMPARISONS_PER_KEY * len(keys):
            return keys
        if set(map(type, keys)) <= _NUMBERS:
            self._left -= comparisons
            if self._left >= 0:
                return keys
        raise damaged_state(
            f"{len(keys)} keys with {len(set(hashes))} different hashes", expected="keys whose hashes differ"
        )


Pack: TypeAlias = Callable[[Sequence[Any]], Packed]
"""Encodes the values of a column."""


class PicklesValues(Protocol):
    """Pickles values of classes that cannot be stored otherwise; the engine provides it if the plan allows pickles."""

    def dumps(self, class_: type[Any], values: Sequence[Any]) -> bytes:
        """Pickles values of a class."""

    def loads(self, data: bytes) -> list[Any]:
        """Unpickles the values."""


@dataclass(slots=True)
class ColumnReader:
    """Decodes a column and its nested columns, whose sets and dicts share one budget for collisions."""

    readers: Mapping[str, Callable[[ColumnReader, Packed], list[Any]]]  # by the tags of columns
    classes: StoredClasses
    pickles: PicklesValues | None  # None: the plan does not allow pickled values
    segments: SegmentReader | None  # None: there are no stored lists
    collisions: CollisionBudget = field(default_factory=CollisionBudget)

    def read(self, column: Packed) -> list[Any]:
        """Decodes the values of a column."""
        read = self.readers.get(column.tag)
        if read is None:
            raise damaged_state(f"a column of kind {column.tag!r:.100}")
        return read(self, column)

    def read_within(self, column: Packed) -> list[list[Any]]:
        """Decodes the values of each nested column."""
        return list(map(self.read, column.columns))


# Variable-length parts of a column


def _lengths_of(values: Iterable[Any]) -> bytes:
    return array("I", map(len, values)).tobytes()


def _cut(lengths: bytes, flat: Sequence[Any]) -> Iterator[Any]:
    """Cuts a sequence into parts of these lengths, which together must be the whole."""
    numbers = array("I", lengths)
    if sum(numbers) != len(flat):
        raise ValueError(f"{len(flat)} parts, {sum(numbers)} expected")
    position = 0
    for length in numbers:
        yield flat[position : position + length]
        position += length


def _join_bytes(tag: str, values: Sequence[bytes]) -> Packed:
    return packed(tag, _lengths_of(values), columns=[packed("", b"".join(values))])


def _split_bytes(column: Packed) -> Iterator[bytes]:
    (whole,) = column.columns
    return _cut(column.data, whole.data)


# Scalars


def _pack_ints(pack: Pack, values: Sequence[int]) -> Packed:
    try:
        return packed("i", array("q", values).tobytes())
    except OverflowError:
        return _join_bytes(
            "int", [value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True) for value in values]
        )


def _pack_texts(pack: Pack, values: Sequence[str]) -> Packed:
    if len(set(values[:_SAMPLE])) > len(values[:_SAMPLE]) // 2:
        return _pack_different_texts(values)
    # Repeated texts are dictionary-encoded; decoded values share one object per text.
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    codes = map(numbers.__getitem__, values)
    texts = _pack_different_texts(list(numbers))
    if len(numbers) <= 256:
        return packed("w", bytes(codes), columns=[texts])
    return packed("W", array("I", codes).tobytes(), columns=[texts])


def _pack_different_texts(values: Sequence[str]) -> Packed:
    whole = "".join(values)
    if whole.isascii() or is_encodable(whole):
        return packed("v", scalars=list(values))
    return _join_bytes("str", [value.encode("utf-8", "surrogatepass") for value in values])


def _read_repeated(reader: ColumnReader, column: Packed, codes: Sequence[int]) -> list[str]:
    (texts,) = reader.read_within(column)
    # Only texts may be shared: nested containers that share others could grow far beyond the bytes.
    if not set(map(type, texts)) <= {str}:
        raise TypeError("values that are shared are no texts")
    return [texts[code] for code in codes]


# Containers


def _pack_tuples(pack: Pack, values: Sequence[tuple[Any, ...]]) -> Packed:
    lengths = set(map(len, values))
    if lengths == {0}:
        # A byte for each value, so that few bytes cannot decode to many values.
        return packed("t", bytes(len(values)))
    if len(lengths) == 1:
        return packed("t", columns=[*map(pack, zip(*values, strict=True))])
    return _pack_items("T", pack, values)


def _read_tuples(reader: ColumnReader, column: Packed) -> list[tuple[Any, ...]]:
    if not column.columns:
        return [()] * len(column.data)
    return list(zip(*reader.read_within(column), strict=True))


def _pack_items(tag: str, pack: Pack, values: Sequence[Any]) -> Packed:
    return packed(tag, _lengths_of(values), columns=[pack(list(chain.from_iterable(values)))])


def _read_items(make: Callable[[list[Any]], Any], reader: ColumnReader, column: Packed) -> list[Any]:
    (flat,) = reader.read_within(column)
    lists = _cut(column.data, flat)
    return list(lists if make is list else map(make, lists))


def _read_sets(make: Callable[[list[Any]], Any], reader: ColumnReader, column: Packed) -> list[Any]:
    return [make(reader.collisions.checked(items)) for items in _read_items(list, reader, column)]


def _pack_dicts(pack: Pack, values: Sequence[dict[Any, Any]]) -> Packed:
    key_column = pack(list(chain.from_iterable(values)))
    value_column = pack([value for items in values for value in items.values()])
    return packed("d", _lengths_of(values), columns=[key_column, value_column])


def _read_dicts(reader: ColumnReader, column: Packed) -> list[dict[Any, Any]]:
    keys, values = reader.read_within(column)
    # All pairs are zipped at once, which is faster than dict by dict.
    pairs = list(zip(keys, values, strict=True))
    return [dict(items if len(items) <= _UNCHECKED else _distinct(reader, items)) for items in _cut(column.data, pairs)]


def _distinct(reader: ColumnReader, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    reader.collisions.checked([key for key, _ in pairs])
    return pairs


def _pack_stored_lists(pack: Pack, values: Sequence[StoredList]) -> Packed:
    return packed("S", columns=[pack([value.segments for value in values]), pack([value.tail for value in values])])


def _read_stored_lists(reader: ColumnReader, column: Packed) -> list[StoredList]:
    segments = reader.segments
    assert segments is not None, "stored lists are read with their reader"
    numbers, tails = reader.read_within(column)
    if not (
        set(map(type, tails)) <= {list}
        and set(map(type, numbers)) <= {tuple}
        and set(map(type, chain.from_iterable(numbers))) <= {int}
    ):
        raise TypeError("a list in segments has other parts")
    return [StoredList(segments, *parts) for parts in zip(numbers, tails, strict=True)]


# Times


def _pack_datetimes(pack: Pack, values: Sequence[datetime]) -> Packed:
    zone = values[0].tzinfo
    if all(value.tzinfo is zone for value in values) and not any(map(attrgetter("fold"), values)):
        if zone is None:
            return packed("naive", array("q", [(v - _EPOCH) // _MICROSECOND for v in values]).tobytes())
        if zone is UTC:
            return packed("utc", array("q", [(v - _UTC_EPOCH) // _MICROSECOND for v in values]).tobytes())
    return _pack_parts(datetime, pack, values)


def _read_datetimes(epoch: datetime, reader: ColumnReader, column: Packed) -> list[datetime]:
    return [epoch + _MICROSECOND * number for number in array("q", column.data)]


# Values that consist of a few parts


class _Parts(NamedTuple):
    """How values of a class are encoded: one column for each part of a value."""

    parts: Sequence[Callable[[Any], Any] | str]  # the functions or attributes that give the parts
    make: Callable[..., Any]  # builds a value from its parts
    first: type[Any] | None = None  # the class of the first part, where that decides what is made


def _microseconds(value: time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def _zoned(moment: Any, zone: Any, fold: Any) -> Any:
    return moment.replace(tzinfo=zone, fold=fold)


def _own_name(value: timezone) -> str | None:
    name = value.tzname(None)
    return None if timezone(value.utcoffset(None)).tzname(None) == name else name


def _zone_key(value: ZoneInfo) -> str:
    try:
        value.__reduce__()  # refuses a zone that was read from a file: its key would lead to another
    except Exception as error:  # a PicklingError, which the standard library does not document
        raise UnsupportedOperationError(
            "a time zone cannot be stored",
            given=f"{value!r}: {error}",
            expected="a zone by its key, such as ZoneInfo('Europe/Berlin')",
        ) from error
    return value.key


def _zone(key: Any) -> ZoneInfo:
    """Looks up a time zone by its key; ``zoneinfo`` refuses keys that lead out of the database of time zones."""
    try:
        return ZoneInfo(key)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise IncompatibleStateError(
            "stored state names a time zone that this machine does not have",
            given=f"{key!r:.100}: {type(error).__name__}",
            expected="a key of the database of time zones, such as 'Europe/Berlin'",
            hint="install the package tzdata on every machine",
        ) from error


def _numerator(value: Fraction) -> int:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _FRACTION_BITS:
        raise UnsupportedOperationError(
            "a Fraction is too long to be stored",
            given=f"{value.numerator.bit_length()} over {value.denominator.bit_length()} bits",
            expected=f"at most {_FRACTION_BITS} bits in each",
            hint="limit_denominator(...) gives a near one that is shorter",
        )
    return value.numerator


def _fraction(*parts: Any) -> Fraction:
    for number in parts:
        if type(number) is not int or number.bit_length() > _FRACTION_BITS:
            raise ValueError(f"part of a Fraction: {type(number).__name__}")
    return Fraction(*parts)


def _counter(counts: dict[Any, Any]) -> Counter[Any]:
    counter: Counter[Any] = Counter()
    dict.update(counter, counts)  # its own method adds
    return counter


def _default_dict(items: dict[Any, Any], factory: Any) -> defaultdict[Any, Any]:
    if not (factory is None or isinstance(factory, type)):
        raise TypeError("the factory of a defaultdict is no class")
    return defaultdict(factory, items)


_SAFETY: Final = {safety.value: safety for safety in SafeUUID}

_PARTS: Final[Mapping[type[Any], _Parts]] = {
    bytearray: _Parts([bytes], bytearray, bytes),
    complex: _Parts(["real", "imag"], complex),
    range: _Parts(["start", "stop", "step"], range),
    # Decimal accepts other types than text, and makes another number from a float.
    Decimal: _Parts([str], Decimal, str),
    Fraction: _Parts([_numerator, "denominator"], _fraction),
    UUID: _Parts(["bytes", "is_safe.value"], lambda data, safe: UUID(bytes=data, is_safe=_SAFETY[safe])),
    date: _Parts([date.toordinal], date.fromordinal),
    datetime: _Parts([lambda value: value.replace(tzinfo=None, fold=0), "tzinfo", "fold"], _zoned),
    time: _Parts(
        [_microseconds, "tzinfo", "fold"],
        lambda since, zone, fold: _zoned((datetime.min + _MICROSECOND * since).time(), zone, fold),
    ),
    timedelta: _Parts([lambda value: value // _MICROSECOND], lambda number: _MICROSECOND * number),
    timezone: _Parts(
        [lambda value: value.utcoffset(None), _own_name],
        lambda offset, name: timezone(offset) if name is None else timezone(offset, name),
    ),
    ZoneInfo: _Parts([_zone_key], _zone),
    Counter: _Parts([dict], _counter, dict),
    OrderedDict: _Parts([dict], OrderedDict, dict),
    defaultdict: _Parts([dict, "default_factory"], _default_dict, dict),
    deque: _Parts([list, "maxlen"], deque, list),
}


def _pack_parts(class_: type[Any], pack: Pack, values: Sequence[Any]) -> Packed:
    getters = [attrgetter(part) if isinstance(part, str) else part for part in _PARTS[class_].parts]
    return packed(class_.__name__, columns=[pack(list(map(get, values))) for get in getters])


def _read_parts(parts: _Parts, reader: ColumnReader, column: Packed) -> list[Any]:
    columns = reader.read_within(column)
    if parts.first is not None and not set(map(type, columns[0])) <= {parts.first}:
        raise TypeError(f"values that are not made of a {parts.first.__name__}")
    if len(set(map(len, columns))) != 1:
        raise ValueError("columns of other lengths")
    return list(map(parts.make, *columns))


def _pack_scalars(pack: Pack, values: Sequence[Any]) -> Packed:
    return packed("v", scalars=list(values))


PACKERS: Final[Mapping[type[Any], Callable[[Pack, Sequence[Any]], Packed]]] = {
    type(NOTHING): lambda pack, values: packed("nothing", bytes(len(values))),
    **{kind: partial(_pack_parts, kind) for kind in _PARTS},
    type(None): _pack_scalars,
    bool: _pack_scalars,
    float: lambda pack, values: packed("f", array("d", values).tobytes()),
    int: _pack_ints,
    str: _pack_texts,
    bytes: lambda pack, values: _join_bytes("bytes", values),
    tuple: _pack_tuples,
    list: partial(_pack_items, "l"),
    GrowingList: partial(_pack_items, "g"),
    set: partial(_pack_items, "s"),
    frozenset: partial(_pack_items, "z"),
    dict: _pack_dicts,
    StoredList: _pack_stored_lists,
    datetime: _pack_datetimes,
}
"""The encoders of columns whose values have one class, by that class."""

READERS: Final[Mapping[str, Callable[[ColumnReader, Packed], list[Any]]]] = {
    "nothing": lambda reader, column: [NOTHING] * len(column.data),
    **{kind.__name__: partial(_read_parts, parts) for kind, parts in _PARTS.items()},
    "v": lambda reader, column: list(column.scalars),
    "f": lambda reader, column: array("d", column.data).tolist(),
    "i": lambda reader, column: array("q", column.data).tolist(),
    "int": lambda reader, column: [int.from_bytes(encoded, "little", signed=True) for encoded in _split_bytes(column)],
    "str": lambda reader, column: [encoded.decode("utf-8", "surrogatepass") for encoded in _split_bytes(column)],
    "w": lambda reader, column: _read_repeated(reader, column, column.data),
    "W": lambda reader, column: _read_repeated(reader, column, array("I", column.data)),
    "bytes": lambda reader, column: list(_split_bytes(column)),
    "t": _read_tuples,
    "T": partial(_read_items, tuple),
    "l": partial(_read_items, list),
    "g": partial(_read_items, GrowingList),
    "s": partial(_read_sets, set),
    "z": partial(_read_sets, frozenset),
    "d": _read_dicts,
    "S": _read_stored_lists,
    "naive": partial(_read_datetimes, _EPOCH),
    "utc": partial(_read_datetimes, _UTC_EPOCH),
}
"""The decoders of columns, by the column's tag."""
