"""Takes the values of record classes apart into columns, and builds them from columns again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, lru_cache
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeVar

from windrow.plan.records import hook_of
from windrow_runtime.codecs.malformed import UnfitError, shown_error
from windrow_runtime.codecs.value_type import JSON_NULL, Kind, RecordField, RecordShape, ValueType

# Any throughout this module: classes and values of the user's.

T = TypeVar("T")

_MSGSPEC_CACHE: Final = "__msgspec_cache__"


@dataclass(frozen=True)
class UserClass:
    """A class of the user's, as it is shipped, which may leave its module behind."""

    class_: type[Any]
    hints: dict[str, Any]  # its annotations, resolved: in a worker the names in them may mean nothing
    qualified: str = ""  # its qualified name where the plan was made

    def __post_init__(self) -> None:
        object.__setattr__(self, "qualified", self.qualified or self.class_.__qualname__)


def per_class(function: Callable[[type[Any]], T]) -> Callable[[type[Any]], T]:
    """Caches what a function finds out about classes."""
    return lru_cache(maxsize=1024)(function)  # type: ignore[return-value]  # mypy takes a class for its instances here


_ABSENT: Final = object()


def record_columns(values: Sequence[object], record: ValueType, path: str) -> list[list[object]]:
    """The columns of records of exactly the class of ``record``; ``UnfitError`` where keys of a TypedDict differ."""
    if record.shape is not RecordShape.TYPED_DICT:
        return [list(map(attrgetter(field.name), values)) for field in record.fields]
    dicts = [value for value in values if isinstance(value, dict)]
    unknown = set().union(*dicts) - {field.name for field in record.fields}
    if unknown:
        names = ", ".join(field.name for field in record.fields)
        raise UnfitError(path, f"has a key that its type does not have: {min(map(repr, unknown))}", f"the keys {names}")
    columns: list[list[object]] = []
    for field in record.fields:
        field_path = f"{path}.{field.name}"
        if not field.absent_allowed:
            try:
                columns.append(list(map(itemgetter(field.name), dicts)))
            except KeyError:
                raise UnfitError(field_path, "the key is missing", str(field.type)) from None
            continue
        column = [value.get(field.name) for value in dicts]
        if field.type.kind is Kind.JSON:
            column = [JSON_NULL if value.get(field.name, _ABSENT) is None else value.get(field.name) for value in dicts]
        elif any(cell is None and field.name in value for cell, value in zip(column, dicts, strict=True)):
            raise UnfitError(field_path, "None in a field that is not Optional", str(field.type))
        columns.append(column)
    return columns


def build_records(
    record: ValueType, fields: Sequence[RecordField], columns: Sequence[Sequence[object]], count: int, path: str
) -> list[object]:
    """Records from columns; other fields take their defaults. ``UnfitError`` if the constructor refuses the values."""
    names = [field.name for field in fields]
    try:
        if len(fields) == len(record.fields) and not record.by_keyword:
            return construct(record.python_type, columns)
        rows = zip(*columns, strict=True) if columns else repeat((), count)
        dicts = [dict(zip(names, row, strict=True)) for row in rows]
        if record.shape is not RecordShape.TYPED_DICT:
            return [record.python_type(**members) for members in dicts]
    except Exception as error:  # constructors are the user's and may raise anything
        raise refused_record(record, path, error) from error
    for name in [field.name for field in fields if field.absent_allowed]:
        for members in dicts:
            if members[name] is None:
                del members[name]
    return list(dicts)


def refused_record(record: ValueType, path: str, error: Exception) -> UnfitError:
    """The error for values that the constructor of a record refuses."""
    return UnfitError(path, f"{record.python_type.__name__} refuses the record: {shown_error(error)}")


def made_of(class_: type[Any], elements: Sequence[object], path: str) -> object:
    """Makes a set or tuple of elements; an ``UnfitError`` where a record of the user's refuses to be hashed."""
    try:
        return class_(elements)
    except Exception as error:  # a __hash__ is the user's and may raise anything
        raise UnfitError(path, f"not a {class_.__name__}: {shown_error(error)}") from error


def construct(class_: type[Any], columns: Sequence[Sequence[object]]) -> list[object]:
    """Calls a class once for each row of columns, which are all its fields, in order."""
    if is_plain_named_tuple(class_):
        # This does the same as the constructor, in half the time.
        return list(map(tuple.__new__, repeat(class_), zip(*columns, strict=True)))
    records = list(map(class_, *columns))
    if columns and len(records) < len(columns[0]):
        # map takes a StopIteration of the constructor for the end of the columns, and would lose the other rows.
        raise RuntimeError(f"{class_.__name__} raised StopIteration")
    return records


@per_class
def is_plain_named_tuple(class_: type[Any]) -> bool:
    """Returns whether the constructor of a class is the one that ``namedtuple`` wrote."""
    return (
        issubclass(class_, tuple)
        and class_.__bases__[0] is tuple
        and getattr(class_.__new__, "__module__", None) == f"namedtuple_{class_.__name__}"
    )


@per_class
def record_fields(class_: type[Any]) -> tuple[str, ...]:
    """The fields of a record class, in the order of its constructor; empty if that does more than set them."""
    names: tuple[str, ...]
    if issubclass(class_, tuple):
        # A class of typing.NamedTuple or collections.namedtuple itself; one derived from it may add anything.
        names = getattr(class_, "_fields", ()) if class_.__bases__[0] is tuple else ()
    elif is_dataclass(class_):
        names = tuple(field.name for field in fields(class_))
        if class_.__reduce__ is not object.__reduce__ or class_.__reduce_ex__ is not object.__reduce_ex__:
            return ()
    else:
        names = getattr(class_, "__struct_fields__", ())
    if not names or hook_of(class_) is not None:
        return ()
    parameters = inspect.signature(class_).parameters
    plain = all(parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for parameter in parameters.values())
    return names if plain and tuple(parameters) == names else ()


def struct_fields(kind: Any) -> dict[str, dict[str, Any]]:
    """The fields of a Struct, each with what ``msgspec.field`` takes."""
    # Msgspec's own function resolves annotations too, which may name classes that are not known here.
    import msgspec

    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    arguments: dict[str, dict[str, Any]] = {}
    missing = (msgspec.NODEFAULT,) * (len(names) - len(defaults))
    for name, encoded, default in zip(names, kind.__struct_encode_fields__, missing + defaults, strict=True):
        arguments[name] = {"name": encoded}
        if isinstance(default, _factory_class()):
            arguments[name]["default_factory"] = default.factory
        elif default is not msgspec.NODEFAULT:
            arguments[name]["default"] = default
    return arguments


@cache
def _factory_class() -> Any:
    """The class in which msgspec keeps the factory of a default."""
    import msgspec

    sample = msgspec.defstruct("Sample", [("held", list[int], msgspec.field(default_factory=list))])
    return type(sample.__struct_defaults__[0])


def forget_msgspec(kinds: Iterable[type]) -> None:
    """Takes from classes what msgspec keeps on them: with that, no class of the main program can be pickled."""
    for class_ in kinds:
        if _MSGSPEC_CACHE in vars(class_):
            delattr(class_, _MSGSPEC_CACHE)
