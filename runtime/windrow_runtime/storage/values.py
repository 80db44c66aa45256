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
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import chain, compress
from typing import Any, Final, Protocol

from windrow.errors import IncompatibleStateError, UnsupportedOperationError, WindrowError
from windrow_runtime.codecs.class_names import UserClass
from windrow_runtime.codecs.damage import damaged_state
from windrow_runtime.codecs.plain_records import splitter
from windrow_runtime.codecs.records import construct
from windrow_runtime.operators.attributes import attributes_of, set_attributes
from windrow_runtime.operators.state.stored_list import GrowingList, SegmentReader, StoredList
from windrow_runtime.storage import standard_values
from windrow_runtime.storage.collisions import UNCHECKED, CollisionBudget
from windrow_runtime.storage.packed import Packed, decode, encode, is_encodable, packed
from windrow_runtime.storage.standard_values import cut, join_bytes, lengths_of, split_bytes
from windrow_runtime.storage.stored_classes import (
    StoredClasses,
    Way,
    fields_of,
    holds_flags,
    plain_base,
    refused,
    way_of,
)
from windrow_runtime.storage.stored_records import build_by_name, default_makers

__all__ = ["Packed", "PicklesValues", "StateCodec"]

# Any throughout this module: state is of the user's types.

_SAMPLE: Final = 64
"""Among the first values of a column of texts it shows whether they repeat."""
_SCALARS: Final = frozenset({bool, int, float, str, type(None)})


class PicklesValues(Protocol):
    """Carries values that have no form of their own; an engine has it from its plan."""

    def dumps(self, kind: type[Any], values: Sequence[Any]) -> bytes:
        """Values of a class as bytes."""

    def loads(self, data: bytes) -> list[Any]:
        """The values again."""


class StateCodec:
    """Encodes and decodes columns of state.

    Args:
        classes: The classes that the plan names.
        pickles: Pickles values of other classes, where the plan allows that; None: they are refused.
    """

    def __init__(self, classes: Iterable[UserClass] = (), *, pickles: PicklesValues | None = None) -> None:
        classes = tuple(classes)
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
            pack = _PACKERS.get(kind)
            if pack is not None:
                return pack(self, values)
            pack_standard = standard_values.PACKERS.get(kind)
            if pack_standard is not None:
                return pack_standard(self._pack, values)
            return self._pack_class(kind, values)
        if kinds <= _SCALARS and is_encodable(values):
            return self._pack_scalars(values)
        if len(kinds) == 2 and type(None) in kinds:
            present = [value is not None for value in values]
            return packed("o", bytes(present), columns=[self._pack(list(compress(values, present)))])
        return self._pack_kinds(values)

    def _pack_scalars(self, values: Sequence[Any]) -> Packed:
        return packed("v", scalars=list(values))

    def _pack_floats(self, values: Sequence[Any]) -> Packed:
        return packed("f", array("d", values).tobytes())

    def _pack_ints(self, values: Sequence[Any]) -> Packed:
        try:
            return packed("i", array("q", values).tobytes())
        except OverflowError:
            return join_bytes(
                "int",
                [value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True) for value in values],
            )

    def _pack_texts(self, values: Sequence[Any]) -> Packed:
        if len(set(values[:_SAMPLE])) <= len(values[:_SAMPLE]) // 2:
            return self._pack_repeated(values)
        return self._pack_different(values)

    def _pack_repeated(self, values: Sequence[Any]) -> Packed:
        """Each text once, and which one each value is: they are one object when they are read."""
        places = {value: place for place, value in enumerate(dict.fromkeys(values))}
        numbers = map(places.__getitem__, values)
        texts = self._pack_different(list(places))
        if len(places) <= 256:
            return packed("w", bytes(numbers), columns=[texts])
        return packed("W", array("I", numbers).tobytes(), columns=[texts])

    def _pack_different(self, values: Sequence[Any]) -> Packed:
        whole = "".join(values)
        if whole.isascii() or is_encodable(whole):
            return self._pack_scalars(values)
        return join_bytes("str", [value.encode("utf-8", "surrogatepass") for value in values])

    def _pack_tuples(self, values: Sequence[Any]) -> Packed:
        lengths = set(map(len, values))
        if lengths == {0}:
            # A byte for each, so that no small number makes many values.
            return packed("t", bytes(len(values)))
        if len(lengths) == 1:
            return packed("t", columns=[*map(self._pack, zip(*values, strict=True))])
        return self._pack_parts("T", values)

    def _pack_parts(self, tag: str, values: Sequence[Any]) -> Packed:
        return packed(tag, lengths_of(values), columns=[self._pack(list(chain.from_iterable(values)))])

    def _pack_dicts(self, values: Sequence[Any]) -> Packed:
        keys = self._pack(list(chain.from_iterable(values)))
        held = self._pack([held for value in values for held in value.values()])
        return packed("d", lengths_of(values), columns=[keys, held])

    def _pack_stored(self, values: Sequence[Any]) -> Packed:
        segments = self._pack([value.segments for value in values])
        return packed("S", columns=[segments, self._pack([value.tail for value in values])])

    def _pack_class(self, kind: type[Any], values: Sequence[Any]) -> Packed:
        if issubclass(kind, type):
            return self._pack_classes(values)
        name = self._classes.name_of(kind)
        way = Way.NONE if name is None else way_of(kind)
        if name is None or way is Way.NONE:
            return self._pickled(kind, values)
        if way is Way.MEMBER:
            return self._pack_members(name, kind, values)
        if way is Way.FIELDS or way is Way.KEYWORDS:
            return self._pack_records(name, kind, values)
        if way is Way.PLAIN:
            plain, _ = plain_base(kind)
            columns = [self._pack(list(map(plain, values))), self._pack(list(map(attributes_of, values)))]
            return packed("b", scalars=[name], columns=columns)
        attributes = list(map(attributes_of, values))
        names = set(map(tuple, attributes))
        if len(names) == 1 and (fields := names.pop()):
            held = zip(*[found.values() for found in attributes], strict=True)
            return packed("a", scalars=[name, *fields], columns=[*map(self._pack, held)])
        return packed("A", scalars=[name], columns=[self._pack(attributes)])

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
        split = splitter(kind)
        if split is not None:
            columns = list(map(self._pack, split(list(values))))
        else:
            columns = [self._pack([getattr(value, field) for value in values]) for field in fields]
        # Without fields a byte for each, as with tuples.
        return packed("r", b"" if fields else bytes(len(values)), [name, *fields], columns)

    def _pack_classes(self, values: Sequence[Any]) -> Packed:
        names: list[str] = []
        for kind in values:
            standard = standard_values.CLASSES.get(kind.__name__) is kind
            name = kind.__name__ if standard else self._classes.name_of(kind)
            if name is None:
                return self._pickled(kind, values)
            names.append(name)
        return packed("class", scalars=names)

    def _pack_kinds(self, values: Sequence[Any]) -> Packed:
        """A column for each class, and of which class each value is."""
        kinds = list(dict.fromkeys(map(type, values)))
        places = {kind: place for place, kind in enumerate(kinds)}
        chosen = array("H", [places[type(value)] for value in values]).tobytes()
        columns = [self._pack([value for value in values if type(value) is kind]) for kind in kinds]
        return packed("m", chosen, columns=columns)

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

    # In

    def unpack(self, column: Packed, segments: SegmentReader | None = None) -> list[Any]:
        """The values of a column.

        Args:
            column: The column.
            segments: Reads the segments of stored lists.

        Raises:
            CheckpointError: If the bytes are damaged.
            IncompatibleStateError: If they name a class that the plan does not know.
        """
        try:
            return _Reader(self._classes, self._pickle, segments).read(column)
        except WindrowError:
            raise
        except (
            Exception
        ) as error:  # what damaged bytes lead to: methods of the user's classes may raise anything
            raise damaged_state(f"{type(error).__name__}: {error}") from error

    # Whole values

    def dumps(self, column: Packed) -> bytes:
        """A column as bytes."""
        return encode(column)

    def loads(self, data: bytes) -> Packed:
        """The column that :meth:`dumps` was given.

        Raises:
            CheckpointError: If the bytes are not a column.
        """
        return decode(data)


_PACKERS: Final[dict[type[Any], Callable[[StateCodec, Sequence[Any]], Packed]]] = {
    type(None): StateCodec._pack_scalars,
    bool: StateCodec._pack_scalars,
    float: StateCodec._pack_floats,
    int: StateCodec._pack_ints,
    str: StateCodec._pack_texts,
    tuple: StateCodec._pack_tuples,
    list: lambda codec, values: codec._pack_parts("l", values),
    set: lambda codec, values: codec._pack_parts("s", values),
    frozenset: lambda codec, values: codec._pack_parts("z", values),
    GrowingList: lambda codec, values: codec._pack_parts("g", values),
    dict: StateCodec._pack_dicts,
    StoredList: StateCodec._pack_stored,
}


class _Reader:
    """Reads one column and those within it."""

    def __init__(
        self, classes: StoredClasses, pickled: PicklesValues | None, segments: SegmentReader | None
    ) -> None:
        self._classes = classes
        self._pickle = pickled
        self._segments = segments
        self._budget = CollisionBudget()

    def read(self, column: Packed) -> list[Any]:
        tag = column.tag
        read = _READERS.get(tag)
        if read is not None:
            return read(self, column)
        read_standard = standard_values.READERS.get(tag)
        if read_standard is not None:
            return read_standard(self, column)
        raise damaged_state(f"a column of kind {tag!r:.100}")

    def distinct(self, keys: list[Any]) -> list[Any]:
        self._budget.check(keys)
        return keys

    def repeated(self, column: Packed, places: Sequence[int]) -> list[Any]:
        (texts,) = map(self.read, column.columns)
        # Shared containers within each other would hold more than the bytes do.
        if not set(map(type, texts)) <= {str}:
            raise TypeError("values that are shared are no texts")
        return [texts[place] for place in places]

    def tuples(self, column: Packed) -> list[Any]:
        if not column.columns:
            return [()] * len(column.data)
        return list(zip(*map(self.read, column.columns), strict=True))

    def parts(self, column: Packed) -> Iterable[list[Any]]:
        (flat,) = map(self.read, column.columns)
        return cut(column.data, flat)

    def sets(self, column: Packed, kind: type[Any]) -> list[Any]:
        return [kind(self.distinct(part)) for part in self.parts(column)]

    def dicts(self, column: Packed) -> list[Any]:
        keys, held = map(self.read, column.columns)
        if len(keys) != len(held):
            raise ValueError(f"{len(keys)} keys of {len(held)} values")
        # Zipped as a whole, which is faster than piece by piece.
        pairs = list(zip(keys, held, strict=True))
        return [
            dict(part if len(part) <= UNCHECKED else self._distinct_pairs(part))
            for part in cut(column.data, pairs)
        ]

    def _distinct_pairs(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        self._budget.check([key for key, _ in pairs])
        return pairs

    def optional(self, column: Packed) -> list[Any]:
        (found,) = map(self.read, column.columns)
        present = iter(found)
        return [next(present) if filled else None for filled in column.data]

    def of_kinds(self, column: Packed) -> list[Any]:
        columns = [iter(self.read(part)) for part in column.columns]
        return [next(columns[place]) for place in array("H", column.data)]

    def stored_lists(self, column: Packed) -> list[Any]:
        reader = self._segments
        assert reader is not None, "stored lists are read with their reader"
        segments, tails = map(self.read, column.columns)
        if not (
            all(type(tail) is list for tail in tails)
            and all(type(numbers) is tuple for numbers in segments)
            and all(type(number) is int for numbers in segments for number in numbers)
        ):
            raise TypeError("a list in segments has other parts")
        return [StoredList(reader, numbers, tail) for numbers, tail in zip(segments, tails, strict=True)]

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

    def _enum(self, column: Packed) -> type[Any]:
        (name,) = column.scalars
        kind = self._classes.find(name)
        if not issubclass(kind, Enum) or way_of(kind) is not Way.MEMBER:
            raise refused(f"{name} as an Enum")
        return kind

    def records(self, column: Packed) -> list[Any]:
        name, *fields = column.scalars
        kind = self._classes.find(name)
        way = way_of(kind)
        if way is not Way.FIELDS and way is not Way.KEYWORDS:
            raise refused(f"{name} as a record")
        columns = list(map(self.read, column.columns))
        if len(columns) != len(fields) or len(set(map(len, columns))) > 1:
            raise damaged_state(f"columns of {name}")
        now = fields_of(kind)
        if now != tuple(fields):
            columns = _fitted(kind, fields, columns, len(column.data))
        if way is Way.FIELDS:
            return construct(kind, columns)
        return build_by_name(kind, now, columns, len(column.data))

    def plain(self, column: Packed) -> list[Any]:
        (name,) = column.scalars
        _, made = plain_base(self._of_way(name, Way.PLAIN))
        values, attributes = map(self.read, column.columns)
        return [_with_attributes(made(value), held) for value, held in zip(values, attributes, strict=True)]

    def objects(self, column: Packed) -> list[Any]:
        name, *fields = column.scalars
        kind = self._of_way(name, Way.ATTRIBUTES)
        rows = zip(*map(self.read, column.columns), strict=True)
        return [_with_attributes(object.__new__(kind), dict(zip(fields, row, strict=True))) for row in rows]

    def objects_of_dicts(self, column: Packed) -> list[Any]:
        (name,) = column.scalars
        kind = self._of_way(name, Way.ATTRIBUTES)
        (attributes,) = map(self.read, column.columns)
        return [_with_attributes(object.__new__(kind), held) for held in attributes]

    def _of_way(self, name: object, way: Way) -> type[Any]:
        kind = self._classes.find(name)
        if way_of(kind) is not way:
            raise refused(f"{name} as an object")
        return kind

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


def _fitted(
    kind: type[Any], fields: Sequence[Any], columns: Sequence[list[Any]], count: int
) -> list[list[Any]]:
    """The columns of a record whose class has changed: a new field has its default.

    Args:
        kind: The class as it is now.
        fields: The fields as they were stored.
        columns: Their values.
        count: How many records, where there are no columns.
    """
    now, held = fields_of(kind), dict(zip(fields, columns, strict=True))
    makers = default_makers(kind)
    if any(field not in held and field not in makers for field in now) or (
        fields and held.keys().isdisjoint(now)
    ):
        raise IncompatibleStateError(
            f"stored values of {kind.__module__}:{kind.__qualname__} do not fit the class as it is now",
            given=f"fields {', '.join(map(str, fields))}",
            expected=f"fields {', '.join(now)}; a new one needs a default",
            hint="give the new field a default, or a class such as list as its factory (reading state calls no "
            "function of the user's), or use a new checkpoint",
        )
    size = len(columns[0]) if columns else count
    return [held[field] if field in held else [makers[field]() for _ in range(size)] for field in now]


_READERS: Final[dict[str, Callable[[_Reader, Packed], list[Any]]]] = {
    "v": lambda reader, column: list(column.scalars),
    "f": lambda reader, column: array("d", column.data).tolist(),
    "i": lambda reader, column: array("q", column.data).tolist(),
    "int": lambda reader, column: [
        int.from_bytes(piece, "little", signed=True) for piece in split_bytes(column)
    ],
    "str": lambda reader, column: [piece.decode("utf-8", "surrogatepass") for piece in split_bytes(column)],
    "w": lambda reader, column: reader.repeated(column, column.data),
    "W": lambda reader, column: reader.repeated(column, array("I", column.data)),
    "t": _Reader.tuples,
    "T": lambda reader, column: list(map(tuple, reader.parts(column))),
    "l": lambda reader, column: list(reader.parts(column)),
    "g": lambda reader, column: list(map(GrowingList, reader.parts(column))),
    "s": lambda reader, column: reader.sets(column, set),
    "z": lambda reader, column: reader.sets(column, frozenset),
    "d": _Reader.dicts,
    "o": _Reader.optional,
    "m": _Reader.of_kinds,
    "S": _Reader.stored_lists,
    "e": _Reader.members,
    "E": _Reader.flags,
    "r": _Reader.records,
    "b": _Reader.plain,
    "a": _Reader.objects,
    "A": _Reader.objects_of_dicts,
    "class": _Reader.classes,
    "P": _Reader.pickled,
}
