"""Encodes values of state as bytes, column by column. Decoding calls no code that the bytes choose.

Scalars, containers, records and the value types of the standard library become columns, which MessagePack carries. A
record is stored under the name of its class, which must be one that the plan names, and built from its fields. No
method of the class is called but ``__hash__`` and ``__eq__`` of keys: a record is restored as it was. So bytes that
somebody else has written cannot run code, and damaged ones are refused. Their length limits the memory and the time
that decoding takes.

A plan may allow values of other classes, which are pickled then; see ``Pipeline(..., allow_pickled_state=True)``.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import compress
from operator import attrgetter
from typing import Any, Final

from windrow.calls.attributes import attributes_of
from windrow.errors import IncompatibleStateError, UnsupportedOperationError, WindrowError
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.class_facts import set_attributes
from windrow_runtime.operators.state.model import SegmentReader
from windrow_spark.storage.packed import Packed, decode, encode, is_encodable, packed
from windrow_spark.storage.standard_values import PACKERS, READERS, ColumnReader, PicklesValues
from windrow_spark.storage.stored_classes import (
    STANDARD_CLASSES,
    StoredClasses,
    StoredForm,
    build_records,
    fields_of,
    holds_flags,
    object_maker,
    plain_value,
    refused,
    stored_form_of,
)

# Any throughout this module: state is of the user's types.

_SCALARS: Final = frozenset({bool, int, float, str, type(None)})


@contextmanager
def damage_errors() -> Iterator[None]:
    """Turns any error while decoding into a CheckpointError: methods of the user's classes may raise anything."""
    try:
        yield
    except WindrowError:
        raise
    except Exception as error:
        raise damaged_state(f"{type(error).__name__}: {error}") from error


class StateCodec:
    """Encodes and decodes columns of state, whose values are of the classes that a plan names.

    ``pickles`` encodes values of other classes, if the plan allows that.
    """

    def __init__(self, classes: Iterable[UserClass] = (), *, pickles: PicklesValues | None = None) -> None:
        self._classes = StoredClasses(classes)
        self._pickles = pickles

    # Encoding

    def pack(self, values: Sequence[Any]) -> Packed:
        """Encodes values as a column; refuses classes that the plan does not name. Undone by :meth:`unpack`."""
        try:
            return self._pack(values)
        except RecursionError as error:
            raise UnsupportedOperationError(
                "a value of the state is nested too deeply to be stored, or holds itself",
                expected="values of some hundred levels at most",
            ) from error

    def _pack(self, values: Sequence[Any]) -> Packed:
        kinds = set(map(type, values))
        if len(kinds) == 1:
            (kind,) = kinds
            pack_standard = PACKERS.get(kind)
            return self._pack_class(kind, values) if pack_standard is None else pack_standard(self._pack, values)
        if kinds <= _SCALARS and is_encodable(values):
            return packed("v", scalars=list(values))
        if len(kinds) == 2 and type(None) in kinds:
            is_present = [value is not None for value in values]
            return packed("o", bytes(is_present), columns=[self._pack(list(compress(values, is_present)))])
        # Values of several classes become a column for each class, and the number of each value's class.
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(map(type, values)))}
        class_numbers = array("H", [numbers[type(value)] for value in values]).tobytes()
        columns = [self._pack([value for value in values if type(value) is kind]) for kind in numbers]
        return packed("m", class_numbers, columns=columns)

    def _pack_class(self, class_: type[Any], values: Sequence[Any]) -> Packed:
        if issubclass(class_, type):
            return self._pack_classes(values)
        name = self._classes.name_of(class_)
        form = StoredForm.NONE if name is None else stored_form_of(class_)
        if name is None or form is StoredForm.NONE:
            return self._pickled(class_, values)
        if form is StoredForm.MEMBER:
            return self._pack_members(name, class_, values)
        return (self._pack_records if form is StoredForm.FIELDS else self._pack_objects)(name, class_, values)

    def _pack_members(self, name: str, class_: type[Any], values: Sequence[Any]) -> Packed:
        members = class_.__members__
        names = [value._name_ for value in values]
        if all(members.get(member_name) is value for member_name, value in zip(names, values, strict=True)):
            return packed("e", scalars=[name], columns=[self._pack(names)])
        if not holds_flags(class_):
            return self._pickled(class_, values)
        # Combined flags have no name, and are stored by their values.
        return packed("E", scalars=[name], columns=[self._pack([value._value_ for value in values])])

    def _pack_records(self, name: str, class_: type[Any], values: Sequence[Any]) -> Packed:
        fields = fields_of(class_)
        columns = [self._pack(list(map(attrgetter(field), values))) for field in fields]
        # Records without fields take a byte each, so that few bytes cannot decode to many values.
        return packed("r", b"" if fields else bytes(len(values)), [name, *fields], columns)

    def _pack_objects(self, name: str, class_: type[Any], values: Sequence[Any]) -> Packed:
        attributes = list(map(attributes_of, values))
        names = set(map(tuple, attributes))
        if stored_form_of(class_) is StoredForm.ATTRIBUTES and len(names) == 1 and (fields := names.pop()):
            by_attribute = zip(*[each.values() for each in attributes], strict=True)
            return packed("a", scalars=[name, *fields], columns=[*map(self._pack, by_attribute)])
        columns = [self._pack(list(map(plain_value(class_), values))), self._pack(attributes)]
        return packed("b", scalars=[name], columns=columns)

    def _pack_classes(self, values: Sequence[Any]) -> Packed:
        names: list[str] = []
        for kind in values:
            standard = STANDARD_CLASSES.get(kind.__name__) is kind
            name = kind.__name__ if standard else self._classes.name_of(kind)
            if name is None:
                return self._pickled(kind, values)
            names.append(name)
        return packed("class", scalars=names)

    def _pickled(self, class_: type[Any], values: Sequence[Any]) -> Packed:
        if self._pickles is not None:
            return packed("P", self._pickles.dumps(class_, values))
        is_named = self._classes.name_of(class_) is not None
        raise UnsupportedOperationError(
            "a value of a class that cannot be stored by its attributes is to be stored"
            if is_named
            else "a value of a class that the plan does not name is to be stored",
            given=f"{class_.__module__}.{class_.__qualname__}",
            expected="values of builtin types, records, or classes named in annotations of the plan's functions",
            hint="make it a record, or keep what it holds; or pickle it: Pipeline(..., allow_pickled_state=True)"
            if is_named
            else "annotate the function, or say .returns(Type), or key_by(..., key_type=Type); for any other class: "
            "Pipeline(..., allow_pickled_state=True)",
        )

    def dumps(self, values: Sequence[Any]) -> bytes:
        """Encodes values as bytes. Undone by :meth:`loads`; raises what :meth:`pack` does."""
        return encode(self.pack(values))

    # Decoding

    def loads(self, data: bytes, segments: SegmentReader | None = None) -> list[Any]:
        """Decodes values that :meth:`dumps` encoded; raises what :meth:`unpack` does."""
        return self.unpack(decode(data), segments)

    def unpack(self, column: Packed, segments: SegmentReader | None = None) -> list[Any]:
        """Decodes a column, or raises a CheckpointError; ``segments`` reads the segments of stored lists."""
        with damage_errors():
            return ColumnReader(_READERS, self._classes, self._pickles, segments).read(column)


def _read_optional(reader: ColumnReader, column: Packed) -> list[Any]:
    (values,) = reader.read_within(column)
    value_iterator = iter(values)
    return [next(value_iterator) if filled else None for filled in column.data]


def _read_mixed(reader: ColumnReader, column: Packed) -> list[Any]:
    columns = list(map(iter, reader.read_within(column)))
    return [next(columns[number]) for number in array("H", column.data)]


def _read_members(reader: ColumnReader, column: Packed) -> list[Any]:
    class_, (names,) = _enum(reader, column), reader.read_within(column)
    members: Mapping[Any, Any] = class_.__members__
    try:
        return [members[name] for name in names]
    except KeyError as error:
        raise IncompatibleStateError(
            f"stored values of {column.scalars[0]} do not fit the class as it is now",
            given=f"member {error}",
            expected=f"one of {', '.join(members)}",
            hint="a member that was stored has to stay; or use a new checkpoint",
        ) from error


def _read_flags(reader: ColumnReader, column: Packed) -> list[Any]:
    class_, (values,) = _enum(reader, column), reader.read_within(column)
    if not (holds_flags(class_) and all(type(value) is int for value in values)):
        raise refused(f"{column.scalars[0]} as flags")
    return list(map(class_, values))


def _enum(reader: ColumnReader, column: Packed) -> type[Enum]:
    (name,) = column.scalars
    return reader.classes.find(name, StoredForm.MEMBER)


def _read_records(reader: ColumnReader, column: Packed) -> list[Any]:
    name, *fields = column.scalars
    class_ = reader.classes.find(name, StoredForm.FIELDS)
    columns = reader.read_within(column)
    if len(columns) != len(fields) or len(set(map(len, columns))) > 1:
        raise damaged_state(f"columns of {name}")
    return build_records(class_, fields, columns, len(columns[0]) if columns else len(column.data))


def _read_objects(reader: ColumnReader, column: Packed) -> list[Any]:
    name, *fields = column.scalars
    class_ = reader.classes.find(name, StoredForm.ATTRIBUTES)
    rows = zip(*reader.read_within(column), strict=True)
    return [set_attributes(object.__new__(class_), dict(zip(fields, row, strict=True))) for row in rows]


def _read_plain(reader: ColumnReader, column: Packed) -> list[Any]:
    (name,) = column.scalars
    make = object_maker(reader.classes.find(name, StoredForm.PLAIN, StoredForm.ATTRIBUTES))
    values, attributes = reader.read_within(column)
    return [set_attributes(make(value), own) for value, own in zip(values, attributes, strict=True)]


def _read_classes(reader: ColumnReader, column: Packed) -> list[Any]:
    return [
        STANDARD_CLASSES[name] if name in STANDARD_CLASSES else reader.classes.find(name)  # type: ignore[index]  # None is not in it
        for name in column.scalars
    ]


def _read_pickled(reader: ColumnReader, column: Packed) -> list[Any]:
    if reader.pickles is None:
        raise refused("values that were pickled")
    return reader.pickles.loads(column.data)


_READERS: Final[Mapping[str, Callable[[ColumnReader, Packed], list[Any]]]] = {
    **READERS,
    "o": _read_optional,
    "m": _read_mixed,
    "e": _read_members,
    "E": _read_flags,
    "r": _read_records,
    "a": _read_objects,
    "b": _read_plain,
    "class": _read_classes,
    "P": _read_pickled,
}
