"""State as bytes: values by their types, column by column. Reading it calls nothing that the bytes choose.

Scalars, containers, records and the value types of the standard library are taken apart into columns, which MessagePack
carries. A record is stored under the name of its class, and built by its fields; the class is one that the plan names.
No method of the class is called but ``__hash__`` and ``__eq__`` of keys: a record comes back as it was. So bytes that
somebody else has written cannot run code, and damaged ones are refused. Their length bounds the memory that they fill
and the time that they take.

A plan may allow values of other classes, which are pickled then; see ``Pipeline(..., allow_pickled_state=True)``.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import compress
from operator import attrgetter
from typing import Any, Final, Protocol

from windrow.errors import IncompatibleStateError, UnsupportedOperationError, WindrowError
from windrow_runtime.codecs.malformed import damaged_state
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.class_facts import attributes_of, set_attributes
from windrow_runtime.operators.state.model import SegmentReader
from windrow_runtime.storage import standard_values
from windrow_runtime.storage.collisions import CollisionBudget
from windrow_runtime.storage.packed import Packed, decode, encode, is_encodable, packed
from windrow_runtime.storage.stored_classes import StoredClasses, Way, holds_flags, plain_base, refused, way_of
from windrow_runtime.storage.stored_records import build_records, fields_of

__all__ = ["Packed", "PicklesValues", "StateCodec", "damage_errors"]

# Any throughout this module: state is of the user's types.

_SCALARS: Final = frozenset({bool, int, float, str, type(None)})


class PicklesValues(Protocol):
    """Carries values that have no form of their own; an engine has it from its plan."""

    def dumps(self, kind: type[Any], values: Sequence[Any]) -> bytes:
        """Values of a class as bytes."""

    def loads(self, data: bytes) -> list[Any]:
        """The values again."""


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
    """Encodes and decodes columns of state.

    Args:
        classes: The classes that the plan names.
        pickles: Pickles values of other classes, where the plan allows that; None: they are refused.
    """

    def __init__(self, classes: Iterable[UserClass] = (), *, pickles: PicklesValues | None = None) -> None:
        self._classes = StoredClasses(classes)
        self._pickle = pickles

    # Out

    def pack(self, values: Sequence[Any]) -> Packed:
        """Values as a column. Undone by :meth:`unpack`.

        Raises:
            UnsupportedOperationError: For a value of a class that the plan does not name, or that cannot be stored.
        """
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
            pack_standard = standard_values.PACKERS.get(kind)
            return self._pack_class(kind, values) if pack_standard is None else pack_standard(self._pack, values)
        if kinds <= _SCALARS and is_encodable(values):
            return packed("v", scalars=list(values))
        if len(kinds) == 2 and type(None) in kinds:
            present = [value is not None for value in values]
            return packed("o", bytes(present), columns=[self._pack(list(compress(values, present)))])
        # A column for each class, and the class of each value.
        places = {kind: place for place, kind in enumerate(dict.fromkeys(map(type, values)))}
        chosen = array("H", [places[type(value)] for value in values]).tobytes()
        columns = [self._pack([value for value in values if type(value) is kind]) for kind in places]
        return packed("m", chosen, columns=columns)

    def _pack_class(self, kind: type[Any], values: Sequence[Any]) -> Packed:
        if issubclass(kind, type):
            return self._pack_classes(values)
        name = self._classes.name_of(kind)
        pack = None if name is None else _CLASS_PACKERS.get(way_of(kind))
        if name is None or pack is None:
            return self._pickled(kind, values)
        return pack(self, name, kind, values)

    def _pack_members(self, name: str, kind: type[Any], values: Sequence[Any]) -> Packed:
        members = kind.__members__
        names = [value._name_ for value in values]
        if all(members.get(known) is value for known, value in zip(names, values, strict=True)):
            return packed("e", scalars=[name], columns=[self._pack(names)])
        if not holds_flags(kind):
            return self._pickled(kind, values)
        # Of flags together, which have no name of their own.
        return packed("E", scalars=[name], columns=[self._pack([value._value_ for value in values])])

    def _pack_records(self, name: str, kind: type[Any], values: Sequence[Any]) -> Packed:
        fields = fields_of(kind)
        columns = [self._pack(list(map(attrgetter(field), values))) for field in fields]
        # Without fields a byte for each, so that no small number makes many values.
        return packed("r", b"" if fields else bytes(len(values)), [name, *fields], columns)

    def _pack_objects(self, name: str, kind: type[Any], values: Sequence[Any]) -> Packed:
        attributes = list(map(attributes_of, values))
        names = set(map(tuple, attributes))
        if way_of(kind) is Way.ATTRIBUTES and len(names) == 1 and (fields := names.pop()):
            held = zip(*[found.values() for found in attributes], strict=True)
            return packed("a", scalars=[name, *fields], columns=[*map(self._pack, held)])
        plain, _ = plain_base(kind)
        columns = [self._pack(list(map(plain, values))), self._pack(attributes)]
        return packed("b", scalars=[name], columns=columns)

    def _pack_classes(self, values: Sequence[Any]) -> Packed:
        names: list[str] = []
        for kind in values:
            standard = standard_values.CLASSES.get(kind.__name__) is kind
            name = kind.__name__ if standard else self._classes.name_of(kind)
            if name is None:
                return self._pickled(kind, values)
            names.append(name)
        return packed("class", scalars=names)

    def _pickled(self, kind: type[Any], values: Sequence[Any]) -> Packed:
        if self._pickle is not None:
            return packed("P", self._pickle.dumps(kind, values))
        known = self._classes.name_of(kind) is not None
        raise UnsupportedOperationError(
            "a value of a class that cannot be stored by its attributes is to be stored"
            if known
            else "a value of a class that the plan does not name is to be stored",
            given=f"{kind.__module__}.{kind.__qualname__}",
            expected="values of builtin types, records, or classes named in annotations of the plan's functions",
            hint="make it a record, or keep what it holds; or pickle it: Pipeline(..., allow_pickled_state=True)"
            if known
            else "annotate the function, or say .returns(Type), or key_by(..., key_type=Type); for any other class: "
            "Pipeline(..., allow_pickled_state=True)",
        )

    def dumps(self, values: Sequence[Any]) -> bytes:
        """Values as bytes. Undone by :meth:`loads`; raises what :meth:`pack` does."""
        return encode(self.pack(values))

    # In

    def loads(self, data: bytes, segments: SegmentReader | None = None) -> list[Any]:
        """The values that :meth:`dumps` was given; raises what :meth:`unpack` does."""
        return self.unpack(decode(data), segments)

    def unpack(self, column: Packed, segments: SegmentReader | None = None) -> list[Any]:
        """The values of a column.

        Args:
            column: The column.
            segments: Reads the segments of stored lists.

        Raises:
            CheckpointError: If the bytes are damaged.
            IncompatibleStateError: If they name a class that the plan does not know.
        """
        with damage_errors():
            return _Reader(self._classes, self._pickle, segments).read(column)


_CLASS_PACKERS: Final[Mapping[Way, Callable[[StateCodec, str, type[Any], Sequence[Any]], Packed]]] = {
    Way.MEMBER: StateCodec._pack_members,
    Way.FIELDS: StateCodec._pack_records,
    Way.PLAIN: StateCodec._pack_objects,
    Way.ATTRIBUTES: StateCodec._pack_objects,
}


class _Reader:
    """Reads one column and those within it."""

    def __init__(self, classes: StoredClasses, pickled: PicklesValues | None, segments: SegmentReader | None) -> None:
        self.segments = segments
        self.check_distinct = CollisionBudget().check
        self._classes = classes
        self._pickle = pickled

    def read(self, column: Packed) -> list[Any]:
        read_standard = standard_values.READERS.get(column.tag)
        if read_standard is not None:
            return read_standard(self, column)
        read = _READERS.get(column.tag)
        if read is None:
            raise damaged_state(f"a column of kind {column.tag!r:.100}")
        return read(self, column)

    def optional(self, column: Packed) -> list[Any]:
        (found,) = map(self.read, column.columns)
        present = iter(found)
        return [next(present) if filled else None for filled in column.data]

    def of_kinds(self, column: Packed) -> list[Any]:
        columns = [iter(self.read(part)) for part in column.columns]
        return [next(columns[place]) for place in array("H", column.data)]

    def members(self, column: Packed) -> list[Any]:
        kind, (names,) = self._enum(column), map(self.read, column.columns)
        members: Mapping[Any, Any] = kind.__members__
        try:
            return [members[name] for name in names]
        except KeyError as error:
            raise IncompatibleStateError(
                f"stored values of {column.scalars[0]} do not fit the class as it is now",
                given=f"member {error}",
                expected=f"one of {', '.join(members)}",
                hint="a member that was stored has to stay; or use a new checkpoint",
            ) from error

    def flags(self, column: Packed) -> list[Any]:
        kind, (values,) = self._enum(column), map(self.read, column.columns)
        if not (holds_flags(kind) and all(type(value) is int for value in values)):
            raise refused(f"{column.scalars[0]} as flags")
        return list(map(kind, values))

    def _enum(self, column: Packed) -> type[Enum]:
        (name,) = column.scalars
        return self._classes.find(name, Way.MEMBER)

    def records(self, column: Packed) -> list[Any]:
        name, *fields = column.scalars
        kind = self._classes.find(name, Way.FIELDS)
        columns = list(map(self.read, column.columns))
        if len(columns) != len(fields) or len(set(map(len, columns))) > 1:
            raise damaged_state(f"columns of {name}")
        return build_records(kind, fields, columns, len(columns[0]) if columns else len(column.data))

    def objects(self, column: Packed) -> list[Any]:
        name, *fields = column.scalars
        kind = self._classes.find(name, Way.ATTRIBUTES)
        rows = zip(*map(self.read, column.columns), strict=True)
        return [_with_attributes(object.__new__(kind), dict(zip(fields, row, strict=True))) for row in rows]

    def plain(self, column: Packed) -> list[Any]:
        (name,) = column.scalars
        _, made = plain_base(self._classes.find(name, Way.PLAIN, Way.ATTRIBUTES))
        values, attributes = map(self.read, column.columns)
        return [_with_attributes(made(value), held) for value, held in zip(values, attributes, strict=True)]

    def classes(self, column: Packed) -> list[Any]:
        return [
            standard_values.CLASSES[name] if name in standard_values.CLASSES else self._classes.find(name)  # type: ignore[index]  # None is not in it
            for name in column.scalars
        ]

    def pickled(self, column: Packed) -> list[Any]:
        if self._pickle is None:
            raise refused("values that were pickled")
        return self._pickle.loads(column.data)


def _with_attributes(value: Any, attributes: Mapping[Any, Any]) -> Any:
    set_attributes(value, attributes)
    return value


_READERS: Final[Mapping[str, Callable[[_Reader, Packed], list[Any]]]] = {
    "o": _Reader.optional,
    "m": _Reader.of_kinds,
    "e": _Reader.members,
    "E": _Reader.flags,
    "r": _Reader.records,
    "a": _Reader.objects,
    "b": _Reader.plain,
    "class": _Reader.classes,
    "P": _Reader.pickled,
}
