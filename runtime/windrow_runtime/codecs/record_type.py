"""Makes record types, which describe the columns of an element type, from its annotations.

:func:`record_type` reads an annotation once, when the plan is built, and refuses there what has no columns.
The codecs (Arrow, Spark, JSON, CSV) work from its answer and never look at annotations again.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import sys
import types
import typing
import uuid
from collections.abc import Callable, Mapping

import typing_extensions

from windrow.errors import InvalidArgumentError
from windrow.formats import DateFormat, EpochTime, JsonValue, RawJson
from windrow.plan.hints import resolved_hints
from windrow.plan.records import is_named_tuple_class
from windrow.text_options import has_half_surrogate
from windrow_runtime.codecs.value_type import (
    DECIMAL_PRECISION,
    INT_MAX,
    INT_MIN,
    DefaultFactory,
    Kind,
    RecordField,
    RecordShape,
    RecordType,
    ValueType,
)

__all__ = [
    "INT_MAX",
    "INT_MIN",
    "Kind",
    "RecordField",
    "RecordShape",
    "RecordType",
    "ValueType",
    "record_type",
    "type_name",
]

_SCALARS: dict[object, Kind] = {
    types.NoneType: Kind.NONE,
    bool: Kind.BOOL,
    int: Kind.INT,
    float: Kind.FLOAT,
    str: Kind.STR,
    bytes: Kind.BYTES,
    decimal.Decimal: Kind.DECIMAL,
    uuid.UUID: Kind.UUID,
    datetime.datetime: Kind.DATETIME,
    datetime.date: Kind.DATE,
    datetime.timedelta: Kind.TIMEDELTA,
}
_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
# Keys need a text form, because JSON has no other keys.
_KEYS = (Kind.STR, Kind.INT, Kind.ENUM, Kind.UUID, Kind.DATE, Kind.DATETIME)
# Typed as objects: they are compared with what get_origin() gives.
_KEY_MARKS: tuple[object, ...] = (typing_extensions.Required, typing_extensions.NotRequired, typing_extensions.ReadOnly)
_SUPPORTED = (
    "bool, int, float, str, bytes, Decimal, UUID, Enum, datetime, date, timedelta, a dataclass, NamedTuple, "
    "TypedDict or msgspec.Struct, JsonValue or RawJson, or an Optional, list, tuple, set or dict of these"
)


def type_name(annotation: object) -> str:
    """An annotation as a reader would write it."""
    if annotation is None or annotation is types.NoneType:
        return "None"
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation.__name__
    return str(annotation).replace("typing.", "").replace("typing_extensions.", "")


def record_type(annotation: object) -> RecordType:
    """Reads the type of a stream's elements, such as ``Reading`` or ``tuple[str, float | None]``, into columns.

    Answers are cached, so this may be called wherever a record type is needed. It is an ``InvalidArgumentError`` if the
    type, or a part of it, has no column form; the message names the part, such as ``Reading.tags[]``.
    """
    try:
        return _cached(annotation)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        # Annotated[...] may carry unhashable metadata.
        return _read(annotation)


def _read(annotation: object) -> RecordType:
    name = type_name(annotation)
    if annotation is typing.Any:
        _refuse(annotation, name, _hint_for(annotation, None))
    root = _value_type(annotation, name, ())
    if root.nullable or root.kind not in (Kind.RECORD, Kind.TUPLE):
        columns: tuple[RecordField, ...] = (RecordField("value", "value", root),)
    elif root.kind is Kind.RECORD:
        columns = root.fields
    else:
        columns = tuple(dataclasses.replace(part, name=part.column) for part in root.columns)
    return RecordType(annotation, name, root, columns)


_cached = functools.lru_cache(maxsize=1024)(_read)


def _refuse(
    annotation: object, path: str, hint: str, expected: str = _SUPPORTED, cause: Exception | None = None
) -> typing.NoReturn:
    name = type_name(annotation)
    # The type itself is no place; the step says where it is.
    where = None if path == name else path
    raise InvalidArgumentError(
        "this type has no column form", given=name, expected=expected, where=where, hint=hint
    ) from cause


def _value_type(annotation: object, path: str, within: tuple[object, ...]) -> ValueType:
    """Reads an annotation at a path, within records that must not contain themselves; generic ones with their types."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is JsonValue or (annotation is typing.Any and not _is_unknown_part(within)):
        # A null is a value of it.
        return ValueType(Kind.JSON, object, nullable=True)
    if isinstance(annotation, typing.NewType):
        is_text = annotation is RawJson
        return ValueType(Kind.RAW_JSON, str) if is_text else _value_type(annotation.__supertype__, path, within)
    if origin is typing.Annotated:
        value = _with_digits(_value_type(arguments[0], path, within), arguments[1:], annotation, path)
        return _formatted(annotation, value, path)
    if origin is typing.Union or origin is types.UnionType:
        others = [argument for argument in arguments if argument is not types.NoneType]
        if len(others) != 1:
            hint = "use one type; for either-or, a record with an Optional field for each, which a map can make"
            _refuse(annotation, path, hint, "one type, or one type and None")
        return dataclasses.replace(_value_type(others[0], path, within), nullable=True)
    plain = types.NoneType if annotation is None else annotation
    if isinstance(plain, type) and plain in _SCALARS:
        return ValueType(_SCALARS[plain], plain, nullable=plain is types.NoneType)
    container = annotation if origin is None else origin
    if container in _LISTS or container is set or container is frozenset:
        return _collection(annotation, container, path, within)
    if container in _DICTS:
        return _dict(annotation, path, within)
    if container is tuple:
        return _tuple(annotation, path, within)
    if isinstance(annotation, type) and origin is None and issubclass(annotation, enum.Enum):
        return _enum(annotation, path)
    record_class = annotation if origin is None else origin
    shape = _shape(record_class)
    if isinstance(record_class, type) and shape is not None:
        return _record(record_class, shape, path, (*within, annotation), _types_by_variable(record_class, arguments))
    _refuse(annotation, path, _hint_for(annotation, origin))


def _is_unknown_part(within: tuple[object, ...]) -> bool:
    """Returns whether an ``Any`` may fill the type variable of a generic record, where it says nothing of the field."""
    return bool(within) and _holds_any(within[-1])


def _holds_any(annotation: object) -> bool:
    return annotation is typing.Any or any(map(_holds_any, typing.get_args(annotation)))


def _with_digits(value: ValueType, notes: tuple[object, ...], annotation: object, path: str) -> ValueType:
    """A type with the precision and the scale that the notes of an annotation say; other notes mean nothing here."""
    for note in notes:
        digits = getattr(note, "precision", None), getattr(note, "scale", None)
        if value.kind is not Kind.DECIMAL or digits == (None, None):
            continue
        precision, scale = digits
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision <= DECIMAL_PRECISION:
            expected = f"a precision of 1 to {DECIMAL_PRECISION}, and a scale of 0 to the precision"
            _refuse(annotation, path, "such as Annotated[Decimal, DecimalType(10, 2)]", expected)
        return dataclasses.replace(value, precision=precision, scale=scale)
    return value


def _formatted(annotation: object, value: ValueType, path: str) -> ValueType:
    """The type with the format of moments that an ``Annotated`` says, if it says one."""
    formats = [mark for mark in typing.get_args(annotation)[1:] if isinstance(mark, (DateFormat, EpochTime))]
    for mark in (DateFormat, EpochTime):
        if mark in typing.get_args(annotation)[1:]:
            _refuse(annotation, path, f"write {mark.__name__}(...), or EpochMillis", "a format")
    if not formats:
        return value
    allowed = (Kind.DATETIME,) if isinstance(formats[0], EpochTime) else (Kind.DATETIME, Kind.DATE)
    if len(formats) > 1 or value.kind not in allowed:
        _refuse(
            annotation,
            path,
            "annotate the datetime itself, as in list[Annotated[datetime, EpochMillis]]",
            f"one format, of a {' or a '.join(kind.value for kind in allowed)}",
        )
    return dataclasses.replace(value, time_format=formats[0])


def _parameters(generic: object) -> tuple[object, ...]:
    """The type variables of a generic class, or of a type that is made of some."""
    parameters: tuple[object, ...] = getattr(generic, "__parameters__", ())
    return parameters


def _types_by_variable(record: type, arguments: tuple[object, ...]) -> dict[object, object]:
    """The types for the variables of a generic record and of the generic records that it is derived from."""
    type_of = dict(zip(_parameters(record), arguments, strict=False))
    bases = [*getattr(record, "__orig_bases__", ())]
    for base in bases:
        origin = typing.get_origin(base)
        if isinstance(origin, type) and origin is not typing.Generic:
            type_of |= _types_by_variable(origin, tuple([_filled(each, type_of) for each in typing.get_args(base)]))
    return type_of


# Any: a type that is made of type variables takes others in their places.
def _filled(annotation: typing.Any, type_of: Mapping[object, object]) -> object:
    """An annotation in a generic record, with the types that the record is given for its variables."""
    if isinstance(annotation, typing.TypeVar):
        return type_of.get(annotation, annotation)
    parameters = () if isinstance(annotation, type) else _parameters(annotation)
    return annotation[tuple([type_of.get(each, each) for each in parameters])] if parameters else annotation


def _hint_for(annotation: object, origin: object) -> str:
    if annotation is typing.Any or annotation is object:
        advice = "give the type; where it is a function's result, annotate the function or write .returns(Type)"
        return f"{advice}; where it is any JSON, JsonValue"
    if origin is typing.Literal:
        return "use str or int, or an Enum of the values"
    if isinstance(annotation, typing.TypeVar):
        return "fill in the types of a generic record, as in Change[int]"
    if isinstance(annotation, (str, typing.ForwardRef)):
        return "give the type itself, not its name in quotes"
    if isinstance(annotation, type):
        for scalar in _SCALARS:
            if isinstance(scalar, type) and issubclass(annotation, scalar) and annotation is not scalar:
                return f"a subclass would come back as {scalar.__name__}; use {scalar.__name__}, or a record"
    return "use a supported type, or map the value to a record before it leaves Python"


def _collection(annotation: object, container: object, path: str, within: tuple[object, ...]) -> ValueType:
    arguments = typing.get_args(annotation)
    if len(arguments) != 1:
        _refuse(annotation, path, "write the type of the elements, as in list[str]", "an element type")
    element = _value_type(arguments[0], f"{path}[]", within)
    if container in _LISTS:
        return ValueType(Kind.LIST, list, arguments=(element,), sequence=container is not list)
    if not _hashable(element):
        hint = "use a list, or tuples and frozen records as elements"
        _refuse(arguments[0], f"{path}[]", hint, "hashable elements")
    kind, python_type = (Kind.SET, set) if container is set else (Kind.FROZENSET, frozenset)
    return ValueType(kind, python_type, arguments=(element,))


def _hashable(value: ValueType) -> bool:
    if value.kind in (Kind.TUPLE, Kind.VARIADIC_TUPLE):
        return all(map(_hashable, value.arguments))
    if value.kind is Kind.JSON:
        return False
    return value.python_type.__hash__ is not None


def _dict(annotation: object, path: str, within: tuple[object, ...]) -> ValueType:
    arguments = typing.get_args(annotation)
    if len(arguments) != 2:
        _refuse(annotation, path, "write both types, as in dict[str, int]", "a key type and a value type")
    key = _value_type(arguments[0], f"{path}{{key}}", within)
    if key.nullable or key.kind not in _KEYS:
        expected = "keys of type str, int, Enum, UUID, date or datetime"
        _refuse(arguments[0], f"{path}{{key}}", "use str keys, or a list of records", expected)
    if isinstance(key.time_format, EpochTime):
        _refuse(arguments[0], f"{path}{{key}}", "use int keys", "keys that are texts")
    return ValueType(Kind.DICT, dict, arguments=(key, _value_type(arguments[1], f"{path}{{}}", within)))


def _tuple(annotation: object, path: str, within: tuple[object, ...]) -> ValueType:
    arguments = typing.get_args(annotation)
    if not arguments or arguments == ((),):
        _refuse(annotation, path, "write its parts, as in tuple[str, int]", "the types of the parts")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return ValueType(Kind.VARIADIC_TUPLE, tuple, arguments=(_value_type(arguments[0], f"{path}[]", within),))
    argument_types = tuple(_value_type(part, f"{path}[{i}]", within) for i, part in enumerate(arguments))
    return ValueType(Kind.TUPLE, tuple, arguments=argument_types)


def _enum(annotation: type[enum.Enum], path: str) -> ValueType:
    classes = {type(member.value) for member in annotation}
    if classes == {str}:
        return ValueType(Kind.ENUM, annotation, arguments=(ValueType(Kind.STR, str),))
    if classes == {int} and all(INT_MIN <= member.value <= INT_MAX for member in annotation):
        return ValueType(Kind.ENUM, annotation, arguments=(ValueType(Kind.INT, int),))
    _refuse(annotation, path, "give every member a str value", "an Enum whose values are all str, or all 64-bit int")


def _shape(candidate: object) -> RecordShape | None:
    if not isinstance(candidate, type):
        return None
    if typing_extensions.is_typeddict(candidate):
        return RecordShape.TYPED_DICT
    if is_named_tuple_class(candidate):
        return RecordShape.NAMED_TUPLE
    # Whoever wrote a Struct has imported msgspec, so there is no need to import it here.
    msgspec = sys.modules.get("msgspec")
    if msgspec is not None and issubclass(candidate, msgspec.Struct):
        return RecordShape.STRUCT
    return RecordShape.DATACLASS if dataclasses.is_dataclass(candidate) else None


def _record(
    record: type, shape: RecordShape, path: str, within: tuple[object, ...], type_of: Mapping[object, object]
) -> ValueType:
    """Reads a record, which is the last of ``within``; ``type_of`` has the types for the variables of a generic one."""
    if within[-1] in within[:-1]:
        advice = "flatten the record, or keep a key to the other one"
        _refuse(record, path, advice, "a record that does not contain itself")
    hints = _hints_of(record, path)
    fields: list[RecordField] = []
    for name, column, default in _members(record, shape, hints, path):
        hint, field_path = _filled(hints[name], type_of), f"{path}.{name}"
        absent_allowed = shape is RecordShape.TYPED_DICT and _absent_allowed(record, name, hint)
        while typing.get_origin(hint) in _KEY_MARKS:
            hint = typing.get_args(hint)[0]
        value = _value_type(hint, field_path, within)
        if absent_allowed and value.nullable and value.kind is not Kind.JSON:
            expected = "a key that is either NotRequired or Optional: a null column cannot mean both"
            _refuse(hint, field_path, "drop one of NotRequired and None", expected)
        fields.append(RecordField(name, column, value, default, absent_allowed))
    if not fields:
        _refuse(record, path, "give it a field", "a record with at least one annotated field")
    by_keyword = shape is RecordShape.TYPED_DICT or _by_keyword(record, [field.name for field in fields], path)
    return ValueType(Kind.RECORD, record, fields=tuple(fields), shape=shape, by_keyword=by_keyword)


def _hints_of(record: type, path: str) -> dict[str, object]:
    """The annotations of a record, as types."""
    try:
        return typing_extensions.get_type_hints(record, include_extras=True)
    except (NameError, TypeError) as error:
        hints = resolved_hints(record, include_extras=True)
        if hints.keys() >= {name for kind in record.__mro__ for name in inspect.get_annotations(kind)}:
            return hints
        hint = f"define the types at module level, outside `if TYPE_CHECKING`: {error}"
        _refuse(record, path, hint, "annotations that can be resolved", error)


_Member = tuple[str, str, Callable[[], object] | None]


def _members(record: type, shape: RecordShape, hints: dict[str, object], path: str) -> list[_Member]:
    """The fields as (name, column, default)."""
    if shape is RecordShape.TYPED_DICT:
        for name in filter(has_half_surrogate, hints):
            # Only keys may be any text; the names of other records are identifiers.
            advice = f"rename the key {name!r}"
            _refuse(record, path, advice, "names of characters, without half of a surrogate pair")
        return [(name, name, None) for name in hints]
    if shape is RecordShape.STRUCT:
        import msgspec

        structs = msgspec.structs.fields(record)
        return [(field.name, field.encode_name, _default(field, msgspec.NODEFAULT)) for field in structs]
    if shape is RecordShape.NAMED_TUPLE:
        names: tuple[str, ...] = getattr(record, "_fields", ())
        defaults: dict[str, object] = getattr(record, "_field_defaults", {})
        for name in names:
            if name not in hints:
                advice = "write it as a class that derives from typing.NamedTuple"
                _refuse(record, f"{path}.{name}", advice, "fields with annotations")
        return [(name, name, DefaultFactory(defaults[name]) if name in defaults else None) for name in names]
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            _refuse(hint, f"{path}.{name}", "make it a field", "no InitVar: its value is gone once the record exists")
    fields = dataclasses.fields(record)
    for field in fields:
        if not field.init:
            advice = "make it a property, or drop init=False"
            _refuse(hints[field.name], f"{path}.{field.name}", advice, "a field that the constructor takes")
    return [(field.name, field.name, _default(field, dataclasses.MISSING)) for field in fields]


def _absent_allowed(record: type, name: str, hint: object) -> bool:
    while (origin := typing.get_origin(hint)) in _KEY_MARKS or origin is typing.Annotated:
        if origin is typing_extensions.NotRequired:
            return True
        if origin is typing_extensions.Required:
            return False
        hint = typing.get_args(hint)[0]
    return name in getattr(record, "__optional_keys__", ())


# Any: a field of dataclasses or of msgspec, which have the same attributes.
def _default(field: typing.Any, missing: object) -> Callable[[], object] | None:
    """Returns what makes the default of a field; both libraries mark what a field lacks with an object of theirs."""
    if field.default is not missing:
        return DefaultFactory(field.default)
    factory: Callable[[], object] | None = field.default_factory
    return None if factory is missing else factory


def _by_keyword(record: type, names: list[str], path: str) -> bool:
    """Returns whether the constructor must be called with keywords; refuses one that does not take the fields."""
    signature = inspect.signature(record)
    by_name = {name: name for name in names}
    try:
        if signature.bind(*names).arguments == by_name:
            return False
    except TypeError:
        pass  # the constructor does not take all fields by position
    try:
        signature.bind(**by_name)
    except TypeError:
        hint = "leave the constructor to the class decorator"
        _refuse(record, path, hint, "a constructor that takes the fields by name")
    return True
