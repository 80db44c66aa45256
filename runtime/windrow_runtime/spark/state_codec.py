"""State as bytes: values by their types, column by column; nothing that has to be trusted to be unpickled.

Scalars, containers and records are taken apart into columns of builtins, which pickle carries without naming any
class. What is left, such as a date, is pickled too, but only values of classes that are known: those of the plan, plain
records, and value types of the standard library. Reading refuses every other name, so bytes that somebody else has
written cannot run code. A plan may allow more; see ``Pipeline(..., allow_pickled_state=True)``.

Damaged bytes, and those that somebody has written to do harm, are refused before pickle sees them, and what they may
fill of the memory is bounded by their length. The exception is what is pickled of known classes: to make such values
runs the methods of their classes, and may hash what lies in them, which nothing here bounds.
"""

from __future__ import annotations

import io
import pickle
from array import array
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from enum import Enum
from itertools import chain, compress
from typing import Any, ClassVar, Final, TypeAlias

from windrow.errors import IncompatibleStateError, UnsupportedOperationError
from windrow.windows import GlobalWindow
from windrow_runtime.codecs.damage import damaged_state
from windrow_runtime.operators.stored_list import GrowingList, SegmentReader, StoredList
from windrow_runtime.spark.classes import (
    UserClass,
    find_by_name,
    find_registered,
    pickle_any,
    registered_name,
)
from windrow_runtime.spark.columns import record_fields, splitter
from windrow_runtime.spark.known_pickle import (
    KnownPickler,
    UnknownClassError,
    is_standard,
    load_known,
    refused,
)
from windrow_runtime.spark.pickle_check import COLUMNS, OBJECTS

__all__ = ["Packed", "StateCodec"]

# Any throughout this module: state is of the user's types.

Packed: TypeAlias = tuple[Any, ...]
"""A column: how it is encoded, then what."""

_DAMAGES: Final = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
    OverflowError,
    MemoryError,
    RecursionError,
    StopIteration,
    AssertionError,
)
"""What bytes lead to that are not what was written."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND: Final = timedelta(microseconds=1)
_SCALARS: Final = frozenset({bool, int, float, str, bytes, type(None)})


class StateCodec:
    """Encodes and decodes columns of state.

    Args:
        classes: The classes that the plan names. They must be registered in this process.
        allow_pickled: Whether values of other classes may be pickled, and unpickled.
    """

    def __init__(self, classes: Iterable[UserClass] = (), *, allow_pickled: bool = False) -> None:
        self._allow_pickled = allow_pickled
        self._answers: dict[str, bool] = {}
        self._names = {_full_name(known.kind) for known in classes}

    # Out

    def pack(self, values: Sequence[Any]) -> Packed:
        """Values as a column. Undone by :meth:`unpack`.

        Raises:
            UnsupportedOperationError: For a value of a class that the plan does not name.
        """
        kinds = set(map(type, values))
        if len(kinds) == 1:
            (kind,) = kinds
            pack = self._PACKERS.get(kind)
            if pack is not None:
                return pack(self, values)
            if kind in _SCALARS:
                return ("v", list(values))
            return self._pack_class(kind, values)
        if kinds <= _SCALARS:
            return ("v", list(values))
        if len(kinds) == 2 and type(None) in kinds:
            present = [value is not None for value in values]
            return ("o", bytes(present), self.pack(list(compress(values, present))))
        return self._pack_objects(values)

    def _pack_floats(self, values: Sequence[Any]) -> Packed:
        return ("f", array("d", values).tobytes())

    def _pack_ints(self, values: Sequence[Any]) -> Packed:
        try:
            return ("i", array("q", values).tobytes())
        except OverflowError:
            return ("v", list(values))

    def _pack_tuples(self, values: Sequence[Any]) -> Packed:
        lengths = set(map(len, values))
        if lengths == {0}:
            # A byte for each, so that no small number makes many values.
            return ("t", bytes(len(values)), ())
        if len(lengths) == 1:
            return ("t", b"", tuple(map(self.pack, zip(*values, strict=True))))
        return ("T", _lengths(values), self.pack(list(chain.from_iterable(values))))

    def _pack_growing(self, values: Sequence[Any]) -> Packed:
        return ("g", _lengths(values), self.pack(list(chain.from_iterable(values))))

    def _pack_ranges(self, values: Sequence[Any]) -> Packed:
        return ("R", self.pack([(value.start, value.stop, value.step) for value in values]))

    def _pack_lists(self, values: Sequence[Any]) -> Packed:
        return ("l", _lengths(values), self.pack(list(chain.from_iterable(values))))

    def _pack_sets(self, values: Sequence[Any]) -> Packed:
        return ("s", _lengths(values), self.pack(list(chain.from_iterable(values))))

    def _pack_frozensets(self, values: Sequence[Any]) -> Packed:
        return ("z", _lengths(values), self.pack(list(chain.from_iterable(values))))

    def _pack_dicts(self, values: Sequence[Any]) -> Packed:
        keys = self.pack(list(chain.from_iterable(values)))
        return ("d", _lengths(values), keys, self.pack([held for value in values for held in value.values()]))

    def _pack_stored(self, values: Sequence[Any]) -> Packed:
        segments = self.pack([value.segments for value in values])
        return ("S", segments, self.pack([value.tail for value in values]))

    def _pack_datetimes(self, values: Sequence[Any]) -> Packed:
        if {value.tzinfo for value in values} != {timezone.utc}:
            return self._pack_objects(values)
        return ("u", array("q", [(value - _EPOCH) // _MICROSECOND for value in values]).tobytes())

    _PACKERS: ClassVar[dict[type[Any], Callable[[StateCodec, Sequence[Any]], Packed]]] = {
        float: _pack_floats,
        int: _pack_ints,
        tuple: _pack_tuples,
        list: _pack_lists,
        set: _pack_sets,
        frozenset: _pack_frozensets,
        dict: _pack_dicts,
        GrowingList: _pack_growing,
        StoredList: _pack_stored,
        range: _pack_ranges,
        datetime: _pack_datetimes,
    }

    def _pack_class(self, kind: type[Any], values: Sequence[Any]) -> Packed:
        name = registered_name(kind) if self._is_known(_full_name(kind)) else None
        if name is None:
            return self._pack_objects(values)
        if issubclass(kind, Enum):
            return ("e", name, self.pack([value.value for value in values]))
        split = splitter(kind)
        if split is None:
            return self._pack_objects(values)
        return ("r", name, record_fields(kind), tuple(map(self.pack, split(list(values)))))

    def _pack_objects(self, values: Sequence[Any]) -> Packed:
        kinds = list(dict.fromkeys(map(type, values)))
        if len(kinds) > 1:
            # A column for each kind, and which kind each value is of.
            places = {kind: place for place, kind in enumerate(kinds)}
            chosen = array("H", [places[type(value)] for value in values]).tobytes()
            return ("m", chosen, tuple(self.pack([v for v in values if type(v) is kind]) for kind in kinds))
        buffer = io.BytesIO()
        try:
            KnownPickler(buffer, self._check_known).dump(list(values))
        except UnknownClassError as error:
            if self._allow_pickled:
                return ("P", self._pickle_whole(kinds[0], values))
            raise UnsupportedOperationError(
                "a value of a class that the plan does not name is to be stored",
                given=str(error),
                expected="values of builtin types, records, or classes named in annotations of the plan's functions",
                hint="annotate the function, or say .returns(Type); for any other class: "
                "Pipeline(..., allow_pickled_state=True)",
            ) from None
        except (
            Exception
        ) as error:  # pickle, and the methods of the user's class that it calls, may raise anything
            raise _not_stored(kinds[0], error) from error
        return ("p", buffer.getvalue())

    def _pickle_whole(self, kind: type[Any], values: Sequence[Any]) -> bytes:
        try:
            return pickle_any(list(values))
        except Exception as error:  # as above
            raise _not_stored(kind, error) from error

    def _check_known(self, kind: Any) -> None:
        module = getattr(kind, "__module__", "")
        name = getattr(kind, "__qualname__", "")
        if not self._is_known(f"{module}:{name}"):
            raise UnknownClassError(f"{module}.{name}")

    def _is_known(self, full_name: str) -> bool:
        known = self._answers.get(full_name)
        if known is None:
            known = self._answers[full_name] = self._find_out(full_name)
        return known

    def _find_out(self, full_name: str) -> bool:
        module, _, name = full_name.partition(":")
        if full_name in self._names or is_standard(module, name):
            return True
        kind = find_by_name(full_name)
        # A name may lead through one module into another, or to what a class inherited.
        if kind is None or _full_name(kind) != full_name:
            return False
        # Plain data that the plan's functions brought along: to make it runs no code but a generated constructor.
        return kind is GlobalWindow or issubclass(kind, Enum) or bool(record_fields(kind))

    # In

    def unpack(self, packed: Packed, reader: SegmentReader | None = None) -> list[Any]:
        """The values of a column.

        Args:
            packed: The column.
            reader: Reads the segments of stored lists.

        Raises:
            CheckpointError: If the bytes are damaged.
            IncompatibleStateError: If they name a class that the plan does not know.
        """
        try:
            return self._read(packed, reader)
        except _DAMAGES as error:
            raise damaged_state(f"{type(error).__name__}: {error}") from error

    def _read(self, packed: Packed, reader: SegmentReader | None = None) -> list[Any]:
        tag = packed[0]
        flat = _FLAT.get(tag)
        if flat is not None:
            return flat(packed[1])
        if tag == "t":
            columns = [self._read(column, reader) for column in packed[2]]
            # Of bytes alone, whose length was counted; a text may be long, and be named many times.
            return list(zip(*columns, strict=True)) if columns else [()] * len(memoryview(packed[1]))
        if tag in _CUTTERS:
            return list(map(_CUTTERS[tag], _cut(packed[1], self._read(packed[2], reader))))
        if tag == "d":
            keys = self._read(packed[2], reader)
            pairs = list(zip(keys, self._read(packed[3], reader), strict=True))
            return list(map(dict, _cut(packed[1], pairs)))
        if tag == "o":
            present = iter(self._read(packed[2], reader))
            return [next(present) if filled else None for filled in packed[1]]
        if tag == "r":
            return self._unpack_records(packed, reader)
        if tag == "e":
            kind = self._class_of(packed[1])
            if not issubclass(kind, Enum):
                raise refused(f"{packed[1]} as an Enum")
            return list(map(kind, self._read(packed[2], reader)))
        if tag == "R":
            return [range(*ends) for ends in self._read(packed[1])]
        if tag == "S":
            assert reader is not None, "stored lists are read with their reader"
            pieces = zip(self._read(packed[1]), self._read(packed[2]), strict=True)
            return [StoredList(reader, segments, tail) for segments, tail in pieces]
        if tag == "m":
            columns_of = [iter(self._read(column, reader)) for column in packed[2]]
            return [next(columns_of[place]) for place in array("H", packed[1])]
        return self._unpack_objects(tag, packed[1])

    def _class_of(self, name: str) -> type[Any]:
        if not self._is_known(name):
            raise refused(name)
        return find_registered(name)

    def _unpack_records(self, packed: Packed, reader: SegmentReader | None) -> list[Any]:
        _, name, fields, columns = packed
        kind = self._class_of(name)
        unpacked = [self._read(column, reader) for column in columns]
        now = record_fields(kind)
        if not fields or len(set(map(len, unpacked))) != 1:
            raise damaged_state(f"columns of {name}")
        if now == fields:
            return list(map(kind, *unpacked))
        if not now:
            raise refused(f"{name} as a record")
        # The class has changed: by name, and a new field must have a default.
        kept = {field: column for field, column in zip(fields, unpacked, strict=True) if field in now}
        names = tuple(kept)
        try:
            if not kept:
                raise TypeError("none of the stored fields is left")
            return [kind(**dict(zip(names, row, strict=True))) for row in zip(*kept.values(), strict=True)]
        except TypeError as error:
            raise IncompatibleStateError(
                f"stored values of {name} do not fit the class as it is now",
                given=f"fields {', '.join(fields)}",
                expected=f"fields {', '.join(now)}; a new one needs a default",
                hint="give the new field a default, or use a new checkpoint",
            ) from error

    def _unpack_objects(self, tag: str, data: bytes) -> list[Any]:
        if tag == "P":
            if not self._allow_pickled:
                raise refused("values that were pickled as a whole")
            return list(pickle.loads(data))
        if tag != "p":
            raise damaged_state(f"a column of kind {tag!r}")
        OBJECTS.check(data)
        return list(load_known(data, self._is_known))

    # Whole values

    def dumps(self, column: Packed) -> bytes:
        """A column as bytes: builtins alone, so that no class is named."""
        return pickle.dumps(column, 5)

    def loads(self, data: bytes) -> Packed:
        """The column that :meth:`dumps` was given.

        Raises:
            CheckpointError: If the bytes are not a column, or name any class.
        """
        try:
            COLUMNS.check(data)
            column: Any = pickle.loads(data)
        except _DAMAGES as error:
            raise damaged_state(data[:16].hex()) from error
        if not isinstance(column, tuple) or not column:
            raise damaged_state(type(column).__name__)
        _check_size(column, 2 * len(data))
        return column


def _check_size(column: Packed, limit: int) -> None:
    """Refuses columns that hold more than the bytes that they came from, and lists of anything but scalars.

    A pickle may hold one column and name it many times, in columns that it names many times, and so on. It may hold a
    list in itself.

    Raises:
        CheckpointError: If they do.
    """
    size = 0
    waiting: list[Any] = [column]
    while waiting:
        found = waiting.pop()
        size += 1
        if type(found) is tuple:
            waiting.extend(found)
        elif type(found) in {bytes, list}:
            size += len(found)
            if type(found) is list and not set(map(type, found)) <= _SCALARS:
                raise damaged_state("a list of other values than scalars")
        if size + len(waiting) > limit:
            raise damaged_state(f"columns larger than {limit} bytes, which is twice what they came from")


def _not_stored(kind: type[Any], error: Exception) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        "a value of the state cannot be stored",
        given=f"{kind.__module__}.{kind.__qualname__}: {type(error).__name__}: {error}",
        expected="values that pickle can carry",
        hint="keep open files, connections, locks and functions out of accumulators and state",
    )


def _full_name(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _lengths(values: Iterable[Any]) -> bytes:
    return array("I", map(len, values)).tobytes()


def _scalars(held: Any) -> list[Any]:
    if type(held) is not list:
        raise TypeError(f"a list of scalars is a {type(held).__name__}")
    return held


def _cut(lengths: bytes, flat: list[Any]) -> Iterable[list[Any]]:
    position = 0
    for length in array("I", lengths):
        yield flat[position : position + length]
        position += length
    if position != len(flat):
        raise ValueError(f"{len(flat)} parts, {position} expected")


_FLAT: Final[dict[str, Callable[[Any], list[Any]]]] = {
    "v": _scalars,
    "f": lambda data: array("d", data).tolist(),
    "i": lambda data: array("q", data).tolist(),
    "u": lambda data: [_EPOCH + _MICROSECOND * moment for moment in array("q", data)],
}
_CUTTERS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "l": list,
    "g": GrowingList,
    "T": tuple,
    "s": set,
    "z": frozenset,
}
